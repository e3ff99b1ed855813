"""Adapting a large collection: the choice of training photographs, and resuming after a kill.

Cutting the letters of 300,000 photographs would take half a day; those of some thousand are as good for training. The
trained encoder is kept beside the collection until everything is described with it, so that a kill costs one batch.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from membra.describe.encoder import Encoder
from membra.describe.workers import Workers
from membra.errors import MembraError
from membra.files import atomic_write
from membra.progress import Bars, log
from membra.sources.fragment import Fragment
from membra.store.collection import Collection
from membra.store.redescribe import describing_here, redescribe
from membra.train.training_settings import IdentitySettings

MAX_PHOTOGRAPHS = 4_000  # used for training: 150 letters of each fill the memory that training may use
SEED = 0  # of the random choice
_FILE = "adapting-{key}.onnx"


def training_sample(images: Sequence[Fragment]) -> list[Fragment]:
    """Return the photographs to train on: all, or 4,000 drawn at random, in their order."""
    if len(images) <= MAX_PHOTOGRAPHS:
        return list(images)
    drawn = np.sort(np.random.default_rng(SEED).choice(len(images), MAX_PHOTOGRAPHS, replace=False)).tolist()
    log.info(
        "learning from %d of %d photographs: %s", len(drawn), len(images), ", ".join(images[at].id for at in drawn)
    )
    return [images[at] for at in drawn]


def unfinished(collection: Collection, settings: IdentitySettings) -> Encoder | None:
    """Return the encoder of a run with these settings that was killed while describing, or None."""
    try:
        return Encoder.open(_file(collection, settings))
    except (MembraError, OSError):
        return None


def describe_anew(
    collection: Collection, encoder: Encoder, settings: IdentitySettings, pool: Workers, bar: Bars | None
) -> None:
    """Save the encoder, describe everything with it, then delete it; a killed call can be repeated and continues."""
    kept = _file(collection, settings)
    atomic_write(kept, encoder.onnx)
    here, progress = describing_here(collection, pool), bar("describing") if bar else None
    redescribe(collection, encoder, collection.recipe, resumable=True, describing=here, progress=progress)
    for file in collection.path.glob(_FILE.format(key="*")):
        file.unlink(missing_ok=True)


def _file(collection: Collection, settings: IdentitySettings) -> Path:
    """Return the file of the saved encoder, named by recipe, settings and the fragments that are described: if one of
    these changes, training starts again."""
    known = [(entry.fragment.id, entry.sha256) for entry in collection.entries() if not entry.refused]
    key = hashlib.sha256(f"{collection.recipe.to_json()} {settings!r} {known!r}".encode()).hexdigest()[:16]
    return collection.path / _FILE.format(key=key)
