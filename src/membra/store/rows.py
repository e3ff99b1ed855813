"""The fragments of several shards as one sequence, read on access."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import int8_supported, listed_below, listed_int8
from membra.compare.kernels import Packed
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.store.shard import Shard

Item = TypeVar("Item")


@dataclass(frozen=True)
class LazySequence(Sequence[Item]):
    """A sequence of `length` items, each read by `read` on access, and not cached."""

    length: int
    read: Callable[[int], Item]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self.read(one) for one in range(*index.indices(self.length))]
        if not -self.length <= index < self.length:
            raise IndexError(index)
        return self.read(index % self.length)


class Rows:
    """The concatenated rows of all shards.

    numbers : (N,) int32, the fragment at each row; 0 where it was removed
    alive : (N,) bool, whether the row has a fragment
    """

    def __init__(self, shards: Sequence[Shard], numbers: Sequence[NDArray[np.int32]]) -> None:
        self.shards = list(shards)
        self.numbers = np.concatenate([*numbers, np.zeros(0, dtype=np.int32)]).astype(np.int32)
        self._starts = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def bag(self, row: int) -> Bag:
        """The bag at `row`, in full precision."""
        shard, index = self._at(row)
        return shard.bag(index)

    def description(self, row: int) -> Description:
        """The description of the fragment at `row`, without its note."""
        shard, index = self._at(row)
        return shard.description(index)

    @cached_property
    def alive(self) -> NDArray[np.bool_]:
        return self.numbers > 0

    @property
    def packed(self) -> list[Packed]:
        """The bags in the kernels' layout, one item per shard."""
        return [shard.packed for shard in self.shards]

    @property
    def word_checks(self) -> NDArray[np.uint32]:
        """(N,), the CRC-32 of the prototypes of each row: equal while a fragment's description is unchanged."""
        checks = [shard.arrays["word_checks"] for shard in self.shards]
        return np.concatenate([*checks, np.zeros(0, dtype=np.uint32)])

    @property
    def mean_blocks(self) -> list[NDArray[np.float32]]:
        """The mean embeddings of all rows, one array per shard."""
        return [shard.means for shard in self.shards]

    def means(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mean embeddings at these rows, (len(rows), d)."""
        if not len(rows):
            return np.zeros((0, self.shards[0].means.shape[1] if self.shards else 0), dtype=np.float32)
        found = np.empty((len(rows), self.shards[0].means.shape[1]), dtype=np.float32)
        for some, shard, indices in self.by_shard(rows):
            found[some] = shard.means[indices]
        return found

    def below(
        self, query: Bag, rows: NDArray[np.int64], *, int8: bool = False, threads: int | None = None
    ) -> NDArray[np.float32]:
        """Return lower bounds (len(rows),) of the Chamfer distances of `query` to these rows, close to the distances.

        `int8`: looser bounds, in a quarter of the time.
        """
        found = np.empty(len(rows), dtype=np.float32)
        parts = list(self.by_shard(rows))
        if int8 and int8_supported():
            rows_of_int8 = [shard.int8_rows(indices) for _, shard, indices in parts]
            bounds = iter(listed_int8(query, [one for one in rows_of_int8 if one is not None], threads=threads))
            for (some, *_), one in zip(parts, rows_of_int8, strict=True):
                if one is not None:
                    found[some] = next(bounds)
            parts = [part for part, one in zip(parts, rows_of_int8, strict=True) if one is None]  # of an older format
        full = [shard.float_rows(indices) for _, shard, indices in parts]
        for (some, *_), below in zip(parts, listed_below(query, full, threads=threads), strict=True):
            found[some] = below
        return found

    def by_shard(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Shard, NDArray[np.int64]]]:
        """Group `rows` by shard: yield the indices in `rows`, the shard, and the row numbers within the shard."""
        if not len(rows):
            return
        which = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(which, kind="stable")
        numbers, firsts = np.unique(which[order], return_index=True)
        for number, some in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True):
            yield some, self.shards[number], rows[some] - self._starts[number]

    def rows_of(self, numbers: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of these fragments, all of which must be present."""
        if len(numbers) == 1:  # without sorting
            return np.flatnonzero(self.numbers == numbers[0])
        order = self._by_number
        return np.asarray(order[np.searchsorted(self.numbers[order], numbers)])

    @cached_property
    def _by_number(self) -> NDArray[np.int64]:
        return np.argsort(self.numbers, kind="stable")

    def _at(self, row: int) -> tuple[Shard, int]:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self.shards[number], row - int(self._starts[number])


class RowSubset:
    """A subset of rows, with the interface of `Rows`; row i is row `indices[i]` of `rows`."""

    def __init__(self, rows: Rows, indices: NDArray[np.int64]) -> None:
        self._rows, self._indices = rows, indices
        self.numbers = rows.numbers[indices]
        self.alive = self.numbers > 0

    def __len__(self) -> int:
        return len(self._indices)

    def bag(self, row: int) -> Bag:
        """The bag at `row`, in full precision."""
        return self._rows.bag(int(self._indices[row]))

    def below(
        self, query: Bag, rows: NDArray[np.int64], *, int8: bool = False, threads: int | None = None
    ) -> NDArray[np.float32]:
        """Like `Rows.below`."""
        return self._rows.below(query, self._indices[rows], int8=int8, threads=threads)

    @cached_property
    def mean_blocks(self) -> list[NDArray[np.float32]]:
        """The mean embeddings, in one array."""
        return [self._rows.means(self._indices)]

    def means(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mean embeddings at these rows, (len(rows), d)."""
        return self.mean_blocks[0][rows]

    def rows_of(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of these fragments, all of which must be present."""
        order = np.argsort(self.numbers, kind="stable")
        return np.asarray(order[np.searchsorted(self.numbers[order], numbers)])
