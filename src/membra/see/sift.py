"""SIFT descriptors of a fragment's ink, the basis of the strongest methods without learning."""

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SiftSettings:
    """Which keypoints are detected, and how they are described."""

    upright: bool = True  # one orientation for all descriptors: slant distinguishes hands (Fiel and Sablatnig 2013)
    blur: float = 1.0  # px, sigma of the blur of binary ink: the steps of its outline are no strokes
    contrast: float = 0.02  # threshold of OpenCV's detector; lower finds more
    max_descriptors: int = 4000  # per fragment
    max_pixels: int = 12_000_000  # larger ink is shrunk: the detector needs 230 bytes per pixel
    seed: int = 42  # of the random subset, where there are more descriptors


MAX_TOGETHER = 1_000_000  # descriptors of all fragments: half a gigabyte


def within_budget(settings: SiftSettings, fragments: int) -> SiftSettings:
    """Limit `max_descriptors`, so that the descriptors of this number of `fragments` fit in memory together."""
    limit = max(200, MAX_TOGETHER // max(1, fragments))
    return replace(settings, max_descriptors=min(settings.max_descriptors, limit))


def sift(ink: NDArray[np.uint8], settings: SiftSettings) -> NDArray[np.float32]:
    """Compute RootSIFT (Arandjelovic and Zisserman 2012) of the keypoints on `ink` (h, w): (n, 128), unit rows."""
    if not ink.size:
        return np.zeros((0, 128), np.float32)
    grey = np.asarray(255 - ink, np.uint8)
    if grey.size > settings.max_pixels:
        shrunk = np.sqrt(settings.max_pixels / grey.size)
        grey = np.asarray(cv2.resize(grey, None, fx=shrunk, fy=shrunk, interpolation=cv2.INTER_AREA), np.uint8)
    if settings.blur:
        grey = np.asarray(cv2.GaussianBlur(grey, (0, 0), settings.blur), np.uint8)
    finder = cv2.SIFT_create(contrastThreshold=settings.contrast)  # type: ignore[attr-defined]
    points = list(finder.detect(grey, None))
    if settings.upright:
        # One orientation for all; a keypoint that was detected twice, with two orientations, counts once.
        keypoints = {(point.pt, point.size): point for point in points}
        points = list(keypoints.values())
        for point in points:
            point.angle = 0.0
    if len(points) > settings.max_descriptors:
        draw = np.random.default_rng(settings.seed)
        points = [points[at] for at in np.sort(draw.choice(len(points), settings.max_descriptors, replace=False))]
    _, found = finder.compute(grey, points)
    if found is None or len(found) == 0:
        return np.zeros((0, 128), np.float32)
    return np.asarray(np.sqrt(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12)), np.float32)
