"""Cut the letters that an encoder is trained on out of many photographs, side by side."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import Recipe, see
from membra.errors import MembraError, Refused
from membra.find.workers import Progress, Workers, outcome_of
from membra.see.fragment import Fragment


def cut_letters(
    fragments: Sequence[Fragment],
    recipe: Recipe,
    crew: Workers,
    *,
    most: int,
    seed: Sequence[int] = (),
    progress: Progress | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[Refused]]:
    """Patches (n, 64, 64) of the fragments, the place (n,) of the fragment that each is from, and who was refused.

    At most `most` of a fragment, so that a full page does not outweigh ten scraps, drawn by `seed` and its place.
    """
    cut = crew.each(partial(_cut, recipe=recipe, most=most, seed=seed), list(enumerate(fragments)), progress)
    patches, owners, refused = [], [], []
    for place, found in enumerate(cut):
        if isinstance(found, Refused):
            refused.append(found)
        else:
            patches.append(found)
            owners.append(np.full(len(found), place))
    if sum(map(len, patches)) == 0:
        raise MembraError("no letters were found in these images, so there is nothing to train on; check the source")
    return np.concatenate(patches), np.concatenate(owners), refused


def _cut(
    placed: tuple[int, Fragment], *, recipe: Recipe, most: int, seed: Sequence[int]
) -> NDArray[np.uint8] | Refused:
    """Patches (n, 64, 64) of one fragment, given with its place; drawn here, so that workers send what is kept."""
    place, fragment = placed
    glyphs = outcome_of(partial(see, recipe=recipe), fragment)
    if isinstance(glyphs, Refused):
        return glyphs
    if len(glyphs) <= most:
        return glyphs.patches
    return glyphs.patches[np.sort(np.random.default_rng((*seed, place)).choice(len(glyphs), most, replace=False))]
