"""Splits a look into pieces: separates pieces that touch, and keeps a cracked leaf whole.

The surface is over-segmented at its narrow places (`parts.py`). Neighbouring parts are then merged, those of the
highest log odds first, as long as they are positive: by the length of their contact, by what fills the gap, by whether
their writing has one direction and its lines continue from one to the other, and by the difference of tone.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import Look
from membra.see.parts import ANGLES, Parts, take_apart
from membra.see.turn import ink_by_cell, letter_height

Mask = NDArray[np.bool_]

COVERED = 0.8  # share of the photograph that is surface, from which it shows one page
NEAR = 0.75  # letter heights, half the largest gap between two neighbouring parts
MOUNT = 0.3  # distance of a gap's tone from the background's (1: the surface's), from which it is tissue or tape
TOLD = 0.5  # square letter heights of ink, about two letters, from which lines and pieces can be recognised
DEEP = 3.0  # letter heights from the edge of the surface; a border that is so deep is within one piece
LITTLE = 0.1  # of its neighbour's ink; a part with less that touches it is its margin: pieces differ less
HANGS = 0.5  # depth of the border over the lower peak, above which a part with hardly any ink is its neighbour's
SCRAP, SCRAP_SHARE = 1.5, 0.04  # square letter heights of ink, and share of the largest piece's; less of both: no piece
CHIP = 0.15  # square letter heights of surface, from which a part without writing is a chip; less is dust
CHIP_SURE = 0.75  # mean probability of surface, from which it is a chip
MARGIN = 0.12  # letter heights that a piece extends beyond its surface, so that no letter at the edge is cut
MARGIN_ALONE = 0.5  # the same for the only piece of a photograph, where it takes nothing from another
SURELY = 10.0  # log odds of a certain merge
# Weight of each cue in log odds, fitted by tools/split_weights.py. Adjusted by hand after that: `always` up by 0.6,
# since splitting a leaf is worse than merging two pieces, and `many lines agree` up by 2, since no drawn leaf has the
# gutter of a book, where lines continue beyond a dark fold.
WEIGHTS = {
    "always": -5.5,
    "contact": 5.5,  # length of the border on surface, 1 for three times the narrower part's radius
    "mounted": 3.8,  # share to which a gap is filled by tissue or tape, 1 for all along
    "size": -3.7,  # the narrower part's radius, 1 from two letter heights: small parts are seldom whole pieces
    "direction": 8.3,  # sharpness of both parts' lines at the best common angle, 1 for as sharp as at each one's own
    "lines": -3.6,  # extent over which lines lie side by side, 0 for one letter height, 1 for four
    "lines agree": 2.7,  # the same times the correlation of these lines
    "many lines agree": 2.4,  # the correlation times the extent beyond four letter heights, 1 for ten
    "tone": -0.34,  # difference of the bare surfaces, in units of CIE Lab
    "surface": 0.98,  # log odds of surface along the border
}


@dataclass(frozen=True)
class Pieces:
    """The pieces of a look, in reading order: row by row from the top, each row from the left."""

    labels: NDArray[np.int32]  # (h, w) number of a pixel's piece, from 1; 0: none
    count: int  # pieces with writing, at least 1; higher numbers are chips, which have none

    def written(self) -> list[Mask]:
        """Return the mask (h, w) of each piece with writing."""
        return [np.asarray(self.labels == number) for number in range(1, self.count + 1)]

    def chips(self) -> list[Mask]:
        """Return the mask (h, w) of each chip."""
        return [np.asarray(self.labels == number) for number in range(self.count + 1, int(self.labels.max()) + 1)]


def split(look: Look, picture: NDArray[np.uint8]) -> Pieces:
    """Split the `look` at an RGB `picture` (h, w, 3) into pieces.

    The whole picture is one piece where it is nearly all surface, a page without background. It is also one piece
    where there is ink but no surface, so that no writing is lost, and where there is no ink.
    """
    height = letter_height(look, ink_by_cell(look))
    if height > 0:
        parts = take_apart(look, picture, height)
        if float((parts.depth > 0).mean()) < COVERED:
            join(parts)
            found = _pieces(parts, (look.ink.shape[0], look.ink.shape[1]))
            if found is not None:
                return found
    return whole(look)


def whole(look: Look) -> Pieces:
    """Return the whole photograph as one piece."""
    return Pieces(np.ones(look.ink.shape, np.int32), 1)


def join(parts: Parts) -> None:
    """Merge parts of the same piece, those of the highest log odds first; then merge the remaining margins."""
    scores = {pair: evidence(parts, *pair) for pair in parts.borders}
    while scores:
        pair = max(scores, key=lambda one: scores[one])
        if scores[pair] <= 0:
            break
        parts.join(*pair)
        scores = {one: score for one, score in scores.items() if not set(one) & set(pair)}
        scores |= {one: evidence(parts, *one) for one in parts.borders if pair[0] in one}
    while margins := [pair for pair in parts.borders if _is_margin(parts, *pair)]:
        parts.join(*margins[0])


def _is_margin(parts: Parts, first: int, second: int) -> bool:
    """Return whether, of two touching parts with writing, one has so little that it is the other's margin."""
    less, more = sorted((float(parts.ink[first]), float(parts.ink[second])))
    little = TOLD * parts.unit * parts.unit <= less < LITTLE * more
    return little and float(parts.borders[first, second].depth.max()) > 0


def evidence(parts: Parts, first: int, second: int) -> float:
    """Return the log odds that two neighbouring parts are one piece."""
    border = parts.borders[first, second]
    deepest = float(border.depth.max())
    if deepest < -NEAR * parts.unit:
        return -np.inf
    if deepest > DEEP * parts.unit:
        return SURELY
    if min(parts.ink[first], parts.ink[second]) >= TOLD * parts.unit * parts.unit:
        return sum(WEIGHTS[name] * value for name, value in cues(parts, first, second).items())
    # a margin, or a patch with hardly any ink
    if deepest > 0:
        return deepest / min(float(parts.peak[first]), float(parts.peak[second])) - HANGS
    return _mounted(parts, first, second) - 0.95


def cues(parts: Parts, first: int, second: int) -> dict[str, float]:
    """Measure the cues of two neighbouring parts with writing; WEIGHTS defines each."""
    border, unit = parts.borders[first, second], parts.unit
    narrower = min(float(parts.peak[first]), float(parts.peak[second]))
    touching = border.depth > 0
    tones = parts.tone[[first, second]] / np.maximum(parts.bare[[first, second], None], 1)
    agree = np.minimum(parts.lines(first), parts.lines(second))
    alike, over = parts.going_on(first, second, float(ANGLES[int(agree.argmax())]))
    # lines side by side over less than a letter height carry no evidence, over several lines much
    some, many = float(np.clip(over / unit - 1, 0, 3)) / 3, float(np.clip(over / unit - 4, 0, 12)) / 6
    return {
        "always": 1.0,
        "contact": min(1.0, float(touching.sum()) / (3 * narrower)),
        "mounted": 0.0 if touching.any() else _mounted(parts, first, second),
        "size": min(1.0, narrower / (2 * unit)),
        "direction": float(agree.max()),
        "lines": some,
        "lines agree": some * alike,
        "many lines agree": many * alike,
        "tone": min(15.0, float(np.linalg.norm(tones[0] - tones[1]))),
        "surface": float(np.clip(border.sure[touching].mean(), -2, 5)) if touching.any() else 0.0,
    }


def _mounted(parts: Parts, first: int, second: int) -> float:
    """Return how far the gap between two parts is filled all along by something other than background, 0 to 1."""
    border = parts.borders[first, second]
    filled = border.filled[border.depth >= -NEAR * parts.unit]
    if not len(filled):
        return 0.0
    facing = len(filled) / (3 * min(float(parts.peak[first]), float(parts.peak[second])))
    return min(1.0, float(np.quantile(filled, 0.25)) / MOUNT) * min(1.0, facing)


def _pieces(parts: Parts, shape: tuple[int, int]) -> Pieces | None:
    """Select the parts that are pieces, at the size (h, w) of the look; None where no part has writing."""
    square = parts.unit * parts.unit
    written = parts.ink >= max(TOLD * square, min(SCRAP * square, SCRAP_SHARE * float(parts.ink.max())))
    if not written.any():
        return None
    edge = -(MARGIN if written.sum() > 1 else MARGIN_ALONE) * parts.unit
    labels, number = np.zeros(parts.labels.shape, np.int32), 0
    for kind in (written, _chips(parts) & ~written):
        masks = [_filled((parts.labels == part) & (parts.depth > edge)) for part in np.flatnonzero(kind).tolist()]
        for index in reading_order(masks):
            number += 1
            labels[masks[index] & (labels == 0)] = number
    full = cv2.resize(labels, shape[::-1], interpolation=cv2.INTER_NEAREST)
    return Pieces(np.asarray(full, np.int32), int(written.sum()))


def _chips(parts: Parts) -> Mask:
    """Return (n,) whether a part lies alone: no bit of tape on a piece, no ruler at the photograph's edge."""
    chips = (parts.area >= CHIP * parts.unit**2) & (parts.likely >= CHIP_SURE * parts.area)
    for pair, border in parts.borders.items():
        if border.depth.max() > 0:
            chips[list(pair)] = False
    labels = np.where(parts.depth > 0, parts.labels, 0)
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        chips[edge] = False
    return chips


def reading_order(masks: list[Mask]) -> list[int]:
    """Return the indices of masks (h, w) row by row from the top, each row from the left.

    Each row begins with the topmost remaining piece. It holds the pieces whose vertical overlap with that one is at
    least half of the less high of the two.
    """
    spans = [np.flatnonzero(mask.any(axis=1))[[0, -1]].tolist() for mask in masks]
    middles = [float(np.flatnonzero(mask.any(axis=0)).mean()) for mask in masks]
    left = sorted(range(len(masks)), key=lambda index: (spans[index][0], middles[index]))
    order: list[int] = []
    while left:
        row = [index for index in left if _beside(spans[left[0]], spans[index])]
        order += sorted(row, key=lambda index: middles[index])
        left = [index for index in left if index not in row]
    return order


def _beside(one: list[int], other: list[int]) -> bool:
    """Return whether two spans (first, last) share at least half of the shorter."""
    shared = min(one[1], other[1]) - max(one[0], other[0]) + 1
    return 2 * shared >= min(one[1] - one[0], other[1] - other[0]) + 1


def _filled(mask: Mask) -> Mask:
    """Fill the holes of a mask (h, w)."""
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return cv2.drawContours(np.zeros(mask.shape, np.uint8), outlines, -1, 1, cv2.FILLED) > 0
