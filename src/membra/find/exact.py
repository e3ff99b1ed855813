"""Exact nearest-neighbour search in a stored collection, by the methods that read its mapped shards.

A kernel pass over all bags computes lower bounds; for the bags that can be among the nearest, tighter bounds are
computed in float32; and the few that are left are compared by the plain formula.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import chamfer
from membra.compare.local_scaling import CHAMFER, COSINE, NEIGHBOURS, cosines, local_scale, scaled
from membra.compare.methods import named
from membra.compare.pooling import compare_vectors
from membra.describe.bag import Bag
from membra.find.pruned import Nearest, best_first, closely, lower_bounds, solve_nearest
from membra.store.rows import LazySequence, Rows, RowSubset
from membra.store.scales import Scales

_FEW = 64  # members of a shortlist whose bounds are tightened first
_ROUNDING = 1e-5  # exceeds the rounding error of a cosine in float32


@dataclass(frozen=True)
class Query:
    """One query: its bag, its mean embedding (d,), and its fragment's number if it is in the collection.

    `scales` (2,) are its local scales if known; otherwise they are read from the collection, or computed.
    """

    bag: Bag
    mean: NDArray[np.float32]
    number: int | None = None
    scales: NDArray[np.float64] | None = None


def nearest_rows(
    rows: Rows | RowSubset,
    queries: Sequence[Query],
    method: str,
    top: int,
    *,
    scales: Scales | None = None,
    among: Sequence[NDArray[np.bool_]] | None = None,
    threads: int | None = None,
) -> list[Nearest]:
    """Find the `top` rows nearest to each query by a `mapped` method, without the query itself and removed rows.

    `scales` are needed by methods with local scaling. `among`: for each query a mask (N,) of the admissible rows.
    """
    may = [rows.alive & (rows.numbers != (query.number or -1)) for query in queries]
    if among is not None:
        may = [one & other for one, other in zip(may, among, strict=True)]
    by = named(method)
    if by.mean:
        return [_by_mean(rows, query, by.mean, top, one) for query, one in zip(queries, may, strict=True)]
    if isinstance(rows, RowSubset):
        assert by.shortlist, "rows are chosen only where the nearest are near by their words"
        every = np.arange(len(rows))
        looks = [rows.below(query.bag, every, int8=True, threads=threads) for query in queries]
        bounds = np.array(looks, dtype=np.float64)
    else:
        bounds = lower_bounds([query.bag for query in queries], rows.packed, by.bag, threads=threads)
    if by.bag != "chamfer":
        bags = LazySequence(len(rows), rows.bag)
        return [
            solve_nearest(query.bag, bags, bound, by.bag, top, among=one, order=rows.numbers)
            for query, bound, one in zip(queries, bounds, may, strict=True)
        ]
    if not by.parts:
        return [
            _closest(rows, query, bound, _chamfer_of(rows, query), top, one)
            for query, bound, one in zip(queries, bounds, may, strict=True)
        ]
    assert scales is not None, "fused search needs the local scales"
    others = scales.of_rows(rows)
    return [
        _by_local(rows, query, bound, by.parts, top, one, scales, others)
        for query, bound, one in zip(queries, bounds, may, strict=True)
    ]


def query_scales(
    rows: Rows | RowSubset, query: Query, bounds: NDArray[np.float64], scales: Scales
) -> NDArray[np.float64]:
    """Return the local scales (2,) of a query, stored or computed from the references; `bounds` (N,) are of Chamfer."""
    if query.scales is not None:
        return query.scales
    if query.number is not None:
        return np.asarray(scales.scales[:, np.searchsorted(scales.numbers, query.number)])
    if not len(scales.references):
        return np.ones(2)
    listed = np.isin(rows.numbers, scales.references)
    chamfers = _closest(rows, query, bounds, _chamfer_of(rows, query), NEIGHBOURS, listed).distances
    pooled = cosines(query.mean[None].astype(np.float64), rows.means(np.flatnonzero(listed)).astype(np.float64))[0]
    return np.array([local_scale(np.array([part]))[0] for part in (chamfers, pooled)])


def _chamfer_of(rows: Rows | RowSubset, query: Query) -> Callable[[int], float]:
    return lambda row: chamfer(query.bag, rows.bag(row))


def _by_local(
    rows: Rows | RowSubset,
    query: Query,
    bounds: NDArray[np.float64],
    parts: Sequence[int],
    top: int,
    may: NDArray[np.bool_],
    scales: Scales,
    others: NDArray[np.float64],
) -> Nearest:
    own = query_scales(rows, query, bounds, scales)
    more = np.zeros(len(rows))
    if COSINE in parts:
        pooled = [_cosines(query.mean, means) for means in rows.mean_blocks]
        least = np.maximum(np.concatenate([*pooled, np.zeros(0)]) - _ROUNDING, 0)
        more = scaled(least, own[COSINE], others[COSINE], COSINE)
    mean = query.mean[None].astype(np.float64)

    def whole(below: NDArray[np.float64], at: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return bounds of the sum, from bounds of Chamfer."""
        return np.asarray((scaled(below, own[CHAMFER], others[CHAMFER][at], CHAMFER) + more[at]) * (1 - 1e-9))

    def solve(row: int) -> float:
        found = scaled(np.float64(chamfer(query.bag, rows.bag(row))), own[CHAMFER], others[CHAMFER, row], CHAMFER)
        if COSINE in parts:
            pooled = cosines(mean, rows.means(np.array([row])).astype(np.float64))[0, 0]
            found = found + scaled(pooled, own[COSINE], others[COSINE, row], COSINE)
        return float(found)

    return _closest(rows, query, bounds, solve, top, may, whole)


def _closest(
    rows: Rows | RowSubset,
    query: Query,
    bounds: NDArray[np.float64],
    solve: Callable[[int], float],
    top: int,
    among: NDArray[np.bool_],
    whole: Callable[[NDArray[np.float64], NDArray[np.int64] | slice], NDArray[np.float64]] = lambda below, _: below,
) -> Nearest:
    """Find the `top` of the rows `among` with the smallest `solve(row)`; `bounds` (N,) are of Chamfer, which `whole`
    converts to bounds of `solve`."""
    below = whole(bounds, slice(None))

    def closer(indices: NDArray[np.int64]) -> NDArray[np.float64]:
        return whole(rows.below(query.bag, indices).astype(np.float64), indices)

    first = _FEW if isinstance(rows, RowSubset) else None
    return closely(below, closer, solve, top, among=among, order=rows.numbers, first=first)


def _cosines(mean: NDArray[np.float32], means: NDArray[np.float32]) -> NDArray[np.float32]:
    """Approximate `cosines` for one query in float32, without copying the others (m, d)."""
    own, lengths = np.linalg.norm(mean), np.sqrt(np.einsum("md,md->m", means, means))
    turned = means @ (mean / np.maximum(own, 1e-12)) / np.maximum(lengths, 1e-12)
    return np.asarray(((lengths > 0) + np.float32(own > 0)) / 2 - turned)


def _by_mean(rows: Rows | RowSubset, query: Query, measure: str, top: int, may: NDArray[np.bool_]) -> Nearest:
    mean = query.mean[None].astype(np.float64)
    found = [compare_vectors(mean, means.astype(np.float64), measure)[0] for means in rows.mean_blocks]
    row = np.concatenate([*found, np.zeros(0)])
    nearest = best_first(row, lambda index: float(row[index]), top, among=may & np.isfinite(row), order=rows.numbers)
    return Nearest(nearest.indices, nearest.distances, int(may.sum()))
