"""Removes bleed-through: ink of the other side of the sheet."""

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import EyeSettings

AROUND = 4  # letter heights over which the sheet's brightness is averaged
MIN_LETTER = 0.05  # of a square letter: smaller components do not tell the two sides apart


def own_side(
    view: NDArray[np.uint8], surface: NDArray[np.uint8], ink: NDArray[np.uint8], settings: EyeSettings
) -> NDArray[np.uint8]:
    """Remove bleed-through, the ink of the other side, from the probabilities `ink` (h, w).

    Bleed-through is paler, and all about equally pale; ink that has faded varies gradually. So the components are
    separated by their contrast with the sheet around them (Otsu's threshold, each component weighted by its ink), and
    the paler ones are removed if the two groups are far apart and there are enough dark ones.
    """
    _, labels, stats, _ = cv2.connectedComponentsWithStats((ink > 255 * settings.ink).astype(np.uint8), connectivity=8)
    area = stats[:, cv2.CC_STAT_AREA].astype(np.float64)
    if len(area) < 2 * settings.min_dark:
        return ink
    light = cv2.cvtColor(view, cv2.COLOR_RGB2GRAY).astype(np.float32) + 1
    bare = ((cv2.dilate(ink, np.ones((5, 5), np.uint8)) < 64) & (surface > 127)).astype(np.float32)
    reach = (round(AROUND * settings.read_at) | 1,) * 2
    sheet = cv2.blur(light * bare, reach) / np.maximum(cv2.blur(bare, reach), 1e-3)
    depth = np.bincount(labels.ravel(), (1 - light / np.maximum(sheet, 1)).ravel(), len(area)) / np.maximum(area, 1)
    letters = area >= MIN_LETTER * settings.read_at**2
    letters[0] = False
    level, apart, parted = _two_groups(np.abs(depth[letters]), area[letters])
    pale = np.abs(depth) < level
    dark = letters & ~pale
    dark[0] = False
    if apart > settings.pale or parted < settings.two_groups or dark.sum() < settings.min_dark:
        return ink
    pale[0] = False
    return np.where(pale[labels], 0, ink).astype(np.uint8)


def _two_groups(values: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return Otsu's threshold of weighted values, the mean below it over the mean above it, and the share of the
    variance that lies between the two groups (1 if the values within each group are equal).
    """
    if len(values) < 2:
        return 0.0, 1.0, 0.0
    order = np.argsort(values)
    v, w = values[order], weight[order]
    below, total = np.cumsum(w), np.cumsum(v * w)
    left, right = below[:-1], below[-1] - below[:-1]
    mean_left, mean_right = total[:-1] / left, (total[-1] - total[:-1]) / np.maximum(right, 1e-9)
    between = left * right * (mean_right - mean_left) ** 2
    at = int(np.argmax(between))
    spread = float((w * (v - total[-1] / below[-1]) ** 2).sum()) * below[-1]
    ratio = float(mean_left[at] / max(mean_right[at], 1e-9))
    return float((v[at] + v[at + 1]) / 2), ratio, float(between[at] / max(spread, 1e-9))
