"""Local scales of a stored collection, stored beside it and updated by computing only the distances that are new.

For each fragment more nearest references are stored than its scale needs: when one of them is removed, the next are
already known. docs/formats.md describes the file.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import chamfer_many, nearest_sums, pack
from membra.compare.local_scaling import NEIGHBOURS, cosines, local_scale
from membra.errors import MembraError
from membra.store.rows import Rows, RowSubset
from membra.store.tensors import FileRecord, map_tensors, write_tensors

KEPT = 16  # nearest references stored for each fragment
_KIND, _BEFORE = "scales 3", "scales 2"
_MAX_BOUNDED = 128  # with more new references, nearly every fragment has a near one, and bounds would save nothing
_AT_ONCE = 256  # fragments that are compared in one block; limits the memory

Numbers = NDArray[np.int32]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Scales:
    """The local scale of every fragment, and the distances from which it was computed.

    numbers : (n,) int32 ascending, the fragments
    references : (r,) int32 ascending, the reference fragments, a subset of `numbers`
    scales : (2, n) float64, by Chamfer and by cosine
    near : (2, n, 16) float32 ascending, distances to the nearest references; infinite beyond the known ones
    which : (2, n, 16) int32, those references; 0 beyond the known ones
    """

    numbers: Numbers
    references: Numbers
    scales: NDArray[np.float64]
    near: NDArray[np.float32]
    which: Numbers

    def far(self, numbers: Numbers) -> NDArray[np.float64]:
        """Return the Chamfer distance (m,) of each fragment to the last of its nearest references; 1 if it has none."""
        near = self.near[0, np.searchsorted(self.numbers, numbers)].astype(np.float64)
        return last_known(near)

    def of_rows(self, rows: Rows | RowSubset) -> NDArray[np.float64]:
        """Return the scales (2, N) of each row; 1 for rows without a fragment."""
        found = np.ones((2, len(rows)))
        found[:, rows.alive] = self.scales[:, np.searchsorted(self.numbers, rows.numbers[rows.alive])]
        return found


def last_known(near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the last finite value of each row (m, n) of ascending distances; 1 if there is none.

    >>> last_known(np.array([[1.0, 2.0, np.inf], [np.inf, np.inf, np.inf]])).tolist()
    [2.0, 1.0]
    """
    count = np.isfinite(near).sum(axis=1)
    last = near[np.arange(len(near)), np.maximum(count - 1, 0)]
    return np.where(count > 0, last, 1.0)


def updated(old: Scales | None, rows: Rows, references: Numbers) -> Scales:
    """Compute the scales of the fragments in `rows` against `references`, reusing `old`.

    The result equals a computation from scratch.
    """
    numbers = np.sort(rows.numbers[rows.alive])
    if old is not None and np.array_equal(old.numbers, numbers) and np.array_equal(old.references, references):
        return old
    near = np.full((2, len(numbers), KEPT), np.inf, dtype=np.float32)
    which = np.zeros((2, len(numbers), KEPT), dtype=np.int32)
    if old is not None:
        stay = np.flatnonzero(np.isin(numbers, old.numbers))
        both = np.searchsorted(old.numbers, numbers[stay])
        near[:, stay], which[:, stay] = old.near[:, both], old.which[:, both]
        _remove_references(near, which, np.setdiff1d(old.references, references))
        _add_references(near, which, stay, numbers, old.references, references, rows)
    others = len(references) - np.isin(numbers, references)
    lacking = (np.isfinite(near).sum(axis=2) < np.minimum(NEIGHBOURS, others)).any(axis=0)
    _measure(near, which, np.flatnonzero(lacking), numbers, references, rows)
    return Scales(numbers, references, _of_nearest(near), near, which)


def write_scales(folder: Path, scales: Scales) -> FileRecord:
    """Write scales into a file that the manifest does not name yet."""
    names = ("scales", "numbers", "references", "near", "which")
    arrays = {name: [getattr(scales, name)] for name in names}
    return write_tensors(folder, arrays, len(arrays), {"membra": _KIND}, prefix="scales-")


def read_scales(folder: Path, record: FileRecord) -> Scales | None:
    """Read stored scales; None if they are damaged or lost, as they can be recomputed.

    Files of the kind `scales 2` have scales of ten neighbours; these are recomputed from the distances in the file.
    """
    try:
        arrays, meta = map_tensors(folder, record)
        if meta["membra"] == _BEFORE:
            return Scales(**{**arrays, "scales": _of_nearest(arrays["near"])})
        return Scales(**arrays) if meta["membra"] == _KIND else None
    except (MembraError, TypeError, KeyError):
        return None


def _of_nearest(near: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the local scales (2, n) from the distances to the nearest references (2, n, 16)."""
    scales = np.array([local_scale(part[:, :NEIGHBOURS].astype(np.float64)) for part in near])
    return scales.reshape(2, near.shape[1])


def _remove_references(near: NDArray[np.float32], which: Numbers, gone: Numbers) -> None:
    """Remove former references from the lists, in place; later ones move up."""
    for part in range(2) if len(gone) else ():
        hit = np.flatnonzero(np.isin(which[part], gone).any(axis=1))
        out = np.isin(which[part, hit], gone)
        distances, names = np.where(out, np.inf, near[part, hit]), np.where(out, 0, which[part, hit])
        order = np.argsort(distances, axis=1, kind="stable")
        near[part, hit] = np.take_along_axis(distances, order, axis=1)
        which[part, hit] = np.take_along_axis(names, order, axis=1)


def _add_references(
    near: NDArray[np.float32],
    which: Numbers,
    stay: Indices,
    numbers: Numbers,
    before: Numbers,
    references: Numbers,
    rows: Rows,
) -> None:
    """Compare the fragments at `stay` with the new references, in place.

    A list is valid up to its last distance; new references beyond that are left out, unless it had all references.
    """
    fresh = np.setdiff1d(references, before)
    if not len(fresh) or not len(stay):
        return
    staying = np.intersect1d(before, references)
    known = np.isfinite(near[:, stay]).sum(axis=2)
    complete = known == len(staying) - np.isin(numbers[stay], staying)
    last = np.take_along_axis(near[:, stay], np.maximum(known - 1, 0)[:, :, None], axis=2)[:, :, 0]
    limits = np.where(complete, np.inf, np.where(known > 0, last, 0)).astype(np.float32)
    own, new = rows.rows_of(numbers[stay]), rows.rows_of(fresh)
    bags = [rows.bag(row) for row in new.tolist()]
    packed = pack(bags)
    for some, shard, indices in rows.by_shard(own):
        if len(fresh) < _MAX_BOUNDED:
            forward, backward = nearest_sums(bags, shard.packed, below=True)
            bounds = (forward + backward)[:, indices] / 2  # (r, m)
            some = some[(bounds < limits[0, some]).any(axis=0)]
        for first in range(0, len(some), _AT_ONCE):
            few = some[first : first + _AT_ONCE]
            found = chamfer_many([rows.bag(row) for row in own[few].tolist()], packed)
            _insert(near[0], which[0], stay[few], numbers, fresh, found, limits[0, few])
    means = rows.means(new).astype(np.float64)
    for first in range(0, len(stay), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        found = cosines(rows.means(own[part]).astype(np.float64), means).astype(np.float32)
        _insert(near[1], which[1], stay[part], numbers, fresh, found, limits[1, part])


def _measure(
    near: NDArray[np.float32], which: Numbers, lacking: Indices, numbers: Numbers, references: Numbers, rows: Rows
) -> None:
    """Compare the fragments at `lacking` with all references, in place."""
    if not len(lacking) or not len(references):
        return
    own, other = rows.rows_of(numbers[lacking]), rows.rows_of(references)
    packed, means = pack([rows.bag(row) for row in other.tolist()]), rows.means(other).astype(np.float64)
    near[:, lacking], which[:, lacking] = np.inf, 0
    for first in range(0, len(lacking), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        chamfers = chamfer_many([rows.bag(row) for row in own[part].tolist()], packed)
        pooled = cosines(rows.means(own[part]).astype(np.float64), means).astype(np.float32)
        for kind, found in enumerate((chamfers, pooled)):
            limits = np.full(len(found), np.inf, dtype=np.float32)
            _insert(near[kind], which[kind], lacking[part], numbers, references, found, limits)


def _insert(
    near: NDArray[np.float32],
    which: Numbers,
    indices: Indices,
    numbers: Numbers,
    references: Numbers,
    found: NDArray[np.float32],
    limits: NDArray[np.float32],
) -> None:
    """Insert distances (m, r) of the fragments at `indices` to `references` into their lists (n, 16), in place."""
    out = (found >= limits[:, None]) | (numbers[indices][:, None] == references)
    values = np.concatenate([near[indices], np.where(out, np.inf, found)], axis=1)
    names = np.concatenate([which[indices], np.broadcast_to(references, found.shape)], axis=1)
    order = np.argsort(values, axis=1, kind="stable")[:, :KEPT]
    near[indices] = np.take_along_axis(values, order, axis=1)
    which[indices] = np.where(np.isfinite(near[indices]), np.take_along_axis(names, order, axis=1), 0)
