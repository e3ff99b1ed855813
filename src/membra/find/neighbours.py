"""The neighbour graph: for every fragment its nearest by the collection's own score, as single exact searches find.

In two stages. First all pairs are looked at, each once, since Chamfer is symmetric: products of int8 give a lower bound
of each distance (`compare/bounds.py`), and the pairs that may belong into the list of either side are looked at
closely, in float32. Then the first entries of each list are computed by the plain formula, as many as it takes to know
that they are the nearest. The lists (`store/neighbour_lists.py`) are all that is held in memory, besides one bound for
each fragment and thread; bags are read where the shards are mapped. What is done is kept every few seconds, so that a
kill costs no more than that; `listing.py` says what is compared again when the collection has changed.
"""

import errno
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import chamfer_below, in_bytes
from membra.compare.distance import chamfer
from membra.compare.local_scaling import CHAMFER
from membra.compare.methods import METHODS, Method, named
from membra.compare.threads import in_threads, processors
from membra.describe.bag import Bag
from membra.errors import MembraError
from membra.find.exact import Query, nearest_rows
from membra.find.listing import Floats, Indices, carried_over, enter, thresholds
from membra.find.pruned import lower_bounds
from membra.progress import Progress
from membra.store.collection import Collection, State
from membra.store.neighbour_lists import (
    FRESH,
    KNOWN,
    MET,
    WAITING,
    NeighbourLists,
    empty_lists,
    making_lists,
    read_lists,
    recipe_digest,
    tidy_lists,
    write_lists,
)
from membra.store.rows import Rows
from membra.store.scales import Scales

TOP = 20  # of each fragment, as many as a search gives
_MORE = 12  # entries that a list has beyond those it promises, for when some of them go or move away
_AT_ONCE = 32  # fragments for each thread that are compared before their findings are entered
_KEPT_EVERY = 10.0  # seconds: what a kill can cost ...
_WRITING = 20  # ... or so many times what writing the lists takes, where that is more
_PLAIN = 70  # how much longer a pair takes by the plain formula than by bounds; for the time that is left
_ROUNDING = 1e-9  # more than a score's few operations can round


@dataclass(frozen=True)
class Neighbours:
    """The lists of all fragments of one state of a collection, and what bringing them up to date took."""

    lists: NeighbourLists
    compared: int  # fragments that were compared with all others; 0 where all was known
    begun_before: bool  # whether there was something to go on from


@dataclass(frozen=True)
class Snapshot:
    """What of one state of a collection its neighbours depend on; it stays readable whatever others write."""

    rows: Rows
    at: Indices  # (n,), the row of each fragment in the order of `numbers`
    numbers: NDArray[np.int32]  # (n,) ascending
    checks: NDArray[np.uint32]  # (n,)
    scales: Floats  # (n,)
    stored: Scales | None  # where the method has local scales
    method: str
    recipe: str

    def describes(self, lists: NeighbourLists) -> bool:
        """Whether lists are of exactly this state."""
        return (
            self.shares(lists)
            and np.array_equal(lists.numbers, self.numbers)
            and np.array_equal(lists.checks, self.checks)
            and np.array_equal(lists.scales, self.scales)
        )

    def shares(self, lists: NeighbourLists) -> bool:
        """Whether lists are of the same method and recipe, so that what they know is still true."""
        return lists.method == self.method and lists.recipe == self.recipe


def neighbours(
    collection: Collection,
    *,
    top: int = TOP,
    method: str = "default",
    threads: int | None = None,
    keep: bool = True,
    progress: Progress | None = None,
) -> Neighbours:
    """The `top` nearest of every described fragment, as `search` finds and orders them: read where they are current,
    else brought up to date, which goes on after a kill.

    They are kept in the collection; where that is not possible (others write them, or the folder is read-only) and
    `keep` is not set, they are made all the same. `threads`: as many as there are processors, unless given.
    """
    with collection.reading() as state:
        now = snapshot(collection, state, method)
    lists = read_lists(collection.path)
    if lists and now.describes(lists) and lists.finished() and lists.top >= top:
        tidy_lists(collection.path)
        return Neighbours(lists, 0, True)
    try:
        with making_lists(collection.path):
            return _make(collection, now, top, threads, lambda made: write_lists(collection.path, made), progress)
    except (MembraError, PermissionError):
        if keep:
            raise
    except OSError as error:
        if keep or error.errno != errno.EROFS:
            raise
    return _make(collection, now, top, threads, None, progress)


def current(collection: Collection, lists: NeighbourLists) -> bool:
    """Whether lists are of the state that the collection has now."""
    with collection.reading() as state:
        return snapshot(collection, state, lists.method).describes(lists)


def snapshot(collection: Collection, state: State, method: str = "default") -> Snapshot:
    """What neighbours depend on in this state. Methods that are not Chamfer with or without local scales have none."""
    by = named(method, collection.recipe.method)
    if not has_neighbours(by):
        able = ", ".join(one.name for one in METHODS if has_neighbours(one))
        raise MembraError(f"there are no neighbours by `{by.name}`, only by {able}; give one of these")
    rows = state.rows
    numbers = np.sort(rows.numbers[rows.alive])
    at = rows.rows_of(numbers) if len(numbers) else np.zeros(0, dtype=np.int64)
    stored = state.scales() if by.parts else None
    scales = np.ascontiguousarray(stored.scales[CHAMFER]) if stored else np.ones(len(numbers))
    recipe = recipe_digest(collection.recipe.to_json())
    return Snapshot(rows, at, numbers, rows.word_checks[at], scales, stored, by.name, recipe)


def has_neighbours(by: Method) -> bool:
    """Whether lists can be made by this method: their limits know Chamfer and local scales, and nothing else."""
    return by.bag == "chamfer" and set(by.parts) <= {CHAMFER}


def _make(
    collection: Collection,
    now: Snapshot,
    top: int,
    threads: int | None,
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
    work = _Work(now, lists, threads or processors(), write, progress)
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
        threads: int,
        write: Callable[[NeighbourLists], None] | None,
        progress: Progress | None,
    ) -> None:
        self.now, self.lists, self.threads, self.write, self.progress = now, lists, threads, write, progress
        self.roots = 1 / np.sqrt(now.scales)
        self.written, self.every = time.monotonic(), _KEPT_EVERY
        waiting, fresh = (int(np.count_nonzero(lists.stages == stage)) for stage in (WAITING, FRESH))
        self.done, n = 0.0, len(lists)
        self.total = waiting**2 / 2 + fresh * (n - fresh / 2) + _PLAIN * lists.top * (n - lists.solved.sum())

    def compare(self) -> None:
        """Compare what is FRESH, then what is WAITING, some at a time; each pair once."""
        lists, last = self.lists, thresholds(self.lists)
        order = self._in_packed_order()
        for stage, after in ((FRESH, MET), (WAITING, KNOWN)):
            queue = order[lists.stages[order] == stage]
            for first in range(0, len(queue), _AT_ONCE * self.threads):
                some = queue[first : first + _AT_ONCE * self.threads]
                columns = lists.stages != after
                touched = self._compare_some(some, columns, last)
                last[touched] = thresholds(lists, touched)
                lists.stages[some] = after
                self._checkpoint(len(some) * int(np.count_nonzero(columns)) - len(some) ** 2 / 2)
            lists.stages[lists.stages == MET] = KNOWN

    def solve(self) -> None:
        """Compute the first of each list by the plain formula, some lists at a time."""
        open_ = np.flatnonzero(self.lists.solved == 0)
        for first in range(0, len(open_), _AT_ONCE * self.threads):
            some = open_[first : first + _AT_ONCE * self.threads].tolist()
            in_threads(self._solve_one, some, self.threads)
            self._checkpoint(len(some) * _PLAIN * self.lists.top)

    def _compare_some(self, some: Indices, columns: NDArray[np.bool_], last: Floats) -> Indices:
        """Compare some fragments with those in `columns` (n,), of themselves only with the later ones; `last` (n,) are
        the scores from which on an entry is of no use to a list."""
        rank = np.full(len(columns), len(some))
        rank[some] = np.arange(len(some))
        firsts = self._first_groups(columns)
        found: list[tuple[Indices, Floats, float]] = [(np.zeros(0, np.int64), np.zeros(0), 0.0)] * len(some)

        def work(place: int) -> None:
            found[place] = self._candidates(int(some[place]), columns & (rank > place), firsts, last)

        in_threads(work, range(len(some)), self.threads)
        own = np.repeat(some, [len(others) for others, _, _ in found])
        others = np.concatenate([others for others, _, _ in found])
        distances = np.concatenate([near for _, near, _ in found])
        use = np.repeat([limit for _, _, limit in found], [len(others) for others, _, _ in found])
        scores = distances * self.roots[own] * self.roots[others] * (1 - _ROUNDING)
        mine, theirs = scores <= use, scores < last[others]
        owners = np.concatenate([own[mine], others[theirs]])
        return enter(
            self.lists,
            owners,
            np.concatenate([others[mine], own[theirs]]),
            np.concatenate([distances[mine], distances[theirs]]),
        )

    def _candidates(
        self, own: int, columns: NDArray[np.bool_], firsts: Sequence[int], last: Floats
    ) -> tuple[Indices, Floats, float]:
        """The fragments in `columns` that may belong into the list of `own`, or it into theirs; a lower bound of the
        distance to each, nearly it; and up to which score it has a use for them itself."""
        rows, at, size = self.now.rows, self.now.at, self.lists.which.shape[1]
        bag, scale = rows[int(at[own])], self.roots * (self.roots[own] * (1 - _ROUNDING))
        bounds = self._bounds(bag, firsts)[at].astype(np.float64)
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
        return np.concatenate([first, rest]), np.concatenate([near, close(rest)]), use

    def _bounds(self, bag: Bag, firsts: Sequence[int]) -> NDArray[np.float32]:
        """A lower bound of the distance to every row, (N,); 0 for those in groups before the first of their shard."""
        found = np.zeros(len(self.now.rows), dtype=np.float32)
        start = 0
        for shard, first in zip(self.now.rows.shards, firsts, strict=True):
            part, packed = found[start : start + len(shard)], shard.packed
            start += len(shard)
            if first == len(packed.counts):
                continue
            if packed.coarse is not None and in_bytes():
                part[:] = chamfer_below(bag, packed, first=first, threads=1)
            else:
                part[:] = lower_bounds([bag], packed, "chamfer", threads=1)[0]
        return found

    def _first_groups(self, columns: NDArray[np.bool_]) -> list[int]:
        """Of each shard the first group that has one of the fragments in `columns` (n,); how many it has where none."""
        there = np.zeros(len(self.now.rows), dtype=bool)
        there[self.now.at[columns]] = True
        found = []
        starts = np.cumsum([0, *(len(shard) for shard in self.now.rows.shards)]).tolist()
        for shard, (start, end) in zip(self.now.rows.shards, pairwise(starts), strict=True):
            places = shard.packed.places
            wanted: NDArray[np.bool_] = np.any(there[start:end][places] & (places >= 0), axis=1)
            found.append(int(np.argmax(wanted)) if wanted.any() else len(wanted))
        return found

    def _in_packed_order(self) -> Indices:
        """The fragments as the shards hold them, so that groups are finished one after the other."""
        position = np.zeros(len(self.now.rows), dtype=np.int64)
        start = 0
        for shard in self.now.rows.shards:
            order = shard.packed.places.ravel()
            position[start + order[order >= 0]] = start + np.arange(np.count_nonzero(order >= 0))
            start += len(shard)
        return np.argsort(position[self.now.at], kind="stable")

    def _solve_one(self, own: int) -> None:
        """Make the first of one list exact: solve entries in the order of their bounds until those solved come before
        all that might be nearer; or else, where too many are as near as each other, search."""
        lists, now = self.lists, self.now
        need = min(lists.top, len(lists) - 1)
        bag = now.rows[int(now.at[own])]
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
            for place in left.tolist():
                distances[place] = chamfer(bag, now.rows[int(now.at[others[place]])])
                exact[place] = 1
        order = np.lexsort((np.where(which > 0, which, np.iinfo(np.int32).max), scores))
        lists.distances[own], lists.which[own], lists.exact[own] = distances[order], which[order], exact[order]
        lists.solved[own] = 1

    def _search(self, own: int, bag: Bag) -> None:
        """One list by an exact search."""
        lists, now, size = self.lists, self.now, self.lists.which.shape[1]
        query = Query(bag, now.rows.means(now.at[own : own + 1])[0], int(now.numbers[own]))
        found = nearest_rows(now.rows, [query], now.method, size, scales=now.stored, threads=1)[0]
        count = len(found.places)
        lists.distances[own], lists.which[own], lists.exact[own] = np.inf, 0, 0
        lists.distances[own, :count] = [chamfer(bag, now.rows[row]) for row in found.places]
        lists.which[own, :count], lists.exact[own, :count] = now.rows.numbers[found.places], 1
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
