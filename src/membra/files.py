"""Write a file whole or not at all, one process at a time: whenever we are killed, nothing is half there."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from membra.errors import Busy, Invalid
from membra.messages import Message

PART = ".part"  # how the names of unfinished files end


def atomic_write(path: Path, *pieces: bytes | memoryview) -> None:
    """Write beside `path`, flush to the disk, rename over it, and flush the folder's entry too."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=PART)
    try:
        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while rest:  # one call need not take all
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
    """Say so before the work, where there is no folder to write `path` into afterwards."""
    if not path.absolute().parent.is_dir():
        raise Invalid("there is no folder to write {file} into; make it first", file=path)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


def content_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes; nothing where it cannot be read: reading it for description will say why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


@contextmanager
def exclusive_lock(lock: Path, what: Path) -> Iterator[None]:
    """Hold the file `lock`, or say which process does. It is let go when the process ends, even when killed."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Busy(
                "{what} is being written by another membra (process {process}); wait until it has finished",
                what=what,
                process=file.read().strip() or Message("unknown"),
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def is_locked(lock: Path) -> bool:
    """Whether a process holds the file `lock` at this moment."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
