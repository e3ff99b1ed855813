"""Photographs rotated for tests, with their boxes."""

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Boxes = NDArray[np.int32]


def turned(image: Image, boxes: Boxes, angle: float) -> tuple[Image, Boxes, NDArray[np.float64]]:
    """Rotate the photograph by `angle` degrees counter-clockwise on a larger canvas of its rim's colour.

    Also returns the axis-aligned boxes (n, 4) of the rotated letters, and the (2, 3) matrix from old to new pixels.
    """
    high, wide = image.shape[:2]
    turn = np.radians(angle)
    matrix = np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0]])
    corners = np.array([(0, 0), (wide, 0), (0, high), (wide, high)]) @ matrix[:, :2].T
    matrix[:, 2] = -corners.min(axis=0)
    width, height = np.ceil(np.ptp(corners, axis=0) - 1e-9).astype(int).tolist()
    rim = np.median(np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]]), axis=0)
    shift = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])  # OpenCV measures from the centre of a pixel
    centred = matrix @ shift - np.array([[0, 0, 0.5]])
    turned = cv2.warpAffine(image, centred, (width, height), flags=cv2.INTER_CUBIC, borderValue=rim.tolist())
    ends = boxes[:, None, :2] + boxes[:, None, 2:] * np.array([(0, 0), (1, 0), (0, 1), (1, 1)])
    moved = ends @ matrix[:, :2].T + matrix[:, 2]
    low, far = np.rint(moved.min(axis=1)), np.rint(moved.max(axis=1))
    return np.asarray(turned, np.uint8), np.concatenate([low, far - low], axis=1).astype(np.int32), matrix
