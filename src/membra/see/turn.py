"""Estimates the rotation of writing over the full circle, from the eye's output and from the text lines."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import STRIDE, Look

NEAR = np.arange(-12.0, 12.01, 0.5)  # degrees, offsets from the eye's angle at which lines are searched
SURE = 0.35  # length of the mean direction, 0 to 1, from which the angle counts as known


def ink_by_cell(look: Look, within: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    """Return the share of ink (rows, columns) in each cell of the fields, restricted to the mask `within` (h, w).

    Specks are left out: components whose longer side is less than a third of the eye's letter height there. Otherwise
    the fibres of a tape would count as tiny writing.
    """
    ink = look.ink > 127
    if within is not None:
        ink = ink & within
    _, labels, stats, centres = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    longer = np.maximum(stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT])
    kept = longer >= np.maximum(look.height[cells_at(np.asarray(centres), look)] / 3, 4)
    kept[0] = False
    ink = kept[labels]
    rows, columns = look.height.shape
    padded = np.zeros((rows * STRIDE, columns * STRIDE), np.float32)
    padded[: ink.shape[0], : ink.shape[1]] = ink
    return np.asarray(cv2.resize(padded, (columns, rows), interpolation=cv2.INTER_AREA), np.float32)


def cells_at(centres: NDArray[Any], look: Look) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the cells of the fields that contain `centres` (n, 2) x, y of components."""
    within = np.nan_to_num(centres // STRIDE)  # in a picture full of ink, the background's centre is NaN
    column, row = np.clip(within, 0, np.array(look.height.shape[::-1]) - 1).astype(np.intp).T
    return row, column


def direction(look: Look, weight: NDArray[np.float32]) -> tuple[float, float]:
    """Return the mean direction of the writing in degrees counter-clockwise, and its length: 1 where all cells agree.

    `weight` (rows, columns) is the weight of each cell.
    """
    total = float(weight.sum())
    if total == 0:
        return 0.0, 0.0
    across, up = ((part * weight).sum() / total for part in look.turn)
    return float(np.degrees(np.arctan2(up, across))), float(np.hypot(across, up))


def letter_height(look: Look, weight: NDArray[np.float32]) -> float:
    """Return the median letter height in px of the picture, cells weighted by `weight`; 0 where there is no ink."""
    if not weight.any():
        return 0.0
    order = np.argsort(look.height, axis=None)
    share = np.cumsum(weight.ravel()[order])
    return float(look.height.ravel()[order][int(np.searchsorted(share, share[-1] / 2))])


def along_lines(ink: NDArray[np.bool_], angle: float, height: float) -> float:
    """Return the angle near `angle` at which the ink (h, w) forms the sharpest lines, in degrees counter-clockwise."""
    points = _points(ink)
    if points is None:
        return angle
    # a small prior for the eye's own angle: with few letters every angle gives some rows
    sharp = [_sharpness(*points, angle + tilt, height) * (1 - 0.0012 * tilt * tilt) for tilt in NEAR.tolist()]
    return angle + float(NEAR[int(np.argmax(sharp))])


def in_lines(ink: NDArray[np.bool_], angle: float, height: float) -> float:
    """Return the sharpness of the lines of ink (h, w) at this angle, in arbitrary units; 0: too little ink."""
    points = _points(ink)
    return 0.0 if points is None else _sharpness(*points, angle, height)


def _points(ink: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Return x and y of 40,000 to 80,000 pixels of ink, or of all if fewer; None where there are fewer than 50."""
    y, x = np.nonzero(ink)
    if len(x) < 50:
        return None
    step = max(1, len(x) // 40_000)
    return x[::step].astype(np.float32), y[::step].astype(np.float32)


def _sharpness(x: NDArray[np.float32], y: NDArray[np.float32], angle: float, height: float) -> float:
    """Return the sum of squared differences of the projection profile of points, rotated upright by `angle` degrees.

    The rows of the profile are a sixth of the letter `height` (px) high; at the correct angle they differ most.
    Differences of neighbouring rows are taken, because the outline of a piece changes the sums as well, but gradually.
    """
    turned = np.deg2rad(angle)
    # coordinate of a point across the lines, in rows, once the writing is upright
    down = (x * np.sin(turned) + y * np.cos(turned)) / max(1.0, height / 6)
    counts = np.bincount((down - down.min()).astype(np.int64)).astype(np.float64)
    rows = np.convolve(counts, (0.25, 0.5, 0.25))
    return float(np.square(np.diff(rows)).sum())
