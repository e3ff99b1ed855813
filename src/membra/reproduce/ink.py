"""Glyphs of a picture in memory."""

import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import Recipe
from membra.see.eye import ready_eye
from membra.see.glyphs import Glyphs, cut_glyphs
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.see.read import read_pieces


def glyphs_of(picture: NDArray[np.uint8], recipe: Recipe) -> Glyphs:
    """Return the glyphs of a picture (h, w, 3) as one fragment."""
    if recipe.ink.threshold == "learned":
        readings = read_pieces(picture, ready_eye(), recipe.reading, recipe.letters, "one")
        return max(readings, key=lambda reading: len(reading.glyphs)).glyphs
    return cut_glyphs(find_ink(picture, find_parchment(picture, recipe.parchment), recipe.ink), recipe.glyphs)
