"""Which way is up: the angle of the writing over the whole circle, from what the eye sees and from the lines of ink."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import STRIDE, Look

NEAR = np.arange(-12.0, 12.01, 0.5)  # degrees about the eye's angle that lines are looked for at
SURE = 0.35  # length of the mean direction, 0 to 1, from which on the angle counts as known


def ink_by_cell(look: Look, within: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    """(rows, columns) the share of ink in each cell of the fields, `within` (h, w) only if given.

    Specks do not count: components lower and narrower than a third of what the eye takes for a letter there. The
    fibres of a tape would else pass for tiny writing.
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
    """Rows and columns of the cells of the fields in which components with these `centres` (n, 2) x, y lie."""
    within = np.nan_to_num(centres // STRIDE)  # a picture full of ink has no background, which has no centre
    column, row = np.clip(within, 0, np.array(look.height.shape[::-1]) - 1).astype(np.intp).T
    return row, column


def direction(look: Look, weight: NDArray[np.float32]) -> tuple[float, float]:
    """The mean direction of the writing in degrees counter-clockwise, and its length: 1 where all cells agree.

    `weight` (rows, columns) says how much each cell counts.
    """
    total = float(weight.sum())
    if total == 0:
        return 0.0, 0.0
    across, up = ((part * weight).sum() / total for part in look.turn)
    return float(np.degrees(np.arctan2(up, across))), float(np.hypot(across, up))


def letter_height(look: Look, weight: NDArray[np.float32]) -> float:
    """The median of the letters' height in px of the picture that was looked at; 0 where there is no ink."""
    if not weight.any():
        return 0.0
    order = np.argsort(look.height, axis=None)
    share = np.cumsum(weight.ravel()[order])
    return float(look.height.ravel()[order][int(np.searchsorted(share, share[-1] / 2))])


def along_lines(ink: NDArray[np.bool_], angle: float, height: float) -> float:
    """The angle near `angle` under which the ink (h, w) falls into lines best, in degrees counter-clockwise."""
    points = _points(ink)
    if points is None:
        return angle
    # a little weight on the eye's own angle: with few letters every angle makes some rows
    sharp = [_sharpness(*points, angle + tilt, height) * (1 - 0.0012 * tilt * tilt) for tilt in NEAR.tolist()]
    return angle + float(NEAR[int(np.argmax(sharp))])


def in_lines(ink: NDArray[np.bool_], angle: float, height: float) -> float:
    """How far the ink (h, w) falls into lines at this angle, to be compared with that at another; 0: too little ink."""
    points = _points(ink)
    return 0.0 if points is None else _sharpness(*points, angle, height)


def _points(ink: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """x and y of some 40,000 pixels of ink, which are enough to find lines; None where there are too few."""
    y, x = np.nonzero(ink)
    if len(x) < 50:
        return None
    step = max(1, len(x) // 40_000)
    return x[::step].astype(np.float32), y[::step].astype(np.float32)


def _sharpness(x: NDArray[np.float32], y: NDArray[np.float32], angle: float, height: float) -> float:
    """How much rows of points differ from the next once they are turned upright by `angle` degrees.

    Rows are counted in steps of a sixth of a letter's `height` (px); at the right angle they differ most. The
    differences of neighbouring rows are taken, because the outline of a piece changes the sums too, but slowly.
    """
    turned = np.deg2rad(angle)
    # a point's place across the lines, once the writing stands upright
    down = (x * np.sin(turned) + y * np.cos(turned)) / max(1.0, height / 6)
    counts = np.bincount((down - down.min()).astype(np.int64)).astype(np.float64)
    rows = np.convolve(counts, (0.25, 0.5, 0.25))
    return float(np.square(np.diff(rows)).sum())
