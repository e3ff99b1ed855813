"""The ink of one photograph by the recipe: what every method of a reproduction stands on."""

import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import Recipe, pick
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph


def ink_of(fragment: Fragment, recipe: Recipe) -> NDArray[np.uint8]:
    """(height, width), 255 on ink: of the most legible piece where a network looks. Raises `Refused`."""
    if recipe.ink.threshold == "learned":
        return pick(fragment, recipe)[1].ink
    photograph = read_photograph(fragment.path)
    return find_ink(photograph, find_parchment(photograph, recipe.parchment), recipe.ink).binary
