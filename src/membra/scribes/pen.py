"""The pen: instances of letters drawn by a swept nib, and their ink."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.scribe import Glyph, Hand, Points, bent, half_nib

# Ink is drawn on a grid this many times finer than the photograph and averaged, for antialiasing.
FINER = 3
# Fixed-point bits of the coordinates given to OpenCV; edges then move smoothly from instance to instance.
BITS = 4


class Swept(NamedTuple):
    """The two edges of a nib swept along every stroke of many letters, end to end.

    Consecutive points of one stroke span quadrilaterals; ``joined`` is False at the last point of a stroke.
    """

    upper: Points  # (n, 2) path of the nib's upper end, letter heights
    lower: Points  # (n, 2) path of its lower end
    joined: NDArray[np.bool_]  # (n,) whether point i + 1 belongs to the same stroke
    letter: NDArray[np.int64]  # (n,) number of the letter the point belongs to, ascending


def write(
    hand: Hand, alphabet: dict[str, Glyph], text: str, positions: Points, generator: np.random.Generator
) -> Swept:
    """Write every character of ``text`` with the left of its ink and its roof line at ``positions`` (n, 2)."""
    nib = half_nib(hand)
    middles, nibs, joined, owner = [], [], [], []
    # each letter also varies in size, slant, height and weight; drawn at once because single draws are slow
    growth = 1.0 + generator.normal(0.0, 0.018, (len(text), 2))
    lean = generator.normal(0.0, 0.018, len(text))
    rise = generator.normal(0.0, 0.012, len(text))
    weight = 1.0 + generator.normal(0.0, 0.04, len(text))
    for number, letter in enumerate(text):
        glyph = alphabet[letter]
        for stroke in glyph.strokes:
            points = stroke.points + hand.wander * bent(len(stroke.points), generator)
            points = points * growth[number]
            points[:, 0] += lean[number] * (1.0 - points[:, 1]) - glyph.left
            points[:, 1] += rise[number]
            path = _rounded(points + positions[number], hand.roundness)
            pressure = np.full(len(path), weight[number])
            if stroke.kind == "leg":
                pressure *= 1.0 - hand.taper * np.linspace(0.0, 1.0, len(path))
            middles.append(path)
            nibs.append(pressure[:, None] * nib)
            joined.append(np.arange(len(path)) < len(path) - 1)
            owner.append(np.full(len(path), number))
    if not middles:
        empty = np.zeros((0, 2))
        return Swept(empty, empty, np.zeros(0, bool), np.zeros(0, np.int64))
    middle, edge = np.concatenate(middles), np.concatenate(nibs)
    return Swept(middle + edge, middle - edge, np.concatenate(joined), np.concatenate(owner))


def ink(
    upper: Points, lower: Points, joined: NDArray[np.bool_], hairline: float, shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Return the share of each pixel under ink, (height, width) 0 to 1, for edges (n, 2) given in pixels.

    ``hairline`` is the thickness of the nib's edge in pixels.
    """
    fine = np.zeros((shape[0] * FINER, shape[1] * FINER), np.uint8)
    # OpenCV puts coordinate 0 in the middle of the first pixel, here 0 is its corner
    first = np.rint((upper * FINER - 0.5) * 2**BITS).astype(np.int32)
    second = np.rint((lower * FINER - 0.5) * 2**BITS).astype(np.int32)
    start = np.flatnonzero(joined)
    quads = np.stack([first[start], first[start + 1], second[start + 1], second[start]], axis=1)
    # one call for all of them would leave holes where quadrilaterals overlap (it fills by the even-odd rule)
    for quad in quads:
        cv2.fillConvexPoly(fine, quad, 255, cv2.LINE_8, BITS)
    size = max(1, round(hairline * FINER))
    thick = cv2.dilate(fine, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
    cover = cv2.resize(thick, (shape[1], shape[0]), interpolation=cv2.INTER_AREA)
    return cover.astype(np.float32) / np.float32(255.0)


def _rounded(points: Points, cut: float) -> Points:
    """Cut corners by the scribe's share, then by a quarter to smooth the rest; the ends stay."""
    for share in (cut, 0.25):
        ahead, behind = points[1:], points[:-1]
        inner = np.empty((2 * len(ahead), 2))
        inner[0::2] = (1.0 - share) * behind + share * ahead
        inner[1::2] = share * behind + (1.0 - share) * ahead
        inner[0], inner[-1] = points[0], points[-1]
        points = inner
    return points
