"""The outline of a piece: frayed edges, and breaks across it."""

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.surfaces import noise

Mask = NDArray[np.bool_]


def frayed(mask: Mask, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Mask:
    """Give the piece ``mask`` a finely ragged edge: nicks, and threads that stick out.

    ``scale`` is the letter height in pixels. Parts that are cut off are removed.
    """
    if strength <= 0.0:
        return mask
    shape = (mask.shape[0], mask.shape[1])
    inside = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 3)
    outside = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 3)
    rough = noise(shape, 0.6 * scale, generator) + np.float32(0.6) * noise(shape, 0.2 * scale, generator)
    rough += np.float32(0.35) * noise(shape, max(1.3, 0.06 * scale), generator)
    # nicks are deeper than threads are long, and some stretches stay clean
    rough *= np.clip(noise(shape, 2.0 * scale, generator) + np.float32(0.7), 0.1, 1.5)
    rough = np.where(rough < 0.0, rough, 0.5 * rough) * np.float32(0.16 * strength * scale)
    return largest(inside - outside + rough > 0.0)


def broken(mask: Mask, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Mask:
    """Return True in a break from edge to edge of the piece ``mask``; its parts keep their positions.

    Higher ``strength`` widens the gap, from a hairline to a third of a letter height.
    """
    shape = (mask.shape[0], mask.shape[1])
    if strength <= 0.0 or not mask.any():
        return np.zeros(shape, bool)
    rows, columns = np.nonzero(mask)
    centre = np.array([columns.mean(), rows.mean()]) + generator.normal(0.0, 0.12, 2) * (
        np.ptp(columns),
        np.ptp(rows),
    )
    # breaks run across the longer side
    wide = np.ptp(columns) > np.ptp(rows)
    angle = generator.normal(0.0, 0.4) + (0.0 if wide else np.pi / 2.0)
    across = (np.arange(shape[1], dtype=np.float32) - np.float32(centre[0])) * np.float32(np.cos(angle))
    away = (np.arange(shape[0], dtype=np.float32)[:, None] - np.float32(centre[1])) * np.float32(np.sin(angle))
    across = across + away + np.float32(0.5 * scale) * noise(shape, 2.5 * scale, generator)
    across = across + np.float32(0.08 * scale) * noise(shape, 0.35 * scale, generator)
    width = (0.03 + 0.3 * strength * generator.uniform(0.5, 1.0)) * scale
    opening = width * np.clip(1.0 + np.float32(0.6) * noise(shape, 2.0 * scale, generator), 0.2, 2.0)
    return np.asarray((np.abs(across) < np.maximum(1.0, opening / 2)) & mask)


def largest(mask: Mask) -> Mask:
    """Return the largest connected component of ``mask``."""
    count, parts, facts, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    if count <= 2:
        return mask
    return np.asarray(parts == 1 + int(np.argmax(facts[1:, cv2.CC_STAT_AREA])))
