"""A first look at what is too large to compare in full: which fragments are worth it.

One vector a fragment, and a sparse one: every prototype of every bag is rounded to the nearest of a few thousand
codewords, two bytes each. A query is compared with the codewords, once; what its distance to a fragment is from the
fragment's side, sum_j 1/L min_i ||nu_j - mu_i||, is then one look-up a prototype instead of K products of d numbers.
The nearest by that are compared in full, with the kernels, and only they are ranked.

Why not an index over the mean embedding alone: docs/decisions/shortlist-first-look.md has the measurement. With some
encoders the mean puts a tenth of a collection before the last of the true first twenty, codewords a hundredth; both
together are never worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import look_up
from membra.compare.kernels import LANES, Packed, half_squares
from membra.compare.threads import in_threads
from membra.describe.bag import Bag

Floats = NDArray[np.float32]
Codes = NDArray[np.uint16]

_SAMPLED = 64  # one in so many scores says about where the lowest end
# Products of so few numbers the matrix library makes without waking its threads. Woken, they wait for more in a loop
# for some 20 ms, on the processors that the rest of a search needs: it then takes half as long again.
_ONE_CORE = 200_000
_AT_ONCE = 1024  # prototypes that are rounded at once: a product of 16 MB with 4096 codewords


@dataclass(frozen=True)
class ShortlistSettings:
    """How coarse the first look is, and when it is taken. None of this changes a distance, only what is compared."""

    codewords: int = 4096  # at most; more are slower to make, fewer let more strangers through
    words_each: int = 40  # prototypes a codeword is made from; a collection with fewer prototypes gets fewer codewords
    rounds: int = 6  # of k-means; more move the codewords by less than a prototype is wide
    seed: int = 42
    exact_up_to: int = 500_000  # fragments: 0.5 s a query on two cores, and 3.3 GB to be held in memory
    part: int = 100  # one in so many fragments is compared in full ...
    least: int = 2_000  # ... and so many at the least
    before: int = 4  # times as many are left by their letters alone, before their means are looked at


def fit_codewords(prototypes: Floats, settings: ShortlistSettings | None = None) -> Floats:
    """Codewords (C, d) for a sample of prototypes (m, d), m >= 1: k-means from prototypes drawn at random.

    What is left over of a sample of more than `words_each` prototypes a codeword is not looked at.
    """
    from sklearn.cluster import KMeans

    settings = settings or ShortlistSettings()
    rng = np.random.default_rng(settings.seed)
    different = np.unique(prototypes, axis=0)
    count = min(settings.codewords, max(1, len(different) // settings.words_each))
    some = rng.permutation(len(different))[: count * settings.words_each]
    found = KMeans(count, init="random", n_init=1, max_iter=settings.rounds, random_state=settings.seed)
    return np.asarray(found.fit(different[some]).cluster_centers_, dtype=np.float32)


def code_prototypes(packed: Packed, codewords: Floats, *, threads: int | None = None) -> Codes:
    """The nearest codeword of each packed prototype, (T, 16), as the tiles lie; C where a lane has none."""
    found = np.full(packed.norms.shape, len(codewords), dtype=np.uint16)
    # Nearest is where w.c - |c|^2/2 is largest; the norm is one more row of the product.
    columns = np.vstack([codewords.T, -half_squares(codewords)[None]]).astype(np.float32)

    def work(bounds: tuple[int, int]) -> None:
        some = slice(*bounds)
        there = np.isfinite(packed.norms[some])
        prototypes = np.ones((int(np.count_nonzero(there)), len(columns)), dtype=np.float32)
        prototypes[:, :-1] = packed.tiles[some].transpose(0, 2, 1)[there]
        found[some][there] = (prototypes @ columns).argmax(axis=1)

    in_threads(work, pairwise([*range(0, len(found), _AT_ONCE // LANES), len(found)]), threads)
    return found


def first_look(
    query: Bag,
    parts: Sequence[Packed],
    codes: Sequence[Codes],
    codewords: Floats,
    *,
    threads: int | None = None,
) -> Floats:
    """About how far each bag is from `query`, (N,) over all `parts`, whose prototypes have these `codes`: the mean over
    its prototypes, rounded to codewords, of the distance to the query's nearest prototype."""
    table = np.zeros(len(codewords) + 1, dtype=np.float32)  # the last for lanes without a prototype
    halves, prototypes = half_squares(query.prototypes).astype(np.float32), query.prototypes.T
    rows = max(1, _ONE_CORE // prototypes.size)
    for first in range(0, len(codewords), rows):
        some = codewords[first : first + rows]
        table[first : first + len(some)] = (halves - some @ prototypes).min(axis=1) + half_squares(some)
    table[:-1] = np.sqrt(np.maximum(2 * table[:-1], 0))
    found = look_up(codes, table, parts, threads=threads)
    return np.concatenate([*found, np.zeros(0, dtype=np.float32)])


def lowest(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """The indices of the `count` lowest of `scores` (N,), in ascending order; infinite ones are none."""
    found = np.arange(len(scores))
    some = scores[::_SAMPLED]
    rank = 2 * count // _SAMPLED + 8
    if rank < len(some):  # a sample nearly always says where they end: to part all of them takes ten times as long
        low = np.flatnonzero(scores <= np.partition(some, rank)[rank])
        found = low if len(low) >= count else found
    if count < len(found):
        found = found[np.argpartition(scores[found], count)[:count]]
    return np.sort(found[np.isfinite(scores[found])]).astype(np.int64)


def how_many(fragments: int, wanted: str | int, settings: ShortlistSettings | None = None) -> int:
    """How many fragments to compare in full: all of them (0) for `off` and, for `auto`, up to `exact_up_to`."""
    settings = settings or ShortlistSettings()
    if wanted == "off" or (wanted == "auto" and fragments <= settings.exact_up_to):
        return 0
    count = max(settings.least, fragments // settings.part) if wanted == "auto" else int(wanted)
    return count if count < fragments else 0
