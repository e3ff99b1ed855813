"""Overlay of what membra sees on a photograph: surface, ink, lines, letters, and which way is up."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from membra.describe.recipe import DOUBTFUL
from membra.see.reading import Reading
from membra.show.picture import label_font
from membra.show.upright import View, turn_upright, upright_sizes

MIN_SIDE, MAX_SIDE = 1000, 3200  # px, longer side of a picture: small photographs are enlarged, large ones shrunk
DIM = 0.35  # weight of the photograph outside the writing surface
TINT = 0.55  # opacity of the ink's colour
# Colours distinguishable for the colour-blind (Okabe and Ito); legend and shapes distinguish them as well.
SURFACE, INK, LINE, LETTER = (0, 158, 115), (213, 94, 0), (204, 121, 167), (0, 114, 178)
ARROW, DOUBT = (240, 228, 66), (230, 159, 0)
_LIGHT, _DARK, _PAPER = (255, 255, 255), (43, 38, 34), (250, 248, 244)
_SUBPIXEL = 4  # fractional bits, for smooth lines
_IN_WORDS = 12  # pieces that the legend lists individually

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Piece:
    """One piece of a photograph for drawing and for the legend."""

    reading: Reading
    number: int = 0  # from 1 in reading order; 0: the photograph shows only one, or it has no writing
    note: str = ""

    @property
    def doubtful(self) -> bool:
        return DOUBTFUL in self.note.split(", ")


def numbered(readings: Sequence[Reading], notes: Sequence[str]) -> list[Piece]:
    """Number pieces like their fragments: those with letters, if there are several."""
    written = [index for index, reading in enumerate(readings) if len(reading.glyphs)]
    numbers = {index: number for number, index in enumerate(written, start=1)} if len(written) > 1 else {}
    return [
        Piece(reading, numbers.get(index, 0), note)
        for index, (reading, note) in enumerate(zip(readings, notes, strict=True))
    ]


def plain_view(photograph: Picture) -> View:
    """Return the view of a photograph as displayed, at a size that makes its overlay legible."""
    height, width = photograph.shape[:2]
    longer = max(width, height)
    return View(np.eye(2, 3), width, height).scaled(min(max(longer, MIN_SIDE), MAX_SIDE) / longer)


def draw_overlay(photograph: Picture, pieces: Sequence[Piece], view: View) -> Image.Image:
    """Draw the photograph in `view` with the overlay of its pieces."""
    picture = np.array(view.draw(photograph))
    picture = _dimmed(picture, pieces, view)
    for piece in pieces:
        picture = _inked(picture, piece.reading, view)
    width = max(1, round(max(picture.shape[:2]) / 900))
    for piece in pieces:
        _draw_lines(picture, piece.reading, view, width)
        _draw_letters(picture, piece.reading, view, width)
    for piece in pieces:
        if len(piece.reading.outline):
            points = view.points(piece.reading.outline)
            _stroke(picture, [points], DOUBT if piece.doubtful else SURFACE, width + 1, dashed=piece.doubtful)
    image = Image.fromarray(picture)
    for piece in pieces:
        _label(image, piece, view)
    return image


def with_legend(image: Image.Image, title: str, pieces: Sequence[Piece]) -> Image.Image:
    """Add a legend below the picture: its colours, and one line per piece."""
    size = max(13, min(30, max(image.size) // 75))
    font, gap = label_font(size), size // 2
    lines = [title, *(in_words(piece) for piece in pieces[:_IN_WORDS])]
    if len(pieces) > _IN_WORDS:
        lines.append(f"and {len(pieces) - _IN_WORDS} more pieces")
    keys: list[tuple[str, Colour]] = [
        ("writing surface", SURFACE),
        ("ink", INK),
        ("line", LINE),
        ("letter", LETTER),
        ("the arrow points up", ARROW),
        ("doubtful", DOUBT),
    ]
    rows = _wrapped([(f"  {word}   ", colour) for word, colour in keys], font, image.width - 2 * gap, size)
    high = gap + (len(rows) + len(lines)) * (size + gap) + gap
    sheet = Image.new("RGB", (image.width, image.height + high), _PAPER)
    sheet.paste(image, (0, 0))
    draw, y = ImageDraw.Draw(sheet), image.height + gap
    for row in rows:
        x = float(gap)
        for word, colour in row:
            draw.rectangle((x, y + 2, x + size, y + size), fill=colour, outline=_DARK)
            draw.text((x + size, y), word, fill=_DARK, font=font)
            x += size + draw.textlength(word, font=font)
        y += size + gap
    for line in lines:
        draw.text((gap, y), _cut(" ".join(line.split()), font, image.width - 2 * gap), fill=_DARK, font=font)
        y += size + gap
    return sheet


def in_words(piece: Piece) -> str:
    """Return one line of text about a piece.

    >>> from membra.see.glyphs import Glyphs
    >>> nothing = Glyphs(np.zeros((0, 4), np.int32), np.zeros((0, 64, 64), np.uint8), {})
    >>> in_words(Piece(Reading(nothing, angle=None, legibility=0.1), number=2, note="doubtful"))
    'piece 2: 0 letters, upright orientation uncertain, legibility 0.10; doubtful'
    """
    seen = piece.reading
    high = f" {seen.letter_height:.0f} px high" if seen.letter_height else ""
    turned = "upright orientation uncertain" if seen.angle is None else f"turned by {seen.angle:.0f}°"
    text = f"{len(seen.glyphs)} letters{high}, {turned}, legibility {seen.legibility:.2f}"
    return f"{f'piece {piece.number}: ' if piece.number else ''}{text}{f'; {piece.note}' if piece.note else ''}"


def _dimmed(picture: Picture, pieces: Sequence[Piece], view: View) -> Picture:
    """Darken and grey everything outside the writing surface. A piece without an outline is all of the photograph."""
    outlines = [piece.reading.outline for piece in pieces]
    if not all(len(outline) for outline in outlines) or not outlines:
        return picture
    inside = np.zeros(picture.shape[:2], np.uint8)
    cv2.fillPoly(inside, [_fixed(view.points(outline)) for outline in outlines], 255, cv2.LINE_AA, _SUBPIXEL)
    grey = picture.mean(axis=2, keepdims=True) * DIM + 40 * (1 - DIM)
    return _blended(picture, grey, 1 - inside / 255.0)


def _inked(picture: Picture, reading: Reading, view: View) -> Picture:
    """Colour the ink."""
    if reading.ink.size == 0:
        return picture
    matrix = view.matrix[:, :2] @ reading.matrix + np.column_stack([np.zeros((2, 2)), view.matrix[:, 2]])
    scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
    ink = reading.ink
    if scale < 0.5:  # otherwise thin strokes would be lost
        size = max(1, round(ink.shape[1] * scale)), max(1, round(ink.shape[0] * scale))
        matrix = matrix @ np.diag([ink.shape[1] / size[0], ink.shape[0] / size[1], 1.0])
        ink = np.asarray(cv2.resize(ink, size, interpolation=cv2.INTER_AREA), np.uint8)
    there = cv2.warpAffine(ink, matrix, (picture.shape[1], picture.shape[0]), flags=cv2.INTER_LINEAR)
    return _blended(picture, np.array(INK, np.float64), np.asarray(there, np.float64) * (TINT / 255))


def _draw_lines(picture: Picture, reading: Reading, view: View, width: int) -> None:
    for line in reading.lines.reshape(-1, 2, 2):
        _stroke(picture, [view.points(line)], LINE, width, closed=False)


def _draw_letters(picture: Picture, reading: Reading, view: View, width: int) -> None:
    """Draw a box around each letter, rotated with the writing."""
    boxes = reading.glyphs.boxes.astype(np.float64)
    if len(boxes) == 0:
        return
    middles = boxes[:, :2] + boxes[:, 2:] / 2
    halves = upright_sizes(boxes, reading.angle) / 2
    signs = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    corners = (halves[:, None] * signs) @ turn_upright(reading.angle) + middles[:, None]  # transposed: back again
    thin = np.median(halves[:, 1]) * view.scale < 10  # a thick frame would hide a small letter
    _stroke(picture, [view.points(box) for box in corners], LETTER, 1 if thin else width)


def _label(image: Image.Image, piece: Piece, view: View) -> None:
    """Draw an arrow to the top of the writing, with number, angle and legibility beside it."""
    seen = piece.reading
    size = max(12, min(34, max(image.size) // 60))
    font, radius = label_font(size), 1.3 * size
    draw = ImageDraw.Draw(image, "RGBA")
    angle = "?" if seen.angle is None else f"{seen.angle:.0f}°"
    text = "  ".join(filter(None, (f"{piece.number or ''}", angle, f"{seen.legibility:.2f}")))
    text += "  △" if piece.doubtful else ""
    wide, gap = draw.textlength(text, font=font), size / 3
    around = seen.outline if len(seen.outline) else seen.glyphs.boxes[:, :2]
    corner = view.points(around).min(axis=0) if len(around) else np.zeros(2)
    length = 2 * radius + wide + 3 * gap
    x = float(np.clip(corner[0], 0, max(0, image.width - length - 1)))
    y = float(np.clip(corner[1] - 2.2 * radius, 0, max(0, image.height - 2 * radius - 1)))  # above it if possible
    draw.rounded_rectangle((x, y, x + length, y + 2 * radius), radius, fill=(*_DARK, 215), outline=(*_LIGHT, 160))
    draw.text(
        (x + 2 * radius + gap, y + radius), text, fill=DOUBT if piece.doubtful else _LIGHT, font=font, anchor="lm"
    )
    middle = np.array((x + radius, y + radius))
    if seen.angle is None:
        draw.text((middle[0], middle[1]), "?", fill=ARROW, font=font, anchor="mm")
        return
    up = view.matrix[:, :2] / view.scale @ turn_upright(seen.angle).T @ (0.0, -1.0)
    side = np.array((-up[1], up[0]))
    reach = 0.8 * radius
    shape = [up, 0.55 * side - 0.05 * up, 0.16 * side - 0.05 * up, 0.16 * side - up]
    shape += [-0.16 * side - up, -0.16 * side - 0.05 * up, -0.55 * side - 0.05 * up]
    draw.polygon([tuple((middle + reach * point).tolist()) for point in shape], fill=ARROW)


def _stroke(
    picture: Picture,
    shapes: Sequence[NDArray[np.float64]],
    colour: Colour,
    width: int,
    *,
    closed: bool = True,
    dashed: bool = False,
) -> None:
    """Draw lines through points (n, 2) with a light edge, visible on dark and light ground."""
    if dashed:
        shapes, closed = [part for shape in shapes for part in _dashes(shape, 14.0 * width, 8.0 * width)], False
    fixed = [_fixed(shape) for shape in shapes]
    for ink, wide in ((_LIGHT, width + 2), (colour, width)) if width > 1 else ((colour, width),):
        cv2.polylines(picture, fixed, closed, ink, wide, cv2.LINE_AA, _SUBPIXEL)


def _dashes(shape: NDArray[np.float64], on: float, off: float) -> list[NDArray[np.float64]]:
    """Split the closed line through points (n, 2) into dashes of `on` px with gaps of `off` px."""
    ring = np.concatenate([shape, shape[:1]])
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(ring, axis=0), axis=1))])
    parts = []
    for start in np.arange(0, along[-1], on + off):
        end = min(start + on, along[-1])
        at = np.concatenate([[start], along[(along > start) & (along < end)], [end]])
        parts.append(np.stack([np.interp(at, along, ring[:, 0]), np.interp(at, along, ring[:, 1])], axis=1))
    return parts


def _fixed(points: NDArray[np.float64]) -> NDArray[np.int32]:
    """Convert to OpenCV's fixed-point coordinates, clipped to its integer range."""
    return np.asarray(np.rint(np.clip(points - 0.5, -100_000, 100_000) * 2**_SUBPIXEL), np.int32)


def _blended(picture: Picture, colour: NDArray[np.float64], share: NDArray[np.float64]) -> Picture:
    """Blend `share` (height, width) of `colour` into the picture. Works by rows, to bound the memory."""
    out = np.empty_like(picture)
    for top in range(0, len(picture), 256):
        rows = slice(top, top + 256)
        part = share[rows, :, None].astype(np.float32)
        over = colour[rows] if colour.ndim == 3 else colour
        out[rows] = np.rint(picture[rows] * (1 - part) + over * part).astype(np.uint8)
    return out


def _wrapped(
    words: Sequence[tuple[str, Colour]], font: ImageFont.FreeTypeFont, width: float, swatch: int
) -> list[list[tuple[str, Colour]]]:
    """Wrap the keys of the legend into rows."""
    rows: list[list[tuple[str, Colour]]] = [[]]
    left = width
    for word in words:
        needs = swatch + font.getlength(word[0])
        if needs > left and rows[-1]:
            rows.append([])
            left = width
        rows[-1].append(word)
        left -= needs
    return rows


def _cut(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Shorten a text to the given width."""
    while len(text) > 1 and font.getlength(text) > width:
        text = text[: max(1, int(len(text) * 0.9) - 1)] + "…"
    return text
