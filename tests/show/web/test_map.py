"""The map: neighbours together in collections of any size, colours by a column, named groups, navigation by keys."""

import re
from urllib.parse import unquote

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from playwright.sync_api import Browser, expect

from membra.show.web import layout
from membra.show.web.layout import fine, rough


def test_neighbours_lie_together_also_where_only_some_are_laid_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FINE", 400)
    draw = np.random.default_rng(1)
    hands = draw.normal(size=(60, 24))
    whose = draw.integers(0, 60, 2000)
    vectors = hands[whose] + 0.25 * draw.normal(size=(len(whose), 24))
    points = fine(vectors)
    assert points.min() >= 0
    assert points.max() <= 1
    some = draw.choice(len(points), 300, replace=False)

    def together(at: NDArray[np.float64]) -> float:
        apart = np.linalg.norm(at[some][:, None] - at[None], axis=2)
        apart[np.arange(len(some)), some] = np.inf
        return float((whose[apart.argmin(axis=1)] == whose[some]).mean())

    assert together(points) > 0.9
    assert together(points) > together(rough(vectors)) + 0.2


@pytest.mark.parametrize("count", [1, 2, 7, 9])
def test_few_or_equal_ones_lie_somewhere(count: int) -> None:
    for vectors in (np.ones((count, 5)), np.random.default_rng(0).normal(size=(count, 3))):
        for lay in (rough, fine):
            points = lay(vectors)
            assert points.shape == (count, 2)
            assert np.isfinite(points).all()


def test_thirty_thousand_are_looked_at_at_once() -> None:
    import time

    vectors = np.random.default_rng(0).normal(size=(30_000, 128))
    began = time.process_time()
    points = rough(vectors)
    assert time.process_time() - began < 3  # CPU seconds; the page is allowed one second of wall-clock time
    assert len(points) == 30_000


def test_points_columns_and_groups(client: TestClient) -> None:
    page = client.get("/api/map").json()
    points = client.get("/api/map/points").json()
    assert page["found"] == len(points["ids"]) == len(points["x"]) == len(points["names"]) == 11
    assert {"join", "collection", "letters"} <= set(page["columns"])
    assert not {"shelfmark", "title"} & set(page["columns"])  # unique per fragment, or the same for all
    names = client.get("/api/map/column", params={"name": "collection"}).json()
    assert set(names["labels"]) == {"Geniza", "אוסף"}
    assert len(names["values"]) == len(points["ids"])
    numbers = client.get("/api/map/column", params={"name": "letters"}).json()
    assert numbers["labels"] == []
    assert numbers["low"] < numbers["high"]
    assert client.get("/api/map/column", params={"name": "nothing"}).status_code == 404
    assert points["groups"]
    for group in points["groups"]:
        first = points["names"][group["members"][0]]
        assert group["name"] == f"{first} + {len(group['members']) - 1}"
    here = client.get("/api/map", params={"at": "images/0001.jpg"}).json()
    near = [group["ids"] for group in here["near"]]
    assert near
    assert not any("images/0001.jpg" in ids for ids in near)  # its own group is left out


def test_it_is_coloured_zoomed_and_walked(browser: Browser, server: str) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True).new_page()
    page.goto(f"{server}/map")
    expect(page.locator("[data-map][data-ready]")).to_be_visible()
    page.get_by_label("Colour by").select_option("collection")
    expect(page.locator("[data-legend] button")).to_have_count(3)
    assert "by=collection" in page.url

    def inked() -> int:
        return int(
            page.evaluate(
                """() => { const c = document.querySelector("canvas");
                const all = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
                let count = 0; for (let n = 3; n < all.length; n += 4) count += all[n] > 0; return count; }"""
            )
        )

    page.wait_for_timeout(1500)
    assert inked() > 11 * 40 * 40  # photographs, not dots, since few are visible
    page.get_by_role("button", name="Geniza").click()
    expect(page.get_by_role("button", name="Geniza")).to_have_attribute("aria-pressed", "true")
    for _ in range(6):
        page.get_by_role("button", name="Larger").click()
    page.wait_for_function("Number(document.querySelector('[data-map]').dataset.seen) < 6")
    page.get_by_role("button", name="Whole").click()
    page.wait_for_function("Number(document.querySelector('[data-map]').dataset.seen) === 11")
    assert int(page.locator("[data-map]").get_attribute("data-named") or 0) >= 1
    # by keys: from fragment to fragment, and open one
    page.locator("canvas.plane").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-said]")).to_have_text(re.compile("T-S"))
    name = page.locator("[data-said]").inner_text()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2).first).to_contain_text(name)
    assert "by=collection" in page.url  # the choice stays
    expect(page.locator("[data-map][data-ready]")).to_be_visible()
    page.get_by_label("Find a fragment").fill("8c4")
    expect(page.locator("[data-said]")).to_have_text("1 found")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "images/0003.jpg" in unquote(page.url)
    page.context.close()


def test_without_scripts_points_are_links(browser: Browser, server: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{server}/map")
    assert page.locator("svg.plane a").count() == 11
    page.locator("svg.plane a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/map?at=**")
    page.context.close()
