"""Vowel points and dots: ink of the scribe or of a later hand that does not belong to letters."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.page import Text
from membra.scribes.pen import BITS, FINER
from membra.scribes.scene import View, place
from membra.scribes.scribe import Glyph, Points

# Dots and bars of each sign, in letter heights from the centre of the sign below the letter (or above it):
# x, y, half the width, half the height. A dot is round, a bar has a flat end.
BELOW = (
    ((0.0, 0.0, 0.05, 0.05),),
    ((-0.11, 0.0, 0.05, 0.05), (0.11, 0.0, 0.05, 0.05)),
    ((-0.11, -0.03, 0.045, 0.045), (0.11, -0.03, 0.045, 0.045), (0.0, 0.10, 0.045, 0.045)),
    ((0.0, -0.06, 0.045, 0.045), (0.0, 0.09, 0.045, 0.045)),
    ((0.0, 0.0, 0.16, 0.035),),
    ((0.0, -0.02, 0.16, 0.035), (0.0, 0.08, 0.035, 0.09)),
)
ABOVE = (((0.0, 0.0, 0.05, 0.05),), ((0.0, 0.0, 0.14, 0.03),))
# These reach below the line and leave no room for a sign.
LONG = "ךןףץק"


class Pointed(NamedTuple):
    """Signs in a picture."""

    cover: NDArray[np.float32]  # (height, width) share of each pixel under their ink, 0 to 1
    boxes: NDArray[np.int32]  # (n, 4) x, y, width, height of each sign, pixels


def pointed(
    view: View, alphabet: dict[str, Glyph], text: Text, generator: np.random.Generator, share: float = 0.5
) -> Pointed:
    """Draw signs under, sometimes over, a ``share`` of the letters of ``text``."""
    fine = np.zeros((view.shape[0] * FINER, view.shape[1] * FINER), np.uint8)
    boxes = []
    size, drop = generator.uniform(0.8, 1.3), generator.uniform(0.16, 0.26)
    for number, letter in enumerate(text.letters):
        if generator.random() >= share:
            continue
        high = generator.random() < 0.12
        if letter in LONG and not high:
            continue
        signs = ABOVE if high else BELOW
        sign = signs[int(generator.integers(len(signs)))]
        middle = (alphabet[letter].right - alphabet[letter].left) / 2.0
        centre = text.positions[number] + (middle, -drop if high else 1.0 + drop) + generator.normal(0.0, 0.025, 2)
        edges = [place(view, outline) for outline in _outlines(centre, sign, size, generator)]
        for edge in edges:
            fixed = np.rint((edge * FINER - 0.5) * 2**BITS).astype(np.int32)
            cv2.fillPoly(fine, [fixed], 255, cv2.LINE_8, BITS)
        bounds = np.concatenate(edges)
        low = np.clip(np.floor(bounds.min(axis=0)), 0, view.shape[::-1])
        high_corner = np.clip(np.ceil(bounds.max(axis=0)), 0, view.shape[::-1])
        if (high_corner - low).min() > 0:
            boxes.append(np.concatenate([low, high_corner - low]))
    cover = cv2.resize(fine, (view.shape[1], view.shape[0]), interpolation=cv2.INTER_AREA)
    return Pointed(cover.astype(np.float32) / np.float32(255.0), np.array(boxes, np.int32).reshape(-1, 4))


def _outlines(
    centre: Points, sign: tuple[tuple[float, float, float, float], ...], size: float, generator: np.random.Generator
) -> list[Points]:
    """Outlines (n, 2), letter heights, of the dots and bars of one sign, each with slight variation."""
    angles = np.linspace(0.0, 2.0 * np.pi, 14, endpoint=False)
    outlines = []
    for x, y, half_wide, half_high in sign:
        power = 1.0 if half_wide == half_high else 0.4
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        shape = np.sign(circle) * np.abs(circle) ** power * (half_wide, half_high)
        shape = shape * generator.uniform(0.75, 1.25, (14, 1)) ** 0.5
        at = centre + size * (np.array([x, y]) + generator.normal(0.0, 0.012, 2))
        outlines.append(at + size * shape)
    return outlines
