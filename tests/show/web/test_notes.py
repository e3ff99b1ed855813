"""Notes, tags and bookmarks on a fragment's page; metadata edits have an author and can be undone."""

import re
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect

from axe import need_axe, violations
from membra.store.annotations import FILE, Annotations
from shelves import Enter

A, B, C = "images/0001.jpg", "images/0002.jpg", "images/0003.jpg"


def keep(client: TestClient, id: str = A, **said: Any) -> Any:
    return client.post("/api/notes", json={"id": id, "by": "Rivka", **said})


def ids(client: TestClient, url: str, **asked: Any) -> list[str]:
    found = client.get(url, params=asked).json()
    cards = found["fragments"] if "fragments" in found else [one["card"] for one in found["candidates"]]
    return [card["id"] for card in cards]


def test_what_is_said_is_on_the_page_and_on_every_card(writer: TestClient, own_shelf: Path) -> None:
    written = keep(writer, text="the same <b>ruling</b>", tags=["to check", "ראוי"], bookmark=True).json()
    assert [one["kind"] for one in written] == ["tag", "tag", "bookmark", "note"]
    card = writer.get("/api/fragment", params={"id": A}).json()["card"]
    assert (card["tags"], card["bookmarked"], card["notes"]) == (["to check", "ראוי"], ["Rivka"], 1)
    for url in (f"/fragment?id={A}", "/?show=all", f"/candidates?id={B}"):
        html = writer.get(url).text
        assert "<bdi>to check</bdi>" in html, url
        assert "★" in html, url
    assert "the same &lt;b&gt;ruling&lt;/b&gt;" in writer.get(f"/fragment?id={A}").text
    assert len(Annotations.open(own_shelf).history()) == 4


def test_pages_are_shown_without_notes_that_cannot_be_read(writer: TestClient, own_shelf: Path) -> None:
    keep(writer, tags=["to check"])
    said = (own_shelf / FILE).read_bytes()
    for left in own_shelf.glob(f"{FILE}-*"):
        left.unlink()
    (own_shelf / FILE).write_bytes(b"no database" * 2000)
    for url in ("/?show=all", f"/fragment?id={A}", f"/candidates?id={B}", f"/compare?a={A}&b={B}"):
        answer = writer.get(url)
        assert answer.status_code == 200, url
        assert "to check" not in answer.text
        assert answer.text.count(f"{FILE} cannot be used") == 1, url
    assert "אי אפשר להציג" in writer.get("/?show=all&lang=he").text
    assert ids(writer, "/api/collection", keep="tag:to check") == []
    assert keep(writer, text="lost?").json()["code"] == "damaged"
    (own_shelf / FILE).write_bytes(said)
    html = writer.get("/?show=all&lang=en").text
    assert ("to check" in html, "cannot be used" in html) == (True, False)


def test_lists_and_candidates_are_filtered_by_tag_and_bookmark(writer: TestClient) -> None:
    keep(writer, A, tags=["x"], bookmark=True)
    keep(writer, B, tags=["x", "y"])
    keep(writer, B, by="David", bookmark=True)
    everything = len(ids(writer, "/api/collection"))
    assert sorted(ids(writer, "/api/collection", keep="tag:x")) == [A, B]
    assert ids(writer, "/api/collection", keep=["tag:x", "tag:y"]) == [B]
    assert ids(writer, "/api/collection", keep="bookmarked:rivka") == [A]
    assert sorted(ids(writer, "/api/collection", keep="bookmarked")) == [A, B]
    assert ids(writer, "/api/collection", q="y", keep="tag:x") == [B], "tags are found by name too"
    assert len(ids(writer, "/api/collection", keep="")) == everything
    assert ids(writer, "/api/candidates", id=C, keep="tag:y") == [B]
    assert A in ids(writer, "/api/candidates", id=C, limit=60, hide="tag:y")
    assert B not in ids(writer, "/api/candidates", id=C, limit=60, hide="tag:y")
    assert ids(writer, "/api/candidates", id=C, keep="bookmarked:David") == [B]
    assert writer.get("/api/collection", params={"keep": "is:x:y"}).status_code == 422
    assert writer.get("/api/collection").json()["tags"] == {"x": 2, "y": 1}
    assert 'value="tag:x" selected' in writer.get("/", params={"keep": "tag:x"}).text


def test_everything_said_is_one_list_and_taken_back(writer: TestClient) -> None:
    keep(writer, A, text="one")
    number = keep(writer, B, text="two").json()[0]["number"]
    everything = writer.get("/api/notes").json()
    assert [one["text"] for one in everything["history"]] == ["two", "one"]
    assert [one["text"] for one in writer.get("/api/notes", params={"id": A}).json()["history"]] == ["one"]
    assert writer.get("/api/notes", params={"limit": 1}).json()["pages"] == 2
    undo = writer.post("/api/notes/undo", json={"number": number, "by": "Rivka"}).json()
    assert (undo["kind"], undo["undoes"]) == ("undo", number)
    assert writer.get("/api/fragment", params={"id": B}).json()["card"]["notes"] == 0
    for wrong in ({"number": number}, {"number": 99}, {"number": undo["number"]}):
        assert writer.post("/api/notes/undo", json={**wrong, "by": "x"}).status_code in (404, 422)
    assert writer.get("/api/notes", params={"id": "nothing"}).status_code == 404
    assert keep(writer, "nothing", text="x").status_code == 404
    assert keep(writer, A, by="", text="x").status_code == 422


def test_what_is_known_has_an_author_a_time_and_an_undo(writer: TestClient) -> None:
    before = writer.get("/api/fragment", params={"id": A}).json()["card"]["columns"]
    sent = {"id": A, "columns": {"library": "Oxford", "shelfmark": before["shelfmark"]}, "by": "Rivka"}
    assert writer.post("/api/fragment", json={**sent, "by": ""}).status_code == 422
    assert writer.post("/api/fragment", json=sent).json()["columns"]["library"] == "Oxford"
    (edit,) = writer.get("/api/fragment", params={"id": A}).json()["said"]
    assert (edit["kind"], edit["name"], edit["before"], edit["text"], edit["by"]) == (
        "column",
        "library",
        "",
        "Oxford",
        "Rivka",
    )
    assert re.search(r"<bdi>library</bdi>.*<bdi>Oxford</bdi>.*Rivka", writer.get(f"/fragment?id={A}").text, re.DOTALL)
    writer.post("/api/notes/undo", json={"number": edit["number"], "by": "David"})
    page = writer.get("/api/fragment", params={"id": A}).json()
    assert page["card"]["columns"].get("library", "") == ""
    assert [(one["kind"], one["by"]) for one in page["said"]] == [("undo", "David"), ("column", "Rivka")]


def test_forms_say_who_and_lead_back(writer: TestClient) -> None:
    token = writer.headers["x-membra-token"]
    sent = {"id": A, "token": token, "by": "Rivka"}
    html = writer.post("/notes", data={**sent, "tag": "x, to check", "text": "note", "bookmark": "yes"}).text
    assert html.count('class="mark tag"') >= 2
    assert 'value="Rivka"' in html, "a name is typed once"
    assert writer.post("/notes", data=sent).status_code == 422
    html = writer.post("/notes", data={**sent, "untag": "x"}).text
    assert "<bdi>to check</bdi></a>" in html
    html = writer.post("/notes", data={**sent, "bookmark": "no"}).text
    assert "★" not in html.replace("☆", "")
    number = writer.get("/api/notes", params={"id": A}).json()["history"][-1]["number"]
    assert writer.post("/notes/undo", data={**sent, "number": "999"}).status_code == 404
    assert number


def test_with_people_notes_are_their_own(enter: Enter) -> None:
    rivka, david = enter("Rivka"), enter("David")
    said = rivka.post("/api/notes", json={"id": A, "text": "mine", "tags": ["x"], "bookmark": True}).json()
    assert {one["by"] for one in said} == {"Rivka"}
    assert rivka.post("/api/notes", json={"id": A, "text": "x", "by": "David"}).status_code == 403
    numbers = {one["kind"]: one["number"] for one in said}
    for kind, status in (("note", 403), ("bookmark", 403), ("tag", 200)):
        answer = david.post("/api/notes/undo", json={"number": numbers[kind]})
        assert answer.status_code == status, kind
    david.post("/api/notes", json={"id": A, "bookmark": False})
    assert david.get("/api/fragment", params={"id": A}).json()["card"]["bookmarked"] == ["Rivka"]
    edit = david.post("/api/fragment", json={"id": A, "columns": {"library": "Oxford"}})
    assert edit.status_code == 200
    assert david.get("/api/notes", params={"id": A}).json()["history"][0]["by"] == "David"
    html = david.get(f"/fragment?id={A}").text
    assert 'name="by" value="David"' in html
    assert "Your name" not in html


def test_by_keys_alone_in_hebrew(browser: Browser, own_server: str) -> None:
    """And axe finds nothing serious on a page with notes."""
    need_axe()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="he-IL", bypass_csp=True)
    page = context.new_page()
    page.goto(f"{own_server}/fragment?id={A}")
    name = page.locator(".noting [name=by]")
    name.focus()
    page.keyboard.type("רבקה")
    page.keyboard.press("Tab")
    page.keyboard.type("לבדוק")
    page.keyboard.press("Tab")
    page.keyboard.type("אותה שיטת שרטוט")
    page.keyboard.press("Tab")
    expect(page.locator(".noting button").first).to_be_focused()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator(".remarks .notes li")).to_contain_text("אותה שיטת שרטוט")
    page.locator(".noting [name=bookmark]").focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator(".noting [name=bookmark]")).to_have_attribute("aria-pressed", "true")
    page.locator(".remarks details summary").focus()
    page.keyboard.press("Enter")
    wrong = violations(page, "fragment")
    page.goto(f"{own_server}/?show=all")
    wrong += violations(page, "collection")
    page.goto(f"{own_server}/candidates?id={B}")
    wrong += violations(page, "candidates")
    page.goto(f"{own_server}/?show=all&keep=tag:לבדוק")
    expect(page.locator(".card")).to_have_count(1)
    page.goto(f"{own_server}/fragment?id={A}")
    page.locator(".remarks .tags button").focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator(".remarks .tags li")).to_have_count(0)
    context.close()
    assert wrong == []
