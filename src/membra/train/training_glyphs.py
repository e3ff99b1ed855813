"""Cut the glyphs that an encoder is trained on out of many photographs, in parallel."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import Recipe, pieces_of
from membra.describe.workers import Workers, outcome_of
from membra.errors import NotEnough, Refused, TooFewLetters
from membra.progress import Progress
from membra.sources.fragment import Fragment


def cut_letters(
    photographs: Sequence[Fragment],
    recipe: Recipe,
    pool: Workers,
    *,
    most: int,
    seed: Sequence[int] = (),
    progress: Progress | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[Fragment], list[Refused]]:
    """Return patches (n, 64, 64), the index (n,) of each patch's piece, the pieces, and the rejections.

    At most `most` patches of a piece are taken, so that a full page does not outweigh ten scraps; they are drawn by
    `seed`, the photograph's index and the piece's number. As in describing, pieces with fewer letters than the recipe
    requires are rejected.
    """
    cut = pool.each(partial(_cut, recipe=recipe, most=most, seed=seed), list(enumerate(photographs)), progress)
    patches: list[NDArray[np.uint8]] = []
    pieces: list[Fragment] = []
    refused: list[Refused] = []
    for found in cut:
        if isinstance(found, Refused):
            refused.append(found)
        else:
            for piece, own in found:
                if isinstance(own, Refused):
                    refused.append(own)
                else:
                    pieces.append(piece)
                    patches.append(own)
    short = [reason for reason in refused if isinstance(reason, TooFewLetters)]
    if not patches and short:
        raise NotEnough(
            "there is nothing to train on: {why}; give other images or another recipe", why=short[0].message
        )
    if sum(map(len, patches)) == 0:
        raise NotEnough("no letters were found in these images, so there is nothing to train on; check the source")
    owners = np.repeat(np.arange(len(pieces)), [len(own) for own in patches])
    return np.concatenate(patches), owners, pieces, refused


def _cut(
    numbered: tuple[int, Fragment], *, recipe: Recipe, most: int, seed: Sequence[int]
) -> list[tuple[Fragment, NDArray[np.uint8] | Refused]] | Refused:
    """Return the pieces of a photograph, given with its index, each with its patches (n, 64, 64) or the reason for its
    rejection. Patches are drawn here, so that workers send only those that are used."""
    index, photograph = numbered
    seen = outcome_of(partial(pieces_of, recipe=recipe), photograph)
    if isinstance(seen, Refused):
        return seen
    found: list[tuple[Fragment, NDArray[np.uint8] | Refused]] = []
    for piece, reading in seen[0]:
        letters = len(reading.glyphs)
        if letters < recipe.min_glyphs and recipe.min_glyphs > 1:  # a limit of 1 rejects nothing
            found.append(
                (
                    piece,
                    TooFewLetters(
                        "{id}: {count} letters, fewer than {limit}", id=piece.id, count=letters, limit=recipe.min_glyphs
                    ),
                )
            )
            continue
        draw = (*seed, index, piece.piece) if piece.piece else (*seed, index)
        found.append((piece, _drawn(reading.glyphs.patches, most, draw)))
    return found


def _drawn(patches: NDArray[np.uint8], most: int, seed: Sequence[int]) -> NDArray[np.uint8]:
    """Draw at most `most` patches, in their order."""
    if len(patches) <= most:
        return patches
    return patches[np.sort(np.random.default_rng(seed).choice(len(patches), most, replace=False))]
