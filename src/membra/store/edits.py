"""Edits of metadata by people. They override the values of a source until they are undone.

The entries are in `annotations.sqlite`, with author and time. The manifest stores the resulting values, so that its
readers need not know about edits, and in its table `masked` the source's values that edits override: indexing again, or
another catalogue, updates `masked` and loses no edit. Its table `former` keeps the sources' values for fragments that
are gone because their photograph is now split into other pieces: if such a fragment returns, it gets them back.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from membra.errors import Damaged
from membra.sources.fragment import PHOTOGRAPH
from membra.store import manifest
from membra.store.annotations import COLUMN, FILE, Annotations, by_fragment
from membra.store.manifest import FragmentRow

_MASKED = (
    "CREATE TABLE IF NOT EXISTS masked (id TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
    "PRIMARY KEY (id, name)) WITHOUT ROWID"
)
_FORMER = (
    "CREATE TABLE IF NOT EXISTS former (photograph TEXT NOT NULL, id TEXT NOT NULL, columns TEXT NOT NULL, "
    "PRIMARY KEY (photograph, id)) WITHOUT ROWID"
)

Edits = Mapping[str, Mapping[str, str]]  # fragment id -> column -> value of the newest edit in force


def edits_in(folder: Path, database: sqlite3.Connection) -> Edits:
    """Return the edits in force for the fragments that the collection in `folder` has now.

    If the annotations cannot be read, return the edited values that the manifest stores, so that a damaged file does
    not block other work.
    """
    try:
        return edits_given(folder, database)
    except Damaged:
        known = {id: (_columns(database, id) or {}, own) for id, own in underneath(database).items()}
        return {id: {name: columns.get(name, "") for name in own} for id, (columns, own) in known.items()}


def edits_given(folder: Path, database: sqlite3.Connection) -> Edits:
    """Return the edits in force according to the annotations; raise `Damaged` if these cannot be read."""
    given = [one for one in Annotations(folder / FILE).history() if one.stands and one.kind == COLUMN]
    on: dict[str, list[str]] = {}
    for photograph in {one.photograph for one in given}:
        rows = database.execute("SELECT id FROM fragments WHERE photograph = ?", (photograph,))
        on[photograph] = [id for (id,) in rows]
    # An edit of the fragment itself counts more than one of a piece that is not there any more, which all pieces have.
    return {
        id: {one.name: one.text for one in sorted(own, key=lambda one: one.fragment == id)}
        for id, own in by_fragment(given, on).items()
    }


def put_stated(database: sqlite3.Connection, said: Iterable[tuple[str, Mapping[str, str]]], edits: Edits) -> int:
    """Add a source's values, by fragment id, below the edits; return how many fragments changed."""
    free = []
    for id, columns in said:
        own = edits.get(id, {})
        masked = [(id, name, value) for name, value in columns.items() if name in own]
        if masked:
            database.execute(_MASKED)
            database.executemany("INSERT OR REPLACE INTO masked VALUES (?, ?, ?)", masked)
        free.append((id, {name: value for name, value in columns.items() if name not in own}))
    return manifest.put_columns(database, free)


def stated(database: sqlite3.Connection, rows: Iterable[FragmentRow], edits: Edits) -> list[FragmentRow]:
    """Complete rows that are about to replace others with the known columns of the same fragments that they lack.

    The columns of `rows` come from a source; edits override them again once the rows are inserted and settled.
    """
    rows = list(rows)
    known, there = _inherited(database, rows), _has(database, "masked")
    found = []
    for row in rows:
        before, given = _columns(database, row.id), json.loads(row.columns)
        if before is None:
            if there:  # a source's values for a fragment that was removed
                database.execute("DELETE FROM masked WHERE id = ?", (row.id,))
            of_all, before_it_went = known.get(row.id, ({}, {}))
            alone = {name: text for name, text in before_it_went.items() if not given.get(name)}
            found.append(replace(row, columns=json.dumps({**of_all, **given, **alone})))
            continue
        own = edits.get(row.id, {})
        masked = [(row.id, name, text) for name, text in given.items() if name in own]
        if masked:
            database.execute(_MASKED)
            database.executemany("INSERT OR REPLACE INTO masked VALUES (?, ?, ?)", masked)
        columns = {**before, **{name: text for name, text in given.items() if name not in own}}
        found.append(replace(row, columns=json.dumps(columns)))
    return found


def settle(database: sqlite3.Connection, edits: Edits) -> None:
    """Write the edits into the columns, and restore the source's value where an edit was undone."""
    if not edits and not _has(database, "masked"):
        return
    database.execute(_MASKED)
    for id, own in edits.items():
        before = _columns(database, id) or {}
        masked = [(id, name, before.get(name, "")) for name in own]  # not masked yet: the value is the source's
        database.executemany("INSERT OR IGNORE INTO masked VALUES (?, ?, ?)", masked)
    manifest.put_columns(database, edits.items())
    for id, name, text in database.execute("SELECT id, name, value FROM masked").fetchall():
        if name not in edits.get(id, {}):
            manifest.put_columns(database, [(id, {name: text})])
            database.execute("DELETE FROM masked WHERE id = ? AND name = ?", (id, name))


def underneath(database: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Return the sources' values that edits override, by fragment and column."""
    found: dict[str, dict[str, str]] = {}
    if _has(database, "masked"):
        for id, name, value in database.execute("SELECT id, name, value FROM masked"):
            found.setdefault(id, {})[name] = value
    return found


def common(columns: Iterable[Mapping[str, str]], photograph: str) -> dict[str, str]:
    """Return the columns that all pieces of a photograph share, except the generated one that names the photograph."""
    first, *others = columns
    return {
        name: value
        for name, value in first.items()
        if (name, value) != (PHOTOGRAPH, photograph) and all(one.get(name) == value for one in others)
    }


def _inherited(
    database: sqlite3.Connection, rows: Iterable[FragmentRow]
) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Return the sources' columns for the new fragments among `rows`: those shared by the present pieces of their
    photograph, and those that the fragment had itself if it existed before the photograph was split otherwise.

    The columns of fragments that disappear now are stored in `former`. Where these have a value, it is newer than the
    one stored for a returning fragment, which is then left out.
    """
    over = underneath(database)
    coming: dict[str, set[str]] = {}
    for row in rows:
        coming.setdefault(row.photograph, set()).add(row.id)
    found = {}
    for photograph, ids in coming.items():
        current = _stated_on(database, photograph, over)
        gone = {id: columns for id, columns in current.items() if id not in ids}
        newer = {name for columns in gone.values() for name, text in columns.items() if text}
        before = _former(database, photograph)
        for id in ids - current.keys() if current else ():
            own = {name: text for name, text in before.get(id, {}).items() if name not in newer}
            found[id] = (common(current.values(), photograph), own)
        if before and not current:  # the photograph was removed, and is added as a new one
            database.execute("DELETE FROM former WHERE photograph = ?", (photograph,))
        if gone:
            database.execute(_FORMER)
            values = [(photograph, id, json.dumps(columns)) for id, columns in gone.items()]
            database.executemany("INSERT OR REPLACE INTO former VALUES (?, ?, ?)", values)
    return found


def _stated_on(
    database: sqlite3.Connection, photograph: str, over: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return the sources' columns for each fragment on a photograph, except the generated one that names it."""
    found = {}
    for id, text in database.execute("SELECT id, columns FROM fragments WHERE photograph = ?", (photograph,)):
        columns = {**json.loads(text), **over.get(id, {})}
        found[id] = {name: value for name, value in columns.items() if (name, value) != (PHOTOGRAPH, photograph)}
    return found


def _former(database: sqlite3.Connection, photograph: str) -> dict[str, dict[str, str]]:
    if not _has(database, "former"):
        return {}
    rows = database.execute("SELECT id, columns FROM former WHERE photograph = ?", (photograph,))
    return {id: json.loads(columns) for id, columns in rows}


def _columns(database: sqlite3.Connection, id: str) -> dict[str, str] | None:
    row = database.execute("SELECT columns FROM fragments WHERE id = ?", (id,)).fetchone()
    found: dict[str, str] | None = json.loads(row[0]) if row else None
    return found


def _has(database: sqlite3.Connection, table: str) -> bool:
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())
