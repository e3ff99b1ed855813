"""Edges between fragments that may be mates, from the neighbour graph: memory is linear in the number of fragments.

The nearness of i and j is their score divided by the smaller of their typical scores (`usual.py`). A fragment that is
not in the list of i has a score of at least the list's limit, and so a nearness of at least limit / usual(i): if that
exceeds the threshold, or enough listed fragments are nearer, the list of i is sufficient. Otherwise i is searched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.errors import Conflict, Invalid
from membra.find.comparing import Comparing
from membra.find.exact import Query, nearest_rows
from membra.find.neighbours import TOP, neighbours
from membra.find.snapshot import Snapshot, snapshot
from membra.find.usual import usual_scores
from membra.progress import Bars
from membra.sources.fragment import PHOTOGRAPH
from membra.store import manifest
from membra.store.collection import Collection, Entry
from membra.store.neighbour_lists import NeighbourLists

_TRIES = 3  # attempts, if other processes change the collection

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class ProposalSettings:
    """Criteria for edges and proposals."""

    neighbours: int = 4  # each end of an edge must be among this many nearest of the other
    nearness: float = 0.75  # largest nearness, the score over the typical score around the two; 1 is average
    around: int = 10  # nearest fragments left out of the typical score, as they may be mates
    least: int = 2  # fewest fragments of a proposal; 3 leaves pairs out, as the published code does
    largest: int = 40  # most fragments of a proposal; a larger component is connected by chance, and is split


@dataclass(frozen=True)
class Pair:
    """An edge: indices of two fragments, their distance, and their nearness (smaller is closer)."""

    a: int
    b: int
    distance: float
    nearness: float


@dataclass(frozen=True)
class _Graph:
    """The neighbour lists, and which edges are admissible; arrays are in the order of the lists.

    usual : (n,), typical scores; columns : (n,), equal for fragments that may have no edge, negative for fragments
    without a value; sure : (n,), whether a fragment is not doubtful
    """

    lists: NeighbourLists
    usual: Floats
    columns: NDArray[np.int64]
    sure: NDArray[np.bool_]
    settings: ProposalSettings

    def nearness(self, own: Indices, others: Indices, scores: Floats) -> Floats:
        """Return the nearness (m, L) of `own` (m,) and `others` (m, L); infinite if the edge is not admissible."""
        usual = np.minimum(self.usual[own][:, None], self.usual[others])
        may = self.sure[others] & np.isfinite(scores) & (usual > 0) & np.isfinite(usual)
        may &= (self.columns[own][:, None] != self.columns[others]) | (self.columns[others] < 0)
        found = np.full(scores.shape, np.inf)
        found[may] = scores[may] / usual[may]
        return found


def graph_pairs(
    collection: Collection,
    method: str,
    settings: ProposalSettings,
    exclude_same: str | None,
    by: Callable[[Snapshot, int, int], Comparing],
    bar: Bars | None,
) -> tuple[list[Entry], list[Pair]]:
    """Return the fragments that are not doubtful, and the edges among them: indices in that list, the smaller first."""
    compare, measure = (bar(stage) if bar else None for stage in ("comparing", "typical scores"))
    top = max(TOP, settings.neighbours)
    for _ in range(_TRIES):
        lists = neighbours(collection, method=method, top=top, keep=False, listed=True, by=by, progress=compare).lists
        numbers, usual = usual_scores(collection, method=method, around=settings.around, progress=measure)
        with collection.reading() as state:
            now = snapshot(collection, state, method)
            entries = manifest.entries(state.database, described=True)
        if now.describes(lists) and np.array_equal(numbers, now.numbers):
            break
    else:
        raise Conflict(
            "{collection} keeps changing; run the command again when nothing writes to it",
            collection=collection.path,
        )
    entries = [entry for entry in entries if not entry.doubtful]
    indices = np.full(len(lists), -1)
    own = np.searchsorted(lists.numbers, [entry.number for entry in entries])
    indices[own] = np.arange(len(entries))
    columns = np.full(len(lists), -1)
    columns[own] = column_values(entries, exclude_same)
    found = _edges(_Graph(lists, usual, columns, indices >= 0, settings), now)
    return entries, [Pair(int(indices[a]), int(indices[b]), distance, near) for a, b, distance, near in found]


def column_values(entries: Sequence[Entry], column: str | None) -> NDArray[np.int64]:
    """Return labels (n,), equal for the same value of a column; -1 for fragments without one, or without a column."""
    values = [entry.fragment.columns.get(column) if column else None for entry in entries]
    if column and entries and column != PHOTOGRAPH and all(value is None for value in values):
        raise Invalid("no fragment has a column `{column}`; index from a CSV that has one", column=column)
    known = {value: number for number, value in enumerate(dict.fromkeys(value for value in values if value))}
    return np.array([known.get(value, -1) if value else -1 for value in values], dtype=np.int64)


def _edges(graph: _Graph, now: Snapshot) -> list[tuple[int, int, float, float]]:
    """Return both ends, the score and the nearness of each edge; the smaller index first."""
    lists, settings = graph.lists, graph.settings
    every = np.arange(len(lists))
    if not len(every):
        return []
    others = lists.indices(lists.which)
    bounds = lists.scores()
    scores = np.where(lists.exact == 1, bounds, np.inf)
    unsolved = np.where((lists.exact == 0) & (lists.which > 0), bounds, np.inf).min(axis=1)
    there = np.isfinite(graph.usual) & (graph.usual > 0)
    limits = np.minimum(lists.limits, unsolved) / np.where(there, graph.usual, 1)
    near = graph.nearness(every, others, scores)
    enough = (near < limits[:, None]).sum(axis=1) >= settings.neighbours
    unclear = graph.sure & there & ~enough & (limits <= settings.nearness)
    clear = np.flatnonzero(graph.sure & ~unclear)
    firsts = [_nearest(clear, others[clear], scores[clear], near[clear], settings)]
    for alone in np.flatnonzero(unclear)[:, None]:
        one = _searched(graph, now, int(alone[0]))
        firsts.append(_nearest(alone, *one, graph.nearness(alone, *one), settings))
    own, other, score, close = (np.concatenate(parts) for parts in zip(*firsts, strict=True))
    there, back = own * len(lists) + other, other * len(lists) + own
    both = np.flatnonzero(np.isin(there, back) & (own < other))
    both = both[np.lexsort((other[both], own[both]))]
    return list(zip(own[both].tolist(), other[both].tolist(), score[both].tolist(), close[both].tolist(), strict=True))


def _nearest(
    own: Indices, others: Indices, scores: Floats, near: Floats, settings: ProposalSettings
) -> tuple[Indices, Indices, Floats, Floats]:
    """Return the nearest of `others` (m, L) for each of `own` (m,), at most `settings.neighbours` and close, flat."""
    by_index = np.argsort(others, axis=1, kind="stable")
    order = np.argsort(np.take_along_axis(near, by_index, axis=1), axis=1, kind="stable")[:, : settings.neighbours]
    order = np.take_along_axis(by_index, order, axis=1)
    close = np.take_along_axis(near, order, axis=1)
    kept = close <= settings.nearness
    first, score = np.take_along_axis(others, order, axis=1), np.take_along_axis(scores, order, axis=1)
    return np.repeat(own, kept.sum(axis=1)), first[kept], score[kept], close[kept]


def _searched(graph: _Graph, now: Snapshot, own: int) -> tuple[Indices, Floats]:
    """Search the nearest of one fragment exactly, in growing numbers until they suffice: indices and scores (1, L)."""
    lists, settings = graph.lists, graph.settings
    may = np.zeros(len(now.rows), dtype=bool)
    allowed = graph.sure & ((graph.columns != graph.columns[own]) | (graph.columns < 0))
    may[now.at[allowed]] = True
    bag, mean = now.rows.bag(int(now.at[own])), now.rows.means(now.at[own : own + 1])[0]
    top = 2 * lists.which.shape[1]
    while True:
        found = nearest_rows(
            now.rows, [Query(bag, mean, int(now.numbers[own]))], now.method, top, scales=now.stored, among=[may]
        )[0]
        indices = np.searchsorted(now.numbers, now.rows.numbers[found.indices])[None]
        scores = np.array([found.distances])
        near = graph.nearness(np.array([own]), indices, scores)
        limit = found.distances[-1] / graph.usual[own] if len(found.indices) == top else np.inf
        if limit > settings.nearness or (near < limit).sum() >= settings.neighbours:
            return indices, scores
        top *= 4
