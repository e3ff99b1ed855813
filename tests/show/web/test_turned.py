"""Rotated leaves are upright on every page, pieces are shown at their position, and doubtful ones are marked."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from axe import need_axe, violations
from membra.describe.recipe import MEMBRA, describe, pick
from membra.find.probability import Refinement
from membra.show.holding import Holding
from membra.show.iiif_export import write_manifest
from membra.show.seen import read_again
from membra.show.upright import upright_view
from membra.show.web import candidates
from membra.show.web.app import create_app
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph
from membra.store.collection import Collection
from places import choose_most, offset, settled
from plates import ANGLE, DOUBTFUL, LOST, PLATE, QUARTER, TURNED, UPRIGHT
from shelves import serving, watched

SECOND = f"{PLATE}#2"
WHY = "Little reliable writing was found"
PAGES = ["/", "/?show=doubtful", f"/fragment?id={TURNED}", f"/fragment?id={quote(SECOND)}", f"/fragment?id={DOUBTFUL}"]
PAGES += [f"/candidates?id={DOUBTFUL}", f"/compare?a={TURNED}&b={quote(SECOND)}", f"/map?at={DOUBTFUL}", "/map"]


@pytest.fixture(scope="module")
def client(plates: Path, cache: Path) -> Iterator[TestClient]:
    with TestClient(create_app(plates, cache=cache), base_url="http://127.0.0.1:8000") as opened:
        yield opened


@pytest.fixture(scope="module")
def server(plates: Path, cache: Path) -> Iterator[str]:
    with serving(plates, cache) as url:
        yield url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with watched(browser, viewport={"width": 1280, "height": 900}, bypass_csp=True) as page:
        yield page


def picture(client: TestClient, url: str) -> NDArray[np.float64]:
    answer = client.get(url)
    assert answer.headers["content-type"] == "image/jpeg", answer.text
    return np.asarray(Image.open(BytesIO(answer.content)).convert("L"), float)


def alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the correlation of two pictures of the same object, scaled to one size."""
    image = Image.fromarray(other.astype(np.uint8)).resize(one.shape[::-1])
    return float(np.corrcoef(one.ravel(), np.asarray(image, float).ravel())[0, 1])


@pytest.mark.parametrize("kind", ["small", "whole"])
def test_pictures_of_a_turned_leaf_are_upright(client: TestClient, plates: Path, kind: str) -> None:
    shown = picture(client, f"/image/{kind}?id={TURNED}")
    photograph = read_photograph(plates.parent / TURNED)
    view = upright_view((photograph.shape[1], photograph.shape[0]), ANGLE)
    assert shown.shape[0] / shown.shape[1] == pytest.approx(view.height / view.width, rel=0.02)
    upright = np.asarray(Image.open(plates.parent / UPRIGHT).convert("L"), float)
    high, wide = (round(side * shown.shape[1] / view.width) for side in upright.shape)
    top, left = (shown.shape[0] - high) // 2, (shown.shape[1] - wide) // 2
    assert alike(upright, shown[top : top + high, left : left + wide]) > 0.9
    as_it_is = picture(client, f"/image/whole?id={TURNED}&upright=no")
    assert alike(np.asarray(Image.fromarray(photograph).convert("L"), float), as_it_is) > 0.98
    assert client.get(f"/image/whole?id={TURNED}&upright=perhaps").status_code == 422


def test_a_piece_is_cut_out_and_stands_upright(client: TestClient) -> None:
    data = client.get("/api/fragment", params={"id": SECOND}).json()
    view = data["shown"]["view"]
    small = picture(client, f"/image/small?id={quote(SECOND)}")
    assert small.shape[0] / small.shape[1] == pytest.approx(view["height"] / view["width"], rel=0.02)
    assert view["width"] < data["plate"]["width"] / 2
    # Frames are on the letters: darker inside than the mean of the piece.
    whole = picture(client, f"/image/whole?id={quote(SECOND)}")
    scale = whole.shape[1] / view["width"]
    inside = [whole[int(y) : int(y + h), int(x) : int(x + w)].min() for x, y, w, h in np.array(view["frames"]) * scale]
    assert np.median(inside) < np.median(whole) - 60


def test_letters_of_a_turned_leaf_are_upright(client: TestClient) -> None:
    places = ",".join(map(str, range(8)))
    upright, turned = (picture(client, f"/image/letters?id={id}&at={places}") for id in (UPRIGHT, TURNED))
    assert alike(upright, turned) > 0.8


def test_what_is_known_is_in_the_json(client: TestClient) -> None:
    cards = {card["id"]: card for card in client.get("/api/collection").json()["fragments"]}
    assert (cards[TURNED]["angle"], cards[LOST]["angle"], cards[SECOND]["angle"]) == (ANGLE, None, QUARTER)
    assert (cards[TURNED]["legibility"], cards[TURNED]["letter_height"]) == (0.9, 30.0)
    assert (cards[SECOND]["photograph"], cards[SECOND]["piece"], cards[TURNED]["piece"]) == (PLATE, 2, 0)
    assert [id for id, card in cards.items() if card["doubtful"]] == [DOUBTFUL]
    assert cards[SECOND]["name"] == "Plate 7 #2"
    assert client.get("/api/collection?show=doubtful").json()["found"] == 1
    assert client.get("/api/collection").json()["coverage"]["doubtful"] == 1
    shown = client.get("/api/compare", params={"a": TURNED, "b": SECOND}).json()
    assert (shown["a"]["angle"], shown["b"]["piece"], len(shown["a"]["outline"]) > 4) == (ANGLE, 2, True)
    assert {point["id"]: point["doubtful"] for point in _points(client)}[DOUBTFUL]


def _points(client: TestClient) -> list[dict[str, Any]]:
    for _ in range(50):
        data = client.get("/api/map").json()
        if data["ready"]:
            break
    return list(data["points"])


def test_a_pieces_place_on_the_plate(client: TestClient) -> None:
    data = client.get("/api/fragment", params={"id": SECOND}).json()["plate"]
    assert (data["photograph"], [piece["card"]["piece"] for piece in data["pieces"]]) == (PLATE, [1, 2])
    left, right = (np.array(piece["outline"])[:, 0] for piece in data["pieces"])
    assert left.max() < right.min()
    page = client.get("/fragment", params={"id": SECOND}).text
    assert page.count('class="piece"') == 2
    assert quote(f"{PLATE}#1") in page
    assert client.get("/api/fragment", params={"id": TURNED}).json()["plate"] is None


@pytest.mark.parametrize("language", ["en", "he"])
def test_doubt_is_in_plain_words_on_every_page(client: TestClient, language: str) -> None:
    why, word = (WHY, "doubtful") if language == "en" else ("נמצא מעט כתב מהימן", "מפוקפק")
    _points(client)
    for url in (
        "/?page=1",
        f"/fragment?id={DOUBTFUL}",
        f"/candidates?id={DOUBTFUL}",
        f"/candidates?id={TURNED}",
        f"/compare?a={TURNED}&b={DOUBTFUL}",
        f"/map?at={DOUBTFUL}",
        "/map",
    ):
        page = client.get(url, headers={"cookie": f"membra-lang={language}"}).text
        assert f"⚠ {word}" in page, url
        assert why in page, url
    calm = client.get(f"/fragment?id={TURNED}", headers={"cookie": f"membra-lang={language}"}).text
    assert why not in calm


def test_no_likelihood_rests_on_doubtful_writing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sure = Refinement(joins=9, others=9)
    monkeypatch.setattr(candidates, "likelihood_of", lambda desk: (sure, False))
    found = client.get("/api/candidates", params={"id": TURNED}).json()["candidates"]
    assert {one["card"]["id"] for one in found if one["likelihood"] is None} == {DOUBTFUL}
    of_it = client.get("/api/candidates", params={"id": DOUBTFUL}).json()
    assert {one["likelihood"] for one in of_it["candidates"]} == {None}
    assert client.get("/api/compare", params={"a": TURNED, "b": DOUBTFUL}).json()["likelihood"] is None
    assert client.get("/api/compare", params={"a": TURNED, "b": UPRIGHT}).json()["likelihood"] > 0
    assert "too doubtful for a likelihood" in client.get(f"/candidates?id={TURNED}").text


def test_where_up_cannot_be_told_it_says_so(client: TestClient) -> None:
    assert "The upright orientation is uncertain" in client.get(f"/fragment?id={LOST}").text
    assert f"Turned upright by {ANGLE:.0f}° clockwise" in client.get(f"/fragment?id={TURNED}").text
    assert "Turned upright" not in client.get(f"/fragment?id={UPRIGHT}").text


def test_what_was_seen_is_drawn_once_and_kept(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get(f"/image/seen?id={quote(SECOND)}")
    assert max(Image.open(BytesIO(first.content)).size) == 1600
    monkeypatch.setattr("membra.show.web.pages.read_again", None)
    assert client.get(f"/image/seen?id={quote(SECOND)}").content == first.content
    assert client.get("/image/seen?id=nothing").status_code == 404


def test_ink_and_lines_are_seen_again_where_the_letters_are_the_same(plates: Path, encoder: Any) -> None:
    fragment = Fragment(UPRIGHT, plates.parent / UPRIGHT)
    description = describe(fragment, encoder, MEMBRA)
    again = read_again(fragment, description, MEMBRA)
    now = pick(fragment, MEMBRA)[1]
    assert np.array_equal(again.ink, now.ink)
    assert np.array_equal(again.glyphs.boxes, description.boxes)
    other = Fragment(LOST, plates.parent / LOST)
    assert read_again(other, description, MEMBRA).ink.size == 0
    assert read_again(Fragment("gone", plates / "gone"), description, MEMBRA).ink.size == 0


def test_a_dropped_plate_is_looked_at_by_its_most_legible_piece(
    plates: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once added, each piece is a fragment."""
    import shutil

    from factories import plate, see_plates
    from membra.describe import recipe as recipes

    monkeypatch.setattr(recipes, "see", see_plates)
    own = Path(shutil.copytree(plates, tmp_path / "own"))
    with TestClient(create_app(own, cache=cache), base_url="http://127.0.0.1:8000") as client:
        client.headers["x-membra-token"] = client.get("/api/token").json()["token"]
        data = client.post("/api/candidates", files={"image": ("new.png", plate(1, 2, None))}).json()
        shown = client.get("/api/compare", params={"upload": data["upload"], "b": TURNED}).json()["a"]
        assert (shown["piece"], shown["angle"], shown["name"]) == (2, 45.0, "new.png")
        assert client.get(f"/image/small?upload={data['upload']}").status_code == 200
        added = client.post(f"/api/add?upload={data['upload']}").json()
        assert (added["id"], added["photograph"], added["piece"]) == ("added/new.png#2", "added/new.png", 2)


def test_a_manifest_shows_the_photograph_as_it_is_and_a_thumbnail_upright(
    client: TestClient, plates: Path, tmp_path: Path
) -> None:
    collection = Collection.open(plates)
    document, folder = write_manifest(collection, [(TURNED, SECOND)], tmp_path / "m.json")
    assert folder
    first, second = document["items"]
    with Image.open(plates.parent / TURNED) as photograph:
        assert (first["width"], first["height"]) == photograph.size
    reported = {pair["label"]["en"][0]: pair["value"]["none"][0] for pair in second["metadata"]}
    assert (reported["Piece"], reported["Writing turned by"]) == ("2", "90° counter-clockwise")
    holding = Holding(collection)
    piece = upright_view((second["width"], second["height"]), QUARTER, holding.piece_outline(SECOND)).within(320)
    with Image.open(folder / second["thumbnail"][0]["id"].rpartition("/")[2]) as small:
        assert small.size == (piece.width, piece.height)
    served = client.get(f"/export/manifest?a={TURNED}&b={quote(SECOND)}").json()["items"][0]
    body = served["items"][0]["items"][0]["body"]
    assert client.get(served["thumbnail"][0]["id"]).content == client.get(f"/image/small?id={TURNED}").content
    assert client.get(body["id"]).content == client.get(f"/image/whole?id={TURNED}&upright=no").content


def test_the_dossier_tells_of_turns_and_doubts(client: TestClient) -> None:
    page = client.get(f"/export/dossier?a={TURNED}&b={DOUBTFUL}").text
    assert f"in the photograph by {ANGLE:.0f}°" in page
    assert "little reliable writing was found" in page
    assert "the upright orientation is uncertain" in client.get(f"/export/dossier?a={TURNED}&b={LOST}").text


def test_tables_have_what_is_known(client: TestClient) -> None:
    rows = {row["id"]: row for row in json.loads(client.get("/export/fragments.json").content)["rows"]}
    assert (rows[SECOND]["angle"], rows[SECOND]["photograph"], rows[SECOND]["piece"]) == (QUARTER, PLATE, 2)
    assert (rows[DOUBTFUL]["note"], rows[DOUBTFUL]["legibility"]) == ("few letters, doubtful", 0.2)


def test_the_viewer_starts_upright_and_turns_from_there(page: Page, server: str, scripts: None) -> None:
    page.goto(f"{server}/fragment?id={TURNED}")
    expect(page.locator("[data-viewer=a][data-ready=true]")).to_be_visible()
    look = "[window.membra.viewers[0].rotation, window.membra.viewers[0].turn]"
    assert page.evaluate(look) == [ANGLE, 0]
    page.locator("[data-do=right]").click()
    assert page.evaluate(look) == [ANGLE + 90, 90]
    page.reload()
    expect(page.locator("[data-viewer=a][data-ready=true]")).to_be_visible()
    assert page.evaluate(look) == [ANGLE + 90, 90]  # kept, relative to upright
    page.locator("[data-do=left]").click()
    expect(page.locator(".overlay .outline")).to_be_hidden()
    page.get_by_label("Show the outline").check()
    expect(page.locator(".overlay .outline .edge")).to_be_visible()
    page.get_by_text("What was seen").click()
    seen = page.locator("details img")
    expect(seen).to_be_visible()
    page.wait_for_function("document.querySelector('details img').naturalWidth > 500")


def test_boxes_lie_on_letters_of_turned_leaves(page: Page, server: str, plates: Path, scripts: None) -> None:
    page.goto(f"{server}/compare?a={TURNED}&b={quote(SECOND)}")
    choose_most(page)
    settled(page)
    rotations = page.evaluate("window.membra.viewers.map((one) => one.rotation)")
    assert rotations == [ANGLE, QUARTER]
    page.evaluate("const v = window.membra.viewers[0]; v.show(v.scale * 1.3, v.centre)")  # more pixels per letter
    settled(page)
    for side, name in (("a", TURNED), ("b", PLATE)):
        assert offset(page, side, read_photograph(plates.parent / name)) < 0.1
    # Frames run along the lines of writing: upright on the screen, whatever the turn of the photograph.
    tilted = page.evaluate(
        """() => [...document.querySelectorAll(".overlay rect.lit")].map((box) => {
            const now = box.getScreenCTM(); return Math.atan2(now.b, now.a); })"""
    )
    assert np.abs(tilted).max() < 1e-3


def test_a_piece_fills_the_viewer_and_its_plate_leads_to_the_others(page: Page, server: str, scripts: None) -> None:
    page.goto(f"{server}/fragment?id={quote(SECOND)}")
    expect(page.locator("[data-viewer=a][data-ready=true]")).to_be_visible()
    shown = json.loads(page.locator("[data-viewer=a]").get_attribute("data-shown") or "{}")
    middle = page.evaluate("window.membra.viewers[0].centre")
    outline = np.array(shown["outline"])
    assert (outline.min(axis=0) < (middle["x"], middle["y"])).all()
    assert (outline.max(axis=0) > (middle["x"], middle["y"])).all()
    assert page.evaluate("window.membra.viewers[0].scale") > 1.3 * 700 / shown["width"]
    expect(page.locator(".overlay .shade")).to_be_visible()
    page.locator(".plate a").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Plate 7 #1")
    expect(page.locator(".plate a[aria-current]")).to_have_attribute("aria-label", "Plate 7 #1")


def test_without_scripts_it_is_upright_too(browser: Browser, server: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{server}/fragment?id={quote(SECOND)}")
    boxes: Any = [page.locator(".plain").bounding_box(), page.locator(".plain image").bounding_box()]
    assert boxes[1]["height"] > boxes[1]["width"]  # the upright piece is tall
    assert boxes[1]["height"] <= boxes[0]["height"] + 1
    assert page.locator(".plain .lit").count() >= 30
    page.get_by_text("What was seen", exact=True).click()
    expect(page.locator("details img")).to_be_visible()
    context.close()


@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("he", "dark")])
def test_axe_finds_nothing_serious(page: Page, server: str, language: str, theme: str, scripts: None) -> None:
    need_axe()
    page.goto(f"{server}/?lang={language}&theme={theme}")
    wrong = []
    for url in PAGES:
        page.goto(server + url)
        for summary in page.locator("details summary").all():
            summary.click()
        wrong += violations(page, url)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), url
    assert wrong == []
