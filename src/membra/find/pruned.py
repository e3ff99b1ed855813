"""Exact nearest-bag search by any of the three distances, with lower bounds, so that few pairs are computed in full.

The minima that Chamfer needs give a lower bound of each distance; bags are then solved in the order of their bounds
until no bound is left below the worst of the best `top`. For Chamfer itself there are two bounds: one in int8 for all
bags, and one in float32 for those that the first leaves (`compare/bounds.py`).
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import bags_below, chamfer_below, int8_supported
from membra.compare.distance import chamfer, hungarian, transport
from membra.compare.kernels import Packed, nearest_sums
from membra.compare.threads import in_threads, processors
from membra.describe.bag import Bag
from membra.errors import Invalid

MEASURES = {"chamfer": chamfer, "hungarian": hungarian, "transport": transport}

_AT_ONCE = 32  # pairs whose bound is tightened together: amortizes NumPy's overhead and wastes little
_PIECES_PER_THREAD = 4  # packed pieces from which on each thread takes whole pieces instead of parts of each
_SORTED = 1024  # bounds that are sorted at first; more are hardly ever needed
_FIRST = 512  # bags whose bounds are tightened first; the result decides which others need it

Closer = Callable[[NDArray[np.int64]], NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Nearest:
    """The nearest bags, and the number of pairs computed in full."""

    indices: list[int]  # in the sequence of bags, nearest first; of equal distances, the smaller index first
    distances: list[float]  # by the plain formula of compare/distance.py
    solved: int  # pairs for which that formula was computed


def nearest(
    query: Bag,
    bags: Sequence[Bag],
    packed: Packed | Sequence[Packed],
    measure: str,
    top: int,
    *,
    among: NDArray[np.bool_] | None = None,
    threads: int | None = None,
) -> Nearest:
    """Find the `top` of `bags` nearest to `query` by `chamfer`, `hungarian` or `transport`, as in the plain ranking.

    bags : read when needed, one at a time
    packed : `pack(bags)`, in either dtype, or in several pieces; rounding to float16 only loosens the bounds
    among : (N,) bool, the admissible bags; the default is all

    >>> from membra.compare.kernels import pack
    >>> bags = [Bag([[0.0], [far]], [0.5, 0.5]) for far in (9.0, 1.0, 2.0)]
    >>> nearest(bags[1], bags, pack(bags), "transport", 2).indices
    [1, 2]
    """
    bounds = lower_bounds([query], packed, measure, threads=threads)[0]
    if len(bags) != len(bounds):
        raise Invalid(
            "{packed} bags are packed, but {given} were given; pack the same ones", packed=len(bounds), given=len(bags)
        )
    return solve_nearest(query, bags, bounds, measure, top, among=among)


def solve_nearest(
    query: Bag,
    bags: Sequence[Bag],
    bounds: NDArray[np.float64],
    measure: str,
    top: int,
    *,
    among: NDArray[np.bool_] | None = None,
    order: NDArray[np.int32] | None = None,
) -> Nearest:
    """Like `nearest`, with the `lower_bounds` (N,) given; `order` (N,) decides ties instead of the index."""
    solve = MEASURES[measure]
    if measure == "chamfer":
        return closely(
            bounds,
            lambda indices: bags_below(query, [bags[index] for index in indices.tolist()]),
            lambda index: solve(query, bags[index]),
            top,
            among=among,
            order=order,
        )

    def closer(indices: list[int]) -> NDArray[np.float64]:
        return capacity_bounds(query, [bags[index] for index in indices])

    return best_first(
        bounds,
        lambda index: solve(query, bags[index]),
        top,
        among=among,
        order=order,
        closer=closer if measure == "transport" else None,
    )


def closely(
    bounds: NDArray[np.float64],
    closer: Closer,
    solve: Callable[[int], float],
    top: int,
    *,
    among: NDArray[np.bool_] | None = None,
    order: NDArray[np.int32] | None = None,
    first: int | None = None,
) -> Nearest:
    """Like `best_first`, with `closer(indices)`: tighter bounds of many at once, at little cost for each.

    The bounds of the `first` indices with the lowest bounds are tightened, and as many of these solved as needed; the
    worst of the best `top` decides which others' bounds must be tightened too: all, if the bounds are uninformative.
    """
    solved: dict[int, float] = {}

    def solve_once(index: int) -> float:
        if index not in solved:
            solved[index] = solve(index)
        return solved[index]

    def best_of(indices: NDArray[np.int64], near: NDArray[np.float64]) -> Nearest:
        ties = (indices if order is None else order[indices]).astype(np.int64)
        found = best_first(near, lambda at: solve_once(int(indices[at])), top, order=ties)
        return Nearest([int(indices[at]) for at in found.indices], found.distances, len(solved))

    indices = np.arange(len(bounds)) if among is None else np.flatnonzero(among)
    below = bounds if among is None else bounds[indices]
    count = max(first or _FIRST, 2 * top)
    part = np.argpartition(below, count)[:count] if count < len(indices) else np.arange(len(indices))
    some = indices[part]
    near = np.maximum(closer(some), bounds[some]).astype(np.float64)
    found = best_of(some, near)
    limit = found.distances[-1] if len(found.distances) == top else np.inf
    left = below <= limit
    left[part] = False
    rest = indices[left]
    if not len(rest):
        return found
    far = np.maximum(closer(rest), bounds[rest]).astype(np.float64)
    return best_of(np.concatenate([some, rest]), np.concatenate([near, far]))


def best_first(
    bounds: NDArray[np.float64],
    solve: Callable[[int], float],
    top: int,
    *,
    among: NDArray[np.bool_] | None = None,
    order: NDArray[np.integer[Any]] | None = None,
    closer: Callable[[list[int]], NDArray[np.float64]] | None = None,
) -> Nearest:
    """Find the `top` indices with the smallest `solve(index)`, which is never below `bounds` (N,).

    Indices are solved in the order of their bounds until no bound is left below the worst of the best. `closer` returns
    tighter bounds at a lower cost than solving. Ties are broken by `order` (N,), or by index.
    """
    rank = (lambda index: int(order[index])) if order is not None else (lambda index: index)
    waiting = _ascending(bounds, among)
    index = next(waiting, None)
    best: list[tuple[float, int, int]] = []  # a heap with the worst of the best on top: (-distance, -rank, index)
    tightened: list[tuple[float, int]] = []  # a heap of bounds tighter than `bounds`
    solved = 0
    while index is not None or tightened:
        bound = float(bounds[index]) if index is not None else np.inf
        # Do not stop at a bound equal to the worst of the best: the later index may win the tie.
        if tightened and tightened[0][0] <= bound:
            bound, chosen = heapq.heappop(tightened)
            if len(best) == top and bound > -best[0][0]:
                break
        elif (len(best) == top and bound > -best[0][0]) or index is None:
            break
        elif closer:
            # Before solving, tighten the bounds: this costs a quarter of a solution and makes most of them needless.
            some: list[int] = []
            while index is not None and len(some) < _AT_ONCE:
                some.append(index)
                index = next(waiting, None)
            for one, value in zip(some, np.maximum(closer(some), bounds[some]).tolist(), strict=True):
                heapq.heappush(tightened, (value, one))
            continue
        else:
            chosen, index = index, next(waiting, None)
        item = (-solve(chosen), -rank(chosen), chosen)
        solved += 1
        if len(best) < top:
            heapq.heappush(best, item)
        else:
            heapq.heappushpop(best, item)
    found = sorted((-distance, -later, chosen) for distance, later, chosen in best)
    return Nearest([chosen for *_, chosen in found], [distance for distance, *_ in found], solved)


def lower_bounds(
    queries: Sequence[Bag], packed: Packed | Sequence[Packed], measure: str, *, threads: int | None = None
) -> NDArray[np.float64]:
    """Compute lower bounds of the distance of each query to each packed bag, (q, N), allowing for rounding.

    transport : no mass moves less far than to the nearest prototype, in either direction:
        max( sum_i pi_i min_j C_ij,  sum_j rho_j min_i C_ij )
    hungarian : the same for the prototypes of the smaller bag, all of which are matched, each counted equally
    chamfer : its own value, less the possible error of the lower precision
    """
    if measure not in MEASURES:
        raise Invalid(
            "there is no distance `{measure}`; there are: {measures}", measure=measure, measures=list(MEASURES)
        )
    pieces = [packed] if isinstance(packed, Packed) else packed
    if not pieces:
        return np.zeros((len(queries), 0))
    count = threads or processors()
    if len(pieces) < _PIECES_PER_THREAD * count:
        return np.concatenate([_bounds(queries, piece, measure, threads) for piece in pieces], axis=1)
    found: list[NDArray[np.float64]] = [np.zeros((len(queries), 0))] * len(pieces)

    def work(number: int) -> None:
        found[number] = _bounds(queries, pieces[number], measure, 1)

    in_threads(work, range(len(pieces)), count)  # one piece occupies one thread well
    return np.concatenate(found, axis=1)


def _bounds(queries: Sequence[Bag], packed: Packed, measure: str, threads: int | None) -> NDArray[np.float64]:
    if measure == "chamfer" and packed.int8 is not None and int8_supported():
        rows = [chamfer_below(query, packed, threads=threads) for query in queries]
        return np.array(rows, dtype=np.float64).reshape(len(queries), len(packed))
    forward, backward = (
        sums.astype(np.float64)
        for sums in nearest_sums(
            queries,
            packed,
            masses=measure == "transport",
            below=True,
            # Chamfer is cheap to compute for the few more pairs that a looser bound leaves.
            bfloat16=measure == "chamfer",
            threads=threads,
        )
    )
    if measure == "chamfer":
        return np.asarray((forward + backward) / 2)
    if measure == "hungarian":
        lengths = np.empty(len(packed), dtype=np.int64)
        lanes = packed.indices >= 0
        lengths[packed.indices[lanes]] = packed.counts[lanes]
        own = np.array([len(query) for query in queries])[:, None]
        forward = np.where(own <= lengths, forward, 0)
        backward = np.where(own >= lengths, backward, 0)
    return np.asarray(np.maximum(forward, backward))


def _ascending(bounds: NDArray[np.float64], among: NDArray[np.bool_] | None) -> Iterator[int]:
    """Yield the indices in ascending order of their bounds, then of themselves; sorted lazily in growing pieces."""
    indices = np.arange(len(bounds)) if among is None else np.flatnonzero(among)
    size = _SORTED
    while len(indices):
        values = bounds[indices]
        first = values <= np.partition(values, size)[size] if len(indices) > size else np.ones(len(indices), dtype=bool)
        some = indices[first]
        yield from some[np.lexsort((some, bounds[some]))].tolist()
        indices, size = indices[~first], 8 * size


def capacity_bounds(query: Bag, bags: Sequence[Bag]) -> NDArray[np.float64]:
    """Compute a tighter lower bound of transport for each of `bags`, (B,): no prototype receives more than its mass.

    Each prototype of one side sends its mass to its nearest on the other, filling each up to its capacity, as if no
    other prototype sent any; the bound is the larger of the sums in the two directions.
    """
    longest = max(len(bag) for bag in bags)
    prototypes = np.zeros((len(bags), longest, query.prototypes.shape[1]))
    masses = np.zeros((len(bags), longest))
    for row, bag in enumerate(bags):
        prototypes[row, : len(bag)], masses[row, : len(bag)] = bag.prototypes, bag.weights
    own = query.prototypes.astype(np.float64)
    squares = (
        (own**2).sum(axis=1)[:, None] + (prototypes**2).sum(axis=2)[:, None] - 2 * (own @ prototypes.transpose(0, 2, 1))
    )
    costs = np.sqrt(np.maximum(squares, 0))  # (B, K, L); padding prototypes have no mass, so their costs do not matter
    there = _filled(costs, query.weights[None, :], masses)
    back = _filled(costs.transpose(0, 2, 1), masses, np.broadcast_to(query.weights, (len(bags), len(query))))
    return np.asarray(np.maximum(there, back) * (1 - 1e-9))  # float64 rounds too, here and in the solver


def _filled(costs: NDArray[np.float64], sent: NDArray[np.float64], room: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over i the least cost (B,) at which i alone sends `sent` (B, K) into `room` (B, L); costs (B, K, L)."""
    order = np.argsort(costs, axis=2)
    capacity = np.take_along_axis(np.broadcast_to(room[:, None], costs.shape), order, axis=2)
    before = np.cumsum(capacity, axis=2) - capacity
    moved = np.clip(sent[:, :, None] - before, 0, capacity)
    return np.asarray((moved * np.take_along_axis(costs, order, axis=2)).sum(axis=(1, 2)))
