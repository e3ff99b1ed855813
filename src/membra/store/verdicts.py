"""What scholars decided about pairs of fragments: kept beside the collection, added to and never changed.

A verdict is on the disk before `give` returns. Nothing is ever deleted: taking one back is an entry of its own, so
that the history shows who decided what, when and why, mistakes included.

Each person has a verdict of her own on a pair, her newest; nobody's takes the place of another's. Where one says
`join` and another `no` or `same hand`, the pair is disputed, and nothing holds for it until they agree: it joins
nothing, separates nothing, and teaches the likelihoods nothing.
"""

import sqlite3
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from membra.errors import Invalid
from membra.messages import Message
from membra.store.append_only import (
    MAX_ID,
    MAX_NAME,
    MAX_NOTE,
    appending,
    check_text,
    file_in,
    now,
    read,
    whole,
)

SAYS = ("join", "same hand", "unsure", "no")
UNDO = "undo"  # what an entry says that takes another one back
AGAINST = ("no", "same hand")  # what is said of two fragments that are of two manuscripts
DISPUTED = "disputed"  # what is said in place of a verdict where people contradict each other
FILE = "verdicts.sqlite"

_FORMAT = 1  # PRAGMA user_version; raised when an older membra could misread the file
_SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they were given; never used again
    a TEXT NOT NULL,
    b TEXT NOT NULL CHECK (a < b),
    says TEXT NOT NULL,
    by TEXT NOT NULL,
    at TEXT NOT NULL,  -- ISO 8601, UTC
    note TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES verdicts (number)  -- the entry that this one takes back
);
CREATE INDEX IF NOT EXISTS verdicts_a ON verdicts (a);
CREATE INDEX IF NOT EXISTS verdicts_b ON verdicts (b);
"""
_ALL = (
    "SELECT v.number, v.a, v.b, v.says, v.by, v.at, v.note, u.number IS NOT NULL, v.undoes "
    "FROM verdicts v LEFT JOIN verdicts u ON u.undoes = v.number"
)


@dataclass(frozen=True)
class Verdict:
    """One entry: what a person said of two fragments.

    Attributes
    ----------
    number : int
        In the order in which they were given; never used again.
    a, b : str
        Ids of the fragments, a < b.
    says : str
        One of `SAYS`, or `undo`.
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
    a: str
    b: str
    says: str
    by: str
    at: str
    note: str
    undone: bool = False
    undoes: int | None = None


@dataclass(frozen=True)
class PairVerdicts:
    """What people say of one pair.

    Attributes
    ----------
    a, b : str
        Ids of the fragments, a < b.
    each : tuple of Verdict
        The newest of each person that was not taken back, oldest first; at least one.
    since : tuple of int
        For each, the number of the verdict by which this person came to say so.
    """

    a: str
    b: str
    each: tuple[Verdict, ...]
    since: tuple[int, ...]

    @property
    def disputed(self) -> bool:
        """Whether one says that they are of one manuscript, and another that they are not."""
        said = {verdict.says for verdict in self.each}
        return "join" in said and not said.isdisjoint(AGAINST)

    @property
    def holds(self) -> Verdict | None:
        """The newest that is sure, or else the newest; None where the pair is disputed."""
        if self.disputed:
            return None
        return ([verdict for verdict in self.each if verdict.says != "unsure"] or self.each)[-1]

    @property
    def says(self) -> str:
        """What holds, or `disputed`."""
        return self.holds.says if self.holds else DISPUTED

    def of(self, by: str) -> Verdict | None:
        """The verdict of this person; None where she gave none."""
        return next((verdict for verdict in self.each if same_person(verdict.by, by)), None)

    def waits_for(self, by: str) -> bool:
        """Whether a dispute is news to this person: she gave no verdict, or none since another contradicted her; or,
        where she is unsure, since another came to say what is disputed."""
        own = self.of(by)
        if own is None:
            return self.disputed
        others = {"join": AGAINST, "unsure": ("join", *AGAINST)}.get(own.says, ("join",))
        return self.disputed and any(
            verdict.says in others and began > own.number for verdict, began in zip(self.each, self.since, strict=True)
        )


class Verdicts:
    """The verdicts on a collection. Open it; the file is made with the first verdict."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, collection_path: str | Path) -> "Verdicts":
        """The verdicts kept in a collection's folder; none where none was given yet."""
        return cls(file_in(collection_path, FILE))

    def give(self, a: str, b: str, says: str, *, by: str, note: str = "") -> Verdict:
        """Say something of two fragments. It is on the disk when this returns; an earlier verdict stays in history."""
        if says not in SAYS:
            raise Invalid("a verdict says one of {verdicts}, not {said}", verdicts=SAYS, said=repr(says[:40]))
        a, b = in_order(a, b)
        by, note = by.strip(), note.strip()
        check_text(Message("a name"), by, MAX_NAME)
        check_text(Message("a note"), note, MAX_NOTE)
        check_text(Message("a fragment's id"), b, MAX_ID)
        if not by:
            raise Invalid("a verdict needs the name of who gives it")
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            return self._append(database, a, b, says, by, note, None)

    def undo(self, number: int, *, by: str, note: str = "") -> Verdict:
        """Take a verdict back; the one before it, if there is one, holds again. The undo is an entry of its own."""
        by = by.strip()
        check_text(Message("a name"), by, MAX_NAME)
        if not by:
            raise Invalid("taking a verdict back needs the name of who does it")
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            row = database.execute(f"{_ALL} WHERE v.number = ?", (whole(number),)).fetchone()
            if row is None:
                raise Invalid("there is no verdict {number}; the history has the numbers", number=number)
            verdict = _verdict(row)
            if verdict.says == UNDO:
                raise Invalid("entry {number} took a verdict back; give that verdict again instead", number=number)
            if verdict.undone:
                raise Invalid("verdict {number} was taken back already", number=number)
            return self._append(database, verdict.a, verdict.b, UNDO, by, note.strip(), verdict.number)

    def history(self, a: str | None = None, b: str | None = None) -> list[Verdict]:
        """Every entry, oldest first: all, those with one fragment, or those of one pair."""
        if a is None or b is None:
            one = a if a is not None else b
            where, values = ("", ()) if one is None else (" WHERE v.a = ? OR v.b = ?", (one, one))
        else:
            where, values = " WHERE v.a = ? AND v.b = ?", in_order(a, b)
        return [_verdict(row) for row in read(self.path, _FORMAT, f"{_ALL}{where} ORDER BY v.number", values)]

    def pairs(self) -> dict[tuple[str, str], PairVerdicts]:
        """What people say of each pair, by its ids, the smaller first; in the order of the newest verdict on it."""
        return by_pair(self.history())

    def standing(self) -> list[Verdict]:
        """The verdict that holds for each pair of which people agree. In the order in which they were given."""
        return standing_in(self.pairs())

    def groups(self) -> list[list[str]]:
        """Fragments connected by verdicts that say `join`, two or more in each group, everything sorted."""
        return groups_of(self.standing())

    def joins(self) -> dict[str, str]:
        """The confirmed joins as a joins file has them: for each fragment's id, its group's name (its first id)."""
        return {id: group[0] for group in self.groups() for id in group}

    def _append(
        self, database: sqlite3.Connection, a: str, b: str, says: str, by: str, note: str, undoes: int | None
    ) -> Verdict:
        at = now()
        row = database.execute(
            "INSERT INTO verdicts (a, b, says, by, at, note, undoes) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (a, b, says, by, at, note, undoes),
        ).fetchone()
        return Verdict(int(row[0]), a, b, says, by, at, note, False, undoes)


def by_pair(history: Sequence[Verdict]) -> dict[tuple[str, str], PairVerdicts]:
    """What people say of each pair, after a history that is in order."""
    found: dict[tuple[str, str], dict[str, tuple[Verdict, int]]] = {}
    for verdict in history:
        if verdict.says == UNDO or verdict.undone:
            continue
        voices = found.pop((verdict.a, verdict.b), {})  # the pair of the newest verdict comes last, as does its voice
        before = voices.pop(person_key(verdict.by), None)
        same = before is not None and before[0].says == verdict.says
        voices[person_key(verdict.by)] = (verdict, before[1] if before and same else verdict.number)
        found[verdict.a, verdict.b] = voices
    return {
        (a, b): PairVerdicts(a, b, tuple(v for v, _ in voices.values()), tuple(since for _, since in voices.values()))
        for (a, b), voices in found.items()
    }


def standing_in(pairs: Mapping[tuple[str, str], PairVerdicts]) -> list[Verdict]:
    """The verdict that holds for each pair of which people agree, in the order in which they were given."""
    return sorted((pair.holds for pair in pairs.values() if pair.holds), key=lambda verdict: verdict.number)


def person_key(name: str) -> str:
    """What a person is known by: her name, in whatever capitals and spaces it was typed."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def same_person(one: str, other: str) -> bool:
    """Whether two names are of one person."""
    return person_key(one) == person_key(other)


def groups_of(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Fragments connected by those of `verdicts` that say `join`, everything sorted."""
    group_of: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.says == "join":
            one, other = (group_of.setdefault(id, [id]) for id in (verdict.a, verdict.b))
            if one is not other:
                small, large = sorted((one, other), key=len)
                large += small
                group_of.update(dict.fromkeys(small, large))
    return sorted(sorted(group) for group in {id(group): group for group in group_of.values()}.values())


def in_order(a: str, b: str) -> tuple[str, str]:
    """A pair the way it is kept: the smaller id first. A fragment and itself are no pair."""
    if a == b:
        raise Invalid("{id} is one fragment; a verdict is about two", id=a)
    return (a, b) if a < b else (b, a)


def _verdict(row: Sequence[Any]) -> Verdict:
    number, a, b, says, by, at, note, undone, undoes = row
    return Verdict(number, a, b, says, by, at, note, bool(undone), undoes)
