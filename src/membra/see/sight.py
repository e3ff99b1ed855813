"""Features of a reduced photograph for segmenting the fragment: colours, strokes, and the surface without strokes."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
Mask = NDArray[np.bool_]

STROKE = 22  # grey levels by which a thin structure must differ from its surroundings to be a stroke


@dataclass(frozen=True)
class Sight:
    """Features of a reduced photograph, each (rows, columns) or (rows, columns, 3)."""

    lab: Field  # CIE Lab, lightness 0 to 100, median-filtered
    bare: Field  # the same after a morphological closing of dark strokes: the surface that is written on
    written: Mask  # thin structures that are darker or lighter than their surroundings
    reach: int  # px, more than the width of any stroke and less than that of tape


def look(small: NDArray[np.uint8]) -> Sight:
    """Compute the features of an RGB picture (rows, columns, 3)."""
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
    """Return the Euclidean distance (rows, columns) of colours (rows, columns, n) from others of that shape, or one."""
    difference = lab - colour
    return np.asarray(np.sqrt(np.einsum("...k,...k->...", difference, difference)), np.float32)


def sample(values: NDArray[np.float32], most: int = 4000) -> NDArray[np.float32]:
    """Return about `most` of `values`, evenly spaced: enough for a median, in a tenth of the time."""
    return values[:: max(1, len(values) // most)]


def disc(side: int) -> NDArray[np.uint8]:
    """Return a round structuring element of `side` px, made odd."""
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side | 1, side | 1)), np.uint8)


def eroded(mask: Mask, side: int) -> Mask:
    """Erode `mask` by a square of `side` px."""
    return np.asarray(cv2.erode(mask.astype(np.uint8), np.ones((side | 1, side | 1), np.uint8)) > 0)


def closed(mask: Mask, reach: int) -> Mask:
    """Close gaps of `mask` narrower than twice `reach` px; its edge is replicated beyond the frame."""
    if reach < 1:
        return mask
    padded = cv2.copyMakeBorder(mask.astype(np.uint8), reach, reach, reach, reach, cv2.BORDER_REPLICATE)
    filled = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, disc(2 * reach + 1))
    return np.asarray(filled[reach:-reach, reach:-reach] > 0)
