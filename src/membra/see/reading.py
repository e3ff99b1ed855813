"""The reading of one piece of a photograph: its outline, the rotation of its writing, and its glyphs."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from membra.see.glyphs import Glyphs


def _no_outline() -> NDArray[np.int32]:
    return np.zeros((0, 2), np.int32)


def _no_lines() -> NDArray[np.float32]:
    return np.zeros((0, 4), np.float32)


def _no_ink() -> NDArray[np.uint8]:
    return np.zeros((0, 0), np.uint8)


def _same_pixels() -> NDArray[np.float64]:
    return np.eye(2, 3)


@dataclass(frozen=True)
class Reading:
    """One piece of a photograph. All coordinates are pixels of the photograph as displayed, x before y."""

    glyphs: Glyphs  # boxes along the photograph's axes; patches upright
    outline: NDArray[np.int32] = field(default_factory=_no_outline)  # (k, 2) of the piece; empty: all of the photograph
    angle: float | None = None  # degrees counter-clockwise from upright, 0 <= angle < 360; None: unknown
    letter_height: float = 0.0  # px; 0: not measured
    legibility: float = 1.0  # 0 to 1: how much reliable writing was found
    lines: NDArray[np.float32] = field(default_factory=_no_lines)  # (m, 4) x, y of a line's left and right end
    ink: NDArray[np.uint8] = field(default_factory=_no_ink)  # (h, w) 255 on ink, upright, letters at one height
    matrix: NDArray[np.float64] = field(default_factory=_same_pixels)  # (2, 3) from pixels of `ink` to the photograph's
