"""The codebooks of a collection and the histogram of each fragment, kept from one search to the next.

A file of each kind lies beside the shards, fitted by the first search that counts words and put in its place by the
first after a change; a change removes it. docs/formats.md says how it is stored.
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
    """The codebook over all described fragments, `gallery`, in the order in which they came in: kept, or fitted now."""
    made_of = _made_of(database, kind)
    found = read_arrays(codebook_file(folder, kind), _LAYOUT)
    if found is not None and np.array_equal(found.pop("made_of"), made_of):
        return Vocabulary(**found)
    log.info("%s: fitting the codebook over the %s of %d fragments", folder, kind, len(gallery))
    vocabulary = fit_vocabulary(gallery, kind)
    keep_arrays(codebook_file(folder, kind), {**vars(vocabulary), "made_of": made_of})
    return vocabulary


def codebook_file(folder: Path, kind: str) -> Path:
    """Where the codebook of this kind is kept."""
    return folder / f"codebook-{kind}.safetensors"


def forget_codebooks(folder: Path) -> None:
    """Remove what a change of the fragments has made stale."""
    for kind in KINDS:
        codebook_file(folder, kind).unlink(missing_ok=True)


def check_codebooks(folder: Path, database: sqlite3.Connection) -> list[str]:
    """What is to be said of the files: damaged, or of other fragments. Neither is used."""
    said = []
    for kind in KINDS:
        file = codebook_file(folder, kind)
        found = read_arrays(file, _LAYOUT) if file.exists() else None
        if file.exists() and found is None:
            said.append(f"{file.name} is damaged; the next search that counts words makes it anew")
        elif found and not np.array_equal(found["made_of"], _made_of(database, kind)):
            said.append(f"{file.name} is of other fragments; the next search that counts words makes it anew")
    return said


def _made_of(database: sqlite3.Connection, kind: str) -> NDArray[np.uint8]:
    """(32,), a digest of what a codebook is fitted to: settings, recipe, and number and image of each fragment.

    The images too: when a collection was restored from a copy, the numbers since may have been given once more.
    """
    settings = [kind, asdict(CodebookSettings()), manifest.read_meta(database)["recipe"]]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for row in database.execute("SELECT number, sha256 FROM fragments WHERE refused = '' ORDER BY number"):
        digest.update(json.dumps(row).encode())
    return np.frombuffer(digest.digest(), dtype=np.uint8)
