"""Search by a shortlist in a stored collection: the codes of its words, kept beside it, and what they list.

They lie in the collection's folder `shortlist`: the codewords, the codes of each shard, and what the shortlist was
measured to hold. All of it can be made again, and is when it is missing or damaged; the codewords also when the
collection has grown to four times what they were made from.
"""

import hashlib
import json
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from membra.files import write_whole
from membra.find import exact
from membra.find.exact import Asked
from membra.find.pruned import Nearest, lower_bounds
from membra.find.rows import Chosen, Rows
from membra.find.scales import Scales
from membra.find.shortlist import (
    Codes,
    Floats,
    ShortlistSettings,
    code_words,
    first_look,
    fit_codewords,
    how_many,
    lowest,
)
from membra.find.workers import Progress

METHODS = ("fused", "bob-local", "bob-chamfer")  # those whose nearest are near by their words
FOLDER = "shortlist"
_GROWN = 4  # so many times larger than when the codewords were made, a collection gets new ones
_ASKED = 20  # fragments that the shortlist is measured with


@dataclass(frozen=True)
class Measured:
    """How much of the exact search's first `top` a shortlist of `listed` fragments held, on `queries` of them."""

    recall: float
    top: int
    listed: int
    queries: int
    fragments: int


@dataclass(frozen=True)
class Coded:
    """The codewords of a collection, and the codes of every shard."""

    codewords: Floats
    codes: list[Codes]
    folder: Path  # of the codes


def nearest_listed(
    rows: Rows,
    coded: Coded,
    queries: Sequence[Asked],
    method: str,
    top: int,
    count: int,
    *,
    scales: Scales | None = None,
    among: Sequence[NDArray[np.bool_]] | None = None,
) -> list[Nearest]:
    """As `exact.nearest_rows`, among the `count` rows that a first look puts before the others."""
    found = []
    for place, query in enumerate(queries):
        may = rows.alive & (rows.numbers != (query.number or -1))
        if among is not None:
            may = may & among[place]
        looks = first_look(query.bag, rows.packed, coded.codes, coded.codewords)
        if scales is not None:
            looks = looks / np.sqrt(scales.of_rows(rows)[0])
        listed = lowest(np.where(may, looks, np.inf), count)
        if scales is not None and query.number is None and query.scales is None:
            query = replace(query, scales=_own_scales(rows, query, scales))
        near = exact.nearest_rows(Chosen(rows, listed), [query], method, top, scales=scales)[0]
        found.append(replace(near, places=[int(listed[one]) for one in near.places]))
    return found


def coded(path: Path, rows: Rows, progress: Progress | None = None, settings: ShortlistSettings | None = None) -> Coded:
    """The codes of the collection at `path`, whose shards `rows` are. What is missing is made now, and kept.

    Making them takes about half a millisecond a fragment.
    """
    settings = settings or ShortlistSettings()
    folder = path / FOLDER
    fragments = int(rows.alive.sum())
    stored = _read(folder / "codewords.safetensors", {"codewords": "float32", "fragments": "int64"})
    if stored is None or fragments > _GROWN * int(stored["fragments"][0]):
        stored = {"codewords": _fit(rows, settings), "fragments": np.array([fragments])}
        _keep(folder / "codewords.safetensors", stored)
    codewords = stored["codewords"]
    folder = folder / hashlib.sha256(codewords.tobytes()).hexdigest()[:16]
    codes = []
    for done, shard in enumerate(rows.shards, start=1):
        found = _read(folder / shard.name, {"codes": "uint16"})
        if found is None or found["codes"].shape != shard.packed.norms.shape:
            found = {"codes": code_words(shard.packed, codewords)}
            _keep(folder / shard.name, found)
        codes.append(found["codes"])
        if progress:
            progress(done, len(rows.shards))
    _tidy(folder, {shard.name for shard in rows.shards})
    return Coded(codewords, codes, folder)


def measured(
    rows: Rows, coded: Coded, method: str, scales: Scales | None, settings: ShortlistSettings | None = None
) -> Measured:
    """What the shortlist that `auto` takes held on a sample, compared with the exact search; kept for the next time."""
    settings = settings or ShortlistSettings()
    file, top, fragments = coded.folder / f"recall-{method}.json", 20, int(rows.alive.sum())
    try:
        return Measured(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        pass
    count = how_many(fragments, "auto", replace(settings, exact_up_to=0)) or fragments
    sample = np.random.default_rng(settings.seed).permutation(np.flatnonzero(rows.alive))[:_ASKED]
    held = []
    for row in sample.tolist():
        query = Asked(rows[row], rows.means(np.array([row]))[0], int(rows.numbers[row]))
        truth = exact.nearest_rows(rows, [query], method, top, scales=scales)[0].places
        near = nearest_listed(rows, coded, [query], method, top, count, scales=scales)[0].places
        held.append(len(set(truth) & set(near)) / max(len(truth), 1))
    found = Measured(float(np.mean(held)), top, count, len(sample), fragments)
    _write(file, json.dumps(asdict(found)).encode())
    return found


def _own_scales(rows: Rows, query: Asked, scales: Scales) -> NDArray[np.float64]:
    """The local scales of a query that is not in the collection."""
    references = Chosen(rows, rows.rows_of(scales.references))
    bounds = lower_bounds([query.bag], references.packed, "chamfer")[0]
    return exact.query_scales(references, query, bounds, scales)


def _fit(rows: Rows, settings: ShortlistSettings) -> Floats:
    """Codewords from the words of fragments drawn at random."""
    words: list[Floats] = []
    wanted = settings.codewords * settings.words_each
    for row in np.random.default_rng(settings.seed).permutation(np.flatnonzero(rows.alive)).tolist():
        words.append(rows[row].prototypes)
        wanted -= len(words[-1])
        if wanted <= 0:
            break
    return fit_codewords(np.concatenate(words), settings)


def _read(file: Path, layout: dict[str, str]) -> dict[str, NDArray[Any]] | None:
    """The arrays of a file that was written by `_keep`; None where it is missing, damaged or another."""
    try:
        arrays = load(file.read_bytes())
    except (OSError, SafetensorError):
        return None
    check = arrays.pop("check", np.zeros(1))
    same = {name: str(array.dtype) for name, array in arrays.items()} == layout
    return arrays if same and check.tolist() == [_crc(arrays)] else None


def _keep(file: Path, arrays: dict[str, NDArray[Any]]) -> None:
    _write(file, save({**arrays, "check": np.array([_crc(arrays)], dtype=np.uint32)}))


def _write(file: Path, content: bytes) -> None:
    """Keep for the next time what can be kept; a reader may have no right to write, or no room."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)
    except OSError:
        pass


def _tidy(folder: Path, names: set[str]) -> None:
    """Remove the codes of other codewords, and of shards that are no more."""
    if not folder.is_dir():
        return
    for other in folder.parent.iterdir():
        if other.is_dir() and other != folder:
            shutil.rmtree(other, ignore_errors=True)
    for file in folder.glob("*.safetensors"):
        if file.name not in names:
            file.unlink(missing_ok=True)


def _crc(arrays: dict[str, NDArray[Any]]) -> int:
    found = 0
    for name in sorted(arrays):
        found = zlib.crc32(arrays[name].tobytes(), found)
    return found
