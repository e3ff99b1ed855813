"""Synthetic fragments: twelve letters of a common alphabet, with a variant of each letter per hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from factories import random_encoder
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.sources.fragment import Fragment
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

HANDS, EACH, KINDS, DIMENSION = 20, 3, 12, 16


def letters(number: int, *, noise: float = 0.1) -> Description:
    """Return a fragment of hand `number // EACH`: twelve letters of the common alphabet in the hand's variants."""
    alphabet = np.random.default_rng(0).normal(size=(KINDS, DIMENSION))
    way = 0.6 * np.random.default_rng(100 + number // EACH).normal(size=(KINDS, DIMENSION))
    own = noise * np.random.default_rng(1000 + number).normal(size=(KINDS, DIMENSION))
    prototypes = (alphabet + way + own).astype(np.float32)
    bag = Bag(prototypes, np.ones(KINDS), np.arange(KINDS, dtype=np.int32), 0.0)
    return Description(np.zeros((KINDS, 4), np.int32), prototypes, bag)


def name(number: int) -> str:
    return f"{number:03d}.jpg"


def store_hands(
    path: Path, count: int = HANDS * EACH, copy: int | None = None, doubtful: int | None = None
) -> Collection:
    """Store a collection of such fragments; the one after the last is a copy, and one can be doubtful."""
    collection = Collection.create(path, encoder=random_encoder(DIMENSION))
    outcomes: list[Outcome] = []
    for number in [*range(count), *([copy] if copy is not None else [])]:
        described = letters(number)
        if number == doubtful:
            described = replace(described, note="doubtful")
        id = name(number) if len(outcomes) < count else "copy.jpg"
        outcomes.append((Fragment(id, path / id), f"{len(outcomes):064x}", described))
    with collection.writing() as writer:
        writer.store(write_batch(path, outcomes))
    return collection
