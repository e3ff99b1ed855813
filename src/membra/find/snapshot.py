"""The part of a collection's state that neighbour lists are computed from, and by which they are known as current."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.local_scaling import CHAMFER
from membra.compare.methods import METHODS, Method, named
from membra.errors import Invalid
from membra.store import manifest
from membra.store.collection import Collection, State
from membra.store.neighbour_lists import NeighbourLists, recipe_digest
from membra.store.rows import Rows
from membra.store.scales import Scales
from membra.store.tensors import FileRecord


@dataclass(frozen=True)
class Snapshot:
    """The part of a collection's state that its neighbours depend on; it stays readable whatever others write."""

    rows: Rows
    at: NDArray[np.int64]  # (n,), the row of each fragment in the order of `numbers`
    numbers: NDArray[np.int32]  # (n,) ascending
    checks: NDArray[np.uint32]  # (n,)
    scales: NDArray[np.float64]  # (n,)
    stored: Scales | None  # None for a method without local scales
    shards: Sequence[tuple[FileRecord, NDArray[np.int32]]]  # with the number of the fragment at each row
    method: str
    recipe: str

    def describes(self, lists: NeighbourLists) -> bool:
        """Return whether lists are of exactly this state."""
        return (
            self.shares(lists)
            and np.array_equal(lists.numbers, self.numbers)
            and np.array_equal(lists.checks, self.checks)
            and np.array_equal(lists.scales, self.scales)
        )

    def shares(self, lists: NeighbourLists) -> bool:
        """Return whether lists are of the same method and recipe, so that their distances are still valid."""
        return lists.method == self.method and lists.recipe == self.recipe


def snapshot(collection: Collection, state: State, method: str = "default") -> Snapshot:
    """Take the snapshot of a state; raise `Invalid` for a method other than Chamfer with or without local scales."""
    by = named(method, collection.recipe.method)
    if not has_neighbours(by):
        able = [one.name for one in METHODS if has_neighbours(one)]
        raise Invalid(
            "neighbours are not available for `{method}`, only for {methods}; use one of these",
            method=by.name,
            methods=able,
        )
    rows = state.rows
    numbers = np.sort(rows.numbers[rows.alive])
    at = rows.rows_of(numbers) if len(numbers) else np.zeros(0, dtype=np.int64)
    stored = state.scales() if by.parts else None
    scales = np.ascontiguousarray(stored.scales[CHAMFER]) if stored else np.ones(len(numbers))
    recipe = recipe_digest(collection.recipe.to_json())
    shards = manifest.shards(state.database)
    return Snapshot(rows, at, numbers, rows.word_checks[at], scales, stored, shards, by.name, recipe)


def has_neighbours(by: Method) -> bool:
    """Return whether a method has neighbour lists: their limits are valid only for Chamfer and local scales."""
    return by.bag == "chamfer" and set(by.parts) <= {CHAMFER}
