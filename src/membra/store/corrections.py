"""Corrections of how photographs are read, stored beside the verdicts in an append-only file.

A correction is on disk before `give` returns. It holds only for a photograph with the same bytes: in another image of
that name its pixel coordinates would be meaningless. The manifest records which corrections a fragment was described
with; `index`, `adapt` and `index --redescribe` apply those in force, and `store/correct.py` describes a photograph
again at once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from membra.errors import Invalid, NotFound
from membra.files import content_digest
from membra.messages import Message
from membra.sources.fix import Fix, fix_of
from membra.sources.fragment import Fragment
from membra.store.append_only import (
    MAX_ID,
    MAX_NAME,
    MAX_NOTE,
    appending,
    check_text,
    file_in,
    now,
    problems_in,
    read,
    whole,
)

UNDO = "undo"  # the kind of an entry that undoes another one
FILE = "corrections.sqlite"

_FORMAT = 1  # PRAGMA user_version; raised when an older membra could misread the file
_SCHEMA = """
CREATE TABLE IF NOT EXISTS corrections (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they were given; never used again
    photograph TEXT NOT NULL,
    fragment TEXT NOT NULL,  -- its id when it was corrected
    sha256 TEXT NOT NULL,  -- of the photograph's bytes
    kind TEXT NOT NULL,
    value TEXT NOT NULL,  -- JSON
    place TEXT NOT NULL,  -- JSON: [[x, y], ...] around the piece that is meant; [] for all of the photograph
    by TEXT NOT NULL,
    at TEXT NOT NULL,  -- ISO 8601, UTC
    note TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES corrections (number)  -- the entry that this one takes back
);
CREATE INDEX IF NOT EXISTS corrections_photograph ON corrections (photograph);
"""
_COLUMNS = "photograph, fragment, sha256, kind, value, place, by, at, note"
_ALL = (
    f"SELECT c.number, {', '.join(f'c.{name}' for name in _COLUMNS.split(', '))}, u.number IS NOT NULL, c.undoes "
    "FROM corrections c LEFT JOIN corrections u ON u.undoes = c.number"
)


@dataclass(frozen=True)
class Correction:
    """One entry: a person's correction of one photograph.

    Attributes
    ----------
    number : int
        Increases in the order of entry; never reused.
    photograph, fragment : str
        Ids of the photograph, and of the fragment at the time of the correction.
    sha256 : str
        SHA-256 of the photograph's bytes; the correction holds only for these.
    kind : str
        `turn`, `up`, `crop`, `paint-out`, `drop-letters`, `split`, `join`, `pieces`; or `undo`.
    value : object
        The corrected value as JSON, in pixels of the photograph as displayed; docs/formats.md describes each kind.
    where : tuple of (int, int)
        The outline of the corrected piece; empty for the whole photograph.
    by, note : str
        Name of the author, and the reason.
    at : str
        Time of the entry, ISO 8601, UTC.
    undone : bool
        Whether a later entry undid this one.
    undoes : int or None
        Number of the entry that this one undoes.
    """

    number: int
    photograph: str
    fragment: str
    sha256: str
    kind: str
    value: Any
    where: tuple[tuple[int, int], ...]
    by: str
    at: str
    note: str = ""
    undone: bool = False
    undoes: int | None = None

    @property
    def fix(self) -> Fix:
        """The correction in the form that `see` applies."""
        return Fix(self.kind, self.value, self.where, self.number)


class Corrections:
    """The corrections of a collection. Use `open`; the file is created with the first entry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, collection_path: str | Path) -> "Corrections":
        """Open the corrections in a collection's folder; empty if there are none yet."""
        return cls(file_in(collection_path, FILE))

    def give(
        self,
        photograph: str,
        fragment: str,
        sha256: str,
        fixes: Sequence[Fix],
        *,
        by: str,
        note: str = "",
        undo: int | None = None,
    ) -> list[Correction]:
        """Record `fixes` for one photograph, and undo the correction with number `undo`, in one transaction.

        The entries are on disk when this returns.
        """
        by, note = _signed(by, note)
        check_text(Message("a fragment's id"), photograph, MAX_ID)
        checked = [fix_of(fix.kind, fix.value, fix.where) for fix in fixes]
        at = now()
        entries = [
            Correction(0, photograph, fragment, sha256, fix.kind, fix.value, fix.where, by, at, note) for fix in checked
        ]
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            if undo is not None:
                entries.append(_undoing(database, undo, by, at, note))
            return [_append(database, entry) for entry in entries]

    def undo(self, number: int, *, by: str, note: str = "") -> Correction:
        """Undo a correction by appending an entry of kind `undo`."""
        by, note = _signed(by, note)
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            return _append(database, _undoing(database, number, by, now(), note))

    def take(self, others: Sequence[Correction]) -> dict[int, int]:
        """Copy entries of another collection, with author and time; return a map of their numbers there to those here.

        Entries that are already here are not written again.
        """
        if not others:
            return {}
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            here = [_correction(row) for row in database.execute(f"{_ALL} ORDER BY c.number")]
            undone = {entry.undoes: entry.number for entry in here if entry.undoes is not None}
            known: dict[str, list[int]] = {}  # lists: two entries of the same second may have the same content
            for one in here:
                known.setdefault(_without_number(one), []).append(one.number)
            numbers: dict[int, int] = {}
            for other in others:
                undoes = numbers.get(other.undoes) if other.undoes else None
                if other.undoes and undoes is None:
                    continue
                if undoes in undone:  # already undone here, and an entry can be undone only once
                    numbers[other.number] = undone[undoes]
                    continue
                entry = replace(other, undoes=undoes)
                same = known.get(_without_number(entry), [])
                numbers[other.number] = same.pop(0) if same else _append(database, entry).number
            return numbers

    def history(self, photograph: str | None = None) -> list[Correction]:
        """Return every entry, or those of one photograph, oldest first."""
        where, values = ("", ()) if photograph is None else (" WHERE c.photograph = ?", (photograph,))
        return [_correction(row) for row in read(self.path, _FORMAT, f"{_ALL}{where} ORDER BY c.number", values)]

    def standing(self) -> dict[str, list[Correction]]:
        """Return the corrections that are not undone, by photograph, oldest first."""
        found: dict[str, list[Correction]] = {}
        for entry in self.history():
            if entry.kind != UNDO and not entry.undone:
                found.setdefault(entry.photograph, []).append(entry)
        return found

    def wrong(self) -> list[str]:
        """Check that every entry can be read and is valid; return the problems for `verify`."""

        def read_all() -> None:
            for entry in self.history():
                if entry.kind != UNDO:
                    fix_of(entry.kind, entry.value, entry.where)

        return problems_in(self.path, _FORMAT, read_all)


def fixes_for(standing: Mapping[str, Sequence[Correction]], photograph: str, sha256: str) -> tuple[Fix, ...]:
    """Return the fixes in force for a photograph with these bytes."""
    return tuple(entry.fix for entry in standing.get(photograph, ()) if entry.sha256 == sha256)


def with_fixes(folder: Path, photographs: Sequence[Fragment]) -> list[Fragment]:
    """Attach the corrections in force to photographs, or fragments on them, of the collection in `folder`."""
    standing = Corrections(folder / FILE).standing()
    return [
        replace(one, fixes=fixes_for(standing, one.photograph, content_digest(one.path)))
        if one.photograph in standing
        else one
        for one in photographs
    ]


def applied(fixes: Iterable[Fix]) -> str:
    """Format the manifest's `corrected` column: the numbers of the applied corrections, separated by commas."""
    return ",".join(str(fix.number) for fix in fixes)


def _signed(by: str, note: str) -> tuple[str, str]:
    by, note = by.strip(), note.strip()
    check_text(Message("a name"), by, MAX_NAME)
    check_text(Message("a note"), note, MAX_NOTE)
    if not by:
        raise Invalid("a correction needs the name of its author")
    return by, note


def _undoing(database: Any, number: int, by: str, at: str, note: str) -> Correction:
    """Return the entry that undoes the correction with this number; raise an error if it cannot be undone."""
    row = database.execute(f"{_ALL} WHERE c.number = ?", (whole(number),)).fetchone()
    if row is None:
        raise NotFound("there is no correction {number}; the history lists the numbers", number=number)
    before = _correction(row)
    if before.kind == UNDO:
        raise Invalid(
            "entry {number} is an undo and cannot be undone; make the original correction again instead", number=number
        )
    if before.undone:
        raise Invalid("correction {number} is already undone", number=number)
    return replace(before, kind=UNDO, value=None, by=by, at=at, note=note, undoes=before.number)


def _append(database: Any, entry: Correction) -> Correction:
    values = (
        *(entry.photograph, entry.fragment, entry.sha256, entry.kind, json.dumps(entry.value)),
        *(json.dumps(entry.where), entry.by, entry.at, entry.note, entry.undoes),
    )
    marks = ", ".join("?" * len(values))
    question = f"INSERT INTO corrections ({_COLUMNS}, undoes) VALUES ({marks}) RETURNING number"
    (number,) = database.execute(question, values).fetchone()
    return replace(entry, number=int(number), undone=False)


def _correction(row: Sequence[Any]) -> Correction:
    number, photograph, fragment, sha256, kind, value, place, by, at, note, undone, undoes = row
    where = tuple((int(x), int(y)) for x, y in json.loads(place))
    return Correction(
        number, photograph, fragment, sha256, kind, json.loads(value), where, by, at, note, bool(undone), undoes
    )


def _without_number(entry: Correction) -> str:
    """Return a key that is equal for the same entry in two collections."""
    return repr(replace(entry, number=0, undone=False))
