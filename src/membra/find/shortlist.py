"""Approximate scores for selecting a shortlist in collections too large to compare in full.

Every prototype of every bag is rounded to the nearest of a few thousand codewords, two bytes each, which amounts to one
sparse vector per fragment. A query is compared with the codewords once; the fragment's side of its Chamfer distance,
sum_j 1/L min_i ||nu_j - mu_i||, is then one look-up per prototype instead of K products of d numbers. The nearest by
that score are compared in full, with the kernels, and only they are ranked.

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

_SAMPLED = 64  # one in this many scores is sampled to estimate where the lowest end
# The matrix library computes products of at most this many numbers without waking its threads. Once awake, they spin
# for some 20 ms on the processors that the rest of a search needs, which then takes half as long again.
_ONE_CORE = 200_000
_AT_ONCE = 1024  # prototypes that are rounded in one block: a product of 16 MB with 4096 codewords


@dataclass(frozen=True)
class ShortlistSettings:
    """Precision and size of the shortlist. Nothing here changes a distance, only which fragments are compared."""

    codewords: int = 4096  # at most; more are slower to fit, fewer let more strangers through
    words_each: int = 40  # prototypes per codeword for fitting; a collection with fewer prototypes gets fewer codewords
    rounds: int = 6  # of k-means; more move the codewords by less than a prototype is wide
    seed: int = 42
    exact_up_to: int = 500_000  # fragments: 0.5 s per query on two cores, and 3.3 GB of memory
    part: int = 100  # one in this many fragments is compared in full ...
    least: int = 2_000  # ... and this number at least
    before: int = 4  # candidates by Chamfer codes, as a multiple of the shortlist, before their means are compared


def fit_codewords(prototypes: Floats, settings: ShortlistSettings | None = None) -> Floats:
    """Fit codewords (C, d) to a sample of prototypes (m, d), m >= 1, by k-means from prototypes drawn at random.

    At most `words_each` prototypes per codeword are used.
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
    """Return the nearest codeword of each packed prototype, (T, 16), in the tiles' layout; C for an empty lane."""
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
    """Approximate the distance of each bag to `query`, (N,) over all `parts`, whose prototypes have these `codes`: the
    mean over its prototypes, rounded to codewords, of the distance to the query's nearest prototype."""
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
    """Return the indices of the `count` lowest finite `scores` (N,), in ascending order of the indices."""
    found = np.arange(len(scores))
    some = scores[::_SAMPLED]
    rank = 2 * count // _SAMPLED + 8
    if rank < len(some):  # a sample nearly always gives a threshold; partitioning all scores takes ten times as long
        low = np.flatnonzero(scores <= np.partition(some, rank)[rank])
        found = low if len(low) >= count else found
    if count < len(found):
        found = found[np.argpartition(scores[found], count)[:count]]
    return np.sort(found[np.isfinite(scores[found])]).astype(np.int64)


def how_many(fragments: int, wanted: str | int, settings: ShortlistSettings | None = None) -> int:
    """Return the number of fragments to compare in full; 0 means all: for `off`, and for `auto` up to `exact_up_to`."""
    settings = settings or ShortlistSettings()
    if wanted == "off" or (wanted == "auto" and fragments <= settings.exact_up_to):
        return 0
    count = max(settings.least, fragments // settings.part) if wanted == "auto" else int(wanted)
    return count if count < fragments else 0
