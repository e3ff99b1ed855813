"""Placements of two fragments relative to each other, stored beside the verdicts in an append-only file.

A placement is on disk before `place` returns. The last one that was not undone holds.
"""

import math
from dataclasses import astuple, dataclass
from pathlib import Path

from membra.errors import Invalid, NotFound
from membra.messages import Message
from membra.store.append_only import MAX_ID, MAX_NAME, appending, check_text, file_in, now, problems_in, read, whole
from membra.store.verdicts import in_order

FILE = "placements.sqlite"
UNITS = ("mm", "letters")  # of the table: millimetres, or letter heights if the scale is unknown
MAX_APART = 100_000.0  # units from the centre of the table: 100 m, far beyond any table

_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS placements (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    a TEXT NOT NULL,
    b TEXT NOT NULL CHECK (a < b),
    unit TEXT NOT NULL,
    x_a REAL NOT NULL, y_a REAL NOT NULL, turn_a REAL NOT NULL,
    x_b REAL NOT NULL, y_b REAL NOT NULL, turn_b REAL NOT NULL,
    by TEXT NOT NULL,
    at TEXT NOT NULL,  -- ISO 8601, UTC
    undoes INTEGER UNIQUE REFERENCES placements (number)  -- the entry that this one takes back
);
CREATE INDEX IF NOT EXISTS placements_pair ON placements (a, b);
"""
_ALL = "SELECT number, a, b, unit, x_a, y_a, turn_a, x_b, y_b, turn_b, by, at FROM placements p"


@dataclass(frozen=True)
class Lies:
    """Position of one fragment: its centre on the table, x to the right, y down, and its rotation."""

    x: float
    y: float
    turn: float = 0.0  # degrees clockwise beyond upright


@dataclass(frozen=True)
class Placement:
    """The positions of two fragments on one table."""

    number: int
    a: str  # ids, a < b
    b: str
    unit: str  # one of `UNITS`
    lies_a: Lies
    lies_b: Lies
    by: str
    at: str


class Placements:
    """The placements of a collection. Use `open`; the file is created with the first placement."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, collection_path: str | Path) -> "Placements":
        """Open the placements in a collection's folder; empty if there are none yet."""
        return cls(file_in(collection_path, FILE))

    def place(self, a: str, b: str, lies_a: Lies, lies_b: Lies, *, unit: str, by: str) -> Placement:
        """Record a placement of two fragments. It is on disk when this returns; earlier placements stay in the file."""
        if unit not in UNITS:
            raise Invalid("the unit of a placement is one of {units}, not {unit}", units=UNITS, unit=repr(unit[:40]))
        by = by.strip()
        check_text(Message("a name"), by, MAX_NAME)
        for id in (a, b):
            check_text(Message("a fragment's id"), id, MAX_ID)
        if not by:
            raise Invalid("a placement needs the name of its author")
        values = (*astuple(lies_a), *astuple(lies_b))
        if not all(math.isfinite(value) and abs(value) <= MAX_APART for value in values):
            raise Invalid("a fragment must lie within {most} units of the middle of the table", most=int(MAX_APART))
        first, second = in_order(a, b)
        own = (lies_a, lies_b) if first == a else (lies_b, lies_a)
        at = now()
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            row = database.execute(
                "INSERT INTO placements (a, b, unit, x_a, y_a, turn_a, x_b, y_b, turn_b, by, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
                (first, second, unit, *astuple(own[0]), *astuple(own[1]), by, at),
            ).fetchone()
        return Placement(int(row[0]), first, second, unit, *own, by, at)

    def undo(self, number: int, *, by: str) -> None:
        """Undo a placement; the previous one, if there is one, holds again."""
        by = by.strip()
        check_text(Message("a name"), by, MAX_NAME)
        if not by:
            raise Invalid("a placement needs the name of its author")
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            row = database.execute(
                "SELECT a, b, unit, x_a, y_a, turn_a, x_b, y_b, turn_b FROM placements p WHERE number = ? "
                "AND undoes IS NULL AND NOT EXISTS (SELECT 1 FROM placements u WHERE u.undoes = p.number)",
                (whole(number),),
            ).fetchone()
            if row is None:
                raise NotFound("there is no placement {number} to undo", number=number)
            database.execute(
                "INSERT INTO placements (a, b, unit, x_a, y_a, turn_a, x_b, y_b, turn_b, by, at, undoes) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, by, now(), number),
            )

    def of(self, a: str, b: str) -> Placement | None:
        """Return the placement in force for a pair, with a < b whatever the order of the arguments; None if absent."""
        query = (
            f"{_ALL} WHERE a = ? AND b = ? AND undoes IS NULL "
            "AND NOT EXISTS (SELECT 1 FROM placements u WHERE u.undoes = p.number) ORDER BY number DESC LIMIT 1"
        )
        rows = read(self.path, _FORMAT, query, in_order(a, b))
        if not rows:
            return None
        number, first, second, unit, *lies, by, at = rows[0]
        return Placement(number, first, second, unit, Lies(*lies[:3]), Lies(*lies[3:]), by, at)

    def wrong(self) -> list[str]:
        """Check that every entry can be read; return the problems for `verify`."""
        return problems_in(self.path, _FORMAT, lambda: read(self.path, _FORMAT, _ALL))
