"""A reduced photograph as the search for the fragment sees it: colours, strokes, and the surface without them."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
Mask = NDArray[np.bool_]

STROKE = 22  # grey levels by which something thin must differ from its surroundings to be a stroke


@dataclass(frozen=True)
class Sight:
    """A reduced photograph, all (rows, columns) or (rows, columns, 3)."""

    lab: Field  # CIE Lab, lightness 0 to 100, specks smoothed away
    bare: Field  # the same with dark strokes closed over: the surface that is written on
    written: Mask  # where something thin is darker or lighter than its surroundings
    reach: int  # px, more than the width of any stroke and less than that of tape


def look(small: NDArray[np.uint8]) -> Sight:
    """The sight of an RGB picture (rows, columns, 3)."""
    side = max(small.shape)
    smooth = cv2.medianBlur(small, 5 if side > 200 else 3)
    lab = np.asarray(cv2.cvtColor(np.asarray(smooth, np.float32) / np.float32(255), cv2.COLOR_RGB2LAB), np.float32)
    reach = max(7, round(0.014 * side))
    bare = lab.copy()
    bare[..., 0] = cv2.morphologyEx(lab[..., 0], cv2.MORPH_CLOSE, disc(2 * reach + 1))
    luminance = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    surroundings = cv2.medianBlur(luminance, max(7, round(0.035 * side) | 1))
    return Sight(lab, bare, np.asarray(cv2.absdiff(luminance, surroundings) > STROKE), reach)


def apart(lab: Field, colour: Field) -> Field:
    """(rows, columns) distance between colours (rows, columns, n) and others of that shape, or one."""
    difference = lab - colour
    return np.asarray(np.sqrt(np.einsum("...k,...k->...", difference, difference)), np.float32)


def sample(values: NDArray[np.float32], most: int = 4000) -> NDArray[np.float32]:
    """At most about `most` of `values`, evenly spread: enough for a median, in a tenth of the time."""
    return values[:: max(1, len(values) // most)]


def disc(side: int) -> NDArray[np.uint8]:
    """A round structuring element of odd `side` px."""
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side | 1, side | 1)), np.uint8)


def eroded(mask: Mask, side: int) -> Mask:
    """`mask` without a rim of half of `side` px."""
    return np.asarray(cv2.erode(mask.astype(np.uint8), np.ones((side | 1, side | 1), np.uint8)) > 0)


def closed(mask: Mask, reach: int) -> Mask:
    """`mask` with gaps narrower than twice `reach` px closed; beyond the frame it goes on as at the frame."""
    if reach < 1:
        return mask
    padded = cv2.copyMakeBorder(mask.astype(np.uint8), reach, reach, reach, reach, cv2.BORDER_REPLICATE)
    filled = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, disc(2 * reach + 1))
    return np.asarray(filled[reach:-reach, reach:-reach] > 0)
