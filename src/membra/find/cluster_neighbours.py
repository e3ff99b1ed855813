"""Compute the neighbour graph on a Dask cluster: workers compare, and the client updates and stores the lists.

A task carries the fragments to compare, so that a worker that dies costs only time; it returns the few pairs that may
belong into lists. It uses the thresholds of the time when it was submitted, which are higher than the present ones: its
result has superfluous entries, but lacks none.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import Conflict, MembraError
from membra.find.cluster_search import ShardList, rows_on_worker
from membra.find.comparing import Comparer, Comparing, Entries
from membra.find.listing import Floats, Indices
from membra.find.snapshot import Snapshot
from membra.store import manifest
from membra.store.cluster import Client, wait_for
from membra.store.collection import Collection

_MAX_PENDING_PER_THREAD = 2  # submitted pieces for each thread of the cluster, and one more in total


def comparing_on(client: Client, collection: Collection) -> Callable[[Snapshot, int, int], Comparing]:
    """Return a value for `by` of `neighbours`: the workers of `client` compare; all see the collection at its path."""
    return partial(_Cluster, client, collection)


class _Cluster:
    """`Comparing` by the workers of a cluster."""

    at_once = 1

    def __init__(self, client: Client, collection: Collection, now: Snapshot, size: int, threads: int) -> None:
        self.client, self.collection, self.now, self.size = client, collection, now, size

    def __call__(
        self, pieces: Iterable[Indices], columns: NDArray[np.bool_], last: Floats, /
    ) -> Iterator[tuple[Indices, Entries]]:
        """Implement `Comparing`; several pieces are always pending."""
        where = (str(self.collection.path.absolute()), self.collection.recipe.to_json(), self.now.shards)
        sent: deque[tuple[Indices, Any]] = deque()
        for some in pieces:
            arguments = (self.now.scales, self.now.method, self.size, some, columns.copy(), last.copy())
            sent.append((some, self.client.submit(_compare, *where, *arguments, pure=False)))
            columns[some] = False
            while len(sent) > _MAX_PENDING_PER_THREAD * max(1, sum(self.client.nthreads().values())):
                yield self._next(sent)
        while sent:
            yield self._next(sent)

    def _next(self, sent: deque[tuple[Indices, Any]]) -> tuple[Indices, Entries]:
        """Return the result of the piece that was submitted first."""
        some, future = sent.popleft()
        wait_for(self.client, future)
        try:
            entries: Entries = future.result()
        except MembraError:
            with manifest.connect(self.collection.path) as database:
                now = [record for record, _ in manifest.shards(database)]
            if now == [record for record, _ in self.now.shards]:
                raise
            raise Conflict(
                "{collection} was changed during the run; finished comparisons are kept: run the command again",
                collection=self.collection.path,
            ) from None
        return some, entries


def _compare(
    folder: str,
    recipe: str,
    shards: ShardList,
    scales: Floats,
    method: str,
    size: int,
    some: Indices,
    columns: NDArray[np.bool_],
    last: Floats,
) -> Entries:
    """Run `Comparer.compare` on a worker."""
    rows = rows_on_worker(folder, recipe, shards)
    numbers = np.sort(rows.numbers[rows.alive])
    at = rows.rows_of(numbers)
    now = Snapshot(rows, at, numbers, rows.word_checks[at], scales, None, shards, method, "")
    return Comparer(now, size, 1).compare(some, columns, last)
