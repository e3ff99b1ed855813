"""A first look at what is too large to compare in full: which fragments are worth it.

One vector a fragment, and a sparse one: every word of every bag is rounded to the nearest of a few thousand
codewords, two bytes each. A query is compared with the codewords, once; what its distance to a fragment is from the
fragment's side, sum_j 1/L min_i ||nu_j - mu_i||, is then one look-up a word instead of K products of d numbers.
The nearest by that are compared in full, with the kernels, and only they are ranked.

Why not an index over the mean embedding: docs/scaling.md has the measurement. Even searched exactly, the mean puts a
twentieth to a tenth of a collection before the last of the true first twenty; codewords a two-hundredth and less.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import LANES, Packed, processors
from membra.describe.bag import Bag

Floats = NDArray[np.float32]
Codes = NDArray[np.uint16]

_AT_ONCE = 1024  # words that are rounded at once: a product of 16 MB with 4096 codewords
_GROUPS = 256  # groups whose codes are looked up at once: what fits the second cache


@dataclass(frozen=True)
class ShortlistSettings:
    """How coarse the first look is, and when it is taken. None of this changes a distance, only what is compared."""

    codewords: int = 4096  # at most; more are slower to make, fewer let more strangers through
    words_each: int = 40  # words a codeword is made from; a collection with fewer words gets fewer codewords
    rounds: int = 6  # of k-means; more move the codewords by less than a word is wide
    seed: int = 42
    exact_up_to: int = 500_000  # fragments: 3 s a query on two cores, at 50 words each; beyond it, the first look
    part: int = 100  # one in so many fragments is compared in full ...
    least: int = 2_000  # ... and so many at the least


def fit_codewords(words: Floats, settings: ShortlistSettings | None = None) -> Floats:
    """Codewords (C, d) for a sample of words (m, d), m >= 1: k-means from words drawn at random.

    What is left over of a sample of more than `words_each` words a codeword is not looked at.
    """
    from sklearn.cluster import KMeans

    settings = settings or ShortlistSettings()
    rng = np.random.default_rng(settings.seed)
    different = np.unique(words, axis=0)
    count = min(settings.codewords, max(1, len(different) // settings.words_each))
    some = rng.permutation(len(different))[: count * settings.words_each]
    found = KMeans(count, init="random", n_init=1, max_iter=settings.rounds, random_state=settings.seed)
    return np.asarray(found.fit(different[some]).cluster_centers_, dtype=np.float32)


def code_words(packed: Packed, codewords: Floats, *, threads: int | None = None) -> Codes:
    """The nearest codeword of each packed word, (T, 16), as the tiles lie; C where a lane has no such word."""
    found = np.full(packed.norms.shape, len(codewords), dtype=np.uint16)
    # Nearest is where w.c - |c|^2/2 is largest; the norm is one more row of the product.
    columns = np.vstack([codewords.T, _squares(codewords)[None] / -2]).astype(np.float32)

    def work(bounds: tuple[int, int]) -> None:
        some = slice(*bounds)
        there = np.isfinite(packed.norms[some])
        words = np.ones((int(np.count_nonzero(there)), len(columns)), dtype=np.float32)
        words[:, :-1] = packed.tiles[some].transpose(0, 2, 1)[there]
        found[some][there] = (words @ columns).argmax(axis=1)

    _in_threads(work, len(found), _AT_ONCE // LANES, threads)
    return found


def first_look(
    query: Bag, packed: Packed, codes: Codes, codewords: Floats, *, threads: int | None = None
) -> NDArray[np.float64]:
    """About how far each packed bag is from `query`, (N,): the mean over its words, rounded to codewords, of the
    distance to the query's nearest word."""
    own = query.prototypes.astype(np.float64)
    gaps = _squares(codewords)[:, None] + _squares(own) - 2 * codewords.astype(np.float64) @ own.T
    table = np.zeros(len(codewords) + 1, dtype=np.float32)  # the last for lanes without a word
    table[:-1] = np.sqrt(np.maximum(gaps.min(axis=1), 0))
    sums = np.zeros(packed.counts.shape, dtype=np.float32)

    def work(bounds: tuple[int, int]) -> None:
        first, last = packed.starts[bounds[0]], packed.starts[bounds[1]]
        looked_up = table.take(codes[first:last], mode="clip")
        np.add.reduceat(looked_up, packed.starts[bounds[0] : bounds[1]] - first, axis=0, out=sums[slice(*bounds)])

    _in_threads(work, len(sums), _GROUPS, threads)
    lanes = packed.places >= 0
    found = np.empty(int(np.count_nonzero(lanes)))
    found[packed.places[lanes]] = sums[lanes] / packed.counts[lanes]
    return found


def take_bags(packed: Packed, places: NDArray[np.int64], *, threads: int | None = None) -> Packed:
    """The bags of `packed` with these places, packed by themselves; place i of them is `places[i]`.

    The words are those of `packed`, bit for bit, so that distances are too.
    """
    lanes = packed.places >= 0
    position = np.empty(int(np.count_nonzero(lanes)), dtype=np.int64)
    position[packed.places[lanes]] = np.flatnonzero(lanes)
    held = position[places]
    lengths = packed.counts.reshape(-1)[held]
    order = np.lexsort((held, lengths))  # by length as always; of equal length, as they lie in memory
    held, lengths = held[order], lengths[order]
    groups = -(-len(held) // LANES)
    counts = np.zeros((groups, LANES), dtype=np.int32)
    counts.reshape(-1)[: len(held)] = lengths
    new_places = np.full((groups, LANES), -1, dtype=np.int64)
    new_places.reshape(-1)[: len(held)] = order
    starts = np.concatenate([[0], np.cumsum(counts.max(axis=1, initial=0))]).astype(np.int64)
    tiles = np.zeros((int(starts[-1]), packed.dimensions, LANES), dtype=packed.tiles.dtype)
    norms = np.full((int(starts[-1]), LANES), np.inf, dtype=np.float32)
    masses = np.zeros((int(starts[-1]), LANES), dtype=np.float32)
    old = packed.starts[held // LANES]

    def work(bounds: tuple[int, int]) -> None:
        for place in range(bounds[0] * LANES, min(bounds[1] * LANES, len(held))):
            own, lane = int(starts[place // LANES]), place % LANES
            here, there = slice(own, own + lengths[place]), slice(old[place], old[place] + lengths[place])
            of = held[place] % LANES
            tiles[here, :, lane] = packed.tiles[there, :, of]
            norms[here, lane], masses[here, lane] = packed.norms[there, of], packed.masses[there, of]

    _in_threads(work, groups, 4, threads)
    return Packed(tiles, norms, masses, starts, counts, new_places, packed.slack)


def lowest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The places of the `count` lowest of `scores` (N,), in ascending order; infinite ones are none."""
    found = np.argpartition(scores, count)[:count] if count < len(scores) else np.arange(len(scores))
    return np.sort(found[np.isfinite(scores[found])]).astype(np.int64)


def how_many(fragments: int, asked: str | int, settings: ShortlistSettings | None = None) -> int:
    """How many fragments to compare in full: all of them (0) for `off` and, for `auto`, up to `exact_up_to`."""
    settings = settings or ShortlistSettings()
    if asked == "off" or (asked == "auto" and fragments <= settings.exact_up_to):
        return 0
    count = max(settings.least, fragments // settings.part) if asked == "auto" else int(asked)
    return count if count < fragments else 0


def _squares(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """|v|^2 of each row."""
    return np.asarray((vectors.astype(np.float64) ** 2).sum(axis=1))


def _in_threads(work: Callable[[tuple[int, int]], None], count: int, step: int, threads: int | None) -> None:
    """`work` on the ranges of `count`, `step` at a time."""
    cuts: Iterable[tuple[int, int]] = pairwise([*range(0, count, step), count])
    threads = threads or processors()
    if threads == 1 or count <= step:
        for bounds in cuts:
            work(bounds)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, cuts))
