"""Compute the neighbours of every fragment with a shortlist, for collections with too many pairs to compare all.

Each fragment is searched as by `membra search --shortlist`: approximate scores of all fragments from codes
(`codes.py`), then full and exact comparison of the shortlist. As the score is symmetric, each pair found is entered
into both lists. A true neighbour can be missing from both; the recall is measured at the end by exact searches of
fragments drawn from the collection. These lists are stored beside the exact ones, under another name and with another
format mark, so that they are never taken for exact.

The lists are valid for one state of the collection. After a kill the computation resumes; after a change of the
collection it starts again.
"""

import time
from collections.abc import Callable

import numpy as np

from membra.errors import Invalid
from membra.find import codes
from membra.find.exact import Query, nearest_rows
from membra.find.listing import enter
from membra.find.neighbours import TOP, Neighbours
from membra.find.shortlist import ShortlistSettings, how_many
from membra.find.snapshot import Snapshot, snapshot
from membra.progress import Progress
from membra.store.collection import Collection
from membra.store.neighbour_lists import KNOWN, NeighbourLists, empty_lists, making_lists, read_listed, write_lists

SAMPLE = 50  # fragments that are searched exactly to measure the recall of the lists
_KEPT_EVERY = 10.0  # seconds between checkpoints: the work that a kill can cost ...
_WRITING = 20  # ... or this multiple of the time for writing the lists, if that is longer


def listed_neighbours(
    collection: Collection,
    *,
    shortlist: str = "auto",
    top: int = TOP,
    method: str = "default",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Neighbours:
    """Compute the nearest neighbours of every described fragment within its shortlist, and store them.

    Parameters
    ----------
    collection : Collection
    shortlist : str
        Size of the shortlist that is compared in full with each fragment: a number, or `auto` for one in a hundred,
        and 2,000 at least.
    top : int
        Number of neighbours per fragment.
    method : str
        A method that has a shortlist and neighbours, or `default`: the recipe's own.
    threads : int, optional
        Number of threads; the default is the number of processors.
    progress : Progress, optional
        Called with the number of fragments searched and the total.

    Returns
    -------
    Neighbours
        Its lists have the size `listed` of the shortlists, and the `recall` measured on a `sample`.
    """
    with collection.reading() as state:
        now = snapshot(collection, state, method)
        if not (shortlist == "auto" or (shortlist.isdecimal() and int(shortlist))):
            raise Invalid("a shortlist is auto or a number of fragments, not `{shortlist}`", shortlist=shortlist)
        everything = ShortlistSettings(exact_up_to=0)
        count = how_many(len(now.numbers), shortlist, everything) or len(now.numbers)
        known = read_listed(collection.path)
        same = known is not None and now.describes(known) and known.top == top and known.listed == count
        if known is not None and same and known.finished():
            return Neighbours(known, 0, True)
        if len(now.numbers):
            index = codes.shortlist_index(collection.path, now.rows, now.stored)
            weight = codes.recall_estimate(now.rows, index, now.method, now.stored).weight
    with making_lists(collection.path):
        settings = {"method": now.method, "top": top, "recipe": now.recipe}
        lists = empty_lists(now.numbers, now.checks, now.scales, size=top, **settings)  # type: ignore[arg-type]
        lists.listed, lists.sample = count, min(SAMPLE, len(lists))
        if known is not None and same:
            for name in ("distances", "which", "exact", "stages", "solved"):
                getattr(lists, name)[:] = getattr(known, name)
        open_ = np.flatnonzero(lists.solved == 0)

        def search(own: int) -> None:
            (row,) = now.at[own : own + 1].tolist()
            query = Query(now.rows.bag(row), now.rows.means(now.at[own : own + 1])[0], int(now.numbers[own]))
            (near,) = codes.nearest_listed(
                now.rows, index, [query], now.method, top, count, weight=weight, scales=now.stored, threads=threads
            )
            others = np.searchsorted(now.numbers, now.rows.numbers[near.indices])
            found = len(others)
            roots = np.sqrt(now.scales[own] * now.scales[others])
            lists.distances[own, :found], lists.which[own, :found] = near.distances * roots, now.numbers[others]
            lists.exact[own, :found], lists.stages[own], lists.solved[own] = 1, KNOWN, 1

        _each(open_.tolist(), len(lists), search, lambda: write_lists(collection.path, lists), progress)
        both_ways(lists)
        lists.recall = _recall(now, lists)
        write_lists(collection.path, lists)
    return Neighbours(lists, len(open_), bool(same))


def both_ways(lists: NeighbourLists) -> None:
    """Enter each pair into the list of the other fragment too, if it is nearer than the entries there; in place."""
    n, (own, column) = len(lists), np.nonzero(lists.which)
    others, distances = lists.indices(lists.which)[own, column], lists.distances[own, column]
    new = ~np.isin(others * n + own, own * n + others)
    enter(lists, others[new], own[new], distances[new])
    lists.exact[:], lists.solved[:], lists.limits[:] = lists.which > 0, 1, np.inf


def _each(
    indices: list[int],
    everything: int,
    work: Callable[[int], None],
    write: Callable[[], None],
    progress: Progress | None,
) -> None:
    """Call `work` on each of the indices, and `write` every few seconds."""
    written, every = time.monotonic(), _KEPT_EVERY
    for done, own in enumerate(indices, start=everything - len(indices) + 1):
        work(own)
        if progress:
            progress(done, everything)
        if time.monotonic() > written + every:
            start = time.monotonic()
            write()
            written = time.monotonic()
            every = max(_KEPT_EVERY, _WRITING * (written - start))


def _recall(now: Snapshot, lists: NeighbourLists) -> float:
    """Measure the mean share of the true nearest that the lists contain, over fragments drawn at random."""
    shares = []
    for own in np.random.default_rng(0).permutation(len(lists))[: lists.sample].tolist():
        (row,) = now.at[own : own + 1].tolist()
        query = Query(now.rows.bag(row), now.rows.means(now.at[own : own + 1])[0], int(now.numbers[own]))
        true = nearest_rows(now.rows, [query], now.method, lists.top, scales=now.stored)[0].indices
        shares.append(np.isin(now.rows.numbers[true], lists.which[own]).mean() if true else 1.0)
    return float(np.mean(shares)) if shares else 1.0
