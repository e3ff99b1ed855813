"""One picture of rankings: a query per row, with its first candidates marked right or wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from membra.show.strips import INK, PAPER
from membra.show.upright import upright_view
from membra.sources.photograph import read_photograph

_CELL = 220  # px, size of one fragment in the picture
_GAP = 14
_RIGHT, _WRONG = "#1b7f4d", "#c0392b"

# A candidate of a row: its small image, its caption, and whether it is a mate.
Cell = tuple[Image.Image, str, bool]


def thumbnail(
    path: Path, side: int = _CELL, angle: float | None = None, outline: NDArray[np.int32] | None = None
) -> Image.Image:
    """Draw the photograph, or its piece within `outline`, upright within a square of `side` px."""
    photograph = read_photograph(path)
    return upright_view((photograph.shape[1], photograph.shape[0]), angle, outline).within(side).draw(photograph)


def draw_rankings(lines: Sequence[tuple[Image.Image, str, Sequence[Cell]]]) -> Image.Image:
    """Draw a picture with one row for each (query, caption, candidates).

    Right candidates have a solid green frame and a check mark, wrong ones a dashed red frame and a cross, so that the
    picture is readable without colour.
    """
    columns = 1 + max((len(cells) for _, _, cells in lines), default=0)
    font = label_font(14)
    step, row = _CELL + _GAP, _CELL + _GAP + 26
    sheet = Image.new("RGB", (columns * step + 3 * _GAP, max(1, len(lines)) * row + _GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    for line, (query, caption, cells) in enumerate(lines):
        top = _GAP + line * row
        _place(sheet, query, (_GAP, top))
        draw.rectangle((_GAP, top, _GAP + _CELL, top + _CELL), outline=INK, width=2)
        draw.text((_GAP, top + _CELL + 4), _plain(caption), fill=INK, font=font)
        for index, (image, label, right) in enumerate(cells):
            left = 3 * _GAP + (index + 1) * step - _GAP
            _place(sheet, image, (left, top))
            _frame(draw, left, top, right)
            draw.text((left, top + _CELL + 4), _plain(label), fill=_RIGHT if right else _WRONG, font=font)
            _mark(draw, left + _CELL - 24, top + 8, right)
    return sheet


def _plain(label: str) -> str:
    """Return the label on one line, cut to the width of a picture."""
    return " ".join(label.split())[:30]


def _place(sheet: Image.Image, image: Image.Image, corner: tuple[int, int]) -> None:
    sheet.paste(ImageOps.pad(image, (_CELL, _CELL), color=PAPER), corner)


def _frame(draw: ImageDraw.ImageDraw, left: int, top: int, right: bool) -> None:
    if right:
        draw.rectangle((left, top, left + _CELL, top + _CELL), outline=_RIGHT, width=4)
        return
    for start in range(0, _CELL, 16):
        end = min(start + 9, _CELL)
        for a, b in (
            ((start, 0), (end, 0)),
            ((start, _CELL), (end, _CELL)),
            ((0, start), (0, end)),
            ((_CELL, start), (_CELL, end)),
        ):
            draw.line((left + a[0], top + a[1], left + b[0], top + b[1]), fill=_WRONG, width=3)


def _mark(draw: ImageDraw.ImageDraw, x: int, y: int, right: bool) -> None:
    draw.ellipse((x - 5, y - 5, x + 21, y + 21), fill=_RIGHT if right else _WRONG)
    strokes = (
        [(x + 2, y + 8, x + 7, y + 13), (x + 7, y + 13, x + 15, y + 3)]
        if right
        else [
            (x + 3, y + 3, x + 13, y + 13),
            (x + 13, y + 3, x + 3, y + 13),
        ]
    )
    for stroke in strokes:
        draw.line(stroke, fill="white", width=3)


def label_font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font for names in pictures: it comes with matplotlib and includes Hebrew."""
    from matplotlib import font_manager

    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)
