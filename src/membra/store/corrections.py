"""What people corrected of what is seen on photographs: kept beside the verdicts, added to and never changed.

A correction is on the disk before `give` returns, and holds for the photograph's very bytes: of another photograph of
that name its pixels would say nothing. Which corrections a fragment was described with, the manifest knows; `index`,
`adapt` and `index --redescribe` apply those that hold, and `store/correct.py` describes a photograph again at once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from membra.errors import Invalid, MembraError, NotFound
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
    integrity,
    now,
    read,
    whole,
)

UNDO = "undo"  # the kind of an entry that takes another one back
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
    """One entry: what a person corrected of one photograph.

    Attributes
    ----------
    number : int
        In the order in which they were given; never used again.
    photograph, fragment : str
        Ids of the photograph, and of the fragment when it was corrected.
    sha256 : str
        Of the photograph's bytes: the correction holds for these.
    kind : str
        `turn`, `up`, `crop`, `paint-out`, `drop-letters`, `split`, `join`, `pieces`; or `undo`.
    value : object
        What is to be, as JSON has it, in pixels of the photograph as displayed; docs/formats.md has it for each kind.
    where : tuple of (int, int)
        The outline of the piece that is meant; none: all of the photograph.
    by, note : str
        Who said so, and why.
    at : str
        When, ISO 8601, UTC.
    undone : bool
        Whether a later entry took this one back.
    undoes : int or None
        The number of the entry that this one takes back.
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
        """What `see` is told."""
        return Fix(self.kind, self.value, self.where, self.number)


class Corrections:
    """The corrections of a collection. Open it; the file is made with the first of them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, collection_path: str | Path) -> "Corrections":
        """The corrections kept in a collection's folder; none where none was given yet."""
        return cls(file_in(collection_path, FILE))

    def give(
        self, photograph: str, fragment: str, sha256: str, fixes: Sequence[Fix], *, by: str, note: str = ""
    ) -> list[Correction]:
        """Correct one photograph; all of `fixes` or none. They are on the disk when this returns."""
        by, note = _signed(by, note)
        check_text(Message("a fragment's id"), photograph, MAX_ID)
        checked = [fix_of(fix.kind, fix.value, fix.where) for fix in fixes]
        at = now()
        entries = [
            Correction(0, photograph, fragment, sha256, fix.kind, fix.value, fix.where, by, at, note) for fix in checked
        ]
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            return [_append(database, entry) for entry in entries]

    def undo(self, number: int, *, by: str, note: str = "") -> Correction:
        """Take a correction back. The undo is an entry of its own."""
        by, note = _signed(by, note)
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            row = database.execute(f"{_ALL} WHERE c.number = ?", (whole(number),)).fetchone()
            if row is None:
                raise NotFound("there is no correction {number}; the history has the numbers", number=number)
            before = _correction(row)
            if before.kind == UNDO:
                raise Invalid(
                    "entry {number} took a correction back; give that correction again instead", number=number
                )
            if before.undone:
                raise Invalid("correction {number} was taken back already", number=number)
            undo = replace(before, kind=UNDO, value=None, by=by, at=now(), note=note, undoes=before.number)
            return _append(database, undo)

    def take(self, others: Sequence[Correction]) -> dict[int, int]:
        """Take over entries of another collection, with who and when; their numbers here, by those there.

        Those that are here already are not written again.
        """
        if not others:
            return {}
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            here = [_correction(row) for row in database.execute(f"{_ALL} ORDER BY c.number")]
            undone = {entry.undoes: entry.number for entry in here if entry.undoes is not None}
            known: dict[str, list[int]] = {}  # the same may have been said twice within a second
            for one in here:
                known.setdefault(_without_number(one), []).append(one.number)
            numbers: dict[int, int] = {}
            for other in others:
                undoes = numbers.get(other.undoes) if other.undoes else None
                if other.undoes and undoes is None:
                    continue
                if undoes in undone:  # here somebody else took it back, and that can be done once
                    numbers[other.number] = undone[undoes]
                    continue
                entry = replace(other, undoes=undoes)
                same = known.get(_without_number(entry), [])
                numbers[other.number] = same.pop(0) if same else _append(database, entry).number
            return numbers

    def history(self, photograph: str | None = None) -> list[Correction]:
        """Every entry, oldest first: all, or those of one photograph."""
        where, values = ("", ()) if photograph is None else (" WHERE c.photograph = ?", (photograph,))
        return [_correction(row) for row in read(self.path, _FORMAT, f"{_ALL}{where} ORDER BY c.number", values)]

    def standing(self) -> dict[str, list[Correction]]:
        """Those that were not taken back, by photograph, oldest first."""
        found: dict[str, list[Correction]] = {}
        for entry in self.history():
            if entry.kind != UNDO and not entry.undone:
                found.setdefault(entry.photograph, []).append(entry)
        return found

    def wrong(self) -> list[str]:
        """What `verify` has to say: whether every entry can be read and is what it should be."""
        try:
            said = integrity(self.path, _FORMAT)
            for entry in self.history():
                if entry.kind != UNDO:
                    fix_of(entry.kind, entry.value, entry.where)
        except (MembraError, ValueError, TypeError) as error:
            said = [str(error)]
        return [f"{FILE}: {one}; restore it from a copy" for one in said]


def fixes_for(standing: Mapping[str, Sequence[Correction]], photograph: str, sha256: str) -> tuple[Fix, ...]:
    """What `see` is told of a photograph with these bytes."""
    return tuple(entry.fix for entry in standing.get(photograph, ()) if entry.sha256 == sha256)


def with_fixes(folder: Path, photographs: Sequence[Fragment]) -> list[Fragment]:
    """The photographs, or fragments on them, of the collection in `folder`, with what people have corrected."""
    standing = Corrections(folder / FILE).standing()
    return [
        replace(one, fixes=fixes_for(standing, one.photograph, content_digest(one.path)))
        if one.photograph in standing
        else one
        for one in photographs
    ]


def applied(fixes: Iterable[Fix]) -> str:
    """How the manifest notes by which corrections a fragment was described: their numbers, with commas between."""
    return ",".join(str(fix.number) for fix in fixes)


def _signed(by: str, note: str) -> tuple[str, str]:
    by, note = by.strip(), note.strip()
    check_text(Message("a name"), by, MAX_NAME)
    check_text(Message("a note"), note, MAX_NOTE)
    if not by:
        raise Invalid("a correction needs the name of who makes it")
    return by, note


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
    """What makes an entry the same in two collections."""
    return repr(replace(entry, number=0, undone=False))
