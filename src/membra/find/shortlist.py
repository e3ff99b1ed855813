"""A first look at what is too large to compare in full: which fragments are worth it.

One vector a fragment, and a sparse one: every word of every bag is rounded to the nearest of a few thousand
codewords, two bytes each. A query is compared with the codewords, once; what its distance to a fragment is from the
fragment's side, sum_j 1/L min_i ||nu_j - mu_i||, is then one look-up a word instead of K products of d numbers.
The nearest by that are compared in full, with the kernels, and only they are ranked.

Why not an index over the mean embedding alone: docs/scaling.md has the measurement. With some encoders the mean puts
a tenth of a collection before the last of the true first twenty, codewords a hundredth; both together are never worse.
"""

from collections.abc import Callable, Iterable, Sequence
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
    exact_up_to: int = 500_000  # fragments: 0.6 s a query on two cores, and 11 GB to be held in memory
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
    query: Bag,
    parts: Sequence[Packed],
    codes: Sequence[Codes],
    codewords: Floats,
    *,
    threads: int | None = None,
) -> Floats:
    """About how far each bag is from `query`, (N,) over all `parts`, whose words have these `codes`: the mean over its
    words, rounded to codewords, of the distance to the query's nearest word."""
    table = np.zeros(len(codewords) + 1, dtype=np.float32)  # the last for lanes without a word
    gaps = _squares(codewords)[:, None] + _squares(query.prototypes) - 2 * codewords @ query.prototypes.T
    table[:-1] = np.sqrt(np.maximum(gaps.min(axis=1), 0))
    ends = np.cumsum([len(packed) for packed in parts]).tolist()
    found = np.empty(ends[-1] if ends else 0, dtype=np.float32)

    def work(bounds: tuple[int, int]) -> None:
        for part in range(*bounds):
            packed, starts = parts[part], parts[part].starts
            sums = np.zeros(packed.counts.shape, dtype=np.float32)
            for first in range(0, len(sums), _GROUPS):
                groups = slice(first, min(first + _GROUPS, len(sums)))
                looked_up = table.take(codes[part][starts[first] : starts[groups.stop]], mode="clip")
                np.add.reduceat(looked_up, starts[groups] - starts[first], axis=0, out=sums[groups])
            lanes = packed.places >= 0
            own = found[ends[part] - len(packed) : ends[part]]
            own[packed.places[lanes]] = sums[lanes] / packed.counts[lanes]

    _in_threads(work, len(parts), 1, threads)
    return found


def take_bags(parts: Sequence[Packed], rows: NDArray[np.int64], *, threads: int | None = None) -> Packed:
    """The bags at `rows` of all `parts` one after the other, packed by themselves; place i of them is `rows[i]`.

    The words are those of `parts`, bit for bit, so that distances are too.
    """
    ends = np.cumsum([len(packed) for packed in parts])
    which = np.searchsorted(ends, rows, side="right")
    held, lengths = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int32)
    for part in np.unique(which).tolist():
        packed, some = parts[part], which == part
        lanes = packed.places >= 0
        position = np.empty(len(packed), dtype=np.int64)
        position[packed.places[lanes]] = np.flatnonzero(lanes)
        held[some] = position[rows[some] - (ends[part] - len(packed))]
        lengths[some] = packed.counts.reshape(-1)[held[some]]
    order = np.lexsort((held, which, lengths))  # by length as always; of equal length, as they lie in memory
    groups = -(-len(rows) // LANES)
    counts = np.zeros((groups, LANES), dtype=np.int32)
    counts.reshape(-1)[: len(rows)] = lengths[order]
    places = np.full((groups, LANES), -1, dtype=np.int64)
    places.reshape(-1)[: len(rows)] = order
    starts = np.concatenate([[0], np.cumsum(counts.max(axis=1, initial=0))]).astype(np.int64)
    dtype = np.result_type(*(parts[part].tiles.dtype for part in np.unique(which).tolist()))
    tiles = np.zeros((int(starts[-1]), parts[0].dimensions, LANES), dtype=dtype)
    norms = np.full((int(starts[-1]), LANES), np.inf, dtype=np.float32)
    masses = np.zeros((int(starts[-1]), LANES), dtype=np.float32)

    def work(bounds: tuple[int, int]) -> None:
        for group, lane in np.argwhere(counts[slice(*bounds)]).tolist():
            row = int(order[(bounds[0] + group) * LANES + lane])
            packed, at, own = parts[which[row]], int(held[row]), int(starts[bounds[0] + group])
            first = packed.starts[at // LANES]
            here, there = slice(own, own + lengths[row]), slice(first, first + lengths[row])
            tiles[here, :, lane] = packed.tiles[there, :, at % LANES]
            norms[here, lane] = packed.norms[there, at % LANES]
            masses[here, lane] = packed.masses[there, at % LANES]

    _in_threads(work, groups, 4, threads)
    return Packed(tiles, norms, masses, starts, counts, places, max((packed.slack for packed in parts), default=0.0))


def lowest(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
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
