"""Over-segments the writing surface of a look at its narrow places, into more parts than there are pieces.

A watershed of the distance transform: every pixel of the surface belongs to the peak that steepest ascent leads to.
The measurements of each part and of each border between two parts are kept, so that parts can be joined to pieces.
"""

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import Look
from membra.see.turn import cells_at

Mask = NDArray[np.bool_]
Field = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Labels = NDArray[np.int32]
Pair = tuple[int, int]  # two parts, the lower number first

UNIT = 12.0  # px, letter height that is enough to separate pieces; larger looks are reduced to it
SURFACE = 0.5  # probability from which a pixel is surface
BELIEVED = 0.35  # mean probability of surface around a pixel from which its ink counts as writing
THREAD = 0.3  # letter heights; thinner surface is removed: threads, edges of tape
HOLE = 1.5  # letter heights, side of the largest square hole that is filled
PEAK = 0.98  # of the lower of two peaks: a saddle at least this high does not separate them
ANGLES = np.deg2rad(np.arange(0.0, 180.0, 4.0))  # line angles to try; lines are the same upside down
FINE = np.deg2rad(np.arange(-4.0, 4.1, 1.0))  # offsets to try around the best of them
POINTS = 1200  # pixels of ink that are enough to find the lines of a part


@dataclass(frozen=True)
class Border:
    """Measurements along the border between two parts, one value per border pixel."""

    depth: Field  # (k,) px to the edge of the surface; negative: to the surface, in a gap
    sure: Field  # (k,) log odds of surface
    filled: Field  # (k,) distance of the tone from the background's, 0 to 1; 1: as far as the surface's

    def __add__(self, other: "Border") -> "Border":
        """Concatenate two borders."""
        values = zip(vars(self).values(), vars(other).values(), strict=True)
        return Border(*(np.concatenate(both) for both in values))


@dataclass
class Parts:
    """The parts of a reduced look. Arrays by part begin with part 0, which is unused."""

    unit: float  # px, letter height
    labels: Labels  # (h, w) the part of a pixel, or outside the surface the nearest part
    depth: Field  # (h, w) px to the edge of the surface; negative: to the surface, outside it
    area: Field  # (n,) px
    ink: Field  # (n,) px
    likely: Field  # (n,) px, each weighted by its probability of surface
    peak: Field  # (n,) px, greatest depth
    tone: Field  # (n, 3) CIE Lab, sum over bare surface
    bare: Field  # (n,) px of bare surface
    points: Field  # (m, 2) x, y of pixels with ink
    owner: Labels  # (m,) the part of each point
    borders: dict[Pair, Border]
    sharp: dict[int, Field] = field(default_factory=dict)  # cache of `lines`, by part

    def join(self, first: int, second: int) -> None:
        """Merge two neighbouring parts into `first`."""
        self.labels[self.labels == second] = first
        self.owner[self.owner == second] = first
        for values in (self.area, self.ink, self.likely, self.tone, self.bare):
            values[first] += values[second]
            values[second] = 0
        self.peak[first] = max(self.peak[first], self.peak[second])
        self.sharp.pop(first, None)
        del self.borders[_pair(first, second)]
        for pair in [pair for pair in self.borders if second in pair]:
            border = self.borders.pop(pair)
            moved = _pair(first, pair[0] + pair[1] - second)
            self.borders[moved] = self.borders[moved] + border if moved in self.borders else border

    def lines(self, part: int) -> Field:
        """Return the sharpness of a part's text lines at each of ANGLES, 1 at the best."""
        if part not in self.sharp:
            changes = _changes([self._some(part)], ANGLES, self.unit)[0]
            sharp = np.square(changes).sum(axis=1)
            self.sharp[part] = (sharp / max(float(sharp.max()), 1e-9)).astype(np.float32)
        return self.sharp[part]

    def going_on(self, first: int, second: int, angle: float) -> tuple[float, float]:
        """Return correlation (-1 to 1) and overlap (px) of two parts' lines at the best angle near `angle`."""
        one, other = _changes([self._some(first), self._some(second)], angle + FINE, self.unit)
        best, over = 0.0, 0.0
        for a, b in zip(one, other, strict=True):
            inked = np.flatnonzero(a), np.flatnonzero(b)
            low, high = max(rows[0] for rows in inked), min(rows[-1] for rows in inked) + 1
            if high - low < 4:
                continue
            a, b = a[low:high], b[low:high]
            alike = float(a @ b) / max(float(np.sqrt((a @ a) * (b @ b))), 1e-9)
            if alike > best or over == 0:
                best, over = alike, (high - low) * _row(self.unit)
        return best, over

    def _some(self, part: int) -> Field:
        """Return at most POINTS of the part's pixels with ink."""
        points = self.points[self.owner == part]
        count = min(len(points), POINTS)
        return np.asarray(points[np.arange(count) * len(points) // max(count, 1)], np.float32)


def take_apart(look: Look, picture: Bytes, height: float) -> Parts:
    """Over-segment a `look` at the RGB `picture` (h, w, 3), whose letters are `height` px high."""
    factor = min(1.0, UNIT / height)
    unit = height * factor
    size = max(1, round(look.ink.shape[1] * factor)), max(1, round(look.ink.shape[0] * factor))
    ink = np.asarray(cv2.resize(_writing(look), size, interpolation=cv2.INTER_AREA), np.float32)
    likely = np.asarray(cv2.resize(look.surface, size, interpolation=cv2.INTER_AREA), np.uint8)
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    lab = np.asarray(cv2.cvtColor(small / 255, cv2.COLOR_RGB2Lab), np.float32)
    surface = _solid(likely, ink, unit)
    # beyond the picture there is no surface: otherwise a page without background would have no depth
    deep = cv2.distanceTransform(np.pad(surface, 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    deep = cv2.GaussianBlur(deep, (0, 0), 0.12 * unit) * surface
    labels, away = _extended(_climbed(deep), surface)
    depth = np.where(surface > 0, deep, -away)
    labels = _without_low_saddles(labels, depth)
    bare = (surface > 0) & (cv2.dilate(ink, np.ones((3, 3), np.uint8)) < 0.2)
    count, flat = int(labels.max()) + 1, labels.ravel()
    peak = np.zeros(count, np.float32)
    np.maximum.at(peak, flat, depth.ravel())
    rows, columns = np.nonzero((ink > 0.3) & (surface > 0))

    def total(where: Mask, values: Field | None = None) -> Field:
        weights = None if values is None else values[where]
        return np.bincount(labels[where], weights, count).astype(np.float32)

    return Parts(
        unit=unit,
        labels=labels,
        depth=depth,
        area=total(surface > 0),
        ink=total(surface > 0, ink),
        likely=total(surface > 0, likely.astype(np.float32) / np.float32(255)),
        peak=peak,
        tone=np.stack([total(bare, lab[..., channel]) for channel in range(3)], axis=1),
        bare=total(bare),
        points=np.stack([columns, rows], axis=1).astype(np.float32),
        owner=labels[rows, columns],
        borders=_seen_borders(labels, depth, likely, lab, unit),
    )


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _writing(look: Look) -> Field:
    """Return (h, w) 1 on ink on surface, without specks and bars: rulings, marks of a ruler, edges of a chart."""
    near = cv2.blur(np.maximum(look.surface, look.ink), (9, 9))
    ink = (look.ink > 127) & (near >= 255 * BELIEVED)
    _, labels, stats, centres = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    shorter, longer = np.sort(stats[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]], axis=1).T
    height = look.height[cells_at(np.asarray(centres), look)]
    kept = (longer >= np.maximum(height / 3, 4)) & ((longer < 1.5 * height) | (shorter > 0.45 * height))
    kept[0] = False
    return np.asarray(kept[labels], np.float32)


def _solid(likely: Bytes, ink: Field, unit: float) -> Bytes:
    """Return (h, w) 1 on surface, with threads removed and small holes filled."""
    rough = ((cv2.GaussianBlur(likely, (0, 0), 0.08 * unit) > 255 * SURFACE) | (ink > 0.5)).astype(np.uint8)
    side = max(3, round(THREAD * unit) | 1)
    thread = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    surface = np.asarray(cv2.morphologyEx(rough, cv2.MORPH_OPEN, thread), np.uint8)
    _, holes, stats, _ = cv2.connectedComponentsWithStats(1 - surface, connectivity=4)
    small = stats[:, cv2.CC_STAT_AREA] < (HOLE * unit) ** 2
    small[0] = False
    return np.asarray(surface | small[holes], np.uint8)


def _climbed(depth: Field) -> Labels:
    """Label each pixel with a depth by the peak that steepest ascent leads to: (h, w), from 1; 0 for the others."""
    high, wide = depth.shape
    around = np.pad(depth, 1, constant_values=-1)
    own = np.arange(depth.size, dtype=np.int32).reshape(depth.shape)
    best, above = depth.copy(), own.copy()
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            other = around[1 + down : 1 + down + high, 1 + across : 1 + across + wide]
            higher = other > best
            np.copyto(best, other, where=higher)
            np.copyto(above, own + (down * wide + across), where=higher)
    top = above.ravel()
    while True:
        further = top[top]
        if np.array_equal(further, top):
            break
        top = further
    on = depth.ravel() > 0
    numbers = np.zeros(depth.size, np.int32)
    peaks = np.unique(top[on])
    numbers[peaks] = np.arange(1, len(peaks) + 1)
    return np.asarray(np.where(on, numbers[top], 0).reshape(depth.shape), np.int32)


def _extended(labels: Labels, surface: Bytes) -> tuple[Labels, Field]:
    """Extend labels (h, w) to pixels outside the surface by the nearest part; also return that distance in px."""
    if not surface.any():
        return labels, np.zeros(labels.shape, np.float32)
    away, nearest = cv2.distanceTransformWithLabels(1 - surface, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    table = np.zeros(int(nearest.max()) + 1, np.int32)
    on = surface > 0
    table[nearest[on]] = labels[on]
    return np.asarray(table[nearest], np.int32), np.asarray(away, np.float32)


def _along_borders(labels: Labels) -> dict[Pair, NDArray[np.int64]]:
    """Map each pair of neighbouring parts to the flat indices of pixels whose right or lower neighbour is the other's.

    Indices count from the first pixel, row by row.
    """
    own = np.arange(labels.size, dtype=np.int64).reshape(labels.shape)
    found = []
    for one, other, index in (
        (labels[:, :-1], labels[:, 1:], own[:, :-1]),
        (labels[:-1], labels[1:], own[:-1]),
    ):
        at = one != other
        found.append((np.minimum(one[at], other[at]), np.maximum(one[at], other[at]), index[at]))
    first, second, indices = (np.concatenate(part) for part in zip(*found, strict=True))
    keys = first.astype(np.int64) * (int(labels.max()) + 1) + second
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    groups = np.split(indices[order], starts[1:]) if len(starts) else []
    pairs = zip(first[order[starts]].tolist(), second[order[starts]].tolist(), strict=True)
    return dict(zip(pairs, groups, strict=True))


def _without_low_saddles(labels: Labels, depth: Field) -> Labels:
    """Merge labels (h, w), from 1, of parts whose border is nearly as deep as the lower of their peaks."""
    count = int(labels.max()) + 1
    peak = np.zeros(count, np.float32)
    np.maximum.at(peak, labels.ravel(), depth.ravel())
    flat = depth.ravel()
    saddles = [(float(flat[at].max()), pair) for pair, at in _along_borders(labels).items()]
    head = list(range(count))

    def root(part: int) -> int:
        while head[part] != part:
            part = head[part]
        return part

    for saddle, pair in sorted(saddles, reverse=True):
        higher, lower = sorted((root(part) for part in pair), key=lambda part: -peak[part])
        if higher != lower and saddle > 0 and saddle >= PEAK * peak[lower]:
            head[lower] = higher
    _, numbers = np.unique([root(part) for part in range(1, count)], return_inverse=True)
    return np.asarray(np.concatenate([[0], numbers + 1])[labels], np.int32)


def _seen_borders(labels: Labels, depth: Field, likely: Bytes, lab: Field, unit: float) -> dict[Pair, Border]:
    """Measure all borders between parts."""
    lowest = cv2.erode(likely, np.ones((3, 3), np.uint8)).ravel()
    smooth = np.asarray(cv2.blur(lab, (3, 3)), np.float32).reshape(-1, 3)
    ground, spread, usual = _ground(smooth, depth.ravel(), unit)
    found = {}
    for pair, at in _along_borders(labels).items():
        odds = lowest[at].astype(np.float32)
        filled = np.sqrt(np.square(smooth[at] - ground).sum(axis=1))
        found[pair] = Border(
            depth=depth.ravel()[at],
            sure=np.log((odds + 1) / (256 - odds)),
            filled=np.clip((filled - spread) / usual, 0, 1),
        )
    return found


def _ground(lab: Field, depth: Field, unit: float) -> tuple[Field, float, float]:
    """Return the background's tone (3,) in CIE Lab, and the median distances from it of background and of surface.

    `lab` (p, 3) and `depth` (p,) are those of all pixels. The surface's distance is at least 6. Where no background is
    visible, the tone is one that no pixel has.
    """
    for away in (2.0, 1.0):
        ground = np.flatnonzero(depth < -away * unit)
        if len(ground) >= unit * unit:
            break
    else:
        return np.full(3, 1000, np.float32), 0.0, 6.0
    some = lab[ground[:: max(1, len(ground) // 4000)]]
    tone = np.median(some, axis=0)
    on = np.flatnonzero(depth > 0)
    surface = lab[on[:: max(1, len(on) // 4000)]]
    strays, usual = (float(np.median(np.linalg.norm(one - tone, axis=1))) for one in (some, surface))
    return tone, strays, max(usual, 6.0)


def _row(unit: float) -> float:
    """Return the height in px of a row of the projection profile: a sixth of a letter."""
    return max(1.0, unit / 6)


def _changes(sets: list[Field], angles: NDArray[np.float64], unit: float) -> list[Field]:
    """Return the differences of the projection profile, (angles, rows), of each set of points (m, 2).

    Rows run along each of the `angles`, counter-clockwise in radians, and are the same for all sets. Differences are
    taken rather than sums, because the outline of a piece changes the sums as well, but gradually.
    """
    across = np.stack([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32) / np.float32(_row(unit))
    down = [across @ points.T for points in sets]
    low = np.min([one.min(axis=1) for one in down], axis=0)[:, None] - 1
    count = int(max(float((one - low).max()) for one in down)) + 3
    offset = (np.arange(len(angles)) * count)[:, None]
    found = []
    for one in down:
        index = (one - low).astype(np.int64) + offset
        rows = np.bincount(index.ravel(), minlength=len(angles) * count).reshape(len(angles), count)
        rows = np.pad(rows.astype(np.float32), ((0, 0), (2, 2)))
        found.append(np.diff(rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:], axis=1))
    return found
