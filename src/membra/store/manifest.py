"""The manifest of a collection, one SQLite file: its fragments, the shard and row of each, and the recipe."""

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

from membra.describe.recipe import DOUBTFUL, Description
from membra.errors import Damaged, Refused, Unavailable
from membra.messages import Message
from membra.sources.fragment import Fragment, split_piece
from membra.store.tensors import FileRecord

FORMAT = 4  # raised when an older membra could misread the folder
READS = ("2", "3", "4")  # formats that can be read; writing to a collection migrates it to the last
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
    place INTEGER,
    photograph TEXT NOT NULL DEFAULT '',  -- the id of the photograph: that of the fragment, or of several pieces
    piece INTEGER NOT NULL DEFAULT 0,  -- from 1 in reading order; 0 where the photograph shows one
    angle REAL,  -- degrees counter-clockwise; nothing where it cannot be told
    letter_height REAL NOT NULL DEFAULT 0,
    legibility REAL NOT NULL DEFAULT 1,
    outline TEXT NOT NULL DEFAULT '[]',  -- JSON: [[x, y], ...]
    corrected TEXT NOT NULL DEFAULT ''  -- numbers of the corrections that it was described with
);
CREATE INDEX fragments_by_path ON fragments (path);
CREATE INDEX fragments_by_sha256 ON fragments (sha256, id) WHERE refused = '';
CREATE INDEX fragments_by_photograph ON fragments (photograph);
CREATE TABLE pending (  -- what has been described anew so far, and will replace all that there is
    recipe TEXT NOT NULL,
    shard TEXT NOT NULL,  -- empty where all were refused
    batch TEXT NOT NULL  -- JSON
);
"""

# The template and values of each sentence in `fragments.refused`, as JSON, so that pages can translate it. The key is
# the sentence itself, so a row stays valid even if an older membra rewrites the fragments; older versions ignore the
# table, and sentences without a row stay English.
_REASONS = "CREATE TABLE IF NOT EXISTS reasons (refused TEXT PRIMARY KEY, message TEXT NOT NULL) WITHOUT ROWID"
_NO_REASONS = "CREATE TEMP VIEW reasons AS SELECT '' AS refused, '' AS message WHERE false"

# Added without a new format: versions that do not know the column ignore it.
_CORRECTED = "ALTER TABLE fragments ADD COLUMN corrected TEXT NOT NULL DEFAULT ''"

# From each format to the next, in the order of READS. Columns are appended in the order of `_SCHEMA`.
_MIGRATIONS = {
    "2": (),  # shards gained int8 prototypes; shards without them can still be read
    "3": (
        "ALTER TABLE fragments ADD COLUMN photograph TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE fragments ADD COLUMN piece INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE fragments ADD COLUMN angle REAL",
        "ALTER TABLE fragments ADD COLUMN letter_height REAL NOT NULL DEFAULT 0",
        "ALTER TABLE fragments ADD COLUMN legibility REAL NOT NULL DEFAULT 1",
        "ALTER TABLE fragments ADD COLUMN outline TEXT NOT NULL DEFAULT '[]'",
        "UPDATE fragments SET photograph = id",
        "CREATE INDEX fragments_by_photograph ON fragments (photograph)",
        "CREATE TABLE pending (recipe TEXT NOT NULL, shard TEXT NOT NULL, batch TEXT NOT NULL)",
        _CORRECTED,
    ),
}
# Temporary views that present an older format to readers, which change nothing, as if it had been migrated.
_VIEWS = (
    "CREATE TEMP VIEW fragments AS SELECT *, id AS photograph, 0 AS piece, NULL AS angle, 0.0 AS letter_height, "
    "1.0 AS legibility, '[]' AS outline, '' AS corrected FROM main.fragments",
    "CREATE TEMP VIEW pending AS SELECT '' AS recipe, '' AS shard, '' AS batch WHERE false",
)
_MESSAGE = "CASE refused WHEN '' THEN '' ELSE (SELECT message FROM reasons r WHERE r.refused = fragments.refused) END"
_UNCORRECTED = "CREATE TEMP VIEW fragments AS SELECT *, '' AS corrected FROM main.fragments"
MEASURED = ("angle", "letter_height", "legibility")  # fields of Description and Entry, and columns of these names
_SEEN = ("note", "glyphs", "number", "sha256", *MEASURED, "corrected")  # fields of Entry that are set by name
_ENTRY = ", ".join(("id", "path", "columns", "piece", "refused", _MESSAGE, *_SEEN))
_AT_ONCE = 500  # numbers in one query


@dataclass(frozen=True)
class Entry:
    """One row of the manifest: a fragment, described or rejected. Its outline is read with its description."""

    fragment: Fragment
    refused: str  # why it was rejected, or empty; a `Message` if its template and values are stored
    note: str
    glyphs: int
    number: int = 0  # increases in the order of insertion; kept until the fragment is removed or its image changes
    sha256: str = ""  # of the photograph's bytes
    angle: float | None = None  # rotation of the writing in degrees counter-clockwise; None if it is undetermined
    letter_height: float = 0.0  # px in the photograph; 0: not measured
    legibility: float = 1.0  # 0 to 1
    corrected: str = ""  # numbers of the corrections that it was described with, separated by commas

    @property
    def measured(self) -> dict[str, Any]:
        """The measurements made with the description, by name."""
        return {name: getattr(self, name) for name in MEASURED}

    @property
    def doubtful(self) -> bool:
        """Whether it may have no writing; such fragments never serve as references for others."""
        return DOUBTFUL in self.note.split(", ")


@dataclass(frozen=True)
class FragmentRow:
    """One row of the table `fragments`, without its number, shard and row in the shard."""

    id: str
    path: str
    sha256: str
    columns: str
    refused: str  # a `Message`, unless it was read from the database
    note: str
    glyphs: int
    photograph: str
    piece: int
    angle: float | None
    letter_height: float
    legibility: float
    outline: str
    corrected: str = ""


def row_of(fragment: Fragment, sha256: str, result: Description | Refused) -> FragmentRow:
    """Build the row of a fragment, described or rejected, whose image has this digest."""
    reason = result.message if isinstance(result, Refused) else ""
    seen = None if isinstance(result, Refused) else result
    return FragmentRow(
        id=fragment.id,
        path=str(fragment.path.absolute()),
        sha256=sha256,
        columns=json.dumps(dict(fragment.columns)),
        refused=reason,
        note=seen.note if seen else "",
        glyphs=len(seen.boxes) if seen else 0,
        photograph=fragment.photograph,
        piece=fragment.piece,
        angle=float(seen.angle) if seen and seen.angle is not None else None,
        letter_height=float(seen.letter_height) if seen else 0.0,
        legibility=float(seen.legibility) if seen else 1.0,
        outline=json.dumps(seen.outline.tolist() if seen else [], separators=(",", ":")),
        corrected=",".join(str(fix.number) for fix in fragment.fixes),
    )


def make_manifest(folder: Path, meta: Mapping[str, str]) -> None:
    """Create an empty manifest in `folder`."""
    with closing(sqlite3.connect(folder / FILE)) as database:
        database.executescript(f"PRAGMA journal_mode = WAL; {_SCHEMA}")
        with database:
            database.executemany("INSERT INTO meta VALUES (?, ?)", {"format": str(FORMAT), **meta}.items())


@contextmanager
def connect(folder: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a transaction on the manifest of `folder`: a snapshot for reading, or an exclusive atomic one to write."""
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            old = read_meta(database).get("format") in READS[:-1]
            tables = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
            if not write and old:
                for view in _VIEWS:
                    database.execute(view)
            elif "corrected" not in tables.get("fragments", "") and not old:
                database.execute(_CORRECTED if write else _UNCORRECTED)
            if write:
                database.execute(_REASONS)
            elif "reasons" not in tables:
                database.execute(_NO_REASONS)
            yield database
            database.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise Unavailable(
            "the manifest of {collection} cannot be used now ({why}); free disk space or check its permissions, then "
            "try again",
            collection=folder,
            why=error,
        ) from None
    except sqlite3.DatabaseError as error:
        raise Damaged(
            "the manifest of {collection} cannot be used ({why}); restore it from a copy", collection=folder, why=error
        ) from None


def read_meta(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT key, value FROM meta"))


def write_meta(database: sqlite3.Connection, key: str, value: str) -> None:
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def migrate(folder: Path) -> None:
    """Migrate the manifest of `folder` to the current format, which an older membra cannot read."""
    with connect(folder, write=True) as database:
        found = read_meta(database)["format"]
        for version in READS[READS.index(found) : -1]:
            for statement in _MIGRATIONS[version]:
                database.execute(statement)
        write_meta(database, "format", str(FORMAT))


def shards(database: sqlite3.Connection) -> list[tuple[FileRecord, Numbers]]:
    """Return every shard with the number of the fragment in each of its rows."""
    rows = database.execute("SELECT name, size, crc32, first_size, first_crc32, numbers FROM shards ORDER BY rowid")
    return [(FileRecord(*row[:5]), np.frombuffer(row[5], dtype="<i4")) for row in rows]


def put_shard(database: sqlite3.Connection, record: FileRecord, numbers: Numbers) -> None:
    """Insert a shard, or update the numbers of the fragments in its rows."""
    database.execute(
        "INSERT INTO shards VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET numbers = excluded.numbers",
        (*astuple(record), np.asarray(numbers, dtype="<i4").tobytes()),
    )


def put_reasons(database: sqlite3.Connection, rows: Iterable[FragmentRow]) -> None:
    """Store template and values of the reasons for rejection in some rows."""
    reasons = [(str(row.refused), row.refused.to_json()) for row in rows if isinstance(row.refused, Message)]
    database.executemany("INSERT OR REPLACE INTO reasons VALUES (?, ?)", reasons)


def put_columns(database: sqlite3.Connection, columns: Iterable[tuple[str, Mapping[str, str]]]) -> int:
    """Update columns of fragments, by id, and return how many fragments changed. Other columns stay."""
    changed = 0
    for id, said in columns:
        row = database.execute("SELECT columns FROM fragments WHERE id = ?", (id,)).fetchone()
        before = json.loads(row[0]) if row else None
        if before is not None and before != (after := {**before, **said}):
            database.execute("UPDATE fragments SET columns = ? WHERE id = ?", (json.dumps(after), id))
            changed += 1
    return changed


def entries(database: sqlite3.Connection, *, described: bool = False) -> list[Entry]:
    """Return all fragments, or the described ones, in the order of insertion."""
    only = "WHERE refused = ''" if described else ""
    return [_entry(row) for row in database.execute(f"SELECT {_ENTRY} FROM fragments {only} ORDER BY number")]


def entries_of(database: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Entry]:
    """Return the entries of some fragments, by number."""
    found: dict[int, Entry] = {}
    for first in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[first : first + _AT_ONCE])
        marks = ",".join("?" * len(some))
        rows = database.execute(f"SELECT {_ENTRY} FROM fragments WHERE number IN ({marks})", some)
        found |= {entry.number: entry for entry in map(_entry, rows)}
    return found


def entry_named(database: sqlite3.Connection, id: str, path: str = "") -> Entry | None:
    """Return the entry with this id; otherwise the most legible piece of the photograph with this id, or of the
    described photograph at this absolute path. A path ending in `#` and a number selects that piece."""
    conditions: list[tuple[str, tuple[str | int, ...]]] = [("id = ?", (id,)), ("photograph = ?", (id,))]
    if path:
        conditions += [
            ("path = ? AND refused = ''", (path,)),
            ("path = ? AND piece = ? AND refused = ''", split_piece(path)),
        ]
    for where, values in conditions:
        best = "ORDER BY refused, legibility DESC, glyphs DESC, number"
        row = database.execute(f"SELECT {_ENTRY} FROM fragments WHERE {where} {best}", values).fetchone()
        if row:
            return _entry(row)
    return None


def numbers_of(database: sqlite3.Connection, photographs: Iterable[str]) -> set[int]:
    """Return the numbers of the fragments that are stored for these photographs."""
    question = "SELECT number FROM fragments WHERE photograph = ?"
    return {number for photograph in photographs for (number,) in database.execute(question, (photograph,))}


def outlines(database: sqlite3.Connection, number: int | None = None) -> dict[int, NDArray[np.int32]]:
    """Return the outline (k, 2) of every described fragment, or of one, by number."""
    only = "" if number is None else "AND number = ?"
    question = f"SELECT number, outline FROM fragments WHERE refused = '' {only}"
    rows = database.execute(question, () if number is None else (number,))
    return {row[0]: np.array(json.loads(row[1]), dtype=np.int32).reshape(-1, 2) for row in rows}


def location_of(database: sqlite3.Connection, number: int) -> tuple[str, int]:
    """Return the shard and row of a described fragment."""
    shard, row = database.execute("SELECT shard, place FROM fragments WHERE number = ?", (number,)).fetchone()
    return str(shard), int(row)


def numbers_with(database: sqlite3.Connection, column: str, value: str) -> list[int]:
    """Return the numbers of the fragments whose metadata column has this value."""
    question = "SELECT number FROM fragments, json_each(columns) WHERE key = ? AND value = ?"
    return [number for (number,) in database.execute(question, (column, value))]


def has_column(database: sqlite3.Connection, column: str) -> bool:
    """Return whether any fragment has this metadata column."""
    question = "SELECT EXISTS (SELECT 1 FROM fragments, json_each(columns) WHERE key = ?)"
    return bool(database.execute(question, (column,)).fetchone()[0])


def reference_numbers(database: sqlite3.Connection, most: int) -> Numbers:
    """Return the numbers of up to `most` described fragments whose images have the smallest SHA-256, ascending.

    The sample depends only on the content of the collection, not on the order of insertion. Fragments that may have no
    writing are excluded.
    """
    question = "SELECT number FROM fragments WHERE refused = '' AND instr(note, ?) = 0 ORDER BY sha256, id LIMIT ?"
    found = database.execute(question, (DOUBTFUL, most))
    return np.sort(np.array([number for (number,) in found], dtype=np.int32))


def sure_count(database: sqlite3.Connection) -> int:
    """Count the described fragments that are not doubtful, from which references are taken."""
    question = "SELECT count(*) FROM fragments WHERE refused = '' AND instr(note, ?) = 0"
    return int(database.execute(question, (DOUBTFUL,)).fetchone()[0])


def last_number(database: sqlite3.Connection) -> int:
    """Return the last number assigned to a fragment; 0 if there was none."""
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'fragments'").fetchone()
    return int(row[0]) if row else 0


def shelfmarks(database: sqlite3.Connection) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield id and columns of the fragments that have a shelfmark."""
    question = "SELECT id, columns FROM fragments WHERE instr(columns, '\"shelfmark\"') ORDER BY number"
    for id, text in database.execute(question):
        columns = json.loads(text)
        if columns.get("shelfmark"):
            yield id, columns


def some_ids(database: sqlite3.Connection, most: int) -> Iterable[str]:
    return [id for (id,) in database.execute("SELECT id FROM fragments LIMIT ?", (most,))]


# Cached: the workbench reads all entries after each addition; most are unchanged, and constructing a Path is slow.
@lru_cache(100_000)
def _entry(row: tuple[Any, ...]) -> Entry:
    id, path, columns, piece, refused, message, *seen = row
    fragment = Fragment(id, Path(path), json.loads(columns), piece=piece)
    return Entry(fragment, _reason(refused, message), **dict(zip(_SEEN, seen, strict=True)))


def _reason(refused: str, message: str | None) -> str:
    """Return the reason as a `Message` if its template and values are stored, otherwise as plain text."""
    if not message:
        return refused
    try:
        found = Message.from_json(message)
    except ValueError:
        return refused
    return found if found == refused else refused
