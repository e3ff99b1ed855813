"""Find fragments by id, or by shelfmark in any spelling."""

import sqlite3
from collections.abc import Mapping

from membra.errors import Invalid
from membra.sources.shelfmark import shelfmark_key
from membra.store import manifest
from membra.store.collection import Collection

_MAX_SHOWN = 6  # ids in a message about several fragments with one shelfmark


def find_id(collection: Collection, name: str) -> str:
    """Return the id of the fragment with this id or shelfmark; `name` itself if there is none.

    Ids are tried first, then shelfmarks, with or without side, in any spelling: `TS NS 100.1` is `T-S NS 100.1`.

    Raises
    ------
    MembraError
        If several fragments have this shelfmark.
    """
    with manifest.connect(collection.path) as database:
        return name if manifest.entry_named(database, name) else named_in(database, name) or name


def named_in(database: sqlite3.Connection, name: str) -> str | None:
    """Return the id of the only fragment with this shelfmark; None if there is none."""
    wanted = shelfmark_key(name)
    if not wanted:
        return None
    whole: list[str] = []
    bare: list[str] = []
    for id, columns in manifest.shelfmarks(database):
        if shelfmark_key(columns["shelfmark"]) == wanted:
            bare.append(id)
        if shelfmark_key(full_name(columns)) == wanted:
            whole.append(id)
    found = whole or bare
    if len(found) > 1:
        raise Invalid(
            "{name} is the shelfmark of {count} fragments; give one of these ids: {ids}",
            name=name,
            count=len(found),
            ids=found[:_MAX_SHOWN],
        )
    return found[0] if found else None


def column_key(columns: Mapping[str, str], name: str) -> str:
    """Return a column's value as it is compared, without case and extra spaces; empty if there is none."""
    return " ".join(columns.get(name, "").casefold().split())


def full_name(columns: Mapping[str, str]) -> str:
    """Return the shelfmark followed by its side or label, if these are known; only these without a shelfmark."""
    return " ".join(filter(None, (columns.get("shelfmark", ""), columns.get("side") or columns.get("label", ""))))
