"""Fragments by what people call them: an id, or a shelfmark in any spelling."""

import sqlite3
from collections.abc import Mapping

from membra.errors import Invalid
from membra.sources.shelfmark import shelfmark_key
from membra.store import manifest
from membra.store.collection import Collection

_SHOWN = 6  # of several fragments of one shelfmark, in a message


def find_id(collection: Collection, name: str) -> str:
    """The id of the fragment that is called so; `name` itself where nothing is.

    An id comes first, then a shelfmark, with or without side, however it is spelt: `TS NS 100.1` is `T-S NS 100.1`.

    Raises
    ------
    MembraError
        Where several fragments have this shelfmark.
    """
    with manifest.connect(collection.path) as database:
        return name if manifest.entry_named(database, name) else named_in(database, name) or name


def named_in(database: sqlite3.Connection, name: str) -> str | None:
    """The id of the one fragment with this shelfmark; None where there is none."""
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
            "{name} is the shelfmark of {count} fragments; give one of: {ids}",
            name=name,
            count=len(found),
            ids=found[:_SHOWN],
        )
    return found[0] if found else None


def full_name(columns: Mapping[str, str]) -> str:
    """The shelfmark with its side or label, where a catalogue gives them; nothing without a shelfmark."""
    return " ".join(filter(None, (columns.get("shelfmark", ""), columns.get("side") or columns.get("label", ""))))
