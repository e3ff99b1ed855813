"""Compare some fragments with all others, and find the pairs that may belong into neighbour lists (`neighbours.py`)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import chamfer_below, int8_supported
from membra.compare.threads import in_threads
from membra.describe.bag import Bag
from membra.find.listing import Floats, Indices
from membra.find.pruned import lower_bounds
from membra.find.snapshot import Snapshot

Entries = tuple[Indices, Indices, Floats]  # owner of the list, fragment, lower bound of their distance; (m,) each
# Fragments, lower bounds of their distances and of their scores, (m,) each; and the highest score (inclusive) that is
# of use to the list of the fragment that was compared with them.
Candidates = tuple[Indices, Floats, Floats, float]

_ROUNDING = 1e-9  # relative; exceeds the rounding error of a score


class Comparing(Protocol):
    """Compares pieces of fragments, here or elsewhere, and yields the entries that result, in order.

    Each fragment is compared with those in `columns` (n,), from which it is then removed. `last` (n,) are the scores
    from which on an entry is of no use to a list; they fall as lists fill, and outdated higher ones do no harm.
    """

    at_once: int  # size of a piece, as a multiple of the default

    def __call__(
        self, pieces: Iterable[Indices], columns: NDArray[np.bool_], last: Floats, /
    ) -> Iterator[tuple[Indices, Entries]]:
        """Yield each of `pieces` with the entries that result from it."""


class Comparer:
    """Compares fragments of one state of a collection, for lists of `size` entries, on this machine's processors."""

    at_once = 1

    def __init__(self, now: Snapshot, size: int, threads: int) -> None:
        self.now, self.size, self.threads = now, size, threads
        self.roots = 1 / np.sqrt(now.scales)

    def __call__(
        self, pieces: Iterable[Indices], columns: NDArray[np.bool_], last: Floats, /
    ) -> Iterator[tuple[Indices, Entries]]:
        """Implement `Comparing`, one piece after the other."""
        for some in pieces:
            yield some, self.compare(some, columns, last)
            columns[some] = False

    def compare(self, some: Indices, columns: NDArray[np.bool_], last: Floats) -> Entries:
        """Compare some fragments with those in `columns` (n,), among themselves only with later ones; return the
        entries for lists. `last` (n,) are the scores from which on an entry is of no use to a list."""
        rank = np.full(len(columns), len(some))
        rank[some] = np.arange(len(some))
        bags = [self.now.rows.bag(int(row)) for row in self.now.at[some]]
        firsts = self._first_groups(columns)
        found: list[Candidates] = [(some[:0], np.zeros(0), np.zeros(0), 0.0)] * len(some)

        def work(index: int) -> None:
            bounds = self._bounds(bags[index], firsts)
            found[index] = self._candidates(int(some[index]), bags[index], bounds, columns & (rank > index), last)

        in_threads(work, range(len(some)), self.threads)
        return entries_of(some, found, last)

    def _candidates(
        self, own: int, bag: Bag, below: NDArray[np.float32], columns: NDArray[np.bool_], last: Floats
    ) -> Candidates:
        """Return the fragments in `columns` that may belong into the list of `own`, or it into theirs, with close lower
        bounds of the distance and the score of each; and the highest score (inclusive) that is of use to `own`.

        `below` (N,): the result of `_bounds`.
        """
        rows, at, size = self.now.rows, self.now.at, self.size
        scale, bounds = self.roots * (self.roots[own] * (1 - _ROUNDING)), below[at].astype(np.float64)
        scores = np.where(columns, bounds * scale, np.inf)

        def close(some: Indices) -> Floats:
            return np.maximum(rows.below(bag, at[some], threads=1), bounds[some])

        count = min(2 * size, len(scores) - 1)
        first = np.argpartition(scores, count)[: count + 1]
        first = first[np.isfinite(scores[first])]
        near = close(first)
        use = float(last[own])
        if len(first) >= size:
            use = min(use, float(np.partition(near * scale[first], size - 1)[size - 1]))
        more = scores < np.maximum(last, use)
        more[first] = False
        rest = np.flatnonzero(more)
        every, distances = np.concatenate([first, rest]), np.concatenate([near, close(rest)])
        # Computed exactly like `use`: rounded otherwise, the entry with that score would be left out.
        return every, distances, distances * scale[every], use

    def _bounds(self, bag: Bag, firsts: Sequence[int]) -> NDArray[np.float32]:
        """Return a lower bound of the distance to every row, (N,); 0 in groups before the first one of their shard."""
        found = np.zeros(len(self.now.rows), dtype=np.float32)
        start = 0
        for shard, first in zip(self.now.rows.shards, firsts, strict=True):
            part, packed = found[start : start + len(shard)], shard.packed
            start += len(shard)
            if first == len(packed.counts):
                continue
            if packed.int8 is not None and int8_supported():
                part[:] = chamfer_below(bag, packed, first=first, threads=1)
            else:
                part[:] = lower_bounds([bag], packed, "chamfer", threads=1)[0]
        return found

    def _first_groups(self, columns: NDArray[np.bool_]) -> list[int]:
        """Return for each shard the first group with a fragment in `columns` (n,), or its number of groups if none."""
        there = np.zeros(len(self.now.rows), dtype=bool)
        there[self.now.at[columns]] = True
        found = []
        starts = np.cumsum([0, *(len(shard) for shard in self.now.rows.shards)]).tolist()
        for shard, (start, end) in zip(self.now.rows.shards, pairwise(starts), strict=True):
            indices = shard.packed.indices
            wanted: NDArray[np.bool_] = np.any(there[start:end][indices] & (indices >= 0), axis=1)
            found.append(int(np.argmax(wanted)) if wanted.any() else len(wanted))
        return found


def entries_of(some: Indices, found: Sequence[Candidates], last: Floats) -> Entries:
    """Return the entries from the candidates of each of `some`: into its list, and into theirs; `last`: see
    `Comparing`."""
    counts = [len(others) for others, *_ in found]
    own, use = np.repeat(some, counts), np.repeat([limit for *_, limit in found], counts)
    others, distances, scores = (np.concatenate([one[part] for one in found]) for part in range(3))
    mine, theirs = scores <= use, scores < last[others]
    return (
        np.concatenate([own[mine], others[theirs]]),
        np.concatenate([others[mine], own[theirs]]),
        np.concatenate([distances[mine], distances[theirs]]),
    )
