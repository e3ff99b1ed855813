"""The neighbour graph: the nearest of every fragment by the collection's own score, equal to single exact searches.

It is computed in two stages. First each pair is compared once, as Chamfer is symmetric: int8 products give a lower
bound of its distance (`compare/bounds.py`), and for pairs that may belong into the list of either side a tighter bound
is computed in float32. Then as many entries of each list are computed by the plain formula as it takes to prove that
the first `top` are the nearest. Only the lists (`store/neighbour_lists.py`), and one bound per fragment and thread, are
held in memory; bags are read from mapped shards. A checkpoint every few seconds limits what a kill can cost.
`listing.py` describes what is compared again after a change of the collection.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import by_length
from membra.compare.distance import chamfer
from membra.compare.methods import named
from membra.compare.threads import in_threads, processors
from membra.describe.bag import Bag
from membra.errors import MembraError
from membra.find.comparing import Comparer, Comparing
from membra.find.exact import Query, nearest_rows
from membra.find.listing import Floats, Indices, carried_over, enter, thresholds
from membra.find.snapshot import Snapshot, snapshot
from membra.progress import Progress
from membra.store.collection import Collection
from membra.store.neighbour_lists import (
    FRESH,
    KNOWN,
    MET,
    WAITING,
    NeighbourLists,
    empty_lists,
    making_lists,
    read_listed,
    read_lists,
    tidy_lists,
    write_lists,
)

TOP = 20  # neighbours per fragment, the default of a search
_MORE = 12  # entries of a list beyond the guaranteed ones, in reserve for removals and changes of scales
_AT_ONCE = 32  # fragments per thread that are compared before their entries are inserted
_KEPT_EVERY = 10.0  # seconds between checkpoints: the work that a kill can cost ...
_WRITING = 20  # ... or this multiple of the time for writing the lists, if that is longer
_PLAIN = 70  # cost of a pair by the plain formula relative to its bounds; for estimating the remaining time


@dataclass(frozen=True)
class Neighbours:
    """The neighbour lists of one state of a collection, and the work done to update them.

    Attributes
    ----------
    lists : NeighbourLists
        Numbers of the fragments, and for each the numbers and distances of its neighbours, nearest first.
    compared : int
        Fragments that were compared with all others; 0 if the lists were current.
    begun_before : bool
        Whether stored lists, complete or partial, were used.
    """

    lists: NeighbourLists
    compared: int
    begun_before: bool


def neighbours(
    collection: Collection,
    *,
    top: int = TOP,
    method: str = "default",
    threads: int | None = None,
    keep: bool = True,
    listed: bool = False,
    shortlist: str | None = None,
    by: Callable[[Snapshot, int, int], Comparing] = Comparer,
    progress: Progress | None = None,
) -> Neighbours:
    """Return the nearest neighbours of every described fragment, as `search` finds and orders them.

    Current lists are read; otherwise they are updated, which resumes after a kill.

    Parameters
    ----------
    collection : Collection
    top : int
        Number of neighbours per fragment.
    method : str
        Chamfer with or without local scales, or `default`: the recipe's own.
    threads : int, optional
        Number of threads; the default is the number of processors.
    keep : bool
        Whether to raise if the lists cannot be stored: another process writes them, or the folder is read-only.
    listed : bool
        Whether to accept lists by a shortlist (`listed_neighbours.py`) if they are current and exact ones are not.
    shortlist : str, optional
        `auto` or a number: compare each fragment only with a shortlist of that size, and store the lists beside exact
        ones; they are not exact, and have a measured `recall` (`listed_neighbours.py`).
    by : callable
        Makes a `Comparing` from a snapshot, the length of lists and the number of threads: for this machine's
        processors, a device, or a cluster.
    progress : Progress, optional
        Called with the work done and the total, in fragments.

    Returns
    -------
    Neighbours

    Raises
    ------
    MembraError
        If another process writes the lists, or the method has no neighbours.
    """
    if shortlist is not None:
        from membra.find.listed_neighbours import listed_neighbours

        return listed_neighbours(
            collection, shortlist=shortlist, top=top, method=method, threads=threads, progress=progress
        )
    with collection.reading() as state:
        now = snapshot(collection, state, method)
    lists = read_lists(collection.path)
    if lists and _serves(now, lists, top):
        tidy_lists(collection.path)
        return Neighbours(lists, 0, True)
    if listed and (other := read_listed(collection.path)) and _serves(now, other, top):
        return Neighbours(other, 0, True)
    count = threads or processors()
    if not keep and now.method != named("default", collection.recipe.method).name:
        # do not overwrite the stored lists of the recipe's own method, which may have taken hours
        return _make(collection, now, top, by, count, None, progress)
    try:
        with making_lists(collection.path):
            return _make(collection, now, top, by, count, lambda lists: write_lists(collection.path, lists), progress)
    except (MembraError, OSError):
        if keep:
            raise
    return _make(collection, now, top, by, count, None, progress)


def neighbours_of(
    collection: Collection,
    numbers: NDArray[np.int32],
    *,
    top: int = TOP,
    method: str = "default",
    threads: int | None = None,
    by: Callable[[Snapshot, int, int], Comparing] = Comparer,
    progress: Progress | None = None,
) -> NeighbourLists:
    """Compute the lists of some fragments (m,) only, as `neighbours` does, without storing them."""
    with collection.reading() as state:
        now = snapshot(collection, state, method)
    settings = {"method": now.method, "top": top, "recipe": now.recipe}
    lists = empty_lists(now.numbers, now.checks, now.scales, size=top + _MORE, **settings)  # type: ignore[arg-type]
    wanted = np.isin(now.numbers, numbers)
    lists.stages[:] = np.where(wanted, FRESH, KNOWN)
    count = threads or processors()
    work = _Work(now, lists, by(now, top + _MORE, count), count, None, progress)
    work.compare()
    lists.solved[~wanted] = 1  # their lists are not wanted
    work.solve()
    return lists


def shortlisted(collection: Collection) -> NeighbourLists | None:
    """Return the lists by a shortlist if inbox and proposals use them: they are current, and exact ones are not."""
    found, better = read_listed(collection.path), read_lists(collection.path)
    if found is None or not found.finished() or not current(collection, found):
        return None
    return None if better is not None and better.finished() and current(collection, better) else found


def _serves(now: Snapshot, lists: NeighbourLists, top: int) -> bool:
    return now.describes(lists) and lists.finished() and lists.top >= top


def current(collection: Collection, lists: NeighbourLists) -> bool:
    """Return whether lists are of the collection's current state."""
    with collection.reading() as state:
        return snapshot(collection, state, lists.method).describes(lists)


def _make(
    collection: Collection,
    now: Snapshot,
    top: int,
    by: Callable[[Snapshot, int, int], Comparing],
    threads: int,
    write: Callable[[NeighbourLists], None] | None,
    progress: Progress | None,
) -> Neighbours:
    before = read_lists(collection.path)
    known = before is not None and now.shares(before) and before.top >= top
    if before is not None and known and now.describes(before):
        lists = _copied(before)
    elif before is not None and known:
        lists = carried_over(before, now.numbers, now.checks, now.scales)
    else:
        size, settings = top + _MORE, {"method": now.method, "top": top, "recipe": now.recipe}
        lists = empty_lists(now.numbers, now.checks, now.scales, size=size, **settings)  # type: ignore[arg-type]
    waiting = int(np.count_nonzero(np.isin(lists.stages, (WAITING, FRESH))))
    work = _Work(now, lists, by(now, lists.which.shape[1], threads), threads, write, progress)
    work.compare()
    work.solve()
    if write:
        write(lists)
    return Neighbours(lists, waiting, known)


def _copied(lists: NeighbourLists) -> NeighbourLists:
    """Copy mapped lists, so that they can be changed."""
    names = ("distances", "which", "exact", "limits", "stages", "solved")
    return replace(lists, **{name: getattr(lists, name).copy() for name in names})


class _Work:
    """The computation of lists, with checkpoints."""

    def __init__(
        self,
        now: Snapshot,
        lists: NeighbourLists,
        comparing: Comparing,
        threads: int,
        write: Callable[[NeighbourLists], None] | None,
        progress: Progress | None,
    ) -> None:
        self.now, self.lists, self.comparing, self.threads = now, lists, comparing, threads
        self.write, self.progress = write, progress
        self.written, self.every = time.monotonic(), _KEPT_EVERY
        waiting, fresh = (int(np.count_nonzero(lists.stages == stage)) for stage in (WAITING, FRESH))
        self.done, n = 0.0, len(lists)
        self.total = waiting**2 / 2 + fresh * (n - fresh / 2) + _PLAIN * lists.top * (n - lists.solved.sum())

    def compare(self) -> None:
        """Compare the FRESH fragments, then the WAITING ones, in pieces; each pair once."""
        lists, last = self.lists, thresholds(self.lists)
        order = self._in_packed_order()
        for stage, after in ((FRESH, MET), (WAITING, KNOWN)):
            pieces = self._pieces(order[lists.stages[order] == stage])
            columns = lists.stages != after
            for some, entries in self.comparing(pieces, columns.copy(), last):
                touched = enter(lists, *entries)
                last[touched] = thresholds(lists, touched)
                lists.stages[some] = after
                columns[some] = False
                self._checkpoint(len(some) * (int(np.count_nonzero(columns)) + len(some) / 2))
            lists.stages[lists.stages == MET] = KNOWN

    def solve(self) -> None:
        """Compute the first entries of each list by the plain formula, several lists at a time."""
        open_ = np.flatnonzero(self.lists.solved == 0)
        for first in range(0, len(open_), _AT_ONCE * self.threads):
            some = open_[first : first + _AT_ONCE * self.threads].tolist()
            in_threads(self._solve_one, some, self.threads)
            self._checkpoint(len(some) * _PLAIN * self.lists.top)

    def _pieces(self, queue: Indices) -> list[Indices]:
        """Split the queue into pieces, small ones first: lists that are not full yet accept every entry."""
        pieces, first, most = [], 0, _AT_ONCE * self.threads * self.comparing.at_once
        while first < len(queue):
            size = min(most, max(self.lists.which.shape[1], first))
            pieces.append(queue[first : first + size])
            first += size
        return pieces

    def _in_packed_order(self) -> Indices:
        """Return the fragments ordered by number of prototypes, then by row, so that groups of every shard, and blocks
        of a device, are finished one after the other."""
        rows, _ = by_length(self.now.rows.packed)
        position = np.empty(len(self.now.rows), dtype=np.int64)
        position[rows] = np.arange(len(rows))
        return np.argsort(position[self.now.at], kind="stable")

    def _solve_one(self, own: int) -> None:
        """Make the first entries of one list exact: solve entries in the order of their bounds until the solved ones
        are below all other bounds; if the list is too short for that because of near ties, search."""
        lists, now = self.lists, self.now
        need = min(lists.top, len(lists) - 1)
        bag = now.rows.bag(int(now.at[own]))
        distances, which, exact = lists.distances[own], lists.which[own], lists.exact[own]
        others = lists.indices(which)
        roots = np.sqrt(now.scales[own] * now.scales[others])
        limit = lists.limits[own] = min(lists.limits[own], distances[-1] / roots[-1])
        while True:
            scores: Floats = distances / roots
            done: Floats = np.sort(scores[exact == 1])
            left = np.flatnonzero((exact == 0) & (which > 0))
            after = scores[left].min(initial=np.inf)
            if len(done) == len(lists) - 1 or (len(done) >= need and (not need or done[need - 1] < min(limit, after))):
                break
            if after >= limit:
                self._search(own, bag)
                return
            left = left[np.argsort(scores[left], kind="stable")][: max(need - len(done), 0) + 1]
            for index in left.tolist():
                distances[index] = chamfer(bag, now.rows.bag(int(now.at[others[index]])))
                exact[index] = 1
        order = np.lexsort((np.where(which > 0, which, np.iinfo(np.int32).max), scores))
        lists.distances[own], lists.which[own], lists.exact[own] = distances[order], which[order], exact[order]
        lists.solved[own] = 1

    def _search(self, own: int, bag: Bag) -> None:
        """Compute one list by an exact search."""
        lists, now, size = self.lists, self.now, self.lists.which.shape[1]
        query = Query(bag, now.rows.means(now.at[own : own + 1])[0], int(now.numbers[own]))
        found = nearest_rows(now.rows, [query], now.method, size, scales=now.stored, threads=1)[0]
        count = len(found.indices)
        lists.distances[own], lists.which[own], lists.exact[own] = np.inf, 0, 0
        lists.distances[own, :count] = [chamfer(bag, now.rows.bag(row)) for row in found.indices]
        lists.which[own, :count], lists.exact[own, :count] = now.rows.numbers[found.indices], 1
        lists.limits[own] = found.distances[-1] if count == size else np.inf
        lists.solved[own] = 1

    def _checkpoint(self, done: float) -> None:
        """Report progress, and write a checkpoint when it is due."""
        self.done += done
        if self.progress:
            n = len(self.lists)
            self.progress(min(n, int(n * self.done / max(self.total, 1))), n)
        if self.write and time.monotonic() > self.written + self.every:
            start = time.monotonic()
            self.write(self.lists)
            self.written = time.monotonic()
            self.every = max(_KEPT_EVERY, _WRITING * (self.written - start))
