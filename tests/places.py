"""Compare where the browser paints a letter with where the overlay puts its box."""

import json
from io import BytesIO
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page, expect

# Photograph pixels to screen pixels from the overlay's mark-up; the picture below it is painted by OpenSeadragon.
MATRIX = """(side) => {
    const now = document.querySelector(`[data-viewer=${side}] .overlay g`).getScreenCTM();
    return [now.a, now.b, now.c, now.d, now.e, now.f];
}"""


def settled(page: Page) -> None:
    """Wait until tiles of the wanted size are painted and nothing moves."""
    page.wait_for_timeout(150)
    page.wait_for_function(
        "window.membra.viewers.every((one) => one.osd.world.getItemAt(0).getFullyLoaded() && !one.osd.isAnimating())"
    )
    page.wait_for_timeout(150)


def offset(page: Page, side: str, photograph: NDArray[np.uint8], least: int = 3) -> float:
    """Return by how many letter heights the lit boxes miss their letters, searched around each box.

    nan if fewer than `least` boxes are fully visible.
    """
    shown = json.loads(page.locator(f"[data-viewer={side}]").get_attribute("data-shown") or "{}")
    match = page.locator(".match[aria-current]")
    boxes = [shown["boxes"][int(at)] for at in (match.get_attribute(f"data-{side}") or "").split(",")]
    a, b, c, d, e, f = page.evaluate(MATRIX, side)
    scale = float(np.hypot(a, b))
    frame: Any = page.locator(f"[data-viewer={side}]").bounding_box()
    page.add_style_tag(content=".overlay { visibility: hidden }")
    screen = np.asarray(Image.open(BytesIO(page.screenshot())).convert("L"), float)
    page.evaluate("document.head.lastElementChild.remove()")
    # At the resolution of the screen.
    plain = np.asarray(Image.fromarray(photograph).convert("L"), np.float32)
    luminance = cv2.GaussianBlur(plain, (0, 0), max(0.5, 0.5 / scale))
    reach = round(0.6 * shown["letter"] * scale)  # screen px that are searched around each box
    expected, painted = [], []
    steps = [(du, dv) for du in range(-reach, reach + 1) for dv in range(-reach, reach + 1)]
    for x, y, wide, high in boxes:
        across, down = np.meshgrid(np.linspace(x - 3, x + wide + 3, 24), np.linspace(y - 3, y + high + 3, 24))
        # A pixel's colour is that of its centre, in the photograph and on the screen.
        x_middle, y_middle = across + 0.5, down + 0.5
        u, v = a * x_middle + c * y_middle + e - 0.5, b * x_middle + d * y_middle + f - 0.5
        inside = (u > frame["x"] + 2 + reach) & (u < frame["x"] + frame["width"] - 3 - reach)
        inside &= (v > frame["y"] + 2 + reach) & (v < frame["y"] + frame["height"] - 3 - reach)
        inside &= (v >= reach) & (v < screen.shape[0] - 1 - reach)  # the page may be scrolled
        if not inside.all():
            continue
        at = across.astype(np.float32), down.astype(np.float32)  # interpolated between pixels like in the browser
        expected.append(cv2.remap(luminance, *at, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).ravel())
        painted.append([screen[np.rint(v + dv).astype(int), np.rint(u + du).astype(int)].ravel() for du, dv in steps])
    if len(expected) < least:
        return float("nan")
    wanted = np.concatenate(expected)
    alike = [np.corrcoef(wanted, np.concatenate([one[step] for one in painted]))[0, 1] for step in range(len(steps))]
    assert max(alike) > 0.8, "these letters are nowhere near"
    return float(np.hypot(*steps[int(np.argmax(alike))]) / (shown["letter"] * scale))


def choose_most(page: Page) -> int:
    """Wait for both viewers and choose the match with most letters on both sides; return their number."""
    for side in ("a", "b"):
        expect(page.locator(f"[data-viewer={side}][data-ready=true]")).to_be_visible()
    kinds = page.locator(".match").evaluate_all(
        "(all) => all.map((one) => Math.min(one.dataset.a.split(',').length, one.dataset.b.split(',').length))"
    )
    page.locator(".match").nth(int(np.argmax(kinds))).click()
    page.evaluate("window.scrollTo(0, 0)")
    return int(max(kinds))
