"""Grow a gallery: add synthetic fragments without mates to a collection of labelled ones."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _synthetic import MATES, Real, SyntheticBags
from _timing import progress

from membra.describe.recipe import Description
from membra.sources.fragment import Fragment
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

SHARD = 1_000
MADE = "made-"  # prefix of the ids of synthetic fragments


def material(collection: Collection) -> Real:
    """Return the bags of a collection, and the manuscript of each."""
    entries, descriptions = collection.described()
    names = [entry.fragment.columns.get("join") or entry.fragment.id for entry in entries]
    return Real([one.bag for one in descriptions], names)


def add_made(collection: Collection, synthetic: SyntheticBags, first: int, last: int) -> None:
    """Add synthetic hands of one fragment each, in a fixed sequence; local scales are computed with the last."""
    with collection.writing() as writer:
        for start in range(first, last, SHARD):
            end = min(start + SHARD, last)
            progress(f"{start} of {last} made")
            writer.store(write_batch(collection.path, list(_outcomes(synthetic, start, end))), scale=end == last)


def _outcomes(synthetic: SyntheticBags, first: int, last: int) -> Iterator[Outcome]:
    for hand in range(first, last):
        bag, name = synthetic[hand * MATES], f"{MADE}{hand:07d}.jpg"
        bag.members = np.arange(len(bag), dtype=np.int32)
        described = Description(np.zeros((len(bag), 4), dtype=np.int32), bag.prototypes, bag)
        fragment = Fragment(name, Path("/") / name, {"join": f"{MADE}{hand}"})
        yield fragment, hashlib.sha256(name.encode()).hexdigest(), described


def precision(right: list[bool]) -> dict[str, float | int]:
    """Return the share that is right, the count, and a 95 % interval (Wilson)."""
    n = len(right)
    if not n:
        return {"of": 0}
    share, z = sum(right) / n, 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return {
        "share": round(share, 4),
        "of": n,
        "low": round(float(middle - half), 4),
        "high": round(float(middle + half), 4),
    }
