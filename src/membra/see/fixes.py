"""Applies a person's corrections to pieces, looks and readings: paint-outs, crops, splits, joins, dropped letters.

Corrections are in pixels of the photograph (`sources/fix.py`), and so apply at every scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import Look
from membra.see.geometry import Mask, Matrix
from membra.see.glyphs import Glyphs
from membra.see.reading import Reading
from membra.see.split import Pieces, reading_order
from membra.sources.fix import SAME, SIDES, Fix, overlaps

BY_HAND = "by hand"  # key of `Glyphs.dropped` that counts the glyphs that a person removed
MEANT = 0.5  # share of the smaller of two regions that the other covers, from which a fix applies to a piece
_SHIFT = 4  # fractional bits of the coordinates that OpenCV draws
Fixes = Sequence[Fix]


@dataclass(frozen=True)
class GivenRotation:
    """The rotation of the writing of a piece, as a person gave it."""

    angle: float  # degrees counter-clockwise
    exact: bool  # False: to the nearest quarter turn, to be refined by the text lines


def at_scale(scale: float) -> Matrix:
    """Return the matrix (2, 3) from the photograph to a look at `scale`."""
    return np.array([[scale, 0.0, 0.0], [0.0, scale, 0.0]])


def without_painted(look: Look, fixes: Fixes, matrix: Matrix) -> Look:
    """Clear ink and surface of a look where a person painted them out.

    `matrix` (2, 3) maps pixels of the photograph to those of the look.
    """
    shapes = [shape for fix in fixes if fix.kind == "paint-out" for shape in fix.value]
    if not shapes:
        return look
    painted = np.zeros(look.ink.shape, np.uint8)
    factor = float(np.hypot(matrix[0, 0], matrix[0, 1]))
    for shape in shapes:
        points = _drawn(shape["points"], matrix)
        if not shape["brush"]:
            cv2.fillPoly(painted, [points], 1, shift=_SHIFT)
            continue
        wide = max(1, round(shape["brush"] * factor))
        cv2.polylines(painted, [points], False, 1, wide, shift=_SHIFT)
        for x, y in points.tolist():  # round caps; for a stroke of one point, the whole stroke
            cv2.circle(painted, (x, y), (wide << _SHIFT) // 2, 1, -1, shift=_SHIFT)
    kept = painted == 0
    return replace(look, ink=np.where(kept, look.ink, 0), surface=np.where(kept, look.surface, 0))


def whole_crop(fixes: Fixes) -> tuple[int, int, int, int] | None:
    """Return the crop of the whole photograph as x, y, width, height, or None where there is none."""
    crops = [fix.value for fix in fixes if fix.kind == "crop" and not fix.where]
    return (crops[-1][0], crops[-1][1], crops[-1][2], crops[-1][3]) if crops else None


def how_many(fixes: Fixes) -> str | None:
    """Return `one` (the photograph is one piece) or `auto` (it is split), or None without such a correction."""
    given: list[str] = [fix.value for fix in fixes if fix.kind == "pieces"]
    return given[-1] if given else None


def rearranged(found: Pieces, scale: float, fixes: Fixes) -> Pieces:
    """Split and join the pieces of a look at `scale` as corrected, and number them in reading order."""
    if not any(fix.kind in ("split", "join") for fix in fixes):
        return found
    masks = [mask for mask in found.written() if mask.any()]  # a piece within another one is empty
    for fix in fixes:
        if fix.kind == "split":
            masks = [
                part
                for mask in masks
                for part in (_split(mask, scale, fix) if applies_to(fix, mask, scale) else [mask])
            ]
        elif fix.kind == "join":
            outlines = [replace(fix, where=tuple((x, y) for x, y in outline)) for outline in fix.value]
            one = [mask for mask in masks if any(applies_to(outline, mask, scale) for outline in outlines)]
            if len(one) > 1:
                apart = [mask for mask in masks if not any(mask is other for other in one)]
                masks = [_joined(one), *apart]
    labels = np.zeros(found.labels.shape, np.int32)
    for number, index in enumerate(reading_order(masks), start=1):
        labels[masks[index] & (labels == 0)] = number
    for number, chip in enumerate(found.chips(), start=len(masks) + 1):
        labels[chip & (labels == 0)] = number
    return Pieces(labels, len(masks))


def applies_to(fix: Fix, within: Mask, scale: float) -> bool:
    """Return whether a fix applies to the piece `within` (h, w) of a look at `scale`.

    It does where the outline that the piece had when it was corrected overlaps it enough (`MEANT`).
    """
    if not fix.where:
        return True
    region = np.zeros(within.shape, np.uint8)
    cv2.fillPoly(region, [_drawn(fix.where, at_scale(scale))], 1, shift=_SHIFT)
    both, smaller = float((within & (region > 0)).sum()), float(min(within.sum(), region.sum()))
    return both > 0 and both >= MEANT * smaller


def given_rotation(within: Mask, scale: float, fixes: Fixes) -> GivenRotation | None:
    """Return the rotation that a person gave for the piece `within` (h, w) of a look at `scale`; the latest counts."""
    given = [fix for fix in fixes if fix.kind in ("turn", "up") and applies_to(fix, within, scale)]
    if not given:
        return None
    exact = given[-1].kind == "turn"
    return GivenRotation(float(given[-1].value) if exact else SIDES[given[-1].value], exact)


def cropped(within: Mask, scale: float, fixes: Fixes) -> Mask:
    """Restrict the piece `within` (h, w) of a look at `scale` to its crop."""
    crops = [fix.value for fix in fixes if fix.kind == "crop" and fix.where and applies_to(fix, within, scale)]
    if not crops:
        return within
    x, y, wide, high = crops[-1]
    left, top, right, bottom = (round(value * scale) for value in (x, y, x + wide, y + high))
    inside = np.zeros(within.shape, bool)
    inside[top:bottom, left:right] = True
    return within & inside


def without_dropped(reading: Reading, fixes: Fixes) -> Reading:
    """Remove the glyphs that a person dropped, matched by the overlap of their boxes."""
    boxes = np.array([box for fix in fixes if fix.kind == "drop-letters" for box in fix.value], np.float64)
    glyphs = reading.glyphs
    if not len(boxes) or not len(glyphs):
        return reading
    kept = overlaps(glyphs.boxes, boxes.reshape(-1, 4)).max(axis=1) < SAME
    dropped = glyphs.dropped | {BY_HAND: glyphs.dropped.get(BY_HAND, 0) + int((~kept).sum())}
    return replace(reading, glyphs=Glyphs(glyphs.boxes[kept], glyphs.patches[kept], dropped, glyphs.turned))


def shifted(reading: Reading, crop: tuple[int, int, int, int]) -> Reading:
    """Translate the reading of a crop (x, y, width, height) to the pixels of the whole photograph."""
    x, y, wide, high = crop
    glyphs = reading.glyphs
    boxes = (glyphs.boxes + np.array([x, y, 0, 0])).astype(np.int32)
    edge = reading.outline if len(reading.outline) else np.array([[0, 0], [wide, 0], [wide, high], [0, high]])
    matrix = np.column_stack([reading.matrix[:, :2], reading.matrix[:, 2] + np.array([x, y])])
    return replace(
        reading,
        glyphs=replace(glyphs, boxes=boxes),
        outline=(edge + np.array([x, y])).astype(np.int32),
        lines=(reading.lines + np.array([x, y, x, y])).astype(np.float32),
        matrix=matrix,
    )


def _split(mask: Mask, scale: float, fix: Fix) -> list[Mask]:
    """Cut a piece (h, w) in two; unchanged where the fix is for another piece, or the piece lies all on one side."""
    if not applies_to(fix, mask, scale):
        return [mask]
    points = np.array(fix.value, np.float64) * scale
    if len(points) == 2:
        (x, y), (dx, dy) = points[0], points[1] - points[0]
        rows, columns = np.indices(mask.shape)
        side = (columns + 0.5 - x) * dy > (rows + 0.5 - y) * dx
    else:
        inside = np.zeros(mask.shape, np.uint8)
        cv2.fillPoly(inside, [_drawn(fix.value, at_scale(scale))], 1, shift=_SHIFT)
        side = inside > 0
    parts = [mask & side, mask & ~side]
    return parts if all(part.any() for part in parts) else [mask]


def _joined(masks: Sequence[Mask]) -> Mask:
    """Unite pieces (h, w), with a thin line between those that lie apart, so that the result has one outline."""
    union = masks[0]
    for mask in masks[1:]:
        ends = [_edge(part) for part in (union, mask)]
        apart = np.linalg.norm(ends[0][:, None] - ends[1][None], axis=2)
        one, other = np.unravel_index(int(apart.argmin()), apart.shape)
        both = (union | mask).astype(np.uint8)
        cv2.line(both, ends[0][one].tolist(), ends[1][other].tolist(), 1, 3)
        union = both > 0
    return np.asarray(union)


def _edge(mask: Mask) -> NDArray[np.int64]:
    """Return about 800 points (n, 2), or all if fewer, x, y, along the edge of a mask (h, w)."""
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    points = np.concatenate([part[:, 0] for part in outlines])
    return np.asarray(points[:: max(1, len(points) // 800)], np.int64)


def _drawn(points: Sequence[Sequence[int]], matrix: Matrix) -> NDArray[np.int32]:
    """Map points (n, 2) of the photograph by `matrix` to the fixed-point coordinates that OpenCV draws."""
    laid = np.asarray(points, np.float64).reshape(-1, 2) @ matrix[:, :2].T + matrix[:, 2] - 0.5
    return np.rint(laid * (1 << _SHIFT)).astype(np.int32)
