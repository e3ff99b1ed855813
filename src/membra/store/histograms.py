"""The codebooks of a collection and the histogram of each fragment, cached between searches.

One file per kind lies beside the shards. The first search with a bag-of-words method fits and writes it; a change of
the fragments removes it, and the next such search writes it again. docs/formats.md describes the file.
"""

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import KINDS, CodebookSettings, Vocabulary
from membra.compare.methods import fit_vocabulary
from membra.describe.recipe import Description
from membra.progress import log
from membra.store import manifest
from membra.store.cache import keep_arrays, read_arrays

_LAYOUT = {"codebook": "float32", "idf": "float64", "histograms": "float64", "made_of": "uint8"}


def vocabulary_of(folder: Path, database: sqlite3.Connection, kind: str, gallery: Sequence[Description]) -> Vocabulary:
    """Read from the cache, or fit, the codebook over `gallery`: all described fragments in the order of insertion."""
    made_of = _made_of(database, kind)
    found = read_arrays(codebook_file(folder, kind), _LAYOUT)
    if found is not None and np.array_equal(found.pop("made_of"), made_of):
        return Vocabulary(**found)
    log.info("%s: fitting the codebook over the %s of %d fragments", folder, kind, len(gallery))
    vocabulary = fit_vocabulary(gallery, kind)
    keep_arrays(codebook_file(folder, kind), {**vars(vocabulary), "made_of": made_of})
    return vocabulary


def codebook_file(folder: Path, kind: str) -> Path:
    """Return the path of the codebook of this kind."""
    return folder / f"codebook-{kind}.safetensors"


def forget_codebooks(folder: Path) -> None:
    """Remove the codebooks, which a change of the fragments makes stale."""
    for kind in KINDS:
        codebook_file(folder, kind).unlink(missing_ok=True)


def check_codebooks(folder: Path, database: sqlite3.Connection) -> list[str]:
    """Report codebook files that are damaged or were fitted to other fragments. Searches use neither."""
    notes = []
    for kind in KINDS:
        file = codebook_file(folder, kind)
        found = read_arrays(file, _LAYOUT) if file.exists() else None
        if file.exists() and found is None:
            notes.append(f"{file.name} is damaged; the next search that counts words makes it anew")
        elif found and not np.array_equal(found["made_of"], _made_of(database, kind)):
            notes.append(f"{file.name} is of other fragments; the next search that counts words makes it anew")
    return notes


def _made_of(database: sqlite3.Connection, kind: str) -> NDArray[np.uint8]:
    """Return a digest (32,) of what a codebook is fitted to: settings, recipe, and number and image of each fragment.

    The images are included because numbers can be assigned a second time after a collection is restored from a copy.
    """
    settings = [kind, asdict(CodebookSettings()), manifest.read_meta(database)["recipe"]]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for row in database.execute("SELECT number, sha256 FROM fragments WHERE refused = '' ORDER BY number"):
        digest.update(json.dumps(row).encode())
    return np.frombuffer(digest.digest(), dtype=np.uint8)
