"""What neighbours depend on, of one state of a collection: lists are made from it, and known by it as current."""

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
    """What of one state of a collection its neighbours depend on; it stays readable whatever others write."""

    rows: Rows
    at: NDArray[np.int64]  # (n,), the row of each fragment in the order of `numbers`
    numbers: NDArray[np.int32]  # (n,) ascending
    checks: NDArray[np.uint32]  # (n,)
    scales: NDArray[np.float64]  # (n,)
    stored: Scales | None  # where the method has local scales
    shards: Sequence[tuple[FileRecord, NDArray[np.int32]]]  # and the number of the fragment at each of their rows
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


def snapshot(collection: Collection, state: State, method: str = "default") -> Snapshot:
    """What neighbours depend on in this state. Methods that are not Chamfer with or without local scales have none."""
    by = named(method, collection.recipe.method)
    if not has_neighbours(by):
        able = [one.name for one in METHODS if has_neighbours(one)]
        raise Invalid(
            "there are no neighbours by `{method}`, only by {methods}; give one of these", method=by.name, methods=able
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
    """Whether lists can be made by this method: their limits know Chamfer and local scales, and nothing else."""
    return by.bag == "chamfer" and set(by.parts) <= {CHAMFER}
