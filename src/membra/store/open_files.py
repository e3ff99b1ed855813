"""The memory-mapped files of a collection: each is checked once, and shared by reader and writer."""

import json
import os
import sqlite3
from pathlib import Path

from membra.compare.local_scaling import REFERENCES
from membra.compare.threads import in_threads
from membra.errors import Damaged
from membra.store import manifest
from membra.store.rows import Rows
from membra.store.scales import Scales, read_scales, updated
from membra.store.shard import Shard, open_shard
from membra.store.tensors import FileRecord


class OpenFiles:
    """Shards and local scales of the collection in the folder `path`, opened on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = path / "shards"
        self._open: dict[str, tuple[tuple[int, int, int], Shard]] = {}  # name -> (file's inode, mtime, size), shard
        self._scales: tuple[FileRecord | None, Scales] | None = None  # the file, and its scales, updated since

    def rows(self, database: sqlite3.Connection) -> Rows:
        """Map the shards that this transaction sees. Those already mapped and checked are reused."""
        records = manifest.shards(database)
        wanted = [record for record, _ in records]
        names = {record.name for record in wanted}
        if len(names - self._open.keys()) > 1:
            in_threads(self.shard, wanted)  # checksums are computed in parallel
        shards = [self.shard(record) for record in wanted]
        self._open = {name: shard for name, shard in self._open.items() if name in names}
        return Rows(shards, [numbers for _, numbers in records])

    def shard(self, record: FileRecord) -> Shard:
        """Map and check one shard, once while its file stays the same."""
        now = check_there(self._folder, record)
        known = self._open.get(record.name)
        if known is None or known[0] != now:
            known = self._open[record.name] = (now, open_shard(self._folder, record))
        return known[1]

    def stored_scales(self, database: sqlite3.Connection) -> Scales | None:
        """Return the stored local scales, or None if they are missing or damaged."""
        record = scales_file(database)
        if record is None:
            return None
        if self._scales is None or self._scales[0] != record:
            found = read_scales(self.path, record)
            self._scales = (record, found) if found else None
        return self._scales[1] if self._scales else None

    def scales(self, rows: Rows, database: sqlite3.Connection) -> Scales:
        """Return the local scales of all fragments in `rows`. Missing or damaged ones are computed now."""
        references = manifest.reference_numbers(database, REFERENCES)
        found = updated(self.stored_scales(database), rows, references)
        self._scales = (scales_file(database), found)
        return found


def scales_file(database: sqlite3.Connection) -> FileRecord | None:
    """Return the record of the file with the local scales, or None."""
    text = manifest.read_meta(database).get("scales")
    return FileRecord(*json.loads(text)) if text else None


def check_there(folder: Path, record: FileRecord) -> tuple[int, int, int]:
    """Check that a file exists with its full length; return (inode, mtime, size), which change with the file."""
    try:
        found = os.stat(f"{folder}/{record.name}")  # noqa: PTH116 - of thousands, at every search; Path is slower
    except OSError:
        raise Damaged(
            "{collection} lacks the shard {file}; restore it from a copy, or index again",
            collection=folder.parent,
            file=record.name,
        ) from None
    size = found.st_size
    if size != record.size:
        raise Damaged(
            "the shard {file} of {collection} is damaged ({size} bytes instead of {expected}); restore "
            "it from a copy, or index again",
            file=record.name,
            collection=folder.parent,
            size=size,
            expected=record.size,
        )
    return found.st_ino, found.st_mtime_ns, size
