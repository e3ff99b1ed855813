"""The pieces in a photograph: each that lies by itself or only touches another, but one leaf for all its cracks.

The surface that the eye sees is taken apart wherever it is narrow, into more parts than there are pieces: every pixel
belongs to the peak of the distance to the edge that it climbs to. Neighbouring parts are then joined again, the surest
first, as long as more speaks for one piece than against it: how wide they hang together, whether their writing runs in
one direction and their lines go on from one to the other, and whether they are of one tone.
"""

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import STRIDE, Look
from membra.see.turn import ink_by_cell, letter_height

Mask = NDArray[np.bool_]
Field = NDArray[np.float32]

ANGLES = np.deg2rad(np.arange(0.0, 180.0, 4.0))  # that lines are looked for at; upside down they are the same
FINE = np.deg2rad(np.arange(-4.0, 4.1, 1.0))  # about the best of them
POINTS = 1200  # of ink, that are enough to find the lines of a part


@dataclass(frozen=True)
class SplitSettings:
    """What makes a piece. Lengths are in letter heights, areas in squares of them."""

    unit: float = 12.0  # px of a letter that is enough to tell pieces apart; larger looks are reduced to it
    surface: float = 0.5  # probability from which on a pixel is surface
    believed: float = 0.35  # probability of surface around it from which on ink is believed to be writing
    blur: float = 0.08  # of the surface, against ragged edges
    thread: float = 0.3  # thinner surface is none: threads, edges of tape
    hole: float = 1.5  # holes up to this wide are filled
    whole: float = 0.93  # a neck at least this wide, to the narrower side's width, is none
    near: float = 0.75  # half the gap across which two parts can be neighbours
    told: float = 0.15  # area of ink from which on the direction of lines can be told
    bare: float = 0.45  # neck from which on a part without ink belongs to its neighbour
    writing: float = 0.5  # area of ink from which on a part is written on: two letters
    chip: float = 0.08  # area from which on a part without writing is a chip; less is dust


@dataclass(frozen=True)
class Pieces:
    """The pieces of a look, in reading order: row by row from the top, each row from the left."""

    labels: NDArray[np.int32]  # (h, w) number of the piece that a pixel belongs to, from 1 on; 0: none
    count: int  # of pieces with writing; at least 1
    chips: int  # pieces without writing, which are in no piece

    def mask(self, number: int) -> Mask:
        """(h, w) where piece `number`, from 1 on, is."""
        return np.asarray(self.labels == number)


def split(look: Look, picture: NDArray[np.uint8], settings: SplitSettings | None = None) -> Pieces:
    """The pieces of an RGB `picture` (h, w, 3) of which the eye took this `look`.

    Writing is never lost: where there is ink but no surface, and where there is no ink, all of the picture is one piece.
    """
    settings = settings or SplitSettings()
    height = letter_height(look, ink_by_cell(look))
    whole = Pieces(np.ones(look.ink.shape, np.int32), 1, 0)
    if height == 0:
        return whole
    parts = Parts.of(look, picture, height, settings)
    join(parts, settings)
    return _pieces(parts, look.ink.shape, settings) or whole


@dataclass
class Parts:
    """The surface of a reduced look, taken apart. Arrays by part begin with part 0, which is nothing."""

    unit: float  # px of a letter
    labels: NDArray[np.int32]  # (h, w) the part that a pixel belongs to, or the nearest one
    surface: Mask  # (h, w)
    depth: Field  # (h, w) px to the edge of the surface, smoothed; negative outside
    area: Field  # (n,) px
    ink: Field  # (n,) px
    peak: Field  # (n,) px, greatest depth
    tone: Field  # (n, 3) CIE Lab, sum over bare surface
    bare: Field  # (n,) px of bare surface
    letters: Field  # (m, 2) x, y of pixels with ink
    owner: NDArray[np.int32]  # (m,) their parts
    height: Field  # (m,) px of the letters there, as a logarithm to the base of 2
    borders: dict[tuple[int, int], Field] = field(default_factory=dict)  # by pair of neighbours: (k, 3) of their border
    profiles: dict[int, Field] = field(default_factory=dict)  # by part: how sharp its lines are at each of ANGLES

    @classmethod
    def of(cls, look: Look, picture: NDArray[np.uint8], height: float, settings: SplitSettings) -> "Parts":
        """The parts of a look whose letters are `height` px high."""
        factor = min(1.0, settings.unit / height)
        unit = height * factor
        size = max(1, round(look.ink.shape[1] * factor)), max(1, round(look.ink.shape[0] * factor))
        ink = cv2.resize(_writing(look, settings), size, interpolation=cv2.INTER_AREA)
        likely = cv2.resize(look.surface, size, interpolation=cv2.INTER_AREA)
        surface = _solid(likely, ink, unit, settings)
        # beyond the picture there is no surface: else a page without ground would have no depth
        deep = cv2.distanceTransform(np.pad(surface, 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
        depth = cv2.GaussianBlur(deep, (0, 0), 0.12 * unit) * surface
        labels = _climbed(depth)
        labels, outside = _extended(labels, surface)
        depth = np.where(surface > 0, depth, -outside)
        labels = _merged_peaks(labels, depth, settings.whole)
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2Lab)
        bare = surface.astype(bool) & (cv2.dilate(ink, np.ones((3, 3), np.uint8)) < 0.2)
        count, flat = int(labels.max()) + 1, labels.ravel()

        def total(values: NDArray[np.generic]) -> Field:
            return np.bincount(flat, values.ravel(), count).astype(np.float32)

        peak = np.zeros(count, np.float32)
        np.maximum.at(peak, flat, depth.ravel())
        rows, columns = np.nonzero(ink > 0.3)
        parts = cls(
            unit=unit,
            labels=labels,
            surface=surface.astype(bool),
            depth=depth,
            area=total(surface),
            ink=total(ink * surface),
            peak=peak,
            tone=np.stack([total(lab[..., channel] * bare) for channel in range(3)], axis=1),
            bare=total(bare),
            letters=np.stack([columns, rows], axis=1).astype(np.float32),
            owner=labels[rows, columns],
            height=_heights(look, rows / factor, columns / factor),
        )
        parts.borders = _borders(labels, np.dstack([depth, _seams(lab[..., 0], likely, unit)]))
        return parts

    def join(self, first: int, second: int) -> None:
        """Make one part, `first`, of two."""
        self.labels[self.labels == second] = first
        self.owner[self.owner == second] = first
        for values in (self.area, self.ink, self.tone, self.bare):
            values[first] += values[second]
            values[second] = 0
        self.peak[first] = max(self.peak[first], self.peak[second])
        self.profiles.pop(first, None)
        del self.borders[min(first, second), max(first, second)]
        for pair in [pair for pair in self.borders if second in pair]:
            other = pair[0] + pair[1] - second
            key = min(first, other), max(first, other)
            border = self.borders.pop(pair)
            self.borders[key] = np.concatenate([self.borders[key], border]) if key in self.borders else border

    def lines(self, part: int) -> Field:
        """How sharp the lines of a part are at each of ANGLES, 1 at the best."""
        if part not in self.profiles:
            steps = _steps(self._points(part), ANGLES, self.unit)[0]
            sharp = np.square(steps).sum(axis=1)
            self.profiles[part] = (sharp / max(float(sharp.max()), 1e-9)).astype(np.float32)
        return self.profiles[part]

    def going_on(self, first: int, second: int, angle: float) -> tuple[float, float]:
        """How well the lines of two parts agree, -1 to 1, at the best angle about `angle`, and over how many px."""
        one, other = _steps(self._points(first), angle + FINE, self.unit, self._points(second))
        best, over = 0.0, 0.0
        for a, b in zip(one, other, strict=True):
            left, right = np.flatnonzero(a), np.flatnonzero(b)
            low, high = max(left[0], right[0]), min(left[-1], right[-1]) + 1
            if high - low < 4:
                continue
            a, b = a[low:high], b[low:high]
            alike = float(a @ b) / max(float(np.sqrt((a @ a) * (b @ b))), 1e-9)
            if alike > best or over == 0:
                best, over = alike, (high - low) * _step(self.unit)
        return best, over

    def _points(self, part: int) -> Field:
        points = self.letters[self.owner == part]
        if len(points) <= POINTS:
            return points
        return points[(np.arange(POINTS) * (len(points) / POINTS)).astype(int)]


def evidence(parts: Parts, first: int, second: int, settings: SplitSettings) -> float:
    """What speaks for two neighbouring parts being one piece; against it below 0. In units of the log odds.

    The weights were fitted by logistic regression to some 1300 pairs of parts of drawn plates and leaves and of real
    fragments whose truth is known.
    """
    border, unit = parts.borders[first, second], parts.unit
    narrower = min(float(parts.peak[first]), float(parts.peak[second]))
    deepest = float(border[:, 0].max())
    if deepest < -settings.near * unit:
        return -np.inf
    neck = float(np.clip(deepest / narrower, -0.3, 1.0))
    if min(parts.ink[first], parts.ink[second]) < settings.told * unit * unit:
        # a margin or a patch without ink belongs to what it hangs on by half its width
        return neck - settings.bare if deepest > 0 else -np.inf
    contact = border[border[:, 0] > 0]
    dark, sure = contact[:, 1:].mean(axis=0).tolist() if len(contact) else (0.0, 0.0)
    tones = parts.tone[[first, second]] / np.maximum(parts.bare[[first, second], None], 1)
    tone = min(15.0, float(np.linalg.norm(tones[0] - tones[1])))
    larger = abs(float(np.median(parts.height[parts.owner == first]) - np.median(parts.height[parts.owner == second])))
    agree = np.minimum(parts.lines(first), parts.lines(second))
    alike, over = parts.going_on(first, second, float(ANGLES[int(agree.argmax())]))
    # lines side by side over less than a letter's height say nothing, over several lines much
    some, many = float(np.clip(over / unit - 1, 0, 3)) / 3, float(np.clip(over / unit - 4, 0, 12)) / 6
    return (
        WEIGHTS[0]
        + WEIGHTS[1] * neck
        + WEIGHTS[2] * min(len(contact) / narrower, 3.0) / 3
        + WEIGHTS[3] * float(agree.max())
        + (WEIGHTS[4] * alike + WEIGHTS[5]) * some
        + WEIGHTS[6] * alike * many
        + WEIGHTS[7] * min(narrower / unit, 2.0) / 2
        + WEIGHTS[8] * tone / 10
        + WEIGHTS[9] * dark / 20
        + WEIGHTS[10] * min(larger, 0.6)
        + WEIGHTS[11] * float(np.clip(sure, -2, 5)) / 5
    )


import os
WEIGHTS = (2.3 + float(os.environ.get("BIAS", "0")), 0.9, 4.0, 3.3, 3.3, -3.0, 4.7, -6.2, -2.5, 1.2, -4.1, 2.8)


def join(parts: Parts, settings: SplitSettings) -> None:
    """Join parts that are one piece, the surest first."""
    scores = {pair: evidence(parts, *pair, settings) for pair in parts.borders}
    while scores:
        pair = max(scores, key=lambda one: scores[one])
        if scores[pair] <= 0:
            return
        first, second = pair
        parts.join(first, second)
        scores = {one: score for one, score in scores.items() if first not in one and second not in one}
        scores |= {one: evidence(parts, *one, settings) for one in parts.borders if first in one}


def _pieces(parts: Parts, shape: tuple[int, ...], settings: SplitSettings) -> Pieces | None:
    """The parts that are pieces, at the size of the look; None where no part has writing."""
    square = parts.unit * parts.unit
    written = np.flatnonzero(parts.ink >= settings.writing * square)
    if not len(written):
        return None
    bare = (parts.area >= settings.chip * square) & (parts.ink < settings.writing * square)
    masks = [_filled((parts.labels == part) & parts.surface) for part in written.tolist()]
    labels = np.zeros(parts.labels.shape, np.int32)
    for number, index in enumerate(reading_order(masks), start=1):
        labels[masks[index] & (labels == 0)] = number
    size = (shape[1], shape[0])
    return Pieces(cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST), len(written), int(bare.sum()))


def reading_order(masks: list[Mask]) -> list[int]:
    """The indices of masks (h, w) row by row from the top, each row from the left.

    A piece is in the row of the topmost piece that is left if half of the lower of the two is beside the other.
    """
    spans = [np.flatnonzero(mask.any(axis=1))[[0, -1]] for mask in masks]
    columns = [float(np.flatnonzero(mask.any(axis=0)).mean()) for mask in masks]
    left = sorted(range(len(masks)), key=lambda index: int(spans[index][0]))
    order: list[int] = []
    while left:
        top, bottom = spans[left[0]]

        def beside(index: int, top: int = top, bottom: int = bottom) -> bool:
            first, last = spans[index]
            shared = min(last, bottom) - max(first, top) + 1
            return bool(2 * shared >= min(last - first, bottom - top) + 1)

        row = [index for index in left if beside(index)]
        order += sorted(row, key=lambda index: columns[index])
        left = [index for index in left if index not in row]
    return order


def _writing(look: Look, settings: SplitSettings) -> Field:
    """(h, w) 1 on ink that is believed, without specks."""
    near = cv2.blur(np.maximum(look.surface, look.ink), (9, 9))
    ink = (look.ink > 127) & (near >= 255 * settings.believed)
    _, labels, stats, centres = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    column, row = np.clip(centres // STRIDE, 0, np.array(look.height.shape[::-1]) - 1).astype(int).T
    longer = np.maximum(stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT])
    kept = longer >= np.maximum(look.height[row, column] / 3, 4)
    kept[0] = False
    return np.asarray(kept[labels], np.float32)


def _solid(likely: NDArray[np.uint8], ink: Field, unit: float, settings: SplitSettings) -> NDArray[np.uint8]:
    """(h, w) 1 on surface, without threads and small holes."""
    smooth = cv2.GaussianBlur(likely, (0, 0), settings.blur * unit)
    surface = ((smooth > 255 * settings.surface) | (ink > 0.5)).astype(np.uint8)
    side = max(3, round(settings.thread * unit) | 1)
    surface = cv2.morphologyEx(surface, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)))
    _, holes, stats, _ = cv2.connectedComponentsWithStats(1 - surface, connectivity=4)
    small = stats[:, cv2.CC_STAT_AREA] < (settings.hole * unit) ** 2
    small[0] = False
    return np.asarray(surface | small[holes], np.uint8)


def _seams(light: Field, likely: NDArray[np.uint8], unit: float) -> Field:
    """(h, w, 2) how much darker than its surroundings it is about a pixel, and the log odds of surface there."""
    side = round(0.4 * unit) | 1
    wide = cv2.medianBlur(light.astype(np.uint8), round(1.2 * unit) | 1)
    dark = cv2.erode(light, np.ones((side, side), np.uint8)) - wide
    least = cv2.erode(likely, np.ones((3, 3), np.uint8)).astype(np.float32)
    return np.dstack([dark, np.log((least + 1) / (256 - least))])


def _heights(look: Look, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Field:
    """(m,) the logarithm to the base of 2 of the letters' height in px of the look about pixels of it."""
    row = np.minimum(rows // STRIDE, look.height.shape[0] - 1).astype(int)
    column = np.minimum(columns // STRIDE, look.height.shape[1] - 1).astype(int)
    return np.asarray(np.log2(look.height[row, column]), np.float32)


def _climbed(depth: Field) -> NDArray[np.int32]:
    """(h, w) for each pixel with a depth the number, from 1 on, of the peak that it climbs to; 0 where there is none."""
    high, wide = depth.shape
    around = np.pad(depth, 1, constant_values=-1)
    own = np.arange(depth.size, dtype=np.int32).reshape(depth.shape)
    best, above = depth.copy(), own.copy()
    for down in (0, 1, 2):
        for across in (0, 1, 2):
            other = around[down : down + high, across : across + wide]
            higher = other > best
            best[higher] = other[higher]
            above[higher] = own[higher] + (down - 1) * wide + across - 1
    flat = above.ravel()
    while True:
        further = flat[flat]
        if np.array_equal(further, flat):
            break
        flat = further
    peaks = np.zeros(depth.size, np.int32)
    on = depth.ravel() > 0
    tops = np.unique(flat[on])
    peaks[tops] = np.arange(1, len(tops) + 1)
    return np.asarray(np.where(on, peaks[flat], 0).reshape(depth.shape), np.int32)


def _extended(labels: NDArray[np.int32], surface: NDArray[np.uint8]) -> tuple[NDArray[np.int32], Field]:
    """Labels (h, w) with each pixel outside given to the nearest part, and how far that is in px."""
    if not surface.any():
        return labels, np.zeros(labels.shape, np.float32)
    away, nearest = cv2.distanceTransformWithLabels(1 - surface, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    table = np.zeros(int(nearest.max()) + 1, np.int32)
    on = surface > 0
    table[nearest[on]] = labels[on]
    return np.asarray(table[nearest], np.int32), np.asarray(away, np.float32)


def _borders(labels: NDArray[np.int32], values: Field) -> dict[tuple[int, int], Field]:
    """For each pair of neighbouring parts, the lower number first, the values (h, w, k) along their border, (m, k)."""
    found = []
    for one, other, value in (
        (labels[:, :-1], labels[:, 1:], values[:, :-1]),
        (labels[:-1], labels[1:], values[:-1]),
    ):
        at = one != other
        found.append((np.minimum(one[at], other[at]), np.maximum(one[at], other[at]), value[at]))
    first, second, along = (np.concatenate(part) for part in zip(*found, strict=True))
    keys = first.astype(np.int64) * (int(labels.max()) + 1) + second
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    groups = np.split(along[order], starts[1:]) if len(starts) else []
    return {
        (int(first[order[start]]), int(second[order[start]])): group
        for start, group in zip(starts.tolist(), groups, strict=True)
    }


def _merged_peaks(labels: NDArray[np.int32], depth: Field, whole: float) -> NDArray[np.int32]:
    """Labels (h, w) from 1 on, with parts made one whose border is nearly as deep as the lower of their peaks."""
    count = int(labels.max()) + 1
    peak = np.zeros(count, np.float32)
    np.maximum.at(peak, labels.ravel(), depth.ravel())
    saddles = {pair: float(depths.max()) for pair, depths in _borders(labels, depth[..., None]).items()}
    head = list(range(count))

    def root(part: int) -> int:
        while head[part] != part:
            part = head[part]
        return part

    for (one, other), saddle in sorted(saddles.items(), key=lambda item: -item[1]):
        first, second = sorted((root(one), root(other)), key=lambda part: -peak[part])
        if first != second and saddle > 0 and saddle >= whole * peak[second]:
            head[second] = first
    _, numbers = np.unique([root(part) for part in range(1, count)], return_inverse=True)
    return np.asarray(np.concatenate([[0], numbers + 1])[labels], np.int32)


def _step(unit: float) -> float:
    """px of a row of ink: a sixth of a letter."""
    return max(1.0, unit / 6)


def _steps(points: Field, angles: NDArray[np.float64], unit: float, others: Field | None = None) -> list[Field]:
    """For `points` (m, 2), and for `others`, how the ink changes from row to row: (angles, rows) each.

    Rows run along each of the `angles`, counter-clockwise in radians. The changes count and not the rows themselves,
    because the outline of a piece changes the rows too, but slowly.
    """
    sets = [points] if others is None else [points, others]
    across = np.stack([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32) / np.float32(_step(unit))
    down = [across @ one.T for one in sets]
    low = np.min([one.min(axis=1) for one in down], axis=0)[:, None] - 1
    count = int(max(float((one - low).max()) for one in down)) + 3
    offset = (np.arange(len(angles)) * count)[:, None]
    found = []
    for one in down:
        index = (one - low).astype(np.int64) + offset
        rows = np.bincount(index.ravel(), minlength=len(angles) * count).reshape(len(angles), count)
        rows = np.pad(rows.astype(np.float32), ((0, 0), (2, 2)))
        smooth = rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]
        found.append(np.diff(smooth, axis=1))
    return found


def _filled(mask: Mask) -> Mask:
    """The mask (h, w) with its holes filled."""
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return cv2.drawContours(np.zeros(mask.shape, np.uint8), outlines, -1, 1, cv2.FILLED) > 0
