"""Verdicts of scholars on pairs of fragments, in an append-only file in the collection's folder.

A verdict is on disk before `give` returns. Nothing is ever deleted: an undo is an entry too, so that the history shows
who decided what, when and why, mistakes included.

Each person's newest verdict on a pair counts; it never replaces another person's. If one person's is `join` and
another's `no` or `same hand`, the pair is disputed, and no verdict holds until they agree: the pair does not join or
separate fragments, and is not used to fit the probabilities.
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
    problems_in,
    read,
    whole,
)

SAYS = ("join", "same hand", "unsure", "no")
UNDO = "undo"  # `says` of an entry that undoes another one
AGAINST = ("no", "same hand")  # verdicts by which two fragments are of two manuscripts
DISPUTED = "disputed"  # reported instead of a verdict if people contradict each other
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
    """One entry: a person's verdict on two fragments, or an undo.

    Attributes
    ----------
    number : int
        Increases in the order of entry; never reused.
    a, b : str
        Ids of the fragments, a < b.
    says : str
        One of `SAYS`, or `undo`.
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
    """The verdicts of all people on one pair.

    Attributes
    ----------
    a, b : str
        Ids of the fragments, a < b.
    each : tuple of Verdict
        The newest verdict of each person that was not undone, oldest first; at least one.
    since : tuple of int
        For each, the number of the first in this person's unbroken run of equal verdicts.
    """

    a: str
    b: str
    each: tuple[Verdict, ...]
    since: tuple[int, ...]

    @property
    def disputed(self) -> bool:
        """Whether one person's verdict is `join`, and another's is in `AGAINST`."""
        said = {verdict.says for verdict in self.each}
        return "join" in said and not said.isdisjoint(AGAINST)

    @property
    def holds(self) -> Verdict | None:
        """The newest verdict that is not `unsure`, or else the newest; None if the pair is disputed."""
        if self.disputed:
            return None
        return ([verdict for verdict in self.each if verdict.says != "unsure"] or self.each)[-1]

    @property
    def says(self) -> str:
        """The value of the verdict that holds, or `disputed`."""
        return self.holds.says if self.holds else DISPUTED

    def of(self, by: str) -> Verdict | None:
        """Return the verdict of this person, or None."""
        return next((verdict for verdict in self.each if same_person(verdict.by, by)), None)

    def waits_for(self, by: str) -> bool:
        """Return whether the pair is disputed and awaits this person's decision.

        It does if the person gave no verdict, or none since another person gave a contradicting one; for a person who
        is `unsure`, since another person gave a verdict that is part of the dispute.
        """
        own = self.of(by)
        if own is None:
            return self.disputed
        others = {"join": AGAINST, "unsure": ("join", *AGAINST)}.get(own.says, ("join",))
        return self.disputed and any(
            verdict.says in others and began > own.number for verdict, began in zip(self.each, self.since, strict=True)
        )


class Verdicts:
    """The verdicts on a collection. Use `open`; the file is created with the first verdict."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, collection_path: str | Path) -> "Verdicts":
        """Open the verdicts in a collection's folder; empty if there are none yet."""
        return cls(file_in(collection_path, FILE))

    def give(self, a: str, b: str, says: str, *, by: str, note: str = "") -> Verdict:
        """Record a verdict on two fragments. It is on disk when this returns; earlier verdicts stay in the history."""
        if says not in SAYS:
            raise Invalid("a verdict is one of {verdicts}, not {said}", verdicts=SAYS, said=repr(says[:40]))
        a, b = in_order(a, b)
        by, note = by.strip(), note.strip()
        check_text(Message("a name"), by, MAX_NAME)
        check_text(Message("a note"), note, MAX_NOTE)
        check_text(Message("a fragment's id"), b, MAX_ID)
        if not by:
            raise Invalid("a verdict needs the name of its author")
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            return self._append(database, a, b, says, by, note, None)

    def undo(self, number: int, *, by: str, note: str = "") -> Verdict:
        """Undo a verdict by appending an entry; the previous verdict, if there is one, holds again."""
        by = by.strip()
        check_text(Message("a name"), by, MAX_NAME)
        check_text(Message("a note"), note, MAX_NOTE)
        if not by:
            raise Invalid("an undo needs the name of its author")
        with appending(self.path, _FORMAT, _SCHEMA) as database:
            row = database.execute(f"{_ALL} WHERE v.number = ?", (whole(number),)).fetchone()
            if row is None:
                raise Invalid("there is no verdict {number}; the history lists the numbers", number=number)
            verdict = _verdict(row)
            if verdict.says == UNDO:
                raise Invalid(
                    "entry {number} is an undo and cannot be undone; give the original verdict again instead",
                    number=number,
                )
            if verdict.undone:
                raise Invalid("verdict {number} is already undone", number=number)
            return self._append(database, verdict.a, verdict.b, UNDO, by, note.strip(), verdict.number)

    def history(self, a: str | None = None, b: str | None = None) -> list[Verdict]:
        """Return every entry, those about one fragment, or those about one pair, oldest first."""
        if a is None or b is None:
            one = a if a is not None else b
            where, values = ("", ()) if one is None else (" WHERE v.a = ? OR v.b = ?", (one, one))
        else:
            where, values = " WHERE v.a = ? AND v.b = ?", in_order(a, b)
        return [_verdict(row) for row in read(self.path, _FORMAT, f"{_ALL}{where} ORDER BY v.number", values)]

    def pairs(self) -> dict[tuple[str, str], PairVerdicts]:
        """Return the verdicts on each pair by its ids, smaller first, in the order of each pair's newest verdict."""
        return by_pair(self.history())

    def standing(self) -> list[Verdict]:
        """Return the verdict that holds for each undisputed pair, in the order of entry."""
        return standing_in(self.pairs())

    def groups(self) -> list[list[str]]:
        """Return groups of two or more fragments connected by `join` verdicts, everything sorted."""
        return groups_of(self.standing())

    def joins(self) -> dict[str, str]:
        """Return the confirmed joins as in a joins file: fragment id -> name of its group (the group's first id)."""
        return {id: group[0] for group in self.groups() for id in group}

    def wrong(self) -> list[str]:
        """Check that every entry can be read; return the problems for `verify`."""
        return problems_in(self.path, _FORMAT, self.history)

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
    """Group a history, oldest first, into the verdicts on each pair."""
    found: dict[tuple[str, str], dict[str, tuple[Verdict, int]]] = {}
    for verdict in history:
        if verdict.says == UNDO or verdict.undone:
            continue
        voices = found.pop((verdict.a, verdict.b), {})  # popped: pair and person of the newest verdict come last
        before = voices.pop(person_key(verdict.by), None)
        same = before is not None and before[0].says == verdict.says
        voices[person_key(verdict.by)] = (verdict, before[1] if before and same else verdict.number)
        found[verdict.a, verdict.b] = voices
    return {
        (a, b): PairVerdicts(a, b, tuple(v for v, _ in voices.values()), tuple(since for _, since in voices.values()))
        for (a, b), voices in found.items()
    }


def standing_in(pairs: Mapping[tuple[str, str], PairVerdicts]) -> list[Verdict]:
    """Return the verdict that holds for each undisputed pair, in the order of entry."""
    return sorted((pair.holds for pair in pairs.values() if pair.holds), key=lambda verdict: verdict.number)


def person_key(name: str) -> str:
    """Normalize a person's name: Unicode NFC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def same_person(one: str, other: str) -> bool:
    """Return whether two names denote the same person."""
    return person_key(one) == person_key(other)


def groups_of(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the groups of fragments connected by the `join` verdicts among `verdicts`, everything sorted."""
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
    """Return a pair in storage order, the smaller id first; raise `Invalid` if both ids are the same."""
    if a == b:
        raise Invalid("{id} is one fragment; a verdict is about two", id=a)
    return (a, b) if a < b else (b, a)


def _verdict(row: Sequence[Any]) -> Verdict:
    number, a, b, says, by, at, note, undone, undoes = row
    return Verdict(number, a, b, says, by, at, note, bool(undone), undoes)
