"""Arrays in one immutable, checksummed, memory-mapped file: a safetensors file whose data is aligned.

The file has two parts: the first is always read, the second for few fragments at a time.
"""

import hashlib
import json
import mmap
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import Damaged, Unreadable, system_says
from membra.files import atomic_write
from membra.messages import Message

ALIGNED = 64  # bytes; the data begins at a multiple of a cache line

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "I8": "|i1", "U8": "|u1", "U32": "<u4"}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_MAX_HEADER = 10_000  # bytes; membra's headers have about 1,500


@dataclass(frozen=True)
class FileRecord:
    """Name, size and checksums of such a file, stored outside it to detect damage."""

    name: str  # contains part of the content's SHA-256: the same content is the same file
    size: int  # bytes
    crc32: int  # of the whole file
    first_size: int  # bytes of the header and the first part together
    first_crc32: int


def write_tensors(
    folder: Path,
    tensors: Mapping[str, Sequence[NDArray[Any]]],
    first: int,
    meta: Mapping[str, str],
    *,
    prefix: str = "",
) -> FileRecord:
    """Write `tensors` in their order, and `meta`, into a file in `folder`; `first` tensors make up the first part.

    Each tensor is given as pieces (one at least) along the first axis, which are not concatenated in memory.
    """
    header: dict[str, Any] = {"__metadata__": dict(meta)}
    end, first_end, data = 0, 0, []
    for index, (name, pieces) in enumerate(tensors.items()):
        start, end = end, end + sum(piece.nbytes for piece in pieces)
        shape = (sum(len(piece) for piece in pieces), *pieces[0].shape[1:])
        header[name] = {"dtype": _NAMES[pieces[0].dtype], "shape": shape, "data_offsets": [start, end]}
        data += [np.ascontiguousarray(piece).data.cast("B") for piece in pieces if piece.size]
        first_end = end if index < first else first_end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    head = len(text).to_bytes(8, "little") + text
    digest, crc, first_crc, size = hashlib.sha256(), 0, 0, 0
    for piece in (memoryview(head), *data):
        digest.update(piece)
        crc, size = zlib.crc32(piece, crc), size + len(piece)
        first_crc = crc if size <= len(head) + first_end else first_crc
    name = _name(prefix, digest.hexdigest())
    atomic_write(folder / name, head, *data)
    return FileRecord(name, size, crc, len(head) + first_end, first_crc)


def map_tensors(
    folder: Path, record: FileRecord, *, whole: bool = False
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Map the arrays of such a file, and read its `meta`.

    The first part is verified, or the `whole` file. Damage raises an error, never a wrong result.
    """
    content = _mapped(folder, record)
    size, expected = (record.size, record.crc32) if whole else (record.first_size, record.first_crc32)
    if zlib.crc32(content[:size]) != expected:
        raise damaged(record.name)
    try:
        length = int.from_bytes(content[:8], "little")
        if length > _MAX_HEADER:
            raise ValueError("its header is too long")
        header = json.loads(bytes(content[8 : 8 + length]))
        meta, arrays = header.pop("__metadata__"), {}
        if not (isinstance(meta, dict) and all(isinstance(value, str) for value in meta.values())):
            raise ValueError("its notes are no texts")
        for key, tensor in header.items():
            first, last = (8 + length + offset for offset in tensor["data_offsets"])
            arrays[key] = np.frombuffer(content[first:last], _DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(record.name, Message("it cannot be read: {why}", why=error)) from None
    return arrays, meta


def check_whole(folder: Path, record: FileRecord) -> None:
    """Verify the checksum of the whole file."""
    if zlib.crc32(_mapped(folder, record)) != record.crc32:
        raise damaged(record.name)


def content_name(path: Path, prefix: str = "") -> str:
    """Compute the name of a file from its content."""
    try:
        with path.open("rb") as file:
            return _name(prefix, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise Unreadable(
            "{file} cannot be read ({why}); check the disk and permissions", file=path.name, why=system_says(error)
        ) from None


def damaged(name: str, why: str = Message("its checksum does not match")) -> Damaged:
    return Damaged(
        "{file} is damaged ({why}); restore it from a copy, or index again into a new folder", file=name, why=why
    )


def _name(prefix: str, digest: str) -> str:
    return f"{prefix}{digest[:32]}.safetensors"


def _mapped(folder: Path, record: FileRecord) -> memoryview:
    """Map the bytes of a file; only its size is checked."""
    try:
        with (folder / record.name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != record.size:
                raise damaged(
                    record.name,
                    Message("it has {size} bytes instead of {expected}", size=size, expected=record.size),
                )
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise Damaged(
            "{file} is missing; restore it from a copy, or index again into a new folder", file=record.name
        ) from None
    except OSError as error:
        raise Unreadable(
            "{file} cannot be read ({why}); check the disk and permissions", file=record.name, why=system_says(error)
        ) from None
