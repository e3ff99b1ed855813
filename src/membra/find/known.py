"""Fragments that are known to be of one manuscript: by the column `join`, as sides of a leaf, and by verdicts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from membra.store.collection import Entry
from membra.store.leaf import leaves_of

Indices = NDArray[np.int64]


def joined_groups(labels: Indices, joins: Sequence[tuple[int, int]]) -> Indices:
    """Return the group (n,) of each fragment, from 0: fragments with one label, and fragments connected by joins."""
    _, groups = np.unique(labels, return_inverse=True)
    parent: dict[int, int] = {}

    def root(group: int) -> int:
        while group in parent:
            group = parent[group]
        return group

    for a, b in joins:
        one, two = root(int(groups[a])), root(int(groups[b]))
        if one != two:
            parent[max(one, two)] = min(one, two)
    if parent:
        moved = np.arange(int(groups.max()) + 1)
        for group in sorted(parent):  # a parent is smaller, and has already been updated
            moved[group] = moved[parent[group]]
        groups = moved[groups]
    return np.asarray(groups, dtype=np.int64)


def known_labels(entries: Sequence[Entry | None]) -> Indices:
    """Return labels (n,), equal for fragments of one manuscript by the catalogue: same `join`, or sides of a leaf."""
    there = [(index, entry) for index, entry in enumerate(entries) if entry]
    leaves = leaves_of(entry for _, entry in there)
    joins: list[tuple[int, int]] = []
    first: dict[tuple[str, str], int] = {}
    for index, entry in there:
        id = entry.fragment.id
        for key in (("join", entry.fragment.columns.get("join", "")), ("leaf", leaves.get(id, ("",))[0])):
            if key[1]:
                joins.append((first.setdefault(key, index), index))
    return joined_groups(np.arange(len(entries)), joins)
