"""Chamfer distances of query bags to many bags at once: the formula of `distance.py` in native kernels.

`pack` lays bags out for them, `chamfer_many` compares queries with packed bags, `chamfer_matrix` compares all with all,
and `nearest_sums` gives the two one-sided sums, from which Chamfer and the bounds of `find/pruned.py` are computed.
`python -m membra.compare.kernels` prints the kernels that run on this machine, the one in use first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import check_dimensions
from membra.compare.threads import in_threads, processors
from membra.describe.bag import Bag
from membra.errors import Invalid, NotEnough

native: Any
try:
    native = import_module("membra.compare._chamfer")
except ImportError:  # installed without a compiler
    native = None

LANES = 16  # bags side by side: one AVX-512 register of float32, two of AVX2, four of NEON or SSE
TINY = 2.0**-8  # share of |p|^2 below which half squared distances are computed by differences
_QUERIES_AT_ONCE = 32  # bounds the memory of the two sums; a group is read once for this number of queries
_BLOCK = 160  # tiles that the portable kernel multiplies at once: at d = 128, what fits into the L2 cache
_BAGS_AT_ONCE = 64 * LANES  # bags that are packed together: bounds the memory, and amortises NumPy's overhead
_SMALL = 32  # groups; less work does not justify a second thread

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Packed:
    """N bags in the memory layout of the kernels: arrays only, so that they can be memory-mapped.

    A group is 16 bags, a tile one prototype of each of them; the number of tiles of a group is the largest number of
    prototypes among its bags. Bags are sorted by their number of prototypes, so that those of a group have similar
    numbers.

    tiles : (T, d, 16) float32 or float16; tiles[t, :, lane] is one of the bag in that lane, zero where it has none
    norms : (T, 16) float32, half the squared norm of each prototype as stored; infinite where there is none
    masses : (T, 16) float32, the prototype's mass; zero where there is none
    starts : (G + 1,) int64; group g has the tiles starts[g] to starts[g + 1]
    counts : (G, 16) int32, prototypes of each bag; zero for an empty lane of the last group
    indices : (G, 16) int64, the index of each bag in the sequence that was packed; -1 for an empty lane
    slack : the largest rounding error (norm) of a prototype in the tiles' dtype
    int8 : the same prototypes in int8, where `bounds.with_int8` has added them
    """

    tiles: NDArray[np.float32] | NDArray[np.float16]
    norms: Floats
    masses: Floats
    starts: NDArray[np.int64]
    counts: NDArray[np.int32]
    indices: NDArray[np.int64]
    slack: float = 0.0
    int8: "Int8Bags | None" = None

    def __len__(self) -> int:
        return int(np.count_nonzero(self.counts))

    @property
    def dimensions(self) -> int:
        """d."""
        return int(self.tiles.shape[1])


@dataclass(frozen=True)
class Int8Bags:
    """The prototypes of packed bags in int8, for the lower bounds of `bounds.py`; tiles, groups and lanes as there.

    tiles : (T, ceil(d / 4), 16, 4) uint8; a prototype's coordinates are about steps * (byte - 128)
    norms : (T, 16) float32, half the squared norm of each prototype, unrounded; infinite where there is none
    steps : (G, 16) float32, the quantisation step of each bag
    offs : (G, 16) float32, the largest rounding error (norm) of a prototype of each bag
    rows : (W, 4 ceil(d / 4)) int8, the bytes less 128, one prototype per row, bags in the order of their indices
    """

    tiles: NDArray[np.uint8]
    norms: Floats
    steps: Floats
    offs: Floats
    rows: NDArray[np.int8]


def pack(bags: Sequence[Bag], dtype: str = "float32") -> Packed:
    """Pack `bags` into the memory layout of the kernels, in `float32` or `float16`."""
    if dtype not in ("float32", "float16"):
        raise Invalid("bags are packed in float32 or float16, not in {dtype}", dtype=dtype)
    dimensions = {bag.prototypes.shape[1] for bag in bags}
    if not dimensions:
        raise NotEnough("there are no bags to pack; describe at least one fragment")
    if len(dimensions) != 1:
        raise Invalid(
            "bags of {dimensions} dimensions cannot be packed together; one encoder is needed",
            dimensions=str(sorted(dimensions)),
        )
    d, groups = dimensions.pop(), -(-len(bags) // LANES)
    lengths = np.array([len(bag) for bag in bags], dtype=np.int32)
    order = np.argsort(lengths, kind="stable")
    indices = np.full(groups * LANES, -1, dtype=np.int64)
    indices[: len(bags)] = order
    counts = np.zeros((groups, LANES), dtype=np.int32)
    counts.reshape(-1)[: len(bags)] = lengths[order]
    starts = np.concatenate([[0], np.cumsum(counts.max(axis=1, initial=0))]).astype(np.int64)

    tiles = aligned((int(starts[-1]), d, LANES), dtype)
    norms = np.full((starts[-1], LANES), np.inf, dtype=np.float32)
    masses = np.zeros((starts[-1], LANES), dtype=np.float32)
    slack = 0.0
    for some, prototypes, tile, lane in laid_out(bags, indices, starts):
        with np.errstate(over="ignore"):  # infinite values raise `Invalid` below
            stored = prototypes.astype(dtype, copy=False)
        halves = half_squares(stored)
        if not halves.max() < np.finfo(np.float32).max:
            raise Invalid(
                "a bag has values that {dtype} cannot represent; pack it in float32, or check its encoder", dtype=dtype
            )
        tiles[tile, :, lane] = stored
        norms[tile, lane] = halves
        masses[tile, lane] = np.concatenate([bag.weights for bag in some])
        if dtype == "float16":
            slack = max(slack, float(np.sqrt(2 * half_squares(stored - prototypes).max())))
    return Packed(tiles, norms, masses, starts, counts, indices.reshape(groups, LANES), slack)


def laid_out(
    bags: Sequence[Bag], indices: NDArray[np.int64], starts: NDArray[np.int64]
) -> Iterator[tuple[list[Bag], Floats, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield bags in packed order, some at a time, with their prototypes (W, d), and tile and lane of each prototype."""
    order = indices.ravel()
    for first in range(0, len(order), _BAGS_AT_ONCE):
        own = np.flatnonzero(order[first : first + _BAGS_AT_ONCE] >= 0) + first
        some = [bags[index] for index in order[own].tolist()]
        lengths = np.array([len(bag) for bag in some])
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        tile = np.repeat(starts[own // LANES], lengths) + within
        yield some, np.concatenate([bag.prototypes for bag in some]), tile, np.repeat(own % LANES, lengths)


def half_squares(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return half the squared norm of each prototype (W, d)."""
    full = vectors.astype(np.float64, copy=False)
    return np.asarray(np.einsum("wd,wd->w", full, full) / 2)


def chamfer_many(
    queries: Sequence[Bag], packed: Packed, *, threads: int | None = None, kernel: str | None = None
) -> Floats:
    """Return Chamfer distances (q, N) float32 of each query to each packed bag, in the order of the bags in `pack`.

    d = 1/2 ( 1/K sum_i min_j ||mu_i - nu_j||  +  1/L sum_j min_i ||nu_j - mu_i|| )

    >>> bags = [Bag([[0.0], [1.0]], [0.5, 0.5]), Bag([[0.0]], [1.0])]
    >>> chamfer_many(bags[:1], pack(bags)).tolist()
    [[0.0, 0.25]]
    """
    forward, backward = nearest_sums(queries, packed, threads=threads, kernel=kernel)
    forward += backward
    forward /= 2
    return forward


def chamfer_matrix(
    bags: Sequence[Bag], dtype: str = "float32", *, threads: int | None = None, kernel: str | None = None
) -> Floats:
    """Return Chamfer distances (N, N) float32 of all bags to each other: symmetric, zero on the diagonal."""
    packed = pack(bags, dtype)
    order = packed.indices.ravel()[: len(bags)]
    found = np.zeros((len(bags), len(bags)), dtype=np.float32)  # in packed order at first

    def work(first: int) -> None:
        # In packed order, a block of queries needs only the groups from its own on; the rest follows by symmetry.
        last = min(first + _QUERIES_AT_ONCE, len(bags))
        later = _from_group(packed, first // LANES)
        forward, backward = _sums([bags[index] for index in order[first:last].tolist()], later, False, 1, kernel)
        forward += backward
        forward /= 2
        found[first:last, first:] = forward[:, : len(bags) - first]
        found[last:, first:last] = found[first:last, last:].T
        own = found[first:last, first:last]
        own[:] = np.triu(own, 1) + np.triu(own, 1).T  # both halves were computed; use one value per pair

    in_threads(work, range(0, len(bags), _QUERIES_AT_ONCE), threads)  # blocks with the most groups come first
    if (np.diff(order) > 0).all():
        return found
    back = np.empty_like(order)
    back[order] = np.arange(len(bags))
    return found[back][:, back]


def nearest_sums(
    queries: Sequence[Bag],
    packed: Packed,
    *,
    masses: bool = False,
    below: bool = False,
    bfloat16: bool = False,
    threads: int | None = None,
    kernel: str | None = None,
) -> tuple[Floats, Floats]:
    """Return the two one-sided sums of each query with each packed bag, both (q, N) float32.

    forward = sum_i a_i min_j ||mu_i - nu_j||, backward = sum_j b_j min_i ||nu_j - mu_i||,
    where a_i = 1/K and b_j = 1/L, or the prototypes' masses if `masses` is set.

    `below` makes both lower bounds of the sums of the unrounded prototypes, for any rounding of kernel and storage.
    `bfloat16` allows them to be lower still, by about one in 2^8, in half the time, where the processor has such
    products. `threads`: default the number of processors. `kernel`: one of `available()`; default the first.

    Accuracy: half the squared distance is (|q|^2 + |p|^2)/2 - q.p in float32, which loses digits as q and p come close.
    Where it is below 2^-8 of |p|^2, it is computed again by differences, so that a bag is at distance 0 from its copy.
    With float16 tiles, the rounding of the prototypes adds an error of at most `Packed.slack`.
    """
    shrink = 1.0
    if below:  # squared norms smaller by more than the rounding error of d products and their sum
        shrink -= (packed.dimensions + 8) * 2.0**-24
    if below and bfloat16 and kernel is None and bfloat16_kernels():
        kernel = bfloat16_kernels()[0]
        # Two factors rounded to 8 bits, each with an error of at most one in 2^8; sums are rounded twice as often.
        shrink -= 2.0**-7 + 2.0**-16 + packed.dimensions * 2.0**-24
    order = packed.indices.ravel()
    lanes = order >= 0
    forward, backward = (np.empty((len(queries), len(packed)), dtype=np.float32) for _ in range(2))
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
        some = slice(first, first + _QUERIES_AT_ONCE)
        there, back = _sums(queries[some], packed, masses, threads, kernel, shrink)
        forward[some, order[lanes]], backward[some, order[lanes]] = there[:, lanes], back[:, lanes]
    if below:
        # Roots, masses and sums are rounded as well: one part in 2^24 for each of the terms and a few more.
        terms = max([*(len(query) for query in queries), int(packed.counts.max(initial=0))])
        for sums in (forward, backward):
            np.maximum(sums * (1 - (terms + 8) * 2.0**-24) - packed.slack, 0, out=sums)
    return forward, backward


def available() -> list[str]:
    """Return the kernels that run on this machine, fastest first; the first is used.

    `avx512`, `avx2` and `base` are native; `numpy` is the portable one, used where membra was installed without a
    C compiler.
    """
    return [*(native.names(False) if native else []), "numpy"]


def bfloat16_kernels() -> list[str]:
    """Return the kernels for lower bounds only that run on this machine: `bf16` or none."""
    return list(native.names(True)) if native else []


def _sums(
    queries: Sequence[Bag],
    packed: Packed,
    masses: bool,
    threads: int | None,
    kernel: str | None,
    shrink: float = 1.0,
) -> tuple[Floats, Floats]:
    """Compute both sums (q, G * 16), in packed order, with empty lanes; `shrink` multiplies the squared norms."""
    kernel = kernel or available()[0]
    if kernel not in available() + bfloat16_kernels():
        raise Invalid("unknown kernel `{kernel}`; the kernels are: {kernels}", kernel=kernel, kernels=available())
    check_dimensions(queries, packed.dimensions)
    groups = len(packed.counts)
    forward, backward = (np.zeros((len(queries), groups * LANES), dtype=np.float32) for _ in range(2))
    if not queries or not groups:
        return forward, backward
    weights = [q.weights if masses else np.full(len(q), 1 / len(q)) for q in queries]
    prototypes = np.concatenate([query.prototypes for query in queries])
    shares = np.concatenate(weights).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum([len(query) for query in queries])]).astype(np.int64)

    def native_work(bounds: tuple[int, int]) -> None:
        native.sums(
            kernel,
            packed.tiles.dtype == np.float16,
            packed.dimensions,
            shrink,
            packed.tiles,
            packed.norms,
            packed.masses if masses else None,
            packed.starts,
            packed.counts,
            prototypes,
            shares,
            offsets,
            forward,
            backward,
            *bounds,
        )

    def portable_work(bounds: tuple[int, int]) -> None:
        lanes = slice(bounds[0] * LANES, bounds[1] * LANES)
        for row, (query, weight) in enumerate(zip(queries, weights, strict=True)):
            sums = _portable(query.prototypes, weight, packed, masses, shrink, bounds)
            forward[row, lanes], backward[row, lanes] = sums

    work = portable_work if kernel == "numpy" else native_work
    threads = threads or processors()
    if threads == 1 or groups * len(queries) < _SMALL:
        work((0, groups))
        return forward, backward
    # Several ranges per thread, so that one delayed thread does not delay all.
    cuts = np.linspace(0, groups, min(groups, 8 * threads) + 1).astype(int).tolist()
    in_threads(work, pairwise(cuts), threads)
    return forward, backward


def aligned(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Allocate zeros at a multiple of 64 bytes, so that no vector crosses two cache lines."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _from_group(packed: Packed, group: int) -> Packed:
    """Return the groups of `packed` from `group` on, as views."""
    first = packed.starts[group]
    return Packed(
        packed.tiles[first:],
        packed.norms[first:],
        packed.masses[first:],
        packed.starts[group:] - first,
        packed.counts[group:],
        packed.indices[group:],
        packed.slack,
    )


def _portable(
    prototypes: Floats,
    weights: NDArray[np.float64],
    packed: Packed,
    masses: bool,
    shrink: float,
    bounds: tuple[int, int],
) -> tuple[Floats, Floats]:
    """Compute both sums of one query for a range of groups, as the native kernel, by many small matrix products."""
    own = ((prototypes.astype(np.float64) ** 2).sum(axis=1) / 2).astype(np.float32)[:, None]
    forward, backward = (np.zeros((bounds[1] - bounds[0], LANES), dtype=np.float32) for _ in range(2))
    for first, last, slots in _runs(packed.starts, bounds):
        some = slice(first - bounds[0], last - bounds[0])
        tiles = slice(packed.starts[first], packed.starts[last])
        columns, norms = packed.tiles[tiles].astype(np.float32, copy=False), packed.norms[tiles]
        half = np.float32(shrink) * (own + norms[:, None])  # (T, K, 16)
        half -= prototypes @ columns
        least = half.min(axis=1)
        for tile, lane in np.argwhere(least < np.float32(TINY) * norms).tolist():
            close = half[tile, :, lane] < np.float32(TINY) * norms[tile, lane]
            gaps = prototypes[close] - columns[tile, :, lane]
            half[tile, close, lane] = np.float32(shrink / 2) * (gaps * gaps).sum(axis=1)
            least[tile, lane] = half[tile, :, lane].min()
        nearest = half.reshape(last - first, slots, len(prototypes), LANES).min(axis=1)
        nearest[np.isinf(nearest)] = 0  # an empty lane
        forward[some] = (np.sqrt(2 * np.maximum(nearest, 0)) * weights.astype(np.float32)[:, None]).sum(axis=1)
        roots = np.sqrt(2 * np.maximum(np.where(norms < np.inf, least, 0), 0))
        if masses:
            roots *= packed.masses[tiles]
        backward[some] = roots.reshape(last - first, slots, LANES).sum(axis=1)
    if not masses:
        backward /= np.maximum(packed.counts[slice(*bounds)], 1)
    return forward.ravel(), backward.ravel()


def _runs(starts: NDArray[np.int64], bounds: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Split a range into runs of groups with equally many tiles, of bounded size: (first group, end, tiles each)."""
    slots = np.diff(starts)[slice(*bounds)]
    edges = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    found = []
    for first, last in pairwise(edges):
        step = max(1, _BLOCK // max(1, int(slots[first])))
        found += [
            (bounds[0] + at, bounds[0] + min(at + step, last), int(slots[first])) for at in range(first, last, step)
        ]
    return found


if __name__ == "__main__":
    print(*available())
