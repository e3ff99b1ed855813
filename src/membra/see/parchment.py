"""Where the fragment is in the photograph: without background, ruler or chart."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ParchmentSettings:
    """How the fragment is told from what lies around it."""

    find: bool = True  # False: the whole photograph counts, as in the paper
    side: int = 512  # px, longest side of the reduced image that is looked at; edges need no more
    border: float = 0.03  # share of the side that is taken as a sample of the background
    least_area: float = 0.04  # share of the photograph; what is smaller is no fragment but a label or a clip
    least_contrast: float = 12.0  # CIE Lab units between fragment and background; less is one surface


def find_parchment(photograph: NDArray[np.uint8], settings: ParchmentSettings) -> NDArray[np.bool_]:
    """True on the fragment, (height, width), for an RGB photograph (height, width, 3).

    The colour of the frame's edge is taken for the background, and the largest piece that differs from it for
    the fragment, its holes filled. A page photographed edge to edge has no such piece: then all is fragment.
    """
    height, width = photograph.shape[:2]
    everything = np.ones((height, width), dtype=bool)
    if not settings.find:
        return everything
    scale = min(1.0, settings.side / max(height, width))
    size = max(8, round(width * scale)), max(8, round(height * scale))
    small = np.asarray(cv2.resize(photograph, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    piece = _largest_piece(_contrast_to_border(small, settings), settings)
    if piece is None:
        return everything
    return cv2.resize(piece.astype(np.uint8), (width, height), interpolation=cv2.INTER_LINEAR) > 0


def _contrast_to_border(small: NDArray[np.uint8], settings: ParchmentSettings) -> NDArray[np.float32]:
    """Distance of each pixel (rows, columns) to the colour of the frame's edge, in CIE Lab units."""
    # A median first: letters on a page without background would otherwise pass for pieces.
    lab = cv2.cvtColor(cv2.medianBlur(small, 7), cv2.COLOR_RGB2LAB).astype(np.float32)
    lab[..., 0] *= 100.0 / 255.0
    rows, columns = lab.shape[:2]
    rim = max(2, round(settings.border * max(rows, columns)))
    edge = np.concatenate(
        [lab[:rim].reshape(-1, 3), lab[-rim:].reshape(-1, 3), lab[:, :rim].reshape(-1, 3), lab[:, -rim:].reshape(-1, 3)]
    )
    return np.asarray(np.linalg.norm(lab - np.median(edge, axis=0), axis=2), dtype=np.float32)


def _largest_piece(contrast: NDArray[np.float32], settings: ParchmentSettings) -> NDArray[np.bool_] | None:
    level, differs = cv2.threshold(
        np.clip(contrast * 2, 0, 255).astype(np.uint8), 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU
    )
    if level / 2 < settings.least_contrast / 2:
        return None
    count, labels, stats, _ = cv2.connectedComponentsWithStats(differs, connectivity=4)
    if count < 2:
        return None
    largest = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    if stats[largest, cv2.CC_STAT_AREA] < settings.least_area * contrast.size:
        return None
    piece = (labels == largest).astype(np.uint8)
    outlines, _ = cv2.findContours(piece, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = cv2.drawContours(np.zeros_like(piece), outlines, -1, 1, cv2.FILLED)
    inside = contrast[filled > 0]
    if float(np.median(inside)) < settings.least_contrast:
        return None
    return np.asarray(filled > 0)
