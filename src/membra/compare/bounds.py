"""Lower bounds of Chamfer distances, cheaper than the distances, to exclude bags from the nearest.

Stages, each for fewer bags than the one before:
- `chamfer_below`: one query against all bags, in int8 instead of floats: half the memory traffic of float16, and four
  times as many products per second, where the processor has them (AVX512-VNNI);
- `listed_int8`: for shortlists, one query against a list of bags, in int8 as well, read in place;
- `listed_below`: one query against a list of bags, in float32, read in place: a millionth below the distance;
- the plain formula of `distance.py`, for the few that remain. `find/pruned.py` combines the stages.

Why an int8 bound holds: each bag has a step, so that its largest coordinate is 127 steps, and every coordinate is
rounded to whole steps. With q = q' + e and p = p' + f, where q' and p' are rounded,
    |q - p|^2 / 2  >=  (|q|^2 / 2 - |e||p|)  +  (|p|^2 / 2 - |q'||f|)  -  q'.p'
The norms of q, p, e and f are known, and q'.p' is a sum of int8 products, which is computed without error.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import LANES, Floats, Int8Bags, Packed, aligned, available, half_squares, laid_out
from membra.compare.threads import in_threads, processors
from membra.describe.bag import Bag

native: Any
try:
    native = import_module("membra.compare._bounds")
except ImportError:  # installed without a compiler
    native = None

FloatRows = tuple[Floats, NDArray[np.int64], NDArray[np.int64]]
Int8Rows = tuple[NDArray[np.int8], NDArray[np.int64], Floats, Floats, NDArray[np.int64]]

_MAX_DIMENSIONS = 512  # above, a sum of int8 products may have more digits than float32 represents
_SMALL = 64  # bags or groups; less work does not justify a second thread


def with_int8(packed: Packed, bags: Sequence[Bag]) -> Packed:
    """Add int8 prototypes to `packed`, which was packed from `bags`; unchanged above 512 dimensions."""
    d, tiles_count = packed.dimensions, len(packed.norms)
    if d > _MAX_DIMENSIONS:
        return packed
    tiles = aligned((tiles_count, -(-d // 4), LANES, 4), "uint8")
    tiles += np.uint8(128)
    norms = np.full((tiles_count, LANES), np.inf, dtype=np.float32)
    steps, offs = (np.ones(packed.counts.shape, dtype=np.float32) for _ in range(2))
    firsts_of = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])]).astype(np.int64)
    rows = np.zeros((int(firsts_of[-1]), 4 * tiles.shape[1]), dtype=np.int8)
    order, done = packed.indices.ravel(), 0
    for some, prototypes, tile, lane in laid_out(bags, packed.indices, packed.starts):
        lengths = np.array([len(bag) for bag in some])
        firsts = np.cumsum(lengths) - lengths
        halves = half_squares(prototypes)
        largest = np.maximum.reduceat(np.abs(prototypes).max(axis=1), firsts)
        step = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
        step = np.maximum(step, np.finfo(np.float32).tiny)
        each = np.repeat(step, lengths)[:, None].astype(np.float64)
        rounded = np.clip(np.rint(prototypes / each), -127, 127)
        off = np.sqrt(2 * half_squares(prototypes - each * rounded))
        filled = np.zeros((len(prototypes), 4 * tiles.shape[1]))
        filled[:, :d] = rounded
        tiles[tile, :, lane] = (filled + 128).astype(np.uint8).reshape(len(prototypes), -1, 4)
        norms[tile, lane] = halves
        within = np.arange(len(prototypes)) - np.repeat(firsts, lengths)
        rows[np.repeat(firsts_of[order[done : done + len(some)]], lengths) + within] = filled
        own = slice(done, done + len(some))
        steps.reshape(-1)[own] = step
        offs.reshape(-1)[own] = np.maximum.reduceat(off, firsts) * (1 + 2.0**-20)
        done += len(some)
    return replace(packed, int8=Int8Bags(tiles, norms, steps, offs, rows))


def no_int8(packed: Packed) -> Int8Bags:
    """Return empty int8 arrays, as stored where there are no int8 prototypes."""
    none = np.zeros((0, LANES), dtype=np.float32)
    quads = -(-packed.dimensions // 4)
    tiles, rows = np.zeros((0, quads, LANES, 4), dtype=np.uint8), np.zeros((0, 4 * quads), dtype=np.int8)
    return Int8Bags(tiles, none, none, none, rows)


def int8_supported() -> bool:
    """Return whether this machine has int8 products (AVX512-VNNI), which `chamfer_below` needs."""
    return native is not None and bool(native.in_bytes())


def chamfer_below(query: Bag, packed: Packed, *, first: int = 0, threads: int | None = None) -> Floats:
    """Return lower bounds (N,) of the Chamfer distances of `query` to the bags of `packed`, by `int8` prototypes.

    Groups before `first` are skipped: their bounds are 0.
    """
    int8 = packed.int8
    assert int8 is not None, "bags without int8; `with_int8` adds them"
    found = np.zeros(len(packed), dtype=np.float32)

    def work(start: int, last: int) -> None:
        native.below(
            int8.tiles,
            int8.norms,
            int8.steps,
            int8.offs,
            packed.starts,
            packed.counts,
            packed.indices,
            query.prototypes,
            packed.dimensions,
            found,
            first + start,
            first + last,
        )

    _in_threads(work, len(packed.counts) - first, threads)
    return found


def listed_below(
    query: Bag, parts: Sequence[FloatRows], *, threads: int | None = None, kernel: str | None = None
) -> list[Floats]:
    """Return lower bounds of the Chamfer distances of `query` to listed bags: the distance less float32 rounding.

    parts : for each shard `prototypes` (W, d), those of all its bags, one bag after the other, read in place;
        `offsets` (m + 1,), bag i has the rows `offsets[i]` to `offsets[i + 1]`; and the indices (n,) of the listed bags
    """
    kernel = kernel or available()[0]
    own, d = query.prototypes, query.prototypes.shape[1]
    shrink = 1 - (d + 8) * 2.0**-24  # of squared norms: more than the rounding error of d products and their sum

    def work(some: list[tuple[Any, ...]]) -> None:
        if kernel != "numpy" and native is not None:
            native.rows(some, kernel, own, d, shrink)
            return
        for prototypes, offsets, indices, found in some:
            for at, index in enumerate(indices.tolist()):
                found[at] = _plain_row(own, prototypes[offsets[index] : offsets[index + 1]], shrink)

    found = _compare_listed(parts, work, threads)
    for one, (_, offsets, indices) in zip(found, parts, strict=True):
        terms = len(query) + (offsets[indices + 1] - offsets[indices])
        one *= (1 - (terms + 8) * 2.0**-24).astype(np.float32)
    return found


def listed_int8(query: Bag, parts: Sequence[Int8Rows], *, threads: int | None = None) -> list[Floats]:
    """Return the bounds of `listed_below` by `Int8Bags.rows`: lower ones, in a quarter of the time.

    parts : for each shard the `rows` and `offsets`, `steps` and `offs` (m,) in the order of its bags, and the indices
        (n,) of the listed bags
    """
    own, d = query.prototypes, query.prototypes.shape[1]
    return _compare_listed(parts, lambda some: native.listed(some, own, d), threads)


def by_length(parts: Sequence[Packed]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort the rows of all parts by their number of prototypes, then in packed order: (N,); and that number (R,).

    Rows are numbered consecutively over the parts.
    """
    order, lengths, start = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for part in parts:
        lanes = part.indices >= 0
        own = np.zeros(int(np.count_nonzero(lanes)), np.int64)
        own[part.indices[lanes]] = part.counts[lanes]
        order.append(start + part.indices[lanes])
        lengths.append(own)
        start += len(own)
    rows, counts = np.concatenate(order), np.concatenate(lengths)
    return rows[np.argsort(counts[rows], kind="stable")], counts


def _compare_listed(
    parts: Sequence[tuple[Any, ...]], work: Callable[[list[tuple[Any, ...]]], None], threads: int | None
) -> list[Floats]:
    """Run `work` on the bags at the indices, the last array of each part, and return its results (n,) for each part.

    `work` gets a list of parts, each with an output array appended. Each thread gets its share in one call: with very
    many shards, one call per shard would take longer than the work.
    """
    found = [np.empty(len(part[-1]), dtype=np.float32) for part in parts]
    whole = [
        (*part[:-1], np.ascontiguousarray(part[-1], dtype=np.int64), one)
        for part, one in zip(parts, found, strict=True)
    ]
    threads = 1 if sum(map(len, found)) < _SMALL else threads or processors()
    in_threads(work, list(_split_evenly(whole, threads)), threads)
    return found


def _split_evenly(parts: Sequence[tuple[Any, ...]], shares: int) -> Iterator[list[tuple[Any, ...]]]:
    """Split parts into at most `shares` lists with equally many indices (the last array but one); a part may be cut."""
    size = -(-sum(len(part[-1]) for part in parts) // shares)
    share: list[tuple[Any, ...]] = []
    room = size
    for *arrays, indices, found in parts:
        first = 0
        while first < len(indices):
            last = min(len(indices), first + room)
            share.append((*arrays, indices[first:last], found[first:last]))
            room, first = room - (last - first), last
            if not room:
                yield share
                share, room = [], size
    if share:
        yield share


def bags_below(query: Bag, bags: Sequence[Bag]) -> Floats:
    """Return the bounds (n,) of `listed_below` for bags that are not in a shard."""
    if not bags:
        return np.zeros(0, dtype=np.float32)
    offsets = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])]).astype(np.int64)
    prototypes = np.concatenate([bag.prototypes for bag in bags])
    return listed_below(query, [(prototypes, offsets, np.arange(len(bags)))])[0]


def look_up(
    codes: Sequence[NDArray[np.uint16]], table: Floats, parts: Sequence[Packed], *, threads: int | None = None
) -> list[Floats]:
    """Return the mean of `table[code]` over the prototypes of each bag, (n,) for each part.

    `codes` (T, 16) are in the order of the part's tiles. Lanes without a prototype have the last code, whose value must
    be 0.
    """
    found = [np.zeros(len(part), dtype=np.float32) for part in parts]
    if native is not None:
        whole = [
            (code, part.starts, part.counts, part.indices, one)
            for code, part, one in zip(codes, parts, found, strict=True)
        ]
        whole.sort(key=lambda part: -len(part[0]))  # so that all shares have about the same size
        threads = min(threads or processors(), max(len(whole), 1))
        in_threads(lambda first: native.look(whole[first::threads], table), range(threads), threads)
        return found
    for code, part, one in zip(codes, parts, found, strict=True):
        if len(part):
            sums = np.add.reduceat(table.take(code, mode="clip"), part.starts[:-1], axis=0)
            lanes = part.indices >= 0
            one[part.indices[lanes]] = sums[lanes] / part.counts[lanes]
    return found


def _plain_row(own: Floats, prototypes: Floats, shrink: float) -> float:
    halves = np.float32(shrink) * (half_squares(own)[:, None] + half_squares(prototypes)).astype(np.float32)
    roots = np.sqrt(2 * np.maximum(halves - own @ prototypes.T, 0))
    return float(roots.min(axis=0).mean() + roots.min(axis=1).mean()) / 2


def _in_threads(work: Callable[[int, int], None], count: int, threads: int | None) -> None:
    """Run `work` on ranges of `count`, several per thread, so that one delayed thread does not delay all."""
    threads = threads or processors()
    if threads == 1 or count < _SMALL:
        work(0, count)
        return
    cuts = np.linspace(0, count, 8 * threads + 1).astype(int).tolist()
    in_threads(lambda bounds: work(*bounds), pairwise(cuts), threads)
