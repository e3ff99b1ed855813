"""Letters cut out of photographs, upright and scaled to one height for comparison by eye.

Also what every picture and page needs to show them: colours, and pictures as bytes and as data URIs.
"""

import base64
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from membra.show.upright import View, turn_upright, upright_sizes

INK, PAPER = "#2b2622", "#faf8f4"  # for text and ground beside photographs
# Colours distinguishable for the colour-blind (Okabe and Ito); every frame also has a number.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARGIN = 0.25  # letter heights around a letter, which show surface and a little of its neighbours


def cut_letter(
    photograph: NDArray[np.uint8],
    box: Sequence[int],
    letter_height: float,
    *,
    height: int = 48,
    angle: float | None = None,
) -> Image.Image:
    """Cut out a letter of an RGB photograph, upright, scaled so that `letter_height` px become `height` px.

    `box` is x, y, width, height along the photograph's axes; `angle` is the rotation of the writing in degrees
    counter-clockwise. None: not rotated.
    """
    x, y, wide, high = (int(value) for value in box)
    rows, columns = photograph.shape[:2]
    if x >= columns or y >= rows or x + wide <= 0 or y + high <= 0:  # the photograph was replaced since then
        return Image.new("RGB", (height, height), "white")
    turn = turn_upright(angle)
    size = upright_sizes(np.array([box]), angle)[0]
    middle = turn @ (x + wide / 2, y + high / 2)
    around = round(MARGIN * letter_height)
    low, far = middle - size / 2 - around, middle + size / 2 + around
    if not angle:  # clipped to the photograph; a rotated crop may extend beyond it
        low, far = np.maximum(low, 0), np.minimum(far, (columns, rows))
    size = far - low
    # At most four times as high as a letter and twelve times as long: connected letters must not fill the page.
    scale = min(height / max(letter_height, 1.0), 4 * height / size[1], 12 * height / size[0])
    shown = np.maximum(np.rint(size * scale), 1).astype(int).tolist()
    return View(scale * np.column_stack([turn, -low]), shown[0], shown[1]).draw(photograph)


def strip(letters: Sequence[Image.Image], *, gap: int = 6, paper: str = PAPER) -> Image.Image:
    """Put letters side by side, vertically centred, into one picture."""
    wide = sum(letter.width for letter in letters) + gap * max(0, len(letters) - 1)
    high = max((letter.height for letter in letters), default=1)
    sheet = Image.new("RGB", (max(1, wide), high), paper)
    left = 0
    for letter in letters:
        sheet.paste(letter, (left, (high - letter.height) // 2))
        left += letter.width + gap
    return sheet


def kind_colour(number: int) -> str:
    """Return the colour of the kind of letters with this number, from 1."""
    return COLOURS[(number - 1) % len(COLOURS)]


def encoded(image: Image.Image, format: str = "JPEG", quality: int = 85, *, optimize: bool = False) -> bytes:
    """Encode a picture; `quality` applies only to JPEG. `optimize`: smaller, but slower."""
    content = BytesIO()
    image.save(content, format, quality=quality, optimize=optimize)
    return content.getvalue()


def data_uri(image: Image.Image, quality: int = 80) -> str:
    """Return a picture as a data URI."""
    return f"data:image/jpeg;base64,{base64.b64encode(encoded(image, quality=quality, optimize=True)).decode()}"
