"""The scene before the camera: the position of the page, and the composition of ink, sheet, table and ruler."""

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.page import Piece, Text
from membra.scribes.pen import Swept
from membra.scribes.scribe import Points
from membra.scribes.surfaces import Field, noise


@dataclass(frozen=True)
class View:
    """The transform from letter heights on the page to pixels of the photograph."""

    matrix: Points  # (2, 2) turn and scale
    offset: Points  # (2,) pixels
    waves: Points  # (k, 5) size, two frequencies, phase, direction of the sheet's swells, letter heights
    shape: tuple[int, int]  # height and width of the photograph, pixels


@dataclass(frozen=True)
class Strip:
    """A ruler, axis-aligned in the photograph, and the position of its upper left corner."""

    picture: Field
    row: int
    column: int


def view(outline: Points, scale: float, turn: float, generator: np.random.Generator) -> View:
    """Return the view of a piece with a border of table around it."""
    angle = np.deg2rad(turn)
    # counter-clockwise as seen, with y downwards
    matrix = scale * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    waves = np.column_stack(
        [
            generator.uniform(0.01, 0.06, 4),  # larger ones would make a line visibly crooked
            generator.normal(0.0, 0.25, (4, 2)),
            generator.uniform(0.0, 2.0 * np.pi, (4, 2)),
        ]
    )
    view = View(matrix, np.zeros(2), waves, (0, 0))
    points = place(view, outline)
    border = generator.uniform(0.8, 1.8, 4) * scale
    offset = border[:2] - points.min(axis=0)
    columns, rows = np.ceil(points.max(axis=0) + offset + border[2:]).astype(int)
    return replace(view, offset=offset, shape=(int(rows), int(columns)))


def place(view: View, points: Points) -> Points:
    """Return the pixels (n, 2) of page points (n, 2); 0, 0 is the outer corner of the first pixel."""
    moved = points.copy()
    for size, across, down, phase, direction in view.waves:
        swell = size * np.sin(points[:, 0] * across + points[:, 1] * down + phase)
        moved[:, 0] += swell * np.cos(direction)
        moved[:, 1] += swell * np.sin(direction)
    return np.asarray(moved @ view.matrix.T + view.offset)


def make_room(view: View, picture: Field, generator: np.random.Generator) -> tuple[View, Strip]:
    """Return a view enlarged for a ruler on a random side, clear of the piece, and the ruler."""
    side = int(generator.integers(4))
    if side >= 2:
        picture = np.ascontiguousarray(np.rot90(picture, 1 if side == 2 else 3))
        picture = picture[: view.shape[0]]
    else:
        picture = picture[:, : view.shape[1]]
    depth, length = picture.shape[:2]
    rows, columns = view.shape
    # the border that the view has around the piece stays between it and the ruler
    if side == 0:
        return replace(view, shape=(rows + depth + 8, columns)), Strip(picture, rows, 0)
    if side == 1:
        moved = view.offset + np.array([0.0, depth + 8.0])
        return replace(view, offset=moved, shape=(rows + depth + 8, columns)), Strip(picture, 8, 0)
    if side == 2:
        return replace(view, shape=(rows, columns + length + 8)), Strip(picture, 0, columns)
    moved = view.offset + np.array([length + 8.0, 0.0])
    return replace(view, offset=moved, shape=(rows, columns + length + 8)), Strip(picture, 0, 8)


def covered(view: View, piece: Piece) -> NDArray[np.bool_]:
    """Return (height, width) True on the piece."""
    mask = np.zeros(view.shape, np.uint8)
    cv2.fillPoly(mask, [_fixed(place(view, piece.outline))], 1, cv2.LINE_8, 4)
    for hole in piece.holes:
        cv2.fillPoly(mask, [_fixed(place(view, hole))], 0, cv2.LINE_8, 4)
    # a ragged edge can cut off crumbs; the largest connected component is kept
    count, parts, facts, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
    if count <= 1:
        return mask.astype(bool)
    return np.asarray(parts == 1 + int(np.argmax(facts[1:, cv2.CC_STAT_AREA])))


def ruled(view: View, sheet: Field, text: Text, generator: np.random.Generator) -> Field:
    """Add the scratched ruling, from which the letters hang."""
    strength = generator.uniform(0.0, 0.13)
    groove = np.zeros(view.shape, np.uint8)
    cv2.polylines(groove, _ruling(view, text), False, 255, 1, cv2.LINE_AA, 4)
    soft = cv2.GaussianBlur(groove, (0, 0), 0.8).astype(np.float32) / np.float32(255.0)
    # a scratched line has a dark and a bright side
    relief = soft - np.float32(0.7) * np.roll(soft, 2, axis=0)
    return np.asarray(sheet * (1.0 - np.float32(strength) * relief)[..., None], np.float32)


def drawn_ruling(view: View, sheet: Field, text: Text, generator: np.random.Generator, strength: float) -> Field:
    """Draw the ruling in lead or ink, with ``strength`` from 0, absent, to 1, as dark as pale writing."""
    if strength <= 0.0:
        return sheet
    scale = float(np.sqrt(np.linalg.det(view.matrix)))
    drawn = np.zeros(view.shape, np.uint8)
    thick = max(1, round(generator.uniform(0.02, 0.05) * scale))
    cv2.polylines(drawn, _ruling(view, text), False, 255, thick, cv2.LINE_AA, 4)
    soft = cv2.GaussianBlur(drawn, (0, 0), 0.6).astype(np.float32) / np.float32(255.0)
    # the pencil skips over the uneven sheet
    soft *= np.clip(0.8 + np.float32(0.3) * noise(view.shape, 1.2 * scale, generator), 0.0, 1.0)
    taken = soft * np.float32(0.15 + 0.5 * strength)
    tint = np.array([0.8, 0.9, 1.0] if generator.random() < 0.5 else [1.0, 1.0, 1.0], np.float32)
    return np.asarray(sheet * (1.0 - taken[..., None] * tint), np.float32)


def _ruling(view: View, text: Text) -> list[NDArray[np.int32]]:
    """Return the ruled lines of a page, fixed-point pixels (n, 2) each."""
    reach = np.linspace(-60.0, 60.0, 61)
    rows = [np.column_stack([reach, np.full(61, ruling)]) for ruling in text.rulings]
    if text.margin is not None:
        rows.append(np.column_stack([np.full(61, text.margin + 0.12), reach]))
    return [_fixed(place(view, row)) for row in rows]


def strength(
    swept: Swept, middle: Points, shape: tuple[int, int], scale: float, generator: np.random.Generator
) -> Field:
    """Return (height, width) the amount of ink, 0 to 1: full after each dip of the pen, then decreasing."""
    starts = np.concatenate([[0], np.flatnonzero(~swept.joined) + 1])
    dips = np.cumsum(generator.integers(9, 26, int(swept.letter.max(initial=0)) // 9 + 2))
    full = generator.uniform(0.90, 1.0)
    loss = generator.uniform(0.06, 0.26)
    layer = np.full(shape, full, np.float32)
    uneven = generator.normal(0.0, 0.045, len(starts))
    thick = max(1, round(0.24 * scale))
    points = _fixed(middle)
    for number, (first, last) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        letter = int(swept.letter[first])
        dip = int(np.searchsorted(dips, letter, side="right"))
        begun = int(dips[dip - 1]) if dip else 0
        share = (letter - begun) / (int(dips[dip]) - begun)
        value = float(np.clip(full - loss * share**1.5 + uneven[number], 0.5, 1.0))
        cv2.polylines(layer, [points[first:last]], False, value, thick, cv2.LINE_8, 4)
    soft = cv2.GaussianBlur(layer, (0, 0), 0.06 * scale)
    # unevenness of the pen, and rubbed places
    uneven_pen = np.float32(0.05) * noise(shape, 0.3 * scale, generator)
    rubbed = np.clip(noise(shape, 2.5 * scale, generator) - np.float32(generator.uniform(1.0, 2.2)), 0.0, 1.0)
    return np.asarray(np.clip(soft + uneven_pen - np.float32(0.35) * rubbed, 0.35, 1.0), np.float32)


def inked(
    sheet: Field,
    cover: Field,
    strength: Field,
    colour: tuple[float, float, float],
    scale: float,
    generator: np.random.Generator,
    behind: Field | None = None,
) -> Field:
    """Add ink of the given strength where a share ``cover`` of a pixel is inked.

    ``behind`` (height, width) is the writing on the other side; None: the mirror image of ``cover``.
    """
    # ink creeps along the fibres: edges are shifted by noise of the size of a fibre
    fibres = np.clip(noise(cover.shape, max(1.5, 0.045 * scale), generator), -2.0, 2.0)
    soft = cv2.GaussianBlur(cover, (0, 0), 0.02 * scale)
    edge = np.clip((soft + np.float32(0.10) * fibres) * np.float32(1.7) - np.float32(0.35), 0.0, 1.0)
    # the other side of the leaf shows through; the mirror image of this side serves as its text
    behind = np.ascontiguousarray(cover[:, ::-1]) if behind is None else behind
    shine = 1.0 - np.float32(generator.uniform(0.0, 0.07)) * cv2.GaussianBlur(behind, (0, 0), 0.08 * scale)
    share = edge * strength
    tone = np.array(colour, np.float32) * np.float32(generator.uniform(0.85, 1.2))
    written = sheet * (shine * (1.0 - share))[..., None]
    written += share[..., None] * tone
    return np.asarray(written, np.float32)


def laid(sheet: Field, mask: NDArray[np.bool_], below: Field) -> Field:
    """Composite the sheet on the table, blended over a pixel at the edge."""
    share = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 0.6)[..., None]
    picture = below * (1.0 - share)
    picture += sheet * share
    return np.asarray(picture, np.float32)


def set_down(picture: Field, strip: Strip) -> NDArray[np.bool_]:
    """Put the ruler into ``picture`` in place; return (height, width) True on it."""
    rows, columns = strip.picture.shape[:2]
    at = (slice(strip.row, strip.row + rows), slice(strip.column, strip.column + columns))
    picture[at] = strip.picture
    beside = np.zeros(picture.shape[:2], bool)
    beside[at] = True
    return beside


def _fixed(points: Points) -> NDArray[np.int32]:
    """Convert pixels measured from corners to the fixed-point pixel centres of OpenCV."""
    return np.rint((points - 0.5) * 16.0).astype(np.int32)
