"""SIFT keypoints of fragments, for comparison, on the same ink that their glyphs are cut from."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import Recipe, pick, pieces_of
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.see.sift import SiftSettings, sift
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph

Vectors = NDArray[np.float32]


def ink_of(fragment: Fragment, recipe: Recipe) -> NDArray[np.uint8]:
    """Return the ink (height, width), 255 on ink, of the piece that `pick` chooses. Raises `Refused` without one."""
    return pick(fragment, recipe)[1].ink if recipe.ink.threshold == "learned" else _by_rules(fragment, recipe)


def keypoints_of(fragment: Fragment, recipe: Recipe, settings: SiftSettings) -> Vectors:
    """Return the descriptors (n, 128) of the piece that `pick` chooses."""
    return sift(ink_of(fragment, recipe), settings)


def keypoints_by_piece(photograph: Fragment, recipe: Recipe, settings: SiftSettings) -> Mapping[str, Vectors]:
    """Return the descriptors (n, 128) of every piece of a photograph, by the pieces' ids."""
    if recipe.ink.threshold != "learned":
        return {photograph.id: sift(_by_rules(photograph, recipe), settings)}
    pieces, _ = pieces_of(photograph, recipe)
    return {piece.id: sift(reading.ink, settings) for piece, reading in pieces}


def _by_rules(photograph: Fragment, recipe: Recipe) -> NDArray[np.uint8]:
    picture = read_photograph(photograph.path)
    return find_ink(picture, find_parchment(picture, recipe.parchment), recipe.ink).binary
