"""Cache files beside a collection, which can be recomputed: written atomically, and checked when read.

The manifest does not name them: each file describes its own content and carries its checksum. Readers write them too.
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
    """Read the arrays of a file written by `keep_arrays`; None if it is missing, damaged or of another layout.

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
    """Write arrays with a checksum to a cache file, if it can be written."""
    keep_bytes(file, save({**arrays, "check": np.array([_crc(arrays)], dtype=np.uint32)}))


def keep_bytes(file: Path, content: bytes) -> None:
    """Write a cache file, or do nothing if there is no permission to write or no disk space."""
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
