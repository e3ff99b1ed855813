"""The ink of one photograph by the recipe: what every method of a reproduction stands on."""

import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import Recipe, pick
from membra.see.eye import ready_eye
from membra.see.glyphs import Glyphs, cut_glyphs
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.see.read import read_pieces
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph


def ink_of(fragment: Fragment, recipe: Recipe) -> NDArray[np.uint8]:
    """(height, width), 255 on ink: of the most legible piece where a network looks. Raises `Refused`."""
    if recipe.ink.threshold == "learned":
        return pick(fragment, recipe)[1].ink
    photograph = read_photograph(fragment.path)
    return find_ink(photograph, find_parchment(photograph, recipe.parchment), recipe.ink).binary


def glyphs_of(picture: NDArray[np.uint8], recipe: Recipe) -> Glyphs:
    """The letters of a picture (h, w, 3) that stands in no file: all of it is one fragment."""
    if recipe.ink.threshold == "learned":
        readings = read_pieces(picture, ready_eye(), recipe.reading, recipe.letters, "one")
        return max(readings, key=lambda reading: len(reading.glyphs)).glyphs
    return cut_glyphs(find_ink(picture, find_parchment(picture, recipe.parchment), recipe.ink), recipe.glyphs)
