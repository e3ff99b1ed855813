"""A torch device to compare on: whether it is there, and what is said when its memory is full."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from membra.errors import Unavailable, Unsupported


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


def gpu_here() -> bool:
    """Whether there is torch, and a GPU that it sees."""
    try:
        return bool(_torch().cuda.is_available())
    except Unsupported:
        return False


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise Unsupported(
            "searching on a GPU needs torch, which is not installed; run `pip install 'membra[train]'`"
        ) from None
    return torch
