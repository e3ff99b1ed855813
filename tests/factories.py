"""Test data: encoders, descriptions, stored collections, and pictures that are cheap to describe."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.describe import recipe as recipes
from membra.describe import workers
from membra.describe.bag import Bag
from membra.describe.encoder import Encoder
from membra.describe.graph import autoencoder_graph
from membra.describe.recipe import Described, Description, Recipe
from membra.see.glyphs import cut_glyphs
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.see.reading import Reading
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph
from membra.store import manifest
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection


def random_encoder(dimension: int = 16, seed: int = 0) -> Encoder:
    """An untrained encoder of the paper's shape: random projections keep letters apart well enough for tests."""
    draw = np.random.default_rng(seed)
    shapes = {0: (16, 1, 3, 3), 2: (32, 16, 3, 3), 4: (64, 32, 3, 3), 7: (dimension, 4096)}
    weights = {}
    for index, shape in shapes.items():
        fan_in = int(np.prod(shape[1:]))
        weights[f"encoder_net.{index}.weight"] = draw.normal(0, fan_in**-0.5, shape).astype(np.float32)
        weights[f"encoder_net.{index}.bias"] = np.zeros(shape[0], dtype=np.float32)
    return Encoder(autoencoder_graph(weights), threads=1)


def description(seed: int, *, letters: int | None = None, words: int = 8, dimension: int = 8) -> Description:
    """Return a synthetic description. Every third is of one hand; large ones have fewer prototypes than letters."""
    hand, draw = np.random.default_rng(seed % 3), np.random.default_rng(1000 + seed)
    count = letters or int(draw.integers(1, 15))
    alphabet = hand.normal(size=(5, dimension))
    embeddings = (alphabet[draw.integers(0, 5, count)] + 0.3 * draw.normal(size=(count, dimension))).astype(np.float32)
    boxes = draw.integers(0, 900, (count, 4)).astype(np.int32)
    members = np.arange(count) % words
    centres = np.array([embeddings[members == word].mean(axis=0) for word in range(min(count, words))])
    error = float(np.linalg.norm(embeddings - centres[members], axis=1).mean())
    bag = Bag(centres, np.bincount(members), members, error)
    outline = np.array([[0, 0], [900, 5], [905, 900 + seed]], np.int32)
    angle = None if seed % 4 == 3 else 30.5 * (seed % 12)
    return Description(boxes, embeddings, bag, "", angle, 20.0 + seed % 9, 1.0 - seed % 5 / 10, outline)


def batches(folder: Path, seeds: Iterable[int], size: int) -> Iterator[list[Outcome]]:
    """Yield batches of `size` fragments `0007.jpg` and so on, as outcomes of `describe`."""
    found = list(seeds)
    for first in range(0, len(found), size):
        yield [outcome(folder, seed) for seed in found[first : first + size]]


def outcome(folder: Path, seed: int) -> Outcome:
    name = f"{seed:04d}.jpg"
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Fragment(name, folder / name, {"leaf": str(seed // 2)}), digest, description(seed)


def stored(path: Path, seeds: Iterable[int], size: int = 5) -> Collection:
    """Store a collection of such fragments, in shards of `size`."""
    collection = Collection.open(path) if path.exists() else Collection.create(path, encoder=random_encoder(8))
    with collection.writing() as writer:
        for batch in batches(path.parent, seeds, size):
            writer.store(write_batch(path, batch))
    return collection


def aged(collection: Collection) -> Collection:
    """Make the collection look described by an earlier revision."""
    values = {**json.loads(collection.recipe.to_json()), "revision": recipes.REVISION - 1}
    with manifest.connect(collection.path, write=True) as database:
        manifest.write_meta(database, "recipe", json.dumps(values, sort_keys=True))
    return Collection.open(collection.path)


def slip(seed: int) -> bytes:
    """Return a PNG of a small piece with eight signs, which takes only 12 ms to describe."""
    draw = np.random.default_rng(seed)
    image = np.clip(np.array([190, 215, 225]) + draw.normal(0, 3, (96, 160, 1)), 0, 255).astype(np.uint8)
    for index in range(8):
        corner = (14 + index % 4 * 36, 18 + index // 4 * 40)
        stroke = (draw.uniform(0, 22, (4, 2)) + corner).astype(np.int32)
        cv2.polylines(image, [stroke], False, (40, 30, 30), 4)
    return cv2.imencode(".png", image)[1].tobytes()


def plate(*seeds: int | None) -> bytes:
    """Return a PNG of several such pieces side by side; None is a chip without writing."""
    blank = np.full((96, 160, 3), (190, 215, 225), np.uint8)
    cells = [blank if seed is None else _decoded(slip(seed)) for seed in seeds]
    return cv2.imencode(".png", np.hstack(cells))[1].tobytes()


def _decoded(content: bytes) -> NDArray[np.uint8]:
    return np.asarray(cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR), np.uint8)


LEGIBILITIES = (0.6, 0.9, 0.3, 0.7)  # of the pieces of a plate, in order; the third is doubtful
_see = recipes.see


def see_plates(fragment: Fragment, recipe: Recipe) -> list[Reading]:
    """Return the readings of the pieces of a `plate`, as an eye that separates pieces would; replaces
    `recipe.see`."""
    whole = _see(fragment, recipe)  # raises for unusable images
    photograph = read_photograph(fragment.path)
    height, width = photograph.shape[:2]
    if recipe.pieces == "one" or height != 96 or width % 160 or width == 160:
        return whole
    found = []
    for index in range(width // 160):
        left = index * 160
        cell = np.ascontiguousarray(photograph[:, left : left + 160])
        ink = find_ink(cell, find_parchment(cell, recipe.parchment), recipe.ink)
        glyphs = cut_glyphs(ink, recipe.glyphs)
        glyphs = replace(glyphs, boxes=glyphs.boxes + np.array([left, 0, 0, 0], np.int32))
        outline = np.array([[left, 0], [left + 160, 0], [left + 160, 96], [left, 96]], np.int32)
        found.append(Reading(glyphs, outline, 45.0 * index, ink.letter_height, LEGIBILITIES[index % 4]))
    return found


def describe_plates(photograph: Fragment, *, encoder: Path, recipe: Recipe) -> Described:
    """Replace `workers._describe`, so that other processes see plates too."""
    recipes.see = see_plates
    return describe_here(photograph, encoder=encoder, recipe=recipe)


describe_here = workers._describe
