"""What is usual around a fragment: the median of its scores to the references, its nearest left out.

Proposals measure nearness by it. The references are those of the local scales (`compare/local_scaling.py`): all of a
small collection, a sample of a large one. All medians move when the references or their scales do; that is why they
are kept apart from the neighbours, and measured again only when somebody asks for proposals.
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

AROUND = 10  # nearest fragments of a collection that are left out: they may be mates
_NAME, _KIND = "usual", "usual 1"
_AT_ONCE = 256  # fragments that are measured together: bounds the memory
_KEPT_EVERY = 30.0  # seconds

Floats = NDArray[np.float64]


def usual_scores(
    collection: Collection,
    *,
    method: str = "default",
    around: int = AROUND,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[NDArray[np.int32], Floats]:
    """The numbers (n,) of all described fragments, ascending, and what score is usual for each; infinite for none.

    Kept in the collection where it can be written to; killed, it goes on where it was.
    """
    with collection.reading() as state:
        now = snapshot(collection, state, method)
        references = manifest.reference_numbers(state.database, REFERENCES)
        sure = manifest.sure_count(state.database)
    # Of a sample, as large a share is left out as of all.
    skipped = round(around * len(references) / max(sure, 1))
    found = _kept(collection.path, now, references, skipped)
    if not np.isnan(found).any():
        return now.numbers, found
    if now.method != named("default", collection.recipe.method).name:  # as with neighbours: those are not kept
        _measure(found, now, references, skipped, None, threads, progress)
        return now.numbers, found
    try:
        with making_lists(collection.path):
            _measure(found, now, references, skipped, collection.path, threads, progress)
    except (MembraError, OSError):  # others write, or nobody can: not worth less for that
        _measure(found, now, references, skipped, None, threads, progress)
    return now.numbers, found


def usual_of(scores: Floats, skipped: int) -> Floats:
    """The median of each row (q, n) beyond its lowest `skipped`, or of all if there are no more; infinities excluded.

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
    """Fill in what is not a number yet, and keep it in `path` from time to time; in place."""
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
    """(n,), what is known of exactly this state; NaN for the rest."""
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
