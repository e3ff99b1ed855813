"""The manifest of a collection, one SQLite file: what there is, where it lies, and by which recipe."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import MembraError
from membra.find.tensors import Written
from membra.see.fragment import Fragment

FORMAT = 3  # raised when an older membra could misread the folder
READS = ("2", "3")  # what a collection that is written to becomes is the last of these
FILE = "manifest.sqlite"

Numbers = NDArray[np.int32]

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE shards (
    name TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    first_size INTEGER NOT NULL,
    first_crc32 INTEGER NOT NULL,
    numbers BLOB NOT NULL  -- of the fragment at each place, int32; 0 where it was removed: a tombstone
);
CREATE TABLE fragments (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice
    id TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    columns TEXT NOT NULL,
    refused TEXT NOT NULL,  -- why it could not be described; empty where it was
    note TEXT NOT NULL,
    glyphs INTEGER NOT NULL,
    shard TEXT REFERENCES shards (name),
    place INTEGER
);
CREATE INDEX fragments_by_path ON fragments (path);
CREATE INDEX fragments_by_sha256 ON fragments (sha256, id) WHERE refused = '';
"""
_ENTRY = "number, id, path, columns, refused, note, glyphs"
_AT_ONCE = 500  # numbers in one question


@dataclass(frozen=True)
class Entry:
    """One line of the manifest: a fragment, and what became of it."""

    fragment: Fragment
    refused: str  # the reason, or nothing
    note: str
    glyphs: int
    number: int = 0  # in the order in which they came in; kept as long as the fragment stays and is not changed


def make_manifest(folder: Path, meta: Mapping[str, str]) -> None:
    """An empty manifest in `folder`."""
    with closing(sqlite3.connect(folder / FILE)) as database:
        database.executescript(f"PRAGMA journal_mode = WAL; {_SCHEMA}")
        with database:
            database.executemany("INSERT INTO meta VALUES (?, ?)", {"format": str(FORMAT), **meta}.items())


@contextmanager
def connect(folder: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """One transaction on the manifest of `folder`: for reading, one unchanging state; for writing, all or nothing."""
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield database
            database.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise MembraError(
            f"the manifest of {folder} cannot be used now ({error}); make room or check its permissions, then try again"
        ) from None
    except sqlite3.DatabaseError as error:
        raise MembraError(f"the manifest of {folder} cannot be used ({error}); restore it from a copy") from None


def read_meta(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT key, value FROM meta"))


def write_meta(database: sqlite3.Connection, key: str, value: str) -> None:
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def shards(database: sqlite3.Connection) -> list[tuple[Written, Numbers]]:
    """Every shard with the number of the fragment at each of its places."""
    rows = database.execute("SELECT name, size, crc32, first_size, first_crc32, numbers FROM shards ORDER BY rowid")
    return [(Written(*row[:5]), np.frombuffer(row[5], dtype="<i4")) for row in rows]


def put_shard(database: sqlite3.Connection, written: Written, numbers: Numbers) -> None:
    """Name a shard, or note who lies in it now."""
    database.execute(
        "INSERT INTO shards VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET numbers = excluded.numbers",
        (*astuple(written), np.asarray(numbers, dtype="<i4").tobytes()),
    )


def entries(database: sqlite3.Connection, *, described: bool = False) -> list[Entry]:
    """All fragments, or the described ones, in the order in which they came in."""
    only = "WHERE refused = ''" if described else ""
    return [_entry(row) for row in database.execute(f"SELECT {_ENTRY} FROM fragments {only} ORDER BY number")]


def entries_of(database: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Entry]:
    """The entries of some fragments, by number."""
    found: dict[int, Entry] = {}
    for first in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[first : first + _AT_ONCE])
        marks = ",".join("?" * len(some))
        rows = database.execute(f"SELECT {_ENTRY} FROM fragments WHERE number IN ({marks})", some)
        found |= {row[0]: _entry(row) for row in rows}
    return found


def entry_named(database: sqlite3.Connection, id: str, path: str = "") -> Entry | None:
    """The entry with this id, or else the described one with this absolute path of its image."""
    row = database.execute(f"SELECT {_ENTRY} FROM fragments WHERE id = ?", (id,)).fetchone()
    if row is None and path:
        question = f"SELECT {_ENTRY} FROM fragments WHERE path = ? AND refused = '' ORDER BY number"
        row = database.execute(question, (path,)).fetchone()
    return _entry(row) if row else None


def place_of(database: sqlite3.Connection, number: int) -> tuple[str, int]:
    """Shard and place of a described fragment."""
    shard, place = database.execute("SELECT shard, place FROM fragments WHERE number = ?", (number,)).fetchone()
    return str(shard), int(place)


def numbers_with(database: sqlite3.Connection, column: str, value: str) -> list[int]:
    """The fragments whose CSV column has this value."""
    question = "SELECT number FROM fragments, json_each(columns) WHERE key = ? AND value = ?"
    return [number for (number,) in database.execute(question, (column, value))]


def reference_numbers(database: sqlite3.Connection, most: int) -> Numbers:
    """The described fragments whose images have the smallest SHA-256, `most` of them at most, ascending.

    A sample that depends on what is in the collection only, not on the order in which it came.
    """
    question = "SELECT number FROM fragments WHERE refused = '' ORDER BY sha256, id LIMIT ?"
    return np.sort(np.array([number for (number,) in database.execute(question, (most,))], dtype=np.int32))


def last_number(database: sqlite3.Connection) -> int:
    """The last number that was given to a fragment; 0 if none was."""
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'fragments'").fetchone()
    return int(row[0]) if row else 0


def some_ids(database: sqlite3.Connection, most: int) -> Iterable[str]:
    return [id for (id,) in database.execute("SELECT id FROM fragments LIMIT ?", (most,))]


# The workbench reads all of them whenever something was added; most are as they were, and a path takes long to make.
@lru_cache(100_000)
def _entry(row: tuple[Any, ...]) -> Entry:
    number, id, path, columns, refused, note, glyphs = row
    return Entry(Fragment(id, Path(path), json.loads(columns)), refused, note, glyphs, number)
