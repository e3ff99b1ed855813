"""Upright views of photographs: rotated to upright writing, cropped to one piece, scaled; and boxes within them."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

MARGIN = 0.02  # of a piece's longer side, as border around it
# Near 45 degrees an axis-aligned box tells the size of a letter, but not whether it is tall or wide. If |cos| - |sin|
# is below this (more than 35 degrees off the axes), the letter is taken to be more nearly square.
MIN_SKEW = 0.25


@dataclass(frozen=True)
class View:
    """The transform by which a photograph, or one piece of it, is shown: upright, at a scale."""

    matrix: NDArray[np.float64]  # (2, 3) from pixels of the photograph to those of the view, in x, y order
    width: int
    height: int

    @property
    def scale(self) -> float:
        """Pixels of the view per pixel of the photograph."""
        return float(np.hypot(self.matrix[0, 0], self.matrix[1, 0]))

    @property
    def angle(self) -> float:
        """Degrees by which the photograph is rotated clockwise in the view."""
        return float(np.degrees(np.arctan2(self.matrix[1, 0], self.matrix[0, 0])))

    def scaled(self, factor: float) -> "View":
        """Return the same view at another size."""
        size = max(1, round(self.width * factor)), max(1, round(self.height * factor))
        return View(self.matrix * factor, *size)

    def within(self, side: int) -> "View":
        """Return the same view, shrunk if it is larger than a square of `side` px."""
        longer = max(self.width, self.height)
        return self.scaled(side / longer) if longer > side else self

    def points(self, points: NDArray[np.generic]) -> NDArray[np.float64]:
        """Convert points (n, 2) of the photograph to the view."""
        return np.asarray(points, np.float64).reshape(-1, 2) @ self.matrix[:, :2].T + self.matrix[:, 2]

    def frames(self, boxes: NDArray[np.generic]) -> NDArray[np.float64]:
        """Convert boxes (n, 4) of letters to x, y, width, height in the view, along the lines of writing."""
        boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
        sizes = upright_sizes(boxes, self.angle) * self.scale
        return np.concatenate([self.points(boxes[:, :2] + boxes[:, 2:] / 2) - sizes / 2, sizes], axis=1)

    def draw(self, photograph: NDArray[np.uint8], reduced: float = 1.0) -> Image.Image:
        """Draw the view. `photograph`: (height, width, 3) RGB, shrunk to `reduced` of its size beforehand.

        The area beyond the photograph has the colour of its rim.
        """
        matrix = self.matrix @ np.diag([1 / reduced, 1 / reduced, 1.0])
        rows, columns = photograph.shape[:2]
        # Only the visible part, with a few pixels around it for the interpolation.
        corners = np.array([(0, 0), (self.width, 0), (0, self.height), (self.width, self.height)], np.float64)
        seen = (corners - matrix[:, 2]) @ np.linalg.inv(matrix[:, :2]).T
        beyond = (seen.min(axis=0) < 0).any() or (seen.max(axis=0) > (columns, rows)).any()
        scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
        around = 3 + 2 / scale
        left, top = np.clip(np.floor(seen.min(axis=0) - around), 0, (columns - 1, rows - 1)).astype(int)
        right, bottom = np.clip(np.ceil(seen.max(axis=0) + around), (left + 1, top + 1), (columns, rows)).astype(int)
        part = np.ascontiguousarray(photograph[top:bottom, left:right])
        matrix = matrix @ np.array([[1, 0, left], [0, 1, top], [0, 0, 1]], np.float64)
        if scale != 1:  # resized first: rotation alone needs no filter against moiré
            size = max(1, round(part.shape[1] * scale)), max(1, round(part.shape[0] * scale))
            stretch = np.array([part.shape[1] / size[0], part.shape[0] / size[1], 1.0])
            part = np.asarray(cv2.resize(part, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC))
            matrix = matrix @ np.diag(stretch)
        # OpenCV measures from the centre of a pixel, boxes from its corner.
        matrix = matrix @ np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]]) - np.array([[0, 0, 0.5]])
        turned = cv2.warpAffine(
            part,
            matrix,
            (self.width, self.height),
            flags=cv2.INTER_CUBIC,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=rim_colour(photograph) if beyond else 0,
        )
        return Image.fromarray(np.asarray(turned, np.uint8))


def upright_view(size: tuple[int, int], angle: float | None, outline: NDArray[np.int32] | None = None) -> View:
    """Return the upright view, at scale 1, of a photograph of `size` (width, height), or of its piece in `outline`.

    `angle`: degrees by which the writing is rotated counter-clockwise; None (unknown): the photograph is not rotated.
    """
    width, height = size
    turn = turn_upright(angle)
    edges = np.array([(0, 0), (width, 0), (0, height), (width, height)]) @ turn.T
    low, high = edges.min(axis=0), edges.max(axis=0)
    if outline is not None and len(outline):
        piece = np.asarray(outline, np.float64) @ turn.T
        around = MARGIN * float(np.ptp(piece, axis=0).max())
        low, high = np.maximum(low, piece.min(axis=0) - around), np.minimum(high, piece.max(axis=0) + around)
    size_shown = np.maximum(np.rint(high - low), 1).astype(int).tolist()
    return View(np.column_stack([turn, -low]), *size_shown)


def turn_upright(angle: float | None) -> NDArray[np.float64]:
    """Return the (2, 2) rotation from x, y in the photograph to x, y along the lines of writing."""
    turn = np.radians(angle or 0.0)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return np.where(np.abs(matrix) < 1e-12, 0.0, matrix)  # quarter turns are exact


def upright_sizes(boxes: NDArray[np.generic], angle: float | None) -> NDArray[np.float64]:
    """Return width and height (n, 2) of letters along the lines of writing, from axis-aligned boxes (n, 4).

    A letter of w x h, rotated by t, has a box of W = w |cos t| + h |sin t| by H = w |sin t| + h |cos t|, so that
    w + h = (W + H) / (|cos t| + |sin t|) and w - h = (W - H) / (|cos t| - |sin t|).
    """
    sides = np.asarray(boxes, np.float64).reshape(-1, 4)[:, 2:]
    turn = np.radians(angle or 0.0)
    cos, sin = abs(float(np.cos(turn))), abs(float(np.sin(turn)))
    total = sides.sum(axis=1) / (cos + sin)
    skew = cos - sin
    apart = (sides[:, 0] - sides[:, 1]) * skew / max(skew**2, MIN_SKEW**2)
    apart = np.clip(apart, -0.9 * total, 0.9 * total)  # boxes are rounded: keep sides positive
    return np.stack([(total + apart) / 2, (total - apart) / 2], axis=1)


def simplified(outline: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return an outline (k, 2) with fewer points that deviates from the given one by at most 1/300 of its size."""
    if len(outline) < 4:
        return outline
    closeness = float(np.ptp(outline, axis=0).max()) / 300
    return np.asarray(cv2.approxPolyDP(outline.reshape(-1, 1, 2).astype(np.int32), closeness, True)[:, 0], np.int32)


def rim_colour(photograph: NDArray[np.uint8]) -> tuple[int, int, int]:
    """Return the median colour along a photograph's edges, as R, G, B."""
    rim = np.concatenate([photograph[0], photograph[-1], photograph[:, 0], photograph[:, -1]])
    red, green, blue = np.median(rim, axis=0).astype(int).tolist()
    return red, green, blue
