"""Find the fragment of a collection that a query names: by id, by the path of its image, or by shelfmark."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from membra.errors import Invalid
from membra.files import content_digest
from membra.sources.fragment import readable_name, split_piece
from membra.store import manifest
from membra.store.manifest import Entry
from membra.store.naming import named_in


def entry_of(database: sqlite3.Connection, query: str | Path, *, by_shelfmark: bool = True) -> Entry | None:
    """Return the entry with this id, with the image at this path, or, unless such a file exists, with this shelfmark.

    A path names a fragment in any spelling, also with `..` or through symbolic links; a copy of its image does not.

    Raises
    ------
    MembraError
        If several fragments have this shelfmark, or the query is not UTF-8.
    """
    name = str(query)
    if readable_name(name) != name:
        raise Invalid("{file}: its name is not UTF-8; rename the file", file=readable_name(name))
    for path in _paths(database, name):
        entry = manifest.entry_named(database, name, path)
        if entry:
            return entry
    if by_shelfmark and not Path(name).exists() and (named := named_in(database, name)):
        return manifest.entry_named(database, named)
    return None


def _paths(database: sqlite3.Connection, name: str) -> Iterator[str]:
    """Yield the absolute path of an image, then the paths at which the manifest has the same file."""
    path = str(Path(name).absolute())
    yield path if readable_name(path) == path else ""  # the manifest has no other paths
    file, piece = (name, 0) if Path(name).is_file() else split_piece(name)
    if not Path(file).is_file():
        return
    # The digest has an index; resolving every path of a large collection would take longer than the search.
    question = "SELECT DISTINCT path FROM fragments WHERE sha256 = ? AND refused = ''"
    for (known,) in database.execute(question, (content_digest(Path(file)),)).fetchall():
        if os.path.realpath(known) == os.path.realpath(file):
            yield f"{known}#{piece}" if piece else known
