"""A collection like a library's: rotated leaves, a plate with two pieces, one barely legible, one of unknown rotation.

Descriptions are stored by hand, so that they are known exactly: the letters of drawn fragments, rotated with their
photographs.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from membra import scribes
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description, describe
from membra.sources.fragment import Fragment, piece_of
from membra.store.batch import write_batch
from membra.store.collection import Collection
from turning import turned

UPRIGHT, TURNED, DOUBTFUL, LOST, PLATE = "upright.png", "turned.png", "doubtful.png", "lost.png", "plate.png"
ANGLE = 120.0  # of the rotated one
QUARTER = 90.0  # of the second piece of the plate; the first is upright


@dataclass(frozen=True)
class Leaf:
    """A drawn fragment in a photograph."""

    image: np.ndarray
    description: Description


@pytest.fixture(scope="session")
def plates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection's folder. Shared by all tests: read-only."""
    folder = tmp_path_factory.mktemp("plates")
    encoder = Encoder.ready(threads=1)
    leaves = [_leaf(folder, encoder, seed) for seed in (3, 3, 4, 5, 6, 7)]
    collection = Collection.create(folder / "C", encoder=encoder, recipe=MEMBRA)
    one, other = leaves[4], turn(leaves[5], QUARTER)
    plate, shift = side_by_side(one.image, other.image)
    found = {
        UPRIGHT: leaves[0],
        TURNED: turn(leaves[1], ANGLE),
        DOUBTFUL: replace(
            leaves[2], description=replace(leaves[2].description, note="few letters, doubtful", legibility=0.2)
        ),
        LOST: replace(leaves[3], description=replace(leaves[3].description, angle=None)),
    }
    outcomes = [(_saved(folder, name, leaf.image), leaf.description) for name, leaf in found.items()]
    photograph = _saved(folder, PLATE, plate)
    outcomes += [
        (piece_of(photograph, 1), one.description),
        (piece_of(photograph, 2), moved(other.description, shift)),
    ]
    batch = [(one, hashlib.sha256(one.path.read_bytes()).hexdigest(), known) for one, known in outcomes]
    with collection.writing() as writer:
        writer.store(write_batch(collection.path, batch))
    return collection.path


def turn(leaf: Leaf, angle: float) -> Leaf:
    """Return the leaf rotated by `angle` degrees counter-clockwise."""
    image, boxes, matrix = turned(leaf.image, leaf.description.boxes, angle)
    outline = np.rint(leaf.description.outline @ matrix[:, :2].T + matrix[:, 2]).astype(np.int32)
    return Leaf(image, replace(leaf.description, boxes=boxes, outline=outline, angle=angle))


def moved(description: Description, by: int) -> Description:
    """Return the description shifted `by` px to the right."""
    boxes = description.boxes + np.array([by, 0, 0, 0], np.int32)
    return replace(description, boxes=boxes, outline=description.outline + np.array([by, 0], np.int32))


def side_by_side(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, int]:
    """Join two photographs; return the result and the x of the second."""
    sheet = np.full((max(len(one), len(other)), one.shape[1] + 40 + other.shape[1], 3), 20, np.uint8)
    shift = one.shape[1] + 40
    sheet[: len(one), : one.shape[1]] = one
    sheet[: len(other), shift:] = other
    return sheet, shift


def _leaf(folder: Path, encoder: Encoder, seed: int) -> Leaf:
    drawn = scribes.fragment(scribes.hand(seed), scribes.camera(seed), letters=40, seed=seed)
    known = describe(_saved(folder, "leaf.png", drawn.image), encoder, MEMBRA)
    outlines, _ = cv2.findContours(drawn.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    outline = max(outlines, key=cv2.contourArea)[:, 0].astype(np.int32)
    return Leaf(drawn.image, replace(known, angle=0.0, letter_height=30.0, legibility=0.9, outline=outline, note=""))


def _saved(folder: Path, name: str, image: np.ndarray) -> Fragment:
    Image.fromarray(image).save(folder / name)
    return Fragment(name, folder / name, {"shelfmark": "Plate 7"} if name == PLATE else {})
