"""The nearest neighbours of every fragment, stored in the folder `neighbours` of a collection, complete or partial.

One immutable, checksummed file holds all lists, and `lists.json` beside it names that file: each checkpoint writes a
new file, names it, and removes the previous one. After a kill at any moment, the lists are those of one checkpoint or
the next. Everything here is derived from the shards and can be recomputed: files that are damaged, or of another
recipe, count as missing. docs/how-to/neighbours.md describes the updating of lists and the file format.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import MembraError
from membra.files import atomic_write, exclusive_lock
from membra.store.tensors import FileRecord, map_tensors, write_tensors

FOLDER = "neighbours"
LISTS = "lists"
LISTED = "listed"  # lists computed with a shortlist, which are not exact
WAITING, KNOWN, FRESH, MET = range(4)  # stages of a fragment; see `NeighbourLists.stages`

_KIND, _LISTED_KIND = "neighbours 1", "neighbours by a shortlist 1"
_LOCK = "lock"
_ARRAYS = ("limits", "scales", "distances", "numbers", "which", "checks", "exact", "stages", "solved")


@dataclass
class NeighbourLists:
    """For each of n fragments up to K neighbours, nearest first; filled and changed in place during computation.

    A distance here is Chamfer; the score that orders a list is d(i, j) / sqrt(scale_i scale_j).

    numbers : (n,) int32 ascending, the fragments
    checks : (n,) uint32, the CRC-32 of each one's prototypes, which detects that a fragment was described again
    scales : (n,) float64, local scales; 1 for a method that has none
    distances : (n, K) float64: by the plain formula where `exact`, else a lower bound; infinite beyond the list's end
    which : (n, K) int32, the numbers of the neighbours; 0 beyond the list's end
    exact : (n, K) uint8
    limits : (n,) float64, lower bound of the scores of all fragments that were compared but are not listed
    stages : (n,) uint8: WAITING, to be compared with all but the KNOWN; KNOWN, compared with all but the FRESH;
        FRESH, added later, to be compared with all but the MET; MET, was FRESH and has been compared with all
    solved : (n,) uint8, whether the first `top` of a list are those that a search finds, in its order
    listed : size of the shortlist of each fragment, whose members were compared in full; 0 if all were compared, so
        that the lists are exact. With a shortlist, `limits` is meaningless
    recall, sample : mean share of the true first `top` that the lists contain, over `sample` fragments; NaN until it is
        measured, which is the last step
    """

    numbers: NDArray[np.int32]
    checks: NDArray[np.uint32]
    scales: NDArray[np.float64]
    distances: NDArray[np.float64]
    which: NDArray[np.int32]
    exact: NDArray[np.uint8]
    limits: NDArray[np.float64]
    stages: NDArray[np.uint8]
    solved: NDArray[np.uint8]
    method: str
    top: int  # neighbours per list that are guaranteed: exact, and in the order of a search
    recipe: str  # digest of the recipe by which the fragments were described
    listed: int = 0
    recall: float = math.nan
    sample: int = 0

    def __len__(self) -> int:
        return len(self.numbers)

    def scores(self, some: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float64]:
        """Return the scores (m, K) of the lists of `some`; infinite beyond a list's end."""
        others = self.scales[self.indices(self.which[some])]
        return np.asarray(self.distances[some] / np.sqrt(self.scales[some][:, None] * others))

    def indices(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the indices of these numbers in `self.numbers`; 0 for the number 0, which ends a list."""
        found = np.searchsorted(self.numbers, numbers)
        return np.where(numbers > 0, np.minimum(found, max(len(self) - 1, 0)), 0)

    def finished(self) -> bool:
        """Return whether nothing is left to compare, to solve or to measure."""
        complete = bool((self.stages == KNOWN).all() and self.solved.all())
        return complete and not (self.listed and math.isnan(self.recall))


def empty_lists(
    numbers: NDArray[np.int32],
    checks: NDArray[np.uint32],
    scales: NDArray[np.float64],
    *,
    size: int,
    method: str,
    top: int,
    recipe: str,
) -> NeighbourLists:
    """Create lists of length `size` for fragments that have not been compared yet."""
    n = len(numbers)
    return NeighbourLists(
        numbers,
        checks,
        scales,
        np.full((n, size), np.inf),
        np.zeros((n, size), dtype=np.int32),
        np.zeros((n, size), dtype=np.uint8),
        np.full(n, np.inf),
        np.full(n, WAITING, dtype=np.uint8),
        np.zeros(n, dtype=np.uint8),
        method,
        top,
        recipe,
    )


def read_lists(path: Path) -> NeighbourLists | None:
    """Map the lists of the collection in `path`, read-only; None if there are none or they are damaged."""
    return _read(path, LISTS, _KIND)


def read_listed(path: Path) -> NeighbourLists | None:
    """Like `read_lists`, for the lists computed with a shortlist."""
    return _read(path, LISTED, _LISTED_KIND)


def _read(path: Path, name: str, kind: str) -> NeighbourLists | None:
    found = read_kept(path, name)
    if found is None:
        return None
    arrays, meta = found
    try:
        about: dict[str, Any] = {"method": meta["method"], "top": int(meta["top"]), "recipe": meta["recipe"], **arrays}
        if kind == _LISTED_KIND:
            about |= {"listed": int(meta["listed"]), "recall": float(meta["recall"]), "sample": int(meta["sample"])}
        lists = NeighbourLists(**about)
        return lists if meta["membra"] == kind and _fits(lists) else None
    except (KeyError, TypeError, ValueError):
        return None


def write_lists(path: Path, lists: NeighbourLists) -> None:
    """Write the lists in their present state, replacing the previous ones."""
    meta = {"membra": _KIND, "method": lists.method, "top": str(lists.top), "recipe": lists.recipe}
    if lists.listed:
        said = {"listed": str(lists.listed), "recall": repr(lists.recall), "sample": str(lists.sample)}
        meta |= {"membra": _LISTED_KIND, "exact": "no", **said}
    write_kept(path, LISTED if lists.listed else LISTS, {name: getattr(lists, name) for name in _ARRAYS}, meta)


def read_kept(path: Path, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]] | None:
    """Read the arrays stored under `name` and their metadata, with every byte checked; None if they are unreadable."""
    try:
        record = FileRecord(*json.loads((path / FOLDER / f"{name}.json").read_text()))
        return map_tensors(path / FOLDER, record, whole=True)
    except (OSError, ValueError, TypeError, MembraError):
        return None


def write_kept(path: Path, name: str, arrays: dict[str, NDArray[Any]], meta: dict[str, str]) -> None:
    """Write arrays into a new file, then name it in `{name}.json`, then remove the previous file."""
    folder = path / FOLDER
    record = write_tensors(folder, {key: [one] for key, one in arrays.items()}, len(arrays), meta, prefix=f"{name}-")
    atomic_write(folder / f"{name}.json", json.dumps(astuple(record)).encode())
    for other in folder.glob(f"{name}-*"):
        if other.name != record.name:
            other.unlink(missing_ok=True)


@contextmanager
def making_lists(path: Path) -> Iterator[None]:
    """Lock the neighbours of the collection in `path` for writing, and remove files that killed runs left."""
    folder = path / FOLDER
    folder.mkdir(exist_ok=True)
    with exclusive_lock(folder / _LOCK, folder):
        for file in _left_over(folder):
            file.unlink(missing_ok=True)
        yield


def tidy_lists(path: Path) -> None:
    """Remove files that killed runs left, unless another process holds the lock."""
    with suppress(MembraError, OSError):
        if _left_over(path / FOLDER):
            with making_lists(path):
                pass


def recipe_digest(recipe: str) -> str:
    """Return the digest of a recipe (its JSON), by which lists identify the descriptions that they compare."""
    return hashlib.sha256(recipe.encode()).hexdigest()


def damaged_lists(path: Path) -> list[str]:
    """Report damaged files for `verify`, as notes: a collection without neighbours is sound, but they must be
    recomputed."""
    there = sorted(file.stem for file in (path / FOLDER).glob("*.json"))
    readers = {LISTS: read_lists, LISTED: read_listed}
    lost = [name for name in there if (readers[name](path) if name in readers else read_kept(path, name)) is None]
    return [f"{FOLDER}/{name} is damaged; `membra neighbours` makes it again" for name in lost]


def _left_over(folder: Path) -> list[Path]:
    """Return the files that no record names: of runs that were killed, or of one that is running."""
    named = {_LOCK}
    for file in folder.glob("*.json"):
        named |= {file.name, *_named_in(file)}
    return [file for file in folder.iterdir() if file.name not in named]


def _named_in(file: Path) -> list[str]:
    try:
        return [FileRecord(*json.loads(file.read_text())).name]
    except (OSError, ValueError, TypeError):
        return []


def _fits(lists: NeighbourLists) -> bool:
    """Return whether the shapes of the arrays are consistent."""
    n = len(lists.numbers)
    single = (lists.checks, lists.scales, lists.limits, lists.stages, lists.solved)
    return (
        lists.which.ndim == 2
        and all(one.shape == (n,) for one in (lists.numbers, *single))
        and all(one.shape == lists.which.shape for one in (lists.distances, lists.exact))
        and len(lists.which) == n
        and bool((np.diff(lists.numbers) > 0).all())
    )
