"""The table in a browser: fragments are dragged, rotated, stored; by mouse, by keys, and, without scripts, numbers."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

FIT = "/fit?a=images/0001.jpg&b=images/0002.jpg"


def lies(page: Page, side: str) -> tuple[float, ...]:
    return tuple(float(page.locator(f"[name={name}_{side}]").input_value()) for name in ("x", "y", "turn"))


def test_a_fragment_is_dragged_turned_and_kept(browser: Browser, own_server: str) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(own_server + FIT)
    expect(page.locator("[data-fit][data-ready]")).to_be_visible()
    before = lies(page, "a")
    where: Any = page.locator("[data-piece=a] .cut").bounding_box()
    x, y = where["x"] + where["width"] / 2, where["y"] + where["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 30, steps=4)
    page.mouse.up()
    now: Any = page.locator("[data-piece=a] .cut").bounding_box()
    assert (now["x"] - where["x"], now["y"] - where["y"]) == pytest.approx((60, 30), abs=2)  # it follows the pointer
    assert lies(page, "a")[0] > before[0]
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 200)
    page.keyboard.up("Shift")
    page.wait_for_timeout(200)
    assert lies(page, "a")[2] != 0
    # by keys
    page.locator("[data-piece=b]").focus()
    still = lies(page, "b")
    for key in ("ArrowRight", "ArrowDown", "PageDown", "PageDown", "Shift+PageDown"):
        page.keyboard.press(key)
    moved = lies(page, "b")
    assert moved[0] > still[0]
    assert moved[1] > still[1]
    assert moved[2] == pytest.approx(2.1)
    page.get_by_label("Your name").fill("Rivka")
    page.get_by_role("button", name="Save for the dossier").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Rivka")
    assert lies(page, "b") == moved
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("have not been laid")
    page.context.close()


def test_without_scripts_numbers_do(browser: Browser, own_server: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(own_server + FIT)
    page.locator("[name=turn_b]").fill("15")
    page.locator("[name=x_b]").fill("4.5")
    page.get_by_label("Your name").fill("Rivka")
    page.get_by_role("button", name="Save for the dossier").click()
    expect(page.get_by_role("status")).to_contain_text("Rivka")
    expect(page.locator("[data-piece=b]")).to_have_attribute("transform", pattern("translate\\(4.5 .* rotate\\(15"))
    page.get_by_role("link", name="as a picture").click()
    assert page.url.split("?")[0].endswith("/image/fit")
    page.context.close()


def pattern(text: str) -> Any:
    import re

    return re.compile(text)
