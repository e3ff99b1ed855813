"""Selects the components of upright ink that are letters, and cuts those of touching letters."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.int32]
LONG = 2.2  # letter heights: slender components that are longer may be rulings or creases
FLAT = 0.5  # of a letter height: rulings are lower than words whose letters run together
LONGEST = 12  # letter heights, of a word whose letters run together


@dataclass(frozen=True)
class LetterSettings:
    """Which components are letters. Lengths in letter heights, unless stated otherwise."""

    height: int = 40  # px, the height that letters are scaled to
    min_side: float = 0.38  # minimum of the longer side of a letter; smaller are points, dots and specks
    min_area: float = 0.06  # ink, of a square letter height; a yod has 0.12, a thin cursive one 0.07
    max_wide: float = 1.9  # wider components are several letters, and are cut
    max_high: float = 2.4  # higher ones span several lines, and are cut between the lines
    slender: float = 7.0  # ratio of length to thickness above which it is a ruling, a crease or the edge of a sheet
    min_part: float = 0.03  # minimum ink of a part that is cut off, of a square letter height: cursive is thin
    piece: float = 1.15  # approximate width of the parts of a wide component


@dataclass(frozen=True)
class Letters:
    """Boxes (n, 4) x, y, width, height in px of the upright ink, and the number of components each rule removed."""

    boxes: Boxes
    dropped: dict[str, int]


def find_letters(ink: NDArray[np.uint8], settings: LetterSettings) -> Letters:
    """Find the letters of upright `ink` (h, w), 255 on ink, whose letters are `settings.height` px high."""
    unit = float(settings.height)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    boxes = np.asarray(stats[1:], np.int32)
    wide, high, area = (boxes[:, column] for column in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA))
    longer = np.maximum(wide, high)
    small = (longer < settings.min_side * unit) | (area < settings.min_area * unit * unit)
    thickness = area / np.maximum(longer, 1)
    line = ~small & (longer > settings.slender * thickness) & (longer > LONG * unit)
    line &= (wide > settings.slender * high) | (high > settings.slender * wide)
    # a word of touching letters is as slender, but as high as a letter; beyond 12 letter heights it is a crease
    line &= (np.minimum(wide, high) < FLAT * unit) | (longer > LONGEST * unit)
    dropped = {"too small": int(small.sum()), "a line": int(line.sum())}
    found: list[tuple[int, int, int, int]] = []
    for number in np.flatnonzero(~small & ~line).tolist():
        x, y, width, height = boxes[number, :4].tolist()
        if width <= settings.max_wide * unit and height <= settings.max_high * unit:
            found.append((x, y, width, height))
            continue
        own = labels[y : y + height, x : x + width] == number + 1
        found.extend((x + a, y + b, w, h) for a, b, w, h in _parts(own, settings))
    found.sort(key=lambda box: (box[1], box[0]))
    return Letters(np.array(found, np.int32).reshape(-1, 4), dropped)


def find_lines(boxes: NDArray[np.int32], height: float) -> NDArray[np.float64]:
    """Group upright letter boxes (n, 4) into lines: (m, 4) x, y of the left and the right end of each, from the top.

    From the top, a letter joins the current line if its middle is less than 0.6 `height` below the mean of the line's.
    """
    middles = boxes[:, 1] + boxes[:, 3] / 2
    lines: list[list[int]] = []
    for number in np.argsort(middles, kind="stable").tolist():
        if lines and middles[number] - np.mean([middles[other] for other in lines[-1]]) < 0.6 * height:
            lines[-1].append(number)
        else:
            lines.append([number])
    found = []
    for line in lines:
        own = boxes[line]
        y = float(np.median(own[:, 1] + own[:, 3] / 2))
        found.append((float(own[:, 0].min()), y, float((own[:, 0] + own[:, 2]).max()), y))
    return np.array(found, np.float64).reshape(-1, 4)


def _parts(own: NDArray[np.bool_], settings: LetterSettings) -> list[tuple[int, int, int, int]]:
    """Cut a component (h, w) larger than a letter into parts (x, y, width, height): by lines, then along them."""
    unit = settings.height
    found = []
    bands = _cuts(own.sum(axis=1), 1.6 * unit) if own.shape[0] > settings.max_high * unit else [(0, own.shape[0])]
    for top, bottom in bands:
        band = own[top:bottom]
        columns = np.flatnonzero(band.any(axis=0))
        if not len(columns):
            continue
        left, right = int(columns[0]), int(columns[-1]) + 1
        inner = band[:, left:right]
        spans = (
            _cuts(inner.sum(axis=0), settings.piece * unit)
            if right - left > settings.max_wide * unit
            else [(0, right - left)]
        )
        for begin, end in spans:
            part = inner[:, begin:end]
            rows = np.flatnonzero(part.any(axis=1))
            if (
                len(rows)
                and part.sum() >= settings.min_part * unit * unit
                and max(end - begin, len(rows)) >= settings.min_side * unit
            ):
                found.append((left + begin, top + int(rows[0]), end - begin, int(rows[-1] - rows[0]) + 1))
    return found


def _cuts(profile: NDArray[np.int64], length: float) -> list[tuple[int, int]]:
    """Cut an ink profile into parts of about `length`, at the minima near evenly spaced cuts."""
    size = len(profile)
    count = max(1, round(size / length))
    smooth = np.convolve(profile.astype(float), np.ones(5) / 5, mode="same")
    cuts = [0]
    for number in range(1, count):
        middle, reach = size * number / count, 0.4 * size / count
        low, high = max(cuts[-1] + 4, int(middle - reach)), min(size - 1, int(middle + reach) + 1)
        if high <= low:
            continue
        positions = np.arange(low, high)
        # little ink, and not far from an even cut
        cost = smooth[low:high] + 0.15 * smooth.max() * np.abs(positions - middle) / max(reach, 1.0)
        cuts.append(int(positions[int(np.argmin(cost))]))
    return list(zip(cuts, [*cuts[1:], size], strict=True))
