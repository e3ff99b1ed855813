"""What can be made again, kept beside a collection by whoever made it: whole or not at all, and checked when read.

Nothing names these files: each says itself what it holds, and has the checksum of it. A reader may write them.
"""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from membra.files import atomic_write


def read_arrays(file: Path, layout: dict[str, str]) -> dict[str, NDArray[Any]] | None:
    """The arrays of a file that was written by `keep_arrays`; None where it is missing, damaged or another.

    layout : the dtype of each array, by its name
    """
    try:
        arrays = load(file.read_bytes())
    except (OSError, SafetensorError):
        return None
    check = arrays.pop("check", np.zeros(1))
    same = {name: str(array.dtype) for name, array in arrays.items()} == layout
    return arrays if same and check.tolist() == [_crc(arrays)] else None


def keep_arrays(file: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Keep them for the next time, where they can be kept."""
    keep_bytes(file, save({**arrays, "check": np.array([_crc(arrays)], dtype=np.uint32)}))


def keep_bytes(file: Path, content: bytes) -> None:
    """Keep for the next time what can be kept; a reader may have no right to write, or no room."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, content)
    except OSError:
        pass


def _crc(arrays: dict[str, NDArray[Any]]) -> int:
    found = 0
    for name in sorted(arrays):
        found = zlib.crc32(arrays[name].tobytes(), found)
    return found
