"""Chamfer of query bags against many on a GPU: `kernels.chamfer_many`, through torch if that is installed.

held = to_device(pack(bags, "float16"), "cuda")
chamfer_many(queries, held)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import check_dimensions
from membra.compare.kernels import LANES, Packed
from membra.describe.bag import Bag
from membra.errors import Unavailable, Unsupported

if TYPE_CHECKING:
    from torch import Tensor

_AT_ONCE = 2**19  # words compared at once: at d = 128, 256 MB as float32; few launches for a large collection


@dataclass(frozen=True)
class DeviceBags:
    """Packed bags in a device's memory; words lie in rows there, since torch multiplies whole matrices.

    runs : for groups with equally many tiles S, words (G, S, 16, d) in the dtype they were packed in, half squared
        norms (G, S, 16) float32, and words of each bag (G, 16) float32
    indices : (N,) int64, where each result belongs; on the host
    """

    runs: list[tuple["Tensor", "Tensor", "Tensor"]]
    indices: NDArray[np.int64]
    dimensions: int


def to_device(packed: Packed, device: str = "cuda") -> DeviceBags:
    """Copy packed bags to a torch device. Do this once, and search many times."""
    torch = torch_on(device)
    with device_memory(torch):
        return _to_device(torch, packed, device)


def _to_device(torch: Any, packed: Packed, device: str) -> DeviceBags:
    slots = np.diff(packed.starts)
    edges = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    runs = []
    for first, last in pairwise(edges):
        size = int(slots[first])
        # Runs are cut, so that the products of one piece are bounded.
        step = max(1, _AT_ONCE // (size * LANES))
        for group in range(first, last, step):
            end = min(group + step, last)
            tiles = slice(packed.starts[group], packed.starts[end])
            prototypes = np.ascontiguousarray(packed.tiles[tiles].transpose(0, 2, 1))
            shape = (end - group, size, LANES)
            runs.append(
                (
                    torch.from_numpy(prototypes.reshape(*shape, -1)).to(device),
                    torch.from_numpy(packed.norms[tiles].reshape(shape).copy()).to(device),
                    torch.from_numpy(packed.counts[group:end].astype(np.float32)).to(device),
                )
            )
    return DeviceBags(runs, packed.indices.ravel(), packed.dimensions)


def chamfer_many(queries: Sequence[Bag], on_device: DeviceBags) -> NDArray[np.float32]:
    """Chamfer distances (q, N) float32 of each query to each bag, in the order in which they were packed.

    Unlike with `kernels.chamfer_many`, words that nearly coincide keep the rounding of |q|^2 + |p|^2 - 2 q.p, so
    that a bag is not quite at distance 0 from its copy. torch must not be told to multiply in TF32.
    """
    torch = _torch()
    check_dimensions(queries, on_device.dimensions)
    known = on_device.indices >= 0
    found = np.empty((len(queries), int(known.sum())), dtype=np.float32)
    with torch.inference_mode(), device_memory(torch):
        for row, query in enumerate(queries):
            parts = [_one(torch, query, *run) for run in on_device.runs]
            found[row, on_device.indices[known]] = torch.cat(parts).cpu().numpy()[known]
    return found


def _one(torch: Any, query: Bag, prototypes: "Tensor", norms: "Tensor", counts: "Tensor") -> "Tensor":
    """One query against one run of groups: (G * 16,)."""
    own = torch.tensor(query.prototypes).to(prototypes.device)  # a copy: what is mapped cannot be written to
    squares = own.double().square().sum(dim=1).float() / 2
    # In float32 whatever the storage: a float16 product would come back rounded to float16, three digits of |q||p|.
    half = prototypes.reshape(-1, prototypes.shape[-1]).float() @ own.T
    half = (norms.reshape(-1, 1) + squares - half).clamp_(min=0).reshape(*norms.shape, -1)  # (G, S, 16, K)
    forward = (2 * half.amin(dim=1)).sqrt().mean(dim=2)  # (G, 16)
    least = half.amin(dim=3)
    backward = torch.where(norms < torch.inf, (2 * least).sqrt(), 0).sum(dim=1) / counts.clamp(min=1)
    found: Tensor = (forward + backward) / 2
    return found.reshape(-1)


@contextmanager
def device_memory(torch: Any) -> Iterator[None]:
    """Says in a line that the device's memory is full."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise Unavailable(
            "the memory of the GPU is full; end what else runs on it, or compare on the processor instead"
        ) from None


def torch_on(device: str) -> Any:
    """torch, if it is installed and sees this device."""
    torch = _torch()
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Unsupported("torch sees no GPU here; search on the processor, or install torch with CUDA")
    return torch


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise Unsupported(
            "searching on a GPU needs torch, which is not installed; run `pip install 'membra[train]'`"
        ) from None
    return torch
