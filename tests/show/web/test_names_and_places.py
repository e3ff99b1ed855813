"""What users need before a decision: the fragments' names, the likelihood, and photographs side by side."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect

from membra.sources.fragment import Fragment
from membra.store.collection import Collection

A, B = "images/0001.jpg", "images/0002.jpg"
LIBRARY = "Universitätsbibliothek und Archiv der Handschriften"  # longer than a card is wide
KNOWN = {"library": LIBRARY, "script": "square", "height_mm": "120", "width_mm": "85"}


def put(shelf: Path, columns: dict[str, dict[str, str]]) -> None:
    """Add catalogue columns to fragments."""
    collection = Collection.open(shelf)
    known = {entry.fragment.id: entry.fragment for entry in collection.entries()}
    collection.add([Fragment(id, known[id].path, {**known[id].columns, **more}) for id, more in columns.items()])


def asked(client: TestClient, url: str, **more: str) -> dict[str, Any]:
    for _ in range(100):
        found: dict[str, Any] = client.get(url, params=more).json()
        if found.get("ready", True):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{url} was never ready")


def test_the_inbox_says_how_likely_a_pair_is_and_so_does_the_comparison(writer: TestClient) -> None:
    """Both pages show the same likelihood of a pair, also after verdicts."""
    nearest = asked(writer, "/api/inbox", limit="1")["pairs"][0]
    ends = {"a": nearest["a"]["id"], "b": nearest["b"]["id"]}
    writer.post("/api/verdicts", json={**ends, "says": "no", "by": "x"})
    for _ in range(100):  # verdicts are learnt in the background
        asked(writer, "/api/inbox")
        if not asked(writer, "/api/compare", **ends)["learning"]:
            break
        time.sleep(0.1)
    pairs = asked(writer, "/api/inbox", limit="500")["pairs"]
    assert len(pairs) > 5
    for pair in pairs:
        compared = asked(writer, "/api/compare", a=pair["a"]["id"], b=pair["b"]["id"])
        assert pair["likelihood"] == pytest.approx(compared["likelihood"], abs=0.02)
    facts = re.findall(r'<p class="facts">(.*?)</p>', writer.get("/inbox").text)[0]
    assert re.search(r"<b>(over 99|under 1|\d+) % likely</b>", facts)


def test_library_script_and_size_stand_wherever_one_decides(writer: TestClient, own_shelf: Path) -> None:
    ids = [entry.fragment.id for entry in Collection.open(own_shelf).entries() if not entry.refused]
    put(own_shelf, dict.fromkeys(ids, KNOWN))
    asked(writer, "/api/inbox"), asked(writer, "/api/proposals")
    for url in ("/inbox", f"/compare?a={A}&b={B}"):
        headings = re.findall(r"<h2><a href=\"/fragment.*?</h2>", writer.get(url).text)
        assert len(headings) == 2
        assert all(LIBRARY in one and "square" in one and "120 × 85 mm" in one for one in headings), url
    group = writer.get(f"/group?id={A}&id={B}").text
    assert group.count(LIBRARY) > 2 + 2, "on its leaves, on its pairs and on the cards"
    members = re.findall(r'<ul class="members">(.*?)</ul>', writer.get("/proposals").text, re.DOTALL)
    assert members
    assert all(LIBRARY in one for one in members)


def test_the_map_lists_fragments_in_the_order_of_shelves(writer: TestClient, own_shelf: Path) -> None:
    ids = [entry.fragment.id for entry in Collection.open(own_shelf).entries()]
    put(own_shelf, {id: {"shelfmark": f"T-S 8C{20 - number}.1"} for number, id in enumerate(ids)})
    names = [point["name"] for point in asked(writer, "/api/map")["points"]]
    numbers = [int(name.split("C")[1].split(".")[0]) for name in names]
    assert len(numbers) > 9
    assert numbers == sorted(numbers)


def test_no_empty_box_of_filters(writer: TestClient, drawn_shelf: Path, own_shelf: Path) -> None:
    put(own_shelf, {entry.fragment.id: {"collection": ""} for entry in Collection.open(own_shelf).entries()})
    content = (drawn_shelf.parent / "images" / "0003.jpg").read_bytes()
    upload = writer.post("/api/candidates", files={"image": ("new.jpg", content)}).json()["upload"]
    html = writer.get("/candidates", params={"upload": upload}).text
    for box in re.findall(r"<fieldset>(.*?)</fieldset>", html, re.DOTALL):
        assert "<label" in box, box


def test_a_long_library_is_not_cut_off(browser: Browser, own_server: str, own_shelf: Path) -> None:
    put(own_shelf, {A: {"library": LIBRARY}})
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{own_server}/?show=all")
    fact = page.locator(".known-of bdi", has_text=LIBRARY)
    expect(fact).to_be_visible()
    inside, around = fact.bounding_box(), page.locator(".card", has=fact).bounding_box()
    assert inside
    assert around
    assert inside["x"] + inside["width"] <= around["x"] + around["width"]
    page.close()


@pytest.mark.parametrize("url", [f"/compare?a={A}&b={B}", "/inbox"])
def test_photographs_begin_and_end_at_one_height(
    browser: Browser, own_server: str, own_shelf: Path, scripts: None, url: str
) -> None:
    """Whatever is above and below each of them."""
    put(own_shelf, {B: {"library": LIBRARY, "material": "parchment, in places as thin as paper " * 3}})
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(own_server + url)
    page.locator("[data-viewer=b][data-ready=true]").wait_for(timeout=60_000)
    page.evaluate(
        "document.querySelector('.side .seen').textContent = '';"
        "[...document.querySelectorAll('.side .seen')].at(-1).textContent = 'Turned. '.repeat(40);"
    )
    a, b = (page.locator(f"[data-viewer={side}]").bounding_box() for side in "ab")
    assert a
    assert b
    assert (a["y"], a["height"]) == pytest.approx((b["y"], b["height"]), abs=1)
    page.close()


@pytest.mark.parametrize("language", ["en", "he"])
def test_on_a_telephone_a_pair_is_decided_without_scrolling(
    browser: Browser, server: str, language: str, scripts: None
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{server}/inbox?lang={language}")
    page.locator("[data-viewer=b][data-ready=true]").wait_for(timeout=60_000)
    tops = page.locator(".top nav a").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert len(set(tops)) == 1, "the ways to the pages are one line"
    for key in "JHUN":
        box = page.locator(f"[data-code=Key{key}]").bounding_box()
        assert box
        assert box["y"] + box["height"] <= 844, key
    page.goto(f"{server}/candidates?id={A}")
    first = page.locator(".ranked .card").first.bounding_box()
    assert first
    assert first["y"] < 844 * 0.75
    context.close()
