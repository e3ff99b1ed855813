"""Writes `tests/describe/digests.json`: digests of the recipes' output for three photographs, to detect any change.

    python tests/describe/make_digests.py

Run it after `REVISION` was raised. The photographs (`digests-*.jpg`) were drawn once and do not change: the code that
draws them may change, and is not part of a recipe.
"""

import dataclasses
import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from factories import random_encoder
from membra import scribes
from membra.compare.methods import distances
from membra.describe.bag import Bag, in_company, make_bag
from membra.describe.recipe import RECIPES, Description, Recipe, eye_of, pieces_of
from membra.see import (
    edges,
    eye,
    fixes,
    glyphs,
    ink,
    letters,
    lines,
    orientation,
    own_side,
    parts,
    read,
    sight,
    split,
    turn,
    view,
)
from membra.see.reading import Reading
from membra.sources.fragment import Fragment

HERE = Path(__file__).parent
FILE = HERE / "digests.json"
_RULES, _LEARNED = ("parchment", "glyphs"), ("reading", "letters")  # settings of segmentation by rules, and by the eye
PHOTOGRAPHS = [HERE / f"digests-{seed}.jpg" for seed in range(3)]


def main() -> None:
    for seed, path in enumerate(PHOTOGRAPHS):
        if not path.exists():
            drawn = scribes.fragment(scribes.hand(seed), scribes.camera(seed), letters=40, seed=seed)
            path.write_bytes(drawn.jpeg)
    found = {name: {"revision": recipe.revision, **numbers(recipe)} for name, recipe in RECIPES.items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def numbers(recipe: Recipe) -> dict[str, Any]:
    """Compute the output of a recipe for the photographs, one digest for each step.

    Boxes and patches are whole numbers. Bags and distances are computed from the patches, reduced to 8 x 8, and rounded
    so coarsely that the processor's rounding does not matter. Values that depend on it (embeddings, and measurements of
    a piece) are stored and compared with a tolerance, not hashed. The recipe holds the digests of the networks. The
    output of a network differs by a pixel between processors: of it, means and deviations are compared.
    """
    readings = [reading for path in PHOTOGRAPHS for _, reading in pieces_of(Fragment(path.name, path), recipe)[0]]
    boxes = [reading.glyphs.boxes for reading in readings]
    patches = [reading.glyphs.patches for reading in readings]
    halves = [half for own in patches for half in (own[::2], own[1::2]) if len(half)]  # as if cut in two
    descriptions = [_described(half, recipe) for half in halves]
    bags = [rounded(part) for one in descriptions for part in _in_order(one.bag)]
    apart = distances(descriptions, descriptions, recipe.method, same=range(len(descriptions)))
    digest = _sums if recipe.eye or eye_of(recipe) else _digest
    return {
        "settings": settings(recipe),
        "letters": [len(own) for own in boxes],
        "boxes": digest(boxes),
        "patches": digest(patches),
        "bags": digest(bags),
        "distances": digest([rounded(apart)]),
        "seen": [value for reading in readings for value in _seen(reading)],
        "embeddings": [round(float(value), 4) for value in random_encoder(8).encode(np.concatenate(patches)).mean(0)],
    }


def settings(recipe: Recipe) -> dict[str, Any]:
    """Return every setting and constant of a recipe: most have no effect on these photographs, but may on others."""
    values = dataclasses.asdict(recipe)
    for unused in ("name", "encoder", "eye", "revision", *(_RULES if eye_of(recipe) else _LEARNED)):
        del values[unused]
    stages = {stage: values.pop(stage) for stage in list(values) if isinstance(values[stage], dict)}
    rules = (edges, glyphs, ink, lines, sight) if recipe.ink.threshold == "sauvola" else ()
    seeing = (eye, fixes, letters, orientation, own_side, parts, read, split, turn, view) if eye_of(recipe) else rules
    stages |= {module.__name__: _constants(module) for module in seeing}
    return values | {f"{stage}.{name}": own[name] for stage, own in stages.items() for name in own}


def _constants(module: ModuleType) -> dict[str, Any]:
    """Return the constants of a module; for an array its first and last value and its length."""
    files = {"READY": None, "ORIENTATION": None, "MAX_BYTES": None}
    found = {name: value for name, value in vars(module).items() if name.isupper()} | files
    ranges = {
        name: [*value[[0, -1]].round(6).tolist(), len(value)]
        for name, value in found.items()
        if hasattr(value, "tolist")
    }
    return {name: value for name, value in (found | ranges).items() if value is not None}


def _in_order(bag: Bag) -> tuple[NDArray[Any], ...]:
    """Return prototypes, weights and members, prototypes ordered by their first glyph.

    Of two runs of k-means with equal inertia, the processor's rounding decides which is kept, and with it the numbering
    of the clusters.
    """
    members = np.asarray(bag.members)
    first = np.unique(members, return_index=True)[1]
    order = members[np.sort(first)]
    return bag.prototypes[order], bag.weights[order], np.argsort(order)[members]


def _seen(reading: Reading) -> list[float]:
    angle = -1.0 if reading.angle is None else reading.angle
    return [round(float(value), 2) for value in (angle, reading.letter_height, reading.legibility)]


def rounded(values: Any) -> NDArray[np.int64]:
    return np.rint(np.asarray(values, np.float64) * 1000).astype(np.int64)


def _described(patches: NDArray[np.uint8], recipe: Recipe) -> Description:
    blocks = patches.reshape(-1, 8, 8, 8, 8).mean(axis=(2, 4)).reshape(-1, 64) / 255
    embeddings = blocks.astype(np.float32)
    few = replace(recipe.bag, words=min(recipe.bag.words, 12))  # fewer than glyphs, so that k-means does not end early
    embeddings = in_company(embeddings, few)
    return Description(np.zeros((len(embeddings), 4), np.int32), embeddings, make_bag(embeddings, few))


def _sums(arrays: list[NDArray[Any]]) -> list[float]:
    """Return mean and standard deviation of each of the first 24 arrays: enough to detect a change of a hundredth."""
    return [round(float(value), 4) for array in arrays[:24] for value in (array.mean(), array.std())]


def _digest(arrays: list[NDArray[Any]]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape} {array.dtype.str}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    main()
