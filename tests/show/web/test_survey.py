"""Photographs fill the window and the screen; a survey of several with one zoom; phones show letters beside them."""

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page, expect

from membra.sources.fragment import Fragment
from membra.store.collection import Collection

A, B = "images/0001.jpg", "images/0002.jpg"


def opened(browser: Browser, url: str, width: int, height: int) -> Page:
    page = browser.new_context(
        viewport={"width": width, "height": height}, has_touch=width < 500, is_mobile=width < 500, bypass_csp=True
    ).new_page()
    page.goto(url)
    expect(page.locator("[data-viewer]:not([data-ready=true])")).to_have_count(0)
    return page


def box(page: Page, selector: str) -> dict[str, float]:
    found: Any = page.locator(selector).first.bounding_box()
    return dict(found)


def swipe(page: Page, x: float, y: float) -> None:
    """Swipe up by 165 px."""
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 12):
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x, "y": y - 15 * step}]})
        page.wait_for_timeout(20)
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_survey_has_eight_at_a_time_each_at_the_height_of_its_matched_letters(client: TestClient) -> None:
    first = client.get("/api/survey", params={"a": A}).json()
    second = client.get("/api/survey", params={"a": A, "screen": 2}).json()
    ranks = [one["candidate"]["rank"] for one in first["candidates"] + second["candidates"]]
    assert len(first["candidates"]) == 8
    assert ranks == list(range(1, len(ranks) + 1))
    for one in first["candidates"][:3]:
        pair = client.get("/api/compare", params={"a": A, "b": one["shown"]["id"]}).json()
        assert one["height"] == pair["heights"][1]
        assert pair["heights"][0] == pytest.approx(first["query"]["letter_height"], abs=0.01)
    assert client.get("/survey", params={"a": "images/broken.jpg"}).status_code == 422


def test_a_photograph_that_is_gone_leaves_the_others(
    writer: TestClient, own_shelf: Path, drawn_shelf: Path, tmp_path: Path
) -> None:
    lost = Path(shutil.copy(drawn_shelf.parent / B, tmp_path / "lost.jpg"))
    Collection.open(own_shelf).add([Fragment("lost.jpg", lost)])
    lost.unlink()
    found = writer.get("/api/survey", params={"a": B}).json()["candidates"]
    assert found[0]["candidate"]["card"]["id"] == "lost.jpg"
    assert (found[0]["shown"], found[0]["problem"]) == (None, "lost.jpg: the file is gone")
    assert all(one["shown"] and not one["problem"] for one in found[1:])
    page = writer.get("/survey", params={"a": B})
    assert page.status_code == 200
    assert page.text.count("data-viewer=") == len(found)  # the query's and those of all but one
    assert "the file is gone" in page.text


def test_the_survey_zooms_as_one_and_fills_the_screen(browser: Browser, server: str, scripts: None) -> None:
    page = opened(browser, f"{server}/survey?a={quote(A)}", 1280, 900)
    heights = "window.membra.viewers.map((one) => one.scale * one.shown.letter)"

    def one_height() -> float:
        found = page.evaluate(heights)
        assert len(found) == 9
        assert max(found) == pytest.approx(min(found), rel=0.02)
        return float(found[0])

    before = one_height()
    page.get_by_role("button", name="Larger").click()
    page.wait_for_timeout(1000)
    assert one_height() == pytest.approx(1.4 * before, rel=0.05)
    page.get_by_role("button", name="Full screen").press("Enter")  # by keys, like everything
    page.wait_for_function("document.querySelector('.surveyed').clientHeight > 850")
    page.wait_for_timeout(400)
    one_height()
    page.keyboard.press("Escape")
    expect(page.locator(".filling")).to_have_count(0)
    with page.expect_navigation():
        page.get_by_role("heading", level=1).click()
        page.keyboard.press("ArrowRight")
    assert "screen=2" in page.url
    page.context.close()


def test_photographs_fill_the_window_and_the_screen(browser: Browser, server: str, scripts: None) -> None:
    page = opened(browser, f"{server}/compare?a={quote(A)}&b={quote(B)}", 1600, 1000)
    high = box(page, "[data-viewer=a]")["height"]
    assert high > 0.6 * 1000
    assert page.evaluate("document.querySelector('main').getBoundingClientRect().bottom") <= 1001  # no scrolling
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function(f"document.querySelector('[data-viewer=a]').clientHeight > {high} + 40")
    page.keyboard.press("Escape")
    page.wait_for_function(f"document.querySelector('[data-viewer=a]').clientHeight < {high} + 10")
    page.context.close()


def test_on_a_telephone_letters_and_photographs_share_a_screen_that_scrolls(
    browser: Browser, server: str, scripts: None
) -> None:
    page = opened(browser, f"{server}/compare?a={quote(A)}&b={quote(B)}", 390, 844)
    page.evaluate("scrollTo(0, 500)")
    for selector in ("[data-viewer=a]", "[data-viewer=b]", ".match", "#verdict"):
        seen = box(page, selector)
        assert seen["y"] < 844, selector
        assert seen["y"] + min(seen["height"], 60) > 0, selector
    assert box(page, "[data-viewer=a]")["y"] + box(page, "[data-viewer=a]")["height"] < 0.6 * 844
    # swiping on letters scrolls the page; in a survey, also on photographs
    for url, on in ((None, ".match"), (f"{server}/survey?a={quote(A)}", "[data-viewer=b1]")):
        if url:
            page.goto(url)
            expect(page.locator("[data-viewer]:not([data-ready=true])")).to_have_count(0)
        page.evaluate("scrollTo(0, 0)")
        at, before = box(page, on), page.evaluate("scrollY")
        swipe(page, at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
        page.wait_for_function(f"scrollY > {before} + 50")
    page.context.close()
