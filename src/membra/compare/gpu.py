"""Access to a torch device: availability, and errors for missing devices and full memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from membra.errors import Unavailable, Unsupported


@contextmanager
def device_memory(torch: Any) -> Iterator[None]:
    """Convert an out-of-memory error of the device to `Unavailable`."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise Unavailable(
            "the memory of the GPU is full; close other programs that use it, or compare on the processor instead"
        ) from None


def torch_on(device: str) -> Any:
    """Import torch; raises `Unsupported` where it is not installed or does not detect this device."""
    torch = _torch()
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Unsupported("torch finds no GPU on this machine; search on the processor, or install torch with CUDA")
    return torch


def gpu_here() -> bool:
    """Return whether torch is installed and detects a GPU."""
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
