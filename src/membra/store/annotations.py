"""Annotations of single fragments: notes, tags, bookmarks, and edits of the catalogue's metadata.

Stored beside the verdicts in an append-only file: an entry is on disk before it is acknowledged, and undoing one
appends another entry. An entry refers to a fragment's id, whatever recipe describes it. If the pieces of a photograph
are numbered anew and the id no longer exists, the entry applies to all pieces of the photograph.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from membra.errors import Invalid, NotFound
from membra.messages import Message
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
from membra.store.manifest import Entry
from membra.store.verdicts import same_person

NOTE, TAG, BOOKMARK, COLUMN = "note", "tag", "bookmark", "column"
UNDO = "undo"  # the kind of an entry that undoes another one
FILE = "annotations.sqlite"
MAX_TAG = 100  # characters

_FORMAT = 1  # PRAGMA user_version; raised when an older membra could misread the file
_SCHEMA = """
CREATE TABLE IF NOT EXISTS annotations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they were given; never used again
    photograph TEXT NOT NULL,
    fragment TEXT NOT NULL,  -- its id when this was said; that of the photograph for all pieces on it
    kind TEXT NOT NULL,
    name TEXT NOT NULL,  -- of the tag or the column
    text TEXT NOT NULL,  -- the note, or what the column is to say
    before TEXT NOT NULL,  -- what the column said
    by TEXT NOT NULL,
    at TEXT NOT NULL,  -- ISO 8601, UTC
    undoes INTEGER UNIQUE REFERENCES annotations (number)  -- the entry that this one takes back
);
CREATE INDEX IF NOT EXISTS annotations_photograph ON annotations (photograph);
"""
_COLUMNS = ("photograph", "fragment", "kind", "name", "text", "before", "by", "at", "undoes")
_ALL = (
    f"SELECT n.number, {', '.join(f'n.{name}' for name in _COLUMNS)}, u.number IS NOT NULL "
    "FROM annotations n LEFT JOIN annotations u ON u.undoes = n.number"
)


@dataclass(frozen=True)
class Annotation:
    """One entry: what a person recorded about one fragment.

    Attributes
    ----------
    number : int
        Increases in the order of entry; never reused.
    photograph, fragment : str
        Ids of the photograph, and of the fragment at the time of the entry.
    kind : str
        `note`, `tag`, `bookmark`, `column` (an edit of a metadata column), or `undo`.
    name : str
        Name of the tag or of the column.
    text : str
        The note, or the new value of the column; an empty value clears it.
    before : str
        The previous value of the column.
    by : str
        Name of the author.
    at : str
        Time of the entry, ISO 8601, UTC.
    undoes : int or None
        Number of the entry that this one undoes.
    undone : bool
        Whether a later entry undid this one.
    """

    number: int
    photograph: str
    fragment: str
    kind: str
    name: str
    text: str
    before: str
    by: str
    at: str
    undoes: int | None = None
    undone: bool = False

    @property
    def stands(self) -> bool:
        """Whether the entry is in force: neither an undo nor undone."""
        return self.kind != UNDO and not self.undone


@dataclass(frozen=True)
class Marks:
    """The tags, bookmarks and notes in force on one fragment, in the order of entry."""

    tags: tuple[str, ...] = ()
    bookmarked: tuple[str, ...] = ()  # names of the people who bookmarked it
    notes: tuple[Annotation, ...] = ()


NO_MARKS = Marks()


class Annotations:
    """The annotations of a collection. Use `open`; the file is created with the first entry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, collection_path: str | Path) -> "Annotations":
        """Open the annotations in a collection's folder; empty if there are none yet."""
        return cls(file_in(collection_path, FILE))

    def give(
        self,
        photograph: str,
        fragment: str,
        *,
        by: str,
        text: str = "",
        tags: Sequence[str] = (),
        untag: Sequence[str] = (),
        bookmark: bool | None = None,
        columns: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
        present: Sequence[str] = (),
        undo: int | None = None,
    ) -> list[Annotation]:
        """Record annotations of a fragment in one transaction and return the entries written, which are then on disk.

        `columns`: fragment id -> column -> (old value, new value); the pieces of a photograph may have different old
        values. `present`: ids of the fragments that the photograph shows now. A tag or bookmark that the same person
        has already set, and that is in force, is not written again. `undo`: number of an entry to undo as well.
        """
        by = _signed(by)
        check_text(Message("a note"), text.strip(), MAX_NOTE)
        check_text(Message("a fragment's id"), fragment, MAX_ID)
        tags, untag = [tag_of(one) for one in tags], [tag_of(one) for one in untag]
        at = now()
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            rows = database.execute(f"{_ALL} WHERE n.photograph = ? ORDER BY n.number", (photograph,))
            standing = [one for one in map(_annotation, rows) if one.stands and _is_of(one, fragment, present)]

            def entry(kind: str, name: str = "", text: str = "", before: str = "") -> Annotation:
                return Annotation(0, photograph, fragment, kind, name, text, before, by, at)

            own = {(one.kind, one.name) for one in standing if same_person(one.by, by)}
            given = [entry(TAG, name) for name in dict.fromkeys(tags) if (TAG, name) not in own]
            given += [entry(BOOKMARK)] if bookmark and (BOOKMARK, "") not in own else []
            given += [entry(NOTE, text=text.strip())] if text.strip() else []
            given += [
                replace(entry(COLUMN, name, after, before), fragment=id)
                for id, said in (columns or {}).items()
                for name, (before, after) in said.items()
            ]
            gone = [one for one in standing if one.kind == TAG and one.name in untag]
            missing = set(untag) - {one.name for one in gone}
            if missing:
                raise NotFound("{id} has no tag {tag}", id=fragment, tag=min(missing))
            if bookmark is False:
                gone += [one for one in standing if one.kind == BOOKMARK and same_person(one.by, by)]
            if undo is not None and undo not in {one.number for one in gone}:
                gone.append(_undoable(database, undo))
            given += [_undoing(one, by, at) for one in gone]
            return [_append(database, one) for one in given]

    def undo(self, number: int, *, by: str) -> Annotation:
        """Undo an entry and return the entry written. A column's value follows when `Writer.settle` runs."""
        by = _signed(by)
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            return _append(database, _undoing(_undoable(database, number), by, now()))

    def entry(self, number: int) -> Annotation:
        """Return the entry with this number."""
        found = next((one for one in self.history() if one.number == number), None)
        if found is None:
            raise NotFound("there is no entry {number}; the history lists the numbers", number=number)
        return found

    def history(self, photograph: str | None = None) -> list[Annotation]:
        """Return every entry, or those of one photograph, oldest first."""
        where, values = ("", ()) if photograph is None else (" WHERE n.photograph = ?", (photograph,))
        return [_annotation(row) for row in read(self.path, _FORMAT, f"{_ALL}{where} ORDER BY n.number", values)]

    def last(self) -> int:
        """Return the number of the last entry, which changes with every entry; 0 if there is none."""
        found = read(self.path, _FORMAT, "SELECT max(number) FROM annotations")
        return int(found[0][0] or 0) if found else 0

    def take(self, others: Sequence[Annotation]) -> None:
        """Copy entries of another collection, with author and time; entries that are already here stay unchanged."""
        if not others:
            return
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            here = [_annotation(row) for row in database.execute(f"{_ALL} ORDER BY n.number")]
            numbers: dict[int | None, int | None] = {None: None}
            undone = {one.undoes: one.number for one in here if one.undoes is not None}
            known: dict[str, list[int]] = {}  # lists: two entries of the same second may have the same content
            for one in here:
                known.setdefault(_content(one), []).append(one.number)
            for other in others:
                if other.undoes in numbers:
                    entry = replace(other, undoes=numbers[other.undoes])
                    if entry.undoes in undone:  # already undone here, and an entry can be undone only once
                        numbers[other.number] = undone[entry.undoes]
                        continue
                    same = known.get(_content(entry), [])
                    numbers[other.number] = same.pop(0) if same else _append(database, entry).number

    def wrong(self) -> list[str]:
        """Check that every entry can be read; return the problems for `verify`."""
        return problems_in(self.path, _FORMAT, self.history)


def by_fragment(annotations: Iterable[Annotation], on: Mapping[str, Sequence[str]]) -> dict[str, list[Annotation]]:
    """Group annotations by fragment id; `on`: the ids of the fragments that each photograph shows now."""
    found: dict[str, list[Annotation]] = {}
    for one in annotations:
        ids = on.get(one.photograph, ())
        for id in [one.fragment] if one.fragment in ids else ids:
            found.setdefault(id, []).append(one)
    return found


def marks_of(annotations: Iterable[Annotation], on: Mapping[str, Sequence[str]]) -> dict[str, Marks]:
    """Return the tags, bookmarks and notes of each fragment that has any."""
    found = {}
    for id, own in by_fragment((one for one in annotations if one.stands and one.kind != COLUMN), on).items():
        tags = tuple(dict.fromkeys(one.name for one in own if one.kind == TAG))
        people = tuple(dict.fromkeys(one.by for one in own if one.kind == BOOKMARK))
        found[id] = Marks(tags, people, tuple(one for one in own if one.kind == NOTE))
    return found


def marks_in(folder: Path, entries: Iterable[Entry]) -> dict[str, Marks]:
    """Return the tags, bookmarks and notes of the fragments in `folder`, a collection with these `entries`."""
    return marks_of(Annotations(folder / FILE).history(), on_photographs(entries))


def on_photographs(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Group fragment ids by photograph."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(entry.fragment.photograph, []).append(entry.fragment.id)
    return found


def tag_of(text: str) -> str:
    """Normalize a tag for storage: Unicode NFC, single spaces.

    >>> tag_of("  to   check ")
    'to check'
    """
    tag = unicodedata.normalize("NFC", " ".join(text.split()))
    check_text(Message("a tag"), tag, MAX_TAG)
    if not tag or not tag.isprintable():
        raise Invalid("{tag} is not a valid tag; give a word", tag=repr(text[:40]))
    return tag


def _is_of(one: Annotation, fragment: str, present: Sequence[str]) -> bool:
    return one.fragment == fragment or one.fragment not in (present or (fragment,))


def _signed(by: str) -> str:
    check_text(Message("a name"), by.strip(), MAX_NAME)
    if not by.strip():
        raise Invalid("a note, tag or other entry needs the name of its author")
    return by.strip()


def _undoable(database: Any, number: int) -> Annotation:
    """Return the entry with this number if it can be undone; raise an error otherwise."""
    row = database.execute(f"{_ALL} WHERE n.number = ?", (whole(number),)).fetchone()
    if row is None:
        raise NotFound("there is no entry {number}; the history lists the numbers", number=number)
    found = _annotation(row)
    if found.kind == UNDO:
        raise Invalid(
            "entry {number} is an undo and cannot be undone; repeat the original entry instead", number=number
        )
    if found.undone:
        raise Invalid("entry {number} is already undone", number=number)
    return found


def _undoing(one: Annotation, by: str, at: str) -> Annotation:
    return replace(one, kind=UNDO, by=by, at=at, undoes=one.number)


def _append(database: Any, entry: Annotation) -> Annotation:
    values = [getattr(entry, name) for name in _COLUMNS]
    marks = ", ".join("?" * len(values))
    question = f"INSERT INTO annotations ({', '.join(_COLUMNS)}) VALUES ({marks}) RETURNING number"
    (number,) = database.execute(question, values).fetchone()
    return replace(entry, number=int(number), undone=False)


def _annotation(row: Sequence[Any]) -> Annotation:
    *values, undone = row
    return replace(Annotation(*values), undone=bool(undone))


def _content(entry: Annotation) -> str:
    """Return a key that is equal for the same entry in two collections."""
    return repr(replace(entry, number=0, undone=False))
