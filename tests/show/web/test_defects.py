"""Problems of new users, one test each: keys, names, filters, uploads, pictures, languages, proposals."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page, expect

from membra.show.web.render import preferred
from membra.sources.fragment import Fragment
from membra.store.collection import Collection

A, B = "images/0001.jpg", "images/0002.jpg"
COLUMNS = {"library": "Cambridge", "material": "parchment", "script": "square", "height_mm": "120", "width_mm": "85"}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


@pytest.fixture
def labelled(writer: TestClient, own_shelf: Path) -> TestClient:
    """Two fragments with catalogue data."""
    collection = Collection.open(own_shelf)
    entries = {entry.fragment.id: entry.fragment for entry in collection.entries()}
    others = {**COLUMNS, "library": "Oxford", "height_mm": "250"}
    collection.add(
        [
            Fragment(A, entries[A].path, {**entries[A].columns, **COLUMNS}),
            Fragment(B, entries[B].path, {**entries[B].columns, **others}),
        ]
    )
    return writer


def test_no_key_but_the_four_decides(page: Page, server: str, scripts: None) -> None:
    page.goto(f"{server}/compare?a={A}&b={B}")
    page.get_by_label("Your name").fill("Rivka")
    page.get_by_label("Your name").press("Enter")
    page.get_by_label("Note").fill("only a note")
    page.get_by_label("Note").press("Enter")
    page.wait_for_timeout(500)
    page.reload()
    expect(page.locator("#verdict .now")).to_contain_text("Not decided yet")


def test_enter_decides_nothing_without_scripts_either(browser: Browser, server: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server}/compare?a={A}&b={B}")
    page.get_by_label("Your name").fill("Rivka")
    page.get_by_label("Your name").press("Enter")
    page.goto(f"{server}/compare?a={A}&b={B}")
    expect(page.locator("#verdict .now")).to_contain_text("Not decided yet")
    context.close()


def test_the_keys_decide_on_a_hebrew_layout(page: Page, server: str, scripts: None) -> None:
    page.goto(f"{server}/compare?a={A}&b={B}")
    expect(page.locator("[data-viewer=b][data-ready=true]")).to_be_visible()
    page.get_by_label("Your name").fill("רבקה")
    page.get_by_role("heading", level=1).click()
    for key, code, says in (
        ("ו", "KeyU", "unsure"),
        ("מ", "KeyN", "no"),
        ("י", "KeyH", "same-hand"),
        ("ח", "KeyJ", "join"),
    ):
        page.evaluate(
            "([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, code, bubbles: true }))",
            [key, code],
        )
        expect(page.locator("#verdict .now .mark")).to_have_class(re.compile(rf"\b{says}\b"))


def test_a_decided_group_leaves_the_proposals_and_next_goes_through_them(writer: TestClient) -> None:
    before = _proposals(writer)
    first, second = before["proposals"][0], before["proposals"][1]
    pairs = [(pair["a"], pair["b"]) for group in before["proposals"] for pair in group["pairs"]]
    html = writer.get("/proposals").text
    assert "walk=proposals" in html
    shown = writer.get("/compare", params={"a": pairs[0][0], "b": pairs[0][1], "walk": "proposals"}).text
    onward = re.search(r'rel="next" href="([^"]+)"', shown)
    assert onward
    assert f"a={quote_plus(pairs[1][0])}" in onward[1]
    assert "walk=proposals" in onward[1]
    for pair in first["pairs"]:
        writer.post("/api/verdicts", json={"a": pair["a"], "b": pair["b"], "says": "join", "by": "x"})
    after = _proposals(writer)
    assert after["proposals"][0]["number"] == second["number"]
    assert (after["found"], after["decided"]) == (before["found"] - 1, 1)
    everything = writer.get("/api/proposals", params={"show": "all"}).json()
    assert everything["found"] == before["found"]


def test_verdicts_and_dossier_speak_of_shelfmark_library_material_and_size(labelled: TestClient) -> None:
    labelled.post("/api/verdicts", json={"a": A, "b": B, "says": "join", "by": "x"})
    line = labelled.get("/api/verdicts").json()["history"][0]
    assert (line["name_a"], line["library_a"], line["library_b"]) == ("T-S 8C2.1", "Cambridge", "Oxford")
    for url in ("/verdicts", f"/fragment?id={A}"):
        lines = re.findall(r"/compare\?[^>]*>(.*?)</a>", labelled.get(url).text)
        assert lines, url
        assert all("images/" not in line and "T-S 8C" in line for line in lines), url
        assert any("Oxford" in line for line in lines), url
    dossier = labelled.get("/export/dossier", params={"a": A, "b": B}).text
    for said in ("T-S 8C2.1", "Cambridge", "Oxford", "parchment", "Height in mm", "250"):
        assert said in dossier


def test_cards_and_filters_speak_plainly(labelled: TestClient) -> None:
    html = labelled.get("/candidates", params={"id": A}).text
    for jargon in ("height_mm</", "bob-local", "not calibrated", "the same <bdi>"):
        assert jargon not in html, jargon
    assert "the same library" in html
    assert "250 × 85 mm" in html  # on the card, with library and script
    assert "Oxford" in re.findall(r'class="known-of">(.*?)</p>', html)[0]


def test_candidates_are_kept_left_out_and_sorted(labelled: TestClient) -> None:
    def found(**asked: str | list[str]) -> list[str]:
        data = labelled.get("/api/candidates", params={"id": A, **asked}).json()
        return [one["card"]["id"] for one in data["candidates"]]

    everything = found()
    assert found(keep="is:library:Oxford") == found(height_from="200", height_to="300") == [B]
    assert found(hide="is:library:Oxford") == [id for id in everything if id != B]
    assert found(hide="same:script") == [id for id in everything if id != B]
    assert found(keep="same:script") == [B]
    assert found(height_from="121", height_to="249") == []
    assert found(sort="library")[0] == B  # fragments without a value come last
    named = found(sort="name")
    assert sorted(everything) == sorted(named)
    assert named != everything
    assert labelled.get("/api/candidates", params={"id": A, "hide": "nonsense"}).status_code == 422
    assert labelled.get("/candidates", params={"id": A, "height_from": "tall"}).status_code == 422


def test_an_identical_photograph_is_marked(writer: TestClient, own_shelf: Path, drawn_shelf: Path) -> None:
    copy = own_shelf.parent / "copy.jpg"
    copy.write_bytes((drawn_shelf.parent / A).read_bytes())
    Collection.open(own_shelf).add([Fragment("copy.jpg", copy)])
    for asked in ({"id": A}, {"id": "copy.jpg"}):
        found = writer.get("/api/candidates", params=asked).json()["candidates"]
        same = [one["card"]["id"] for one in found if one["identical"]]
        assert same == ["copy.jpg" if asked["id"] == A else A]
    assert "identical photograph" in writer.get("/candidates", params={"id": A}).text
    assert "identical photograph" in writer.get("/compare", params={"a": A, "b": "copy.jpg"}).text
    dropped = writer.post("/api/candidates", files={"image": ("x.jpg", copy.read_bytes())}).json()
    assert {one["card"]["id"] for one in dropped["candidates"] if one["identical"]} == {A, "copy.jpg"}


def test_an_upload_has_filters_and_is_added_with_its_shelfmark(labelled: TestClient, drawn_shelf: Path) -> None:
    content = (drawn_shelf.parent / "images" / "0003.jpg").read_bytes()
    upload = labelled.post("/api/candidates", files={"image": ("new.jpg", content)}).json()["upload"]
    html = labelled.get("/candidates", params={"upload": upload}).text
    assert "Keep only" in html
    kept = labelled.get("/api/candidates", params={"upload": upload, "keep": "is:library:Oxford"}).json()
    assert [one["card"]["id"] for one in kept["candidates"]] == [B]
    token = labelled.headers["x-membra-token"]
    form = {"upload": upload, "token": token, "shelfmark": " ENA  4.2 ", "library": "New York"}
    labelled.post("/add", data=form)
    card = labelled.get("/api/fragment", params={"id": "added/new.jpg"}).json()["card"]
    assert (card["name"], card["columns"]) == ("ENA 4.2", {"shelfmark": "ENA 4.2", "library": "New York"})


def test_a_long_upload_says_that_it_goes_on(page: Page, server: str, drawn_shelf: Path) -> None:
    page.route("**/candidates", lambda route: route.fulfill(status=204))  # the browser stays on this page
    page.goto(f"{server}/?page=1")
    page.get_by_label("Candidates for another image").set_input_files(str(drawn_shelf.parent / A))
    expect(page.locator("form.drop [role=status]")).to_contain_text("is being processed")
    expect(page.locator("form.drop")).to_have_attribute("aria-busy", "true")


def test_a_refused_card_has_no_broken_picture(page: Page, server: str) -> None:
    page.goto(f"{server}/?show=refused")
    page.wait_for_load_state("networkidle")
    widths = page.evaluate("[...document.images].map((image) => [image.src, image.naturalWidth])")
    assert widths
    assert all(width > 0 for _, width in widths), widths


def test_light_and_dark_say_what_they_are(browser: Browser, server: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{server}/?page=1")

    def dark() -> bool:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) < 150

    assert dark()
    for choice, is_dark in (("Light", False), ("Dark", True), ("As the system", True)):
        page.get_by_role("link", name=choice, exact=True).click()
        expect(page.get_by_role("link", name=choice, exact=True)).to_have_attribute("aria-current", "true")
        assert dark() == is_dark
    context.close()


def test_a_hebrew_browser_gets_hebrew(client: TestClient) -> None:
    hebrew = client.get("/", headers={"accept-language": "he-IL,he;q=0.9,en-US;q=0.8"})
    assert '<html lang="he" dir="rtl"' in hebrew.text
    chosen = client.get("/?lang=en", headers={"accept-language": "he"})
    assert '<html lang="en"' in chosen.text
    client.cookies.clear()
    assert preferred("x;q=nonsense,,;;,he;q=0") == "en"


def _proposals(client: TestClient) -> dict[str, Any]:
    for _ in range(100):
        data: dict[str, Any] = client.get("/api/proposals").json()
        if data["ready"]:
            return data
    raise AssertionError("proposals never came")
