"""Readings made by hand: pieces, rotated writing, ink and lines at known positions."""

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.glyphs import Glyphs
from membra.see.reading import Reading
from turning import turned

Image = NDArray[np.uint8]


def glyphs_of(boxes: NDArray[np.int32]) -> Glyphs:
    return Glyphs(boxes, np.zeros((len(boxes), 64, 64), np.uint8), {})


def square(x: int, y: int, side: int) -> NDArray[np.int32]:
    """Return the outline (4, 2) of a square piece."""
    return np.array([(x, y), (x + side, y), (x + side, y + side), (x, y + side)], np.int32)


def written_page(angle: float = 0.0) -> tuple[Image, Reading]:
    """Return a grey sheet on black with three lines of four bars, rotated by `angle`, and its true reading."""
    image = np.full((240, 320, 3), 10, np.uint8)
    image[20:220, 30:290] = 200
    boxes = np.array([(60 + 50 * column, 50 + 55 * row, 12, 34) for row in range(3) for column in range(4)], np.int32)
    ink = np.zeros((240, 320), np.uint8)
    for x, y, wide, high in boxes.tolist():
        image[y : y + high, x : x + wide] = 30
        ink[y : y + high, x : x + wide] = 255
    image, moved, matrix = turned(image, boxes, angle)
    corners = np.array([(30, 20), (290, 20), (290, 220), (30, 220)])
    ends = np.array([[(55, y), (225, y)] for y in (84, 139, 194)])
    corners, ends = (points @ matrix[:, :2].T + matrix[:, 2] for points in (corners, ends))
    return image, Reading(
        glyphs_of(moved),
        outline=np.rint(corners).astype(np.int32),
        angle=angle,
        letter_height=34.0,
        legibility=0.9,
        lines=ends.reshape(-1, 4).astype(np.float32),
        ink=np.asarray(cv2.resize(ink, None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST), np.uint8),
        matrix=matrix @ np.diag([0.5, 0.5, 1.0]),
    )
