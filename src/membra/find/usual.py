"""The typical score of a fragment: the median of its scores to the references, without its nearest.

Proposals divide scores by it to measure nearness. The references are those of the local scales
(`compare/local_scaling.py`): all fragments of a small collection, a sample of a large one. All medians change when the
references or their scales do; so they are stored apart from the neighbours, and computed again only for proposals.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import chamfer_many, pack
from membra.compare.local_scaling import REFERENCES
from membra.compare.methods import named
from membra.errors import MembraError
from membra.find.snapshot import Snapshot, snapshot
from membra.progress import Progress
from membra.store import manifest
from membra.store.collection import Collection
from membra.store.neighbour_lists import making_lists, read_kept, write_kept

AROUND = 10  # nearest fragments of a collection that are left out, as they may be mates
_NAME, _KIND = "usual", "usual 1"
_AT_ONCE = 256  # fragments that are compared in one block; limits the memory
_KEPT_EVERY = 30.0  # seconds between checkpoints

Floats = NDArray[np.float64]


def usual_scores(
    collection: Collection,
    *,
    method: str = "default",
    around: int = AROUND,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[NDArray[np.int32], Floats]:
    """Return the numbers (n,) of all described fragments, ascending, and the typical score of each; infinite if none.

    The scores are stored in the collection if it can be written to; after a kill the computation resumes.
    """
    with collection.reading() as state:
        now = snapshot(collection, state, method)
        references = manifest.reference_numbers(state.database, REFERENCES)
        sure = manifest.sure_count(state.database)
    # Leave out the same share of a sample as of all.
    skipped = round(around * len(references) / max(sure, 1))
    found = _kept(collection.path, now, references, skipped)
    if not np.isnan(found).any():
        return now.numbers, found
    if now.method != named("default", collection.recipe.method).name:  # only the recipe's own method is stored
        _measure(found, now, references, skipped, None, threads, progress)
        return now.numbers, found
    try:
        with making_lists(collection.path):
            _measure(found, now, references, skipped, collection.path, threads, progress)
    except (MembraError, OSError):  # another process writes, or the folder is read-only: compute without storing
        _measure(found, now, references, skipped, None, threads, progress)
    return now.numbers, found


def usual_of(scores: Floats, skipped: int) -> Floats:
    """Return the median of the finite values of each row (q, n) beyond its lowest `skipped`, or of all if not more.

    >>> usual_of(np.array([[1.0, 9.0, 5.0, np.inf], [np.inf, np.inf, np.inf, np.inf]]), 1).tolist()
    [7.0, inf]
    """
    ordered = np.sort(scores, axis=1)
    there = np.isfinite(ordered).sum(axis=1)
    first = np.where(there > skipped, skipped, 0)
    low, high = first + (there - first - 1) // 2, first + (there - first) // 2
    rows = np.arange(len(scores))
    middle = [ordered[rows, np.clip(at, 0, max(ordered.shape[1] - 1, 0))] for at in (low, high)]
    return np.where(there > 0, (middle[0] + middle[1]) / 2, np.inf)


def _measure(
    found: Floats,
    now: Snapshot,
    references: NDArray[np.int32],
    skipped: int,
    path: Path | None,
    threads: int | None,
    progress: Progress | None,
) -> None:
    """Compute the scores that are NaN, in place, and write checkpoints to `path`."""
    open_ = np.flatnonzero(np.isnan(found))
    if len(references):
        at = np.searchsorted(now.numbers, references)
        packed = pack([now.rows.bag(row) for row in now.at[at].tolist()])
    written = time.monotonic()
    for first in range(0, len(open_), _AT_ONCE):
        some = open_[first : first + _AT_ONCE]
        if len(references):
            bags = [now.rows.bag(row) for row in now.at[some].tolist()]
            scores = chamfer_many(bags, packed, threads=threads).astype(np.float64)
            scores /= np.sqrt(now.scales[some][:, None] * now.scales[at])
            scores[now.numbers[some][:, None] == references] = np.inf
            found[some] = usual_of(scores, skipped)
        else:
            found[some] = np.inf
        if progress:
            progress(first + len(some), len(open_))
        if path and (time.monotonic() > written + _KEPT_EVERY or first + len(some) == len(open_)):
            _keep(path, now, references, skipped, found)
            written = time.monotonic()


def _keep(path: Path, now: Snapshot, references: NDArray[np.int32], skipped: int, found: Floats) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "scales": now.scales,
        "usual": found,
        "numbers": now.numbers,
        "references": references,
        "checks": now.checks,
    }
    meta = {"membra": _KIND, "method": now.method, "recipe": now.recipe, "skipped": str(skipped)}
    write_kept(path, _NAME, arrays, meta)


def _kept(path: Path, now: Snapshot, references: NDArray[np.int32], skipped: int) -> Floats:
    """Read the stored scores (n,) of exactly this state; NaN for missing ones."""
    kept = read_kept(path, _NAME)
    unknown = np.full(len(now.numbers), np.nan)
    if kept is None:
        return unknown
    arrays, meta = kept
    expected: dict[str, NDArray[Any]] = {
        "scales": now.scales,
        "numbers": now.numbers,
        "references": references,
        "checks": now.checks,
    }
    same = {"membra": _KIND, "method": now.method, "recipe": now.recipe, "skipped": str(skipped)} == meta
    same = same and all(np.array_equal(arrays.get(name, ()), own) for name, own in expected.items())
    return np.array(arrays["usual"]) if same and arrays["usual"].shape == unknown.shape else unknown
