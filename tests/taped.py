"""A rotated photograph with a label taped over it, for tests of corrections and for the film of the workbench."""

import cv2
import numpy as np
from numpy.typing import NDArray

from membra import scribes
from turning import turned

ANGLE = 200.0
TAPED = "taped.jpg"
OWN, OTHERS = 10, 13  # seeds of the hands of the leaf and of its label


def taped(seed: int, letters: int = 20) -> tuple[NDArray[np.uint8], list[list[int]]]:
    """Return a leaf upside down, whose lower part is under a label with upright writing of another hand, and the
    position of the label."""
    camera = scribes.camera(2)
    leaf = scribes.fragment(scribes.hand(OWN), camera, letters=letters, seed=seed)
    other = scribes.fragment(scribes.hand(OTHERS), camera, letters=30, seed=50 + seed).image
    image = leaf.image.copy()
    high, wide = image.shape[:2]
    rows, columns = (slice(int(0.2 * side), int(0.8 * side)) for side in other.shape[:2])
    inner = other[rows, columns]
    scale = 0.8 * wide / inner.shape[1]
    label = cv2.resize(inner, None, fx=scale, fy=scale)[: int(0.42 * high)][::-1, ::-1]
    label = np.clip(0.75 * label + 0.25 * np.array([240, 225, 170]), 0, 255).astype(np.uint8)
    left, top = int(0.1 * wide), int(0.55 * high)
    label = label[: high - top - 2]
    right, bottom = left + label.shape[1], top + label.shape[0]
    image[top:bottom, left:right] = label
    laid, _, matrix = turned(np.asarray(image, np.uint8), leaf.boxes, ANGLE)
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]]) @ matrix[:, :2].T + matrix[:, 2]
    return laid, np.rint(corners).astype(int).tolist()
