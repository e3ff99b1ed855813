"""Atomic writes and exclusive locks: a process that is killed leaves no partly written file."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from membra.errors import Busy, Invalid
from membra.messages import Message

PART = ".part"  # suffix of unfinished files


def atomic_write(path: Path, *pieces: bytes | memoryview) -> None:
    """Write a temporary file beside `path`, flush it to disk, rename it to `path`, and flush the folder's entry."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=PART)
    try:
        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while rest:  # one call may write only a part
                    rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def check_place(path: Path) -> None:
    """Raise `Invalid` before the work starts if the folder of `path` does not exist."""
    if not path.absolute().parent.is_dir():
        raise Invalid("the folder of {file} does not exist; create it first", file=path)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or "" if it cannot be read: describing it will report why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


@contextmanager
def exclusive_lock(lock: Path, what: Path) -> Iterator[None]:
    """Lock the file `lock`, or raise `Busy` with the process that holds it. The end of a process releases its lock."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Busy(
                "another membra (process {process}) is writing to {what}; wait until it has finished",
                what=what,
                process=file.read().strip() or Message("unknown"),
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def is_locked(lock: Path) -> bool:
    """Return whether a process holds the file `lock` now."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
