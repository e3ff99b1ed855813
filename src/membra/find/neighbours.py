"""The neighbour graph: for every fragment its nearest by the collection's own score, as single exact searches find.

In two stages. First all pairs are looked at, each once, since Chamfer is symmetric: products of int8 give a lower bound
of each distance (`compare/bounds.py`), and the pairs that may belong into the list of either side are looked at
closely, in float32. Then the first entries of each list are computed by the plain formula, as many as it takes to know
that they are the nearest. The lists (`store/neighbour_lists.py`) are all that is held in memory, besides one bound for
each fragment and thread; bags are read where the shards are mapped. What is done is kept every few seconds, so that a
kill costs no more than that; `listing.py` says what is compared again when the collection has changed.
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

TOP = 20  # of each fragment, as many as a search gives
_MORE = 12  # entries that a list has beyond those it promises, for when some of them go or move away
_AT_ONCE = 32  # fragments for each thread that are compared before their findings are entered
_KEPT_EVERY = 10.0  # seconds: what a kill can cost ...
_WRITING = 20  # ... or so many times what writing the lists takes, where that is more
_PLAIN = 70  # how much longer a pair takes by the plain formula than by bounds; for the time that is left


@dataclass(frozen=True)
class Neighbours:
    """The lists of all fragments of one state of a collection, and what bringing them up to date took.

    Attributes
    ----------
    lists : NeighbourLists
        Numbers of the fragments, and for each the numbers and distances of others, nearest first.
    compared : int
        Fragments that were compared with all others; 0 where all was known.
    begun_before : bool
        Whether there was something to go on from.
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
    """The nearest of every described fragment, as `search` finds and orders them.

    They are read where they are current, else brought up to date, which goes on after a kill.

    Parameters
    ----------
    collection : Collection
    top : int
        How many of each.
    method : str
        Chamfer with or without local scales, or `default`: the recipe's own.
    threads : int, optional
        As many as there are processors, unless given.
    keep : bool
        Whether it is an error if they cannot be kept in the collection: others write them, or the folder is read-only.
    listed : bool
        Whether those by a shortlist (`listed_neighbours.py`) serve, where they are current and exact ones are not.
    shortlist : str, optional
        `auto` or a number: not exactly, but each compared with so many that a first look puts first, kept beside exact
        ones; the lists say what `recall` was measured (`listed_neighbours.py`).
    by : callable
        Makes of a snapshot, the length of lists and the threads what compares: here, on a device, or on a cluster.
    progress : Progress, optional
        Called with how much is compared, of how much.

    Returns
    -------
    Neighbours

    Raises
    ------
    MembraError
        Where others write them, or the method has no neighbours.
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
        # what is kept belongs to the recipe's own method, and took hours perhaps
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
    """The lists of some fragments alone (m,), in the order of their numbers: as `neighbours`, and nothing is kept."""
    with collection.reading() as state:
        now = snapshot(collection, state, method)
    settings = {"method": now.method, "top": top, "recipe": now.recipe}
    lists = empty_lists(now.numbers, now.checks, now.scales, size=top + _MORE, **settings)  # type: ignore[arg-type]
    wanted = np.isin(now.numbers, numbers)
    lists.stages[:] = np.where(wanted, FRESH, KNOWN)
    count = threads or processors()
    work = _Work(now, lists, by(now, top + _MORE, count), count, None, progress)
    work.compare()
    lists.solved[~wanted] = 1  # what they met was for the others' sake
    work.solve()
    return lists


def shortlisted(collection: Collection) -> NeighbourLists | None:
    """The lists by a shortlist, where they are current and exact ones are not: what inbox and proposals go by then."""
    found, better = read_listed(collection.path), read_lists(collection.path)
    if found is None or not found.finished() or not current(collection, found):
        return None
    return None if better is not None and better.finished() and current(collection, better) else found


def _serves(now: Snapshot, lists: NeighbourLists, top: int) -> bool:
    return now.describes(lists) and lists.finished() and lists.top >= top


def current(collection: Collection, lists: NeighbourLists) -> bool:
    """Whether lists are of the state that the collection has now."""
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
    """Lists that can be changed, of those that are mapped."""
    names = ("distances", "which", "exact", "limits", "stages", "solved")
    return replace(lists, **{name: getattr(lists, name).copy() for name in names})


class _Work:
    """Lists on their way to be finished."""

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
        """Compare what is FRESH, then what is WAITING, some at a time; each pair once."""
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
        """Compute the first of each list by the plain formula, some lists at a time."""
        open_ = np.flatnonzero(self.lists.solved == 0)
        for first in range(0, len(open_), _AT_ONCE * self.threads):
            some = open_[first : first + _AT_ONCE * self.threads].tolist()
            in_threads(self._solve_one, some, self.threads)
            self._checkpoint(len(some) * _PLAIN * self.lists.top)

    def _pieces(self, queue: Indices) -> list[Indices]:
        """The queue in pieces, small ones first: into lists that are not full yet everything is entered."""
        pieces, first, most = [], 0, _AT_ONCE * self.threads * self.comparing.at_once
        while first < len(queue):
            size = min(most, max(self.lists.which.shape[1], first))
            pieces.append(queue[first : first + size])
            first += size
        return pieces

    def _in_packed_order(self) -> Indices:
        """The fragments by their number of prototypes, then as the shards hold them: groups of every shard, and blocks
        of a device, are finished one after the other."""
        rows, _ = by_length(self.now.rows.packed)
        position = np.empty(len(self.now.rows), dtype=np.int64)
        position[rows] = np.arange(len(rows))
        return np.argsort(position[self.now.at], kind="stable")

    def _solve_one(self, own: int) -> None:
        """Make the first of one list exact: solve entries in the order of their bounds until those solved come before
        all that might be nearer; or else, where too many are as near as each other, search."""
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
        """One list by an exact search."""
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
        """So much more is done: say it, and keep it when it is time."""
        self.done += done
        if self.progress:
            n = len(self.lists)
            self.progress(min(n, int(n * self.done / max(self.total, 1))), n)
        if self.write and time.monotonic() > self.written + self.every:
            start = time.monotonic()
            self.write(self.lists)
            self.written = time.monotonic()
            self.every = max(_KEPT_EVERY, _WRITING * (self.written - start))
