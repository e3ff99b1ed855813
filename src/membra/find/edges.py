"""The edges between fragments that may be mates, from the neighbour graph: flat in memory, however large a collection.

Nearness of i and j is their score over the smaller of what is usual around either (`usual.py`). Whatever is not in the
list of i has a score of its limit at least, and so a nearness of limit / usual of i at least: where that is beyond what
counts as close, or as many as are asked for are nearer, the list says all there is to say. The others are searched.
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

_TRIES = 3  # while others change the collection

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class ProposalSettings:
    """When two fragments count as close."""

    neighbours: int = 4  # each must be among the other's so many nearest
    nearness: float = 0.75  # at most so many times the distance usual around the two; 1 is nothing special
    around: int = 10  # fragments over which the usual distance is taken
    least: int = 2  # fragments a proposal needs; 3 leaves pairs out, as the published code does
    largest: int = 40  # fragments a proposal may have; a larger part hangs together by chance, and is broken up


@dataclass(frozen=True)
class Pair:
    """Two fragments with an edge between them: indices in the collection, distance, and nearness (smaller: closer)."""

    a: int
    b: int
    distance: float
    nearness: float


@dataclass(frozen=True)
class _Question:
    """Which fragments may have edges with which, in the order of the lists.

    usual : (n,); columns : (n,), equal where two may have none, negative for those that have none of that; sure : (n,)
    """

    lists: NeighbourLists
    usual: Floats
    columns: NDArray[np.int64]
    sure: NDArray[np.bool_]
    settings: ProposalSettings

    def nearness(self, own: Indices, others: Indices, scores: Floats) -> Floats:
        """(m, L), of `own` (m,) and `others` (m, L); infinite where there may be no edge."""
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
    """The fragments that are not doubtful, and the edges among them: indices in that list, the earlier first."""
    compare, measure = (bar(stage) if bar else None for stage in ("comparing", "what is usual"))
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
            "{collection} is being changed all the time; run the command again when it is not",
            collection=collection.path,
        )
    entries = [entry for entry in entries if not entry.doubtful]
    indices = np.full(len(lists), -1)
    own = np.searchsorted(lists.numbers, [entry.number for entry in entries])
    indices[own] = np.arange(len(entries))
    columns = np.full(len(lists), -1)
    columns[own] = column_values(entries, exclude_same)
    found = _edges(_Question(lists, usual, columns, indices >= 0, settings), now)
    return entries, [Pair(int(indices[a]), int(indices[b]), distance, near) for a, b, distance, near in found]


def column_values(entries: Sequence[Entry], column: str | None) -> NDArray[np.int64]:
    """(n,), equal where fragments have the same value in a column; -1 where they have none, or none is asked for."""
    values = [entry.fragment.columns.get(column) if column else None for entry in entries]
    if column and entries and column != PHOTOGRAPH and all(value is None for value in values):
        raise Invalid("no fragment has a column `{column}`; index from a CSV that has one", column=column)
    known = {value: number for number, value in enumerate(dict.fromkeys(value for value in values if value))}
    return np.array([known.get(value, -1) if value else -1 for value in values], dtype=np.int64)


def _edges(question: _Question, now: Snapshot) -> list[tuple[int, int, float, float]]:
    """Both ends, the score and the nearness of each edge; the earlier end first."""
    lists, settings = question.lists, question.settings
    every = np.arange(len(lists))
    if not len(every):
        return []
    others = lists.indices(lists.which)
    bounds = lists.scores()
    scores = np.where(lists.exact == 1, bounds, np.inf)
    unsolved = np.where((lists.exact == 0) & (lists.which > 0), bounds, np.inf).min(axis=1)
    there = np.isfinite(question.usual) & (question.usual > 0)
    limits = np.minimum(lists.limits, unsolved) / np.where(there, question.usual, 1)
    near = question.nearness(every, others, scores)
    enough = (near < limits[:, None]).sum(axis=1) >= settings.neighbours
    unclear = question.sure & there & ~enough & (limits <= settings.nearness)
    clear = np.flatnonzero(question.sure & ~unclear)
    firsts = [_nearest(clear, others[clear], scores[clear], near[clear], settings)]
    for alone in np.flatnonzero(unclear)[:, None]:
        one = _searched(question, now, int(alone[0]))
        firsts.append(_nearest(alone, *one, question.nearness(alone, *one), settings))
    own, other, score, close = (np.concatenate(parts) for parts in zip(*firsts, strict=True))
    there, back = own * len(lists) + other, other * len(lists) + own
    both = np.flatnonzero(np.isin(there, back) & (own < other))
    both = both[np.lexsort((other[both], own[both]))]
    return list(zip(own[both].tolist(), other[both].tolist(), score[both].tolist(), close[both].tolist(), strict=True))


def _nearest(
    own: Indices, others: Indices, scores: Floats, near: Floats, settings: ProposalSettings
) -> tuple[Indices, Indices, Floats, Floats]:
    """Of each of `own` (m,) the few nearest of `others` (m, L), as far as they are close, one after the other."""
    by_index = np.argsort(others, axis=1, kind="stable")
    order = np.argsort(np.take_along_axis(near, by_index, axis=1), axis=1, kind="stable")[:, : settings.neighbours]
    order = np.take_along_axis(by_index, order, axis=1)
    close = np.take_along_axis(near, order, axis=1)
    kept = close <= settings.nearness
    first, score = np.take_along_axis(others, order, axis=1), np.take_along_axis(scores, order, axis=1)
    return np.repeat(own, kept.sum(axis=1)), first[kept], score[kept], close[kept]


def _searched(question: _Question, now: Snapshot, own: int) -> tuple[Indices, Floats]:
    """As many of the nearest of one fragment as it takes, by exact searches: indices and scores, (1, L) each."""
    lists, settings = question.lists, question.settings
    may = np.zeros(len(now.rows), dtype=bool)
    allowed = question.sure & ((question.columns != question.columns[own]) | (question.columns < 0))
    may[now.at[allowed]] = True
    bag, mean = now.rows.bag(int(now.at[own])), now.rows.means(now.at[own : own + 1])[0]
    top = 2 * lists.which.shape[1]
    while True:
        found = nearest_rows(
            now.rows, [Query(bag, mean, int(now.numbers[own]))], now.method, top, scales=now.stored, among=[may]
        )[0]
        indices = np.searchsorted(now.numbers, now.rows.numbers[found.indices])[None]
        scores = np.array([found.distances])
        near = question.nearness(np.array([own]), indices, scores)
        limit = found.distances[-1] / question.usual[own] if len(found.indices) == top else np.inf
        if limit > settings.nearness or (near < limit).sum() >= settings.neighbours:
            return indices, scores
        top *= 4
