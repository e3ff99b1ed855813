"""Coordinate transforms between a photograph and a piece that is rotated upright."""

import cv2
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


def upright(within: Mask, scale: float, angle: float, factor: float, max_pixels: int) -> tuple[Matrix, tuple[int, int]]:
    """Return the matrix (2, 3) from the photograph to the upright piece, and the width and height of the result.

    `within` (h, w) is the mask of the piece in a look taken at `scale`. The piece is scaled by `factor`, or by less
    where it would have more than `max_pixels`.
    """
    outline, _ = cv2.findContours(within.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    points = np.concatenate([part[:, 0] for part in outline]).astype(np.float64) / scale
    turned = np.deg2rad(angle)
    # the writing is rotated counter-clockwise, so the picture is rotated clockwise
    rotation = np.array([[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]])
    laid = points @ rotation.T
    low, high = laid.min(axis=0), laid.max(axis=0)
    most = float(np.sqrt(max_pixels / max(1.0, np.prod(high - low))))
    factor = min(factor, most)
    margin = 8.0
    size = np.ceil((high - low) * factor + 2 * margin).astype(int)
    matrix = np.column_stack([rotation * factor, margin - low * factor])
    return matrix, (int(size[0]), int(size[1]))


def along_axes(boxes: NDArray[np.int32], back: Matrix, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Convert boxes (n, 4) of the upright ink to axis-aligned boxes of a photograph of `shape`.

    `back` (2, 3) maps pixels of the ink to those of the photograph.
    """
    x, y, wide, high = boxes.astype(np.float64).T
    corners = np.stack([[x, x + wide, x, x + wide], [y, y, y + high, y + high]])  # (2, 4, n)
    laid = np.einsum("ij,jkn->ikn", back[:, :2], corners) + back[:, 2][:, None, None]
    low, high = np.floor(laid.min(axis=1)).T, np.ceil(laid.max(axis=1)).T
    most = np.array(shape[1::-1])
    low, high = np.clip(low, 0, most - 1), np.clip(high, 1, most)
    return np.concatenate([low, np.maximum(high - low, 1)], axis=1).astype(np.int32)


def outline_of(within: Mask, scale: float) -> NDArray[np.int32]:
    """Return the outline (k, 2), in the photograph, of the mask `within` (h, w) of a look at `scale`.

    It is empty where the mask covers all of the look.
    """
    if within.all():
        return np.zeros((0, 2), np.int32)
    outlines, _ = cv2.findContours(within.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    longest = max(outlines, key=cv2.contourArea)
    simple = cv2.approxPolyDP(longest, 1.0, True)[:, 0]
    return np.asarray(np.rint((simple + 0.5) / scale), np.int32)


def laid_back(lines: NDArray[np.float64], back: Matrix) -> NDArray[np.float32]:
    """Map lines (m, 4) of the upright ink to pixels of the photograph."""
    ends = lines.reshape(-1, 2, 2) @ back[:, :2].T + back[:, 2]
    return ends.reshape(-1, 4).astype(np.float32)


def resized(picture: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """Resize a picture: by area averaging when it shrinks, by bicubic interpolation when it grows."""
    if scale == 1.0:
        return picture
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    return np.asarray(
        cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC), np.uint8
    )


def shrunk(photograph: NDArray[np.uint8], matrix: Matrix) -> tuple[NDArray[np.uint8], Matrix]:
    """Average the photograph down to about the scale of `matrix` (2, 3), and return the matrix that remains."""
    factor = float(np.hypot(matrix[0, 0], matrix[0, 1]))
    if factor > 0.75:
        return photograph, matrix
    small = resized(photograph, factor)
    down = np.array([small.shape[1] / photograph.shape[1], small.shape[0] / photograph.shape[0]])
    return small, np.column_stack([matrix[:, :2] / down, matrix[:, 2]])


def from_look(matrix: Matrix, scale: float) -> Matrix:
    """Convert a `matrix` (2, 3) from the photograph to one from a look that was taken at `scale`."""
    return np.column_stack([matrix[:, :2] / scale, matrix[:, 2]])
