"""Estimates the pitch and the slope of text lines, and whether they run from top to bottom."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

SLOPES = np.arange(-8.0, 8.1, 1.0)  # degrees to try; photographs are seldom more skewed
LINES = 0.4  # minimum autocorrelation at one pitch that counts as lines and not as chance
CLEARLY = 1.6  # ratio by which columns must vary more than rows where neither is regular


@dataclass(frozen=True)
class Lines:
    """Text lines as estimated from projection profiles. `pitch` is 0 where no lines are detected."""

    pitch: float  # px from line to line in the picture
    slope: float  # degrees by which the lines fall to the right
    turned: bool  # whether they run from top to bottom: the text is rotated by 90 or 270 degrees


def find_lines(binary: NDArray[np.uint8], letter_height: float) -> Lines:
    """Find lines in `binary` (height, width), 255 on ink, whose letters are about `letter_height` px high."""
    # At letters of eight pixels, lines are found as well as at larger ones, in a fraction of the time.
    scale = min(1.0, 8.0 / max(letter_height, 1.0))
    size = max(1, round(binary.shape[1] * scale)), max(1, round(binary.shape[0] * scale))
    small = np.asarray(cv2.resize(binary, size, interpolation=cv2.INTER_AREA) / 255, np.float32)
    across, slope, profile = _best(small)
    down, _, profile_down = _best(np.ascontiguousarray(small.T))
    pitch, regular = _pitch(profile)
    _, regular_down = _pitch(profile_down)
    # Stems of letters below each other also form columns, but less regular ones than lines.
    turned = (down > across and regular_down > max(regular, LINES)) or down > CLEARLY * across
    return Lines(pitch / scale if regular >= LINES and not turned else 0.0, slope, turned)


def _best(small: NDArray[np.float32]) -> tuple[float, float, NDArray[np.float32]]:
    """Return the slope at which rows differ most: that difference, the slope, and the row sums."""
    rows, columns = small.shape
    best: tuple[float, float, NDArray[np.float32]] = (-1.0, 0.0, small.sum(axis=1))
    for slope in SLOPES.tolist():
        shear = float(np.tan(np.deg2rad(slope)))
        moved = np.array([[1.0, 0.0, 0.0], [-shear, 1.0, shear * columns / 2]])
        profile = np.asarray(cv2.warpAffine(small, moved, (columns, rows), flags=cv2.INTER_LINEAR).sum(axis=1))
        # Differences of the row sums, not the sums: a torn outline changes the sums gradually, lines abruptly.
        varies = float(np.abs(np.diff(profile)).sum()) / max(float(small.sum()), 1.0)
        if varies > best[0]:
            best = (varies, float(slope), np.asarray(profile, np.float32))
    return best


def _pitch(profile: NDArray[np.float32]) -> tuple[float, float]:
    """Return the shortest period of the profile in px, and its autocorrelation there."""
    if len(profile) < 24:
        return 0.0, 0.0
    # Variation over more than five letter heights comes from the outline of the piece.
    trend = cv2.blur(profile[:, None], (1, 41), borderType=cv2.BORDER_REPLICATE)[:, 0]
    waves = profile - trend
    power = float((waves * waves).sum())
    if power == 0:
        return 0.0, 0.0
    max_lag = min(len(waves) * 2 // 3, 60)
    agree = np.array([float((waves[:-lag] * waves[lag:]).sum()) for lag in range(1, max_lag)])
    agree *= len(waves) / (len(waves) - np.arange(1, max_lag)) / power
    falls = int(np.argmax(agree < 0)) if (agree < 0).any() else len(agree)
    if falls >= len(agree) - 1:
        return 0.0, 0.0
    at = falls + int(np.argmax(agree[falls:]))
    # A multiple of the pitch can correlate slightly better by chance: take the first peak that is nearly as high.
    peaks = [i for i in range(max(falls, 1), len(agree) - 1) if agree[i] >= max(agree[i - 1], agree[i + 1])]
    for peak in peaks:
        if agree[peak] >= 0.75 * agree[at]:
            at = peak
            break
    return float(at + 1), float(agree[at])
