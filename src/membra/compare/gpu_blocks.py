"""Lower bounds of the Chamfer distances of many queries to many bags at once, in blocks on a torch device.

One matrix product gives half the squared distances of all prototypes of some queries to all of some bags, since the
norms are columns of the matrices too:

    [-q, 1, |q|^2/2] . [p, |p|^2/2, 1] = |q - p|^2 / 2

Norms are stored as sums of three float16, which together have more digits than a float32. Two minima follow, each over
an outer axis of the product, so that memory is read sequentially.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import by_length
from membra.compare.distance import check_dimensions
from membra.compare.gpu import device_memory, torch_on
from membra.compare.kernels import Packed, half_squares
from membra.describe.bag import Bag
from membra.errors import Invalid

if TYPE_CHECKING:
    from torch import Tensor

_PROTOTYPES = 2**16  # prototypes of bags per block
_QUERY_PROTOTYPES = 2**12  # prototypes of queries per product with a block, which has 1 GB
_PARTS = {"float16": 3, "float32": 1}  # numbers of this dtype whose sum is a norm
_LARGEST_HALF = 10_000.0  # half squared norms up to which float16 is used: four times that is still finite in it
_ABSENT = {
    "float16": 6e4,
    "float32": 1e30,
}  # half squared norm of a prototype that a bag does not have: larger than any
_ALIGNED = 8  # columns, to a multiple of which matrices are padded for the matrix units
_TINY = 2.0**-24  # the smallest float16: the last part of a norm is rounded down by it
_ROUNDING = 2.0**-21  # per product and sum, d + 2 of them; twice the largest error of a GPU's matrix units


@dataclass(frozen=True)
class Block:
    """Bags with similar numbers of prototypes, in a device's memory.

    prototypes : (S * B, D), S of each of B bags, beginning with the first of each; D is d, plus twice the parts of a
        norm, padded with zeros
    present : (S, B) float32, one over the number of the bag's prototypes; 0 where it has fewer
    first : the index of the first bag among those of all blocks
    """

    prototypes: "Tensor"
    present: "Tensor"
    first: int

    def __len__(self) -> int:
        return int(self.present.shape[1])


@dataclass(frozen=True)
class DeviceBlocks:
    """All bags of some `Packed`, in a device's memory, ordered by their number of prototypes.

    rows : (N,) int64, the row of each bag, numbered consecutively over the parts; on the host
    half : whether products are float16, by the device's matrix units
    """

    blocks: list[Block]
    rows: NDArray[np.int64]
    dimensions: int
    slack: float  # largest rounding error of a prototype (norm)
    half: bool
    device: str


def to_blocks(parts: Sequence[Packed], device: str) -> DeviceBlocks:
    """Copy packed bags to a torch device, in the order of `by_length`."""
    torch = torch_on(device)
    dimensions = parts[0].dimensions if parts else 0
    largest = max((float(part.norms[np.isfinite(part.norms)].max(initial=0)) for part in parts), default=0.0)
    small = all(part.tiles.dtype == np.float16 for part in parts) and largest <= _LARGEST_HALF
    dtype = "float16" if small else "float32"
    order, lengths = by_length(parts)
    starts = _block_starts(lengths[order])
    with device_memory(torch):
        blocks = [
            Block(torch.from_numpy(prototypes).to(device), torch.from_numpy(present).to(device), first)
            for first, prototypes, present in _laid_out(parts, order, lengths, starts, dimensions, dtype)
        ]
        half = dtype == "float16" and _multiplies_half(torch, device)
    return DeviceBlocks(blocks, order, dimensions, max((part.slack for part in parts), default=0.0), half, device)


def blocks_below(queries: Sequence[Bag], on_device: DeviceBlocks, wanted: NDArray[np.bool_] | None = None) -> "Tensor":
    """Return lower bounds (q, N) of the Chamfer distances that hold for any rounding; on the device, in its order.

    Blocks without a `wanted` (N,) bag are skipped: their bounds are infinite.
    """
    torch = torch_on(on_device.device)
    check_dimensions(queries, on_device.dimensions)
    with torch.inference_mode(), device_memory(torch):
        found: Tensor = torch.full((len(queries), len(on_device.rows)), torch.inf, device=on_device.device)
        longest = max((len(query) for query in queries), default=1)
        step = max(1, _QUERY_PROTOTYPES // longest)
        for first in range(0, len(queries), step):
            some = queries[first : first + step]
            own, weights, moved = (torch.from_numpy(one).to(on_device.device) for one in _matrices(some, on_device))
            for block in on_device.blocks:
                columns = slice(block.first, block.first + len(block))
                if wanted is None or wanted[columns].any():
                    found[first : first + len(some), columns] = _to_block(torch, own, weights, block, on_device.half)
            terms = max(longest, max((block.present.shape[0] for block in on_device.blocks), default=1))
            part = found[first : first + len(some)]
            part.mul_(1 - (terms + 8) * 2.0**-23).sub_(moved[:, None] + on_device.slack).clamp_(min=0)
    return found


def _to_block(torch: Any, own: "Tensor", weights: "Tensor", block: Block, half: bool) -> "Tensor":
    """Return the distances (q, B) of queries with prototypes `own` (K * q, D) and `weights` (K, q) to a block."""
    prototypes = block.prototypes.T
    product = torch.mm(own, prototypes, out_dtype=torch.float32) if half else own.float() @ prototypes.float()
    each = product.view(*weights.shape, *block.present.shape)  # (K, q, S, B)
    there = each.amin(dim=2).clamp_(min=0).mul_(2).sqrt_()
    forward = (there * weights[:, :, None]).sum(dim=0)
    back = each.amin(dim=0).clamp_(min=0).mul_(2).sqrt_()
    backward = (back * block.present).sum(dim=1)
    found: Tensor = (forward + backward) / 2
    return found


def _matrices(
    queries: Sequence[Bag], on_device: DeviceBlocks
) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
    """Return prototypes (K * q, D) with norms, weights (K, q), and the largest rounding error of each query (q,).

    Where a query has fewer prototypes than others, its first is repeated with weight 0.
    """
    dtype = str(on_device.blocks[0].prototypes.dtype).removeprefix("torch.") if on_device.blocks else "float32"
    longest = max(len(query) for query in queries)
    own = np.empty((longest, len(queries), on_device.dimensions), np.float32)
    weights = np.zeros((longest, len(queries)), np.float32)
    for number, query in enumerate(queries):
        own[: len(query), number], own[len(query) :, number] = query.prototypes, query.prototypes[0]
        weights[: len(query), number] = 1 / len(query)
    with np.errstate(over="ignore"):
        rounded = own.astype(dtype)
    if not np.isfinite(rounded).all() or (dtype == "float16" and half_squares(_flat(own)).max() > _LARGEST_HALF):
        raise Invalid(
            "a bag has values that {dtype} cannot represent; pack it in float32, or check its encoder", dtype=dtype
        )
    moved = np.sqrt(2 * half_squares(_flat(rounded - own))).reshape(own.shape[:2]).max(axis=0)
    norms = _parts(half_squares(_flat(rounded)) * _shrunk(on_device.dimensions, dtype), dtype)
    matrix = np.zeros((len(norms), _wide(on_device.dimensions, dtype)), dtype)
    matrix[:, : on_device.dimensions + 2 * _PARTS[dtype]] = np.concatenate(
        [-_flat(rounded), np.ones_like(norms), norms], axis=1
    )
    return matrix, weights, moved.astype(np.float32) * np.float32(1 + 2.0**-20)


def _laid_out(
    parts: Sequence[Packed],
    order: NDArray[np.int64],
    lengths: NDArray[np.int64],
    starts: Sequence[int],
    dimensions: int,
    dtype: str,
) -> "list[tuple[int, NDArray[Any], NDArray[np.float32]]]":
    """Compute `first`, `prototypes` and `present` of each `Block`."""
    count, ones = len(order), dimensions + _PARTS[dtype]
    edges = np.array([*starts, count], np.int64)
    slots = np.array([int(lengths[order[end - 1]]) for end in edges[1:]], np.int64)
    sizes = np.diff(edges)
    offsets = np.concatenate([[0], np.cumsum(slots * sizes)]).astype(np.int64)
    prototypes = np.zeros((int(offsets[-1]), _wide(dimensions, dtype)), dtype)
    prototypes[:, dimensions] = _ABSENT[dtype]
    prototypes[:, ones : ones + _PARTS[dtype]] = 1
    position = np.empty(count, np.int64)  # of each row among all bags
    position[order] = np.arange(count)
    start = 0
    for part in parts:
        tile, lane = np.nonzero(np.isfinite(part.norms))
        group = np.searchsorted(part.starts, tile, side="right") - 1
        at = position[start + part.indices[group, lane]]
        block = np.searchsorted(edges, at, side="right") - 1
        flat = offsets[block] + (tile - part.starts[group]) * sizes[block] + at - edges[block]
        own = part.tiles[tile, :, lane]
        prototypes[flat, :dimensions] = own
        halves = half_squares(own) * _shrunk(dimensions, dtype)
        prototypes[flat, dimensions:ones] = _parts(halves, dtype)
        start += len(part)
    found = []
    for number, first in enumerate(starts):
        own_lengths = lengths[order[first : edges[number + 1]]]
        present = (np.arange(slots[number])[:, None] < own_lengths) / np.maximum(own_lengths, 1)
        found.append((first, prototypes[offsets[number] : offsets[number + 1]], present.astype(np.float32)))
    return found


def _block_starts(lengths: NDArray[np.int64]) -> list[int]:
    """Return the starts of blocks among bags of these lengths, ascending, with at most _PROTOTYPES in each block."""
    starts, first = [], 0
    while first < len(lengths):
        starts.append(first)
        last = min(len(lengths), first + max(1, _PROTOTYPES // max(1, int(lengths[first]))))
        while (last - first) * int(lengths[last - 1]) > _PROTOTYPES and last > first + 1:
            last = first + max(1, _PROTOTYPES // int(lengths[last - 1]))
        first = last
    return starts


def _parts(norms: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Split norms (m,) into numbers (m, parts) of a dtype, whose sums are slightly below the norms."""
    found = np.empty((len(norms), _PARTS[dtype]), dtype)
    left = norms.copy()
    for part in range(found.shape[1]):
        if part == found.shape[1] - 1:
            left -= _TINY if dtype == "float16" else np.abs(left) * 2.0**-22
        found[:, part] = left
        left -= found[:, part]
    return found


def _shrunk(dimensions: int, dtype: str) -> float:
    """Return the factor of the norms with which no rounding of the product makes a distance too large."""
    return 1 - (dimensions + 2 * _PARTS[dtype] + 8) * _ROUNDING


def _wide(dimensions: int, dtype: str) -> int:
    """Return D, the number of columns: d and twice the parts of a norm, padded to a multiple of _ALIGNED."""
    return -(-(dimensions + 2 * _PARTS[dtype]) // _ALIGNED) * _ALIGNED


def _flat(prototypes: NDArray[Any]) -> NDArray[Any]:
    return prototypes.reshape(-1, prototypes.shape[-1])


def _multiplies_half(torch: Any, device: str) -> bool:
    """Return whether the device multiplies float16 matrices into float32: on GPUs, by torch 2.8 or later."""
    try:
        some = torch.ones((16, 16), dtype=torch.float16, device=device)
        return bool(torch.mm(some, some, out_dtype=torch.float32).dtype == torch.float32)
    except (TypeError, RuntimeError, NotImplementedError):
        return False
