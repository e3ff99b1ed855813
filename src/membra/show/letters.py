"""Real letters cut out of photographs, brought to one height so that the eye can compare them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MARGIN = 0.25  # letter heights around a letter: its surface, and a little of its neighbours


def cut_letter(
    photograph: NDArray[np.uint8], box: Sequence[int], letter_height: float, *, height: int = 48, turn: bool = False
) -> Image.Image:
    """One letter of an RGB photograph, scaled so that letters of `letter_height` px become `height` px high.

    `box` is x, y, width, height. `turn`: the lines run up or down; the letter is set upright by a quarter turn.
    """
    x, y, wide, high = (int(value) for value in box)
    around = round(MARGIN * letter_height)
    rows, columns = photograph.shape[:2]
    left, top = max(0, x - around), max(0, y - around)
    right, bottom = min(columns, x + wide + around), min(rows, y + high + around)
    if right <= left or bottom <= top:  # the photograph is another one than was described
        return Image.new("RGB", (height, height), "white")
    cut = Image.fromarray(np.ascontiguousarray(photograph[top:bottom, left:right]))
    if turn:
        cut = cut.transpose(Image.Transpose.ROTATE_90)
    # At most four times as high as a letter and twelve times as long: what ran together must not fill the page.
    scale = min(height / max(letter_height, 1.0), 4 * height / cut.height, 12 * height / cut.width)
    size = max(1, round(cut.width * scale)), max(1, round(cut.height * scale))
    return cut.resize(size, Image.Resampling.LANCZOS)


def strip(letters: Sequence[Image.Image], *, gap: int = 6, paper: str = "#ffffff") -> Image.Image:
    """Letters side by side, standing on one line, as one picture."""
    wide = sum(letter.width for letter in letters) + gap * max(0, len(letters) - 1)
    high = max((letter.height for letter in letters), default=1)
    sheet = Image.new("RGB", (max(1, wide), high), paper)
    left = 0
    for letter in letters:
        sheet.paste(letter, (left, (high - letter.height) // 2))
        left += letter.width + gap
    return sheet
