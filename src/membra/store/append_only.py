"""Append-only SQLite files for what people enter: verdicts, corrections and notes.

A transaction is on disk when its block ends. The file is created with the first entry.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from membra.errors import Damaged, Incompatible, Invalid, MembraError, NotFound, Unavailable
from membra.files import sync_folder

MAX_NAME, MAX_NOTE, MAX_ID = 200, 10_000, 4_096  # characters


def file_in(collection_path: str | Path, name: str) -> Path:
    """Return the path of the file `name` in a collection's folder; the folder must exist, the file need not."""
    folder = Path(collection_path)
    if not folder.is_dir():
        raise NotFound("{folder} is not a collection; make one with `membra index SOURCE --into NEW`", folder=folder)
    return folder / name


@contextmanager
def connect(path: Path, format: int) -> Iterator[sqlite3.Connection]:
    """Open a file of at most this `format` (PRAGMA user_version, raised when an older membra could misread it)."""
    try:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = FULL")  # every commit waits for the disk
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version > format:
                raise Incompatible(
                    "{file} was written by a newer membra (format {format}); use that version",
                    file=path,
                    format=version,
                )
            yield database
    except sqlite3.OperationalError as error:
        raise Unavailable(
            "{file} cannot be used now ({why}); free disk space or check its permissions, then try again",
            file=path,
            why=error,
        ) from None
    except sqlite3.DatabaseError as error:
        raise Damaged("{file} cannot be used ({why}); restore it from a copy", file=path, why=error) from None


@contextmanager
def appending(path: Path, format: int, schema: str) -> Iterator[sqlite3.Connection]:
    """Open an exclusive write transaction, which is committed to disk when the block ends."""
    fresh = not path.exists()
    with connect(path, format) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        try:
            if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in schema.split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {format}")
            yield database
            database.execute("COMMIT")
        except BaseException:
            database.rollback()
            raise
    if fresh:
        sync_folder(path.parent)


def read(path: Path, format: int, query: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return the rows of a query; none if the file is missing or has no tables yet, because another process is
    creating it."""
    if not path.is_file():
        return []
    with connect(path, format) as database:
        begun = database.execute("PRAGMA user_version").fetchone()[0]
        return database.execute(query, values).fetchall() if begun else []


def problems_in(path: Path, format: int, read_all: Callable[[], object]) -> list[str]:
    """Return the problems of a file for `verify`: those of SQLite's integrity check, or the error of `read_all`, which
    reads every entry; none if the file is missing."""
    try:
        found = []
        if path.is_file():
            with connect(path, format) as database:
                found = [one for (one,) in database.execute("PRAGMA integrity_check(5)") if one != "ok"]
        read_all()
    except Damaged as error:  # says all of it
        return [str(error)]
    except (MembraError, ValueError, TypeError) as error:
        found = [str(error)]
    return [f"{path.name}: {one}; restore it from a copy" for one in found]


def now() -> str:
    """Return the current time as ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_text(what: str, text: str, most: int) -> None:
    """Raise `Invalid` if a text is longer than `most` characters or cannot be encoded as UTF-8."""
    if len(text) > most:
        raise Invalid(
            "{what} can have at most {most} characters, not {count}; shorten it", what=what, most=most, count=len(text)
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("{what} contains characters that are not text; type it again", what=what) from None


def whole(number: int) -> int:
    """Return `number`, or -1 (which no entry has) if it is outside SQLite's range 0 to 2^63 - 1."""
    return number if 0 <= number < 2**63 else -1
