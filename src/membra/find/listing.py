"""Update neighbour lists: insert entries, and carry lists over to another state of the collection. Reads no bags.

Every list has more entries than the guaranteed `top`, and a limit: no fragment outside the list has a lower score. As
long as the guaranteed entries are below the limit, the list is exact.

Why that survives a change of the collection: the score of i and j is s = d / sqrt(r_i r_j). When fragments are added
or removed, distances d stay, and local scales r may change, so that with q = sqrt(r_before / r_now)

    s_now(i, j) = s_before(i, j) q_i q_j  >=  limit_before(i) q_i min_j q_j  =  limit_now(i)

for every j that is not listed. Listed entries are scored again from their distances. So only these fragments are
compared with all others again: those that were added or described again; the few whose scale grew most, as the smallest
q_j would otherwise lower every limit; and those whose list has fewer than `top` entries below its limit. The first
`top` then equal those of lists computed from scratch: both are exact, with ties broken by number.
"""

import numpy as np
from numpy.typing import NDArray

from membra.store.neighbour_lists import FRESH, KNOWN, MET, NeighbourLists, empty_lists

_AT_ONCE = 20_000  # lists that are changed in one block; limits the memory
_GROWN = 100  # one in this many fragments, those whose scales grew most, may be compared again to spare all others
_FEW = 4  # fragments that may be compared again for this reason in any collection
_ROUNDING = 1e-9  # relative; exceeds the rounding error of a score

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


def enter(lists: NeighbourLists, owners: Indices, others: Indices, distances: Floats) -> Indices:
    """Insert lower bounds of distances (m,) into the lists of `owners`, which do not have `others` yet; in place.

    Returns the owners whose lists were visited, each once.
    """
    size = lists.which.shape[1]
    scores = distances / np.sqrt(lists.scales[owners] * lists.scales[others])
    order = np.lexsort((others, scores, owners))
    owners, others, distances = owners[order], others[order], distances[order]
    touched, firsts, counts = np.unique(owners, return_index=True, return_counts=True)
    rank = np.arange(len(owners)) - np.repeat(firsts, counts)
    kept = rank < size
    for first in range(0, len(touched), _AT_ONCE):
        some = touched[first : first + _AT_ONCE]
        own = kept & (owners >= some[0]) & (owners <= some[-1])
        row, column = np.searchsorted(some, owners[own]), rank[own] + size
        wide = (len(some), 2 * size)
        values, numbers, exact = np.full(wide, np.inf), np.zeros(wide, np.int32), np.zeros(wide, np.uint8)
        values[:, :size], numbers[:, :size], exact[:, :size] = (
            lists.distances[some],
            lists.which[some],
            lists.exact[some],
        )
        values[row, column], numbers[row, column] = distances[own], lists.numbers[others[own]]
        _put(lists, some, values, numbers, exact)
    lists.solved[touched] = 0
    return touched


def thresholds(lists: NeighbourLists, some: Indices | slice = slice(None)) -> Floats:
    """Return the scores (m,) from which on an entry is of no use: the limit, or the last score of a full list."""
    return np.minimum(lists.limits[some], lists.scores(some)[:, -1])


def carried_over(
    old: NeighbourLists, numbers: NDArray[np.int32], checks: NDArray[np.uint32], scales: Floats
) -> NeighbourLists:
    """Carry the lists `old` over to another state of the collection; fragments to be compared again are FRESH.

    If these are more than half, all lists are emptied and WAITING.
    """
    size = old.which.shape[1]
    new = empty_lists(numbers, checks, scales, size=size, method=old.method, top=old.top, recipe=old.recipe)
    there = np.flatnonzero(np.isin(numbers, old.numbers))
    before = np.searchsorted(old.numbers, numbers[there])
    same = old.checks[before] == checks[there]
    there, before = there[same], before[same]
    ratio = np.sqrt(old.scales[before] / scales[there])
    spared = min(len(ratio) - 1, max(len(ratio) // _GROWN, _FEW))
    least = float(np.partition(ratio, spared)[spared]) if len(ratio) else 1.0
    gone = np.setdiff1d(old.numbers, numbers[there])
    new.stages[there] = old.stages[before]
    new.stages[new.stages == MET] = FRESH  # not compared with the fragments added since
    new.limits[there] = thresholds(old, before) * ratio * least * (1 - _ROUNDING)
    for first in range(0, len(there), _AT_ONCE):
        some, own = there[first : first + _AT_ONCE], before[first : first + _AT_ONCE]
        lost = np.isin(old.which[own], gone)
        distances = np.where(lost, np.inf, old.distances[own])
        _put(new, some, distances, np.where(lost, 0, old.which[own]), np.where(lost, 0, old.exact[own]))
    below = (new.scores() < new.limits[:, None]).sum(axis=1)
    fresh = (new.stages == KNOWN) & (below < min(new.top, len(new) - 1)) & np.isfinite(new.limits)
    fresh |= new.stages == FRESH
    fresh |= ~np.isin(numbers, numbers[there[ratio >= least]])
    if 2 * np.count_nonzero(fresh) > len(new):
        return empty_lists(numbers, checks, scales, size=size, method=old.method, top=old.top, recipe=old.recipe)
    _begin_again(new, np.flatnonzero(fresh))
    return new


def _begin_again(lists: NeighbourLists, fresh: Indices) -> None:
    """Delete the entries of some fragments, in their own lists and in those of others; in place."""
    gone = lists.numbers[fresh]
    for first in range(0, len(lists), _AT_ONCE):
        some = np.arange(first, min(first + _AT_ONCE, len(lists)))
        lost = np.isin(lists.which[some], gone)
        some, lost = some[lost.any(axis=1)], lost[lost.any(axis=1)]
        distances, which = np.where(lost, np.inf, lists.distances[some]), np.where(lost, 0, lists.which[some])
        _put(lists, some, distances, which, np.where(lost, 0, lists.exact[some]))
    lists.distances[fresh], lists.which[fresh], lists.exact[fresh] = np.inf, 0, 0
    lists.limits[fresh], lists.stages[fresh] = np.inf, FRESH


def _put(
    lists: NeighbourLists, some: Indices, distances: Floats, which: NDArray[np.int32], exact: NDArray[np.uint8]
) -> None:
    """Replace the lists of `some` by the nearest of these entries (m, L), ordered by score, then by number; entries
    that do not fit lower the limit; in place."""
    size = lists.which.shape[1]
    scores = distances / np.sqrt(lists.scales[some][:, None] * lists.scales[lists.indices(which)])
    by_number = np.argsort(np.where(which > 0, which, np.iinfo(np.int32).max), axis=1, kind="stable")
    order = np.argsort(np.take_along_axis(scores, by_number, axis=1), axis=1, kind="stable")
    order = np.take_along_axis(by_number, order, axis=1)
    if distances.shape[1] > size:
        left = np.take_along_axis(scores, order[:, size : size + 1], axis=1)[:, 0]
        lists.limits[some] = np.minimum(lists.limits[some], left * (1 - _ROUNDING))
    order = order[:, :size]
    lists.distances[some] = np.take_along_axis(distances, order, axis=1)
    lists.which[some] = np.take_along_axis(which, order, axis=1)
    lists.exact[some] = np.take_along_axis(exact, order, axis=1)
