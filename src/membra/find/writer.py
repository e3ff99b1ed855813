"""Writing to a collection: files first, whole and flushed; then one transaction that names them; then the old ones go.

Killed at any moment, the collection is as before or as after, and at most files remain that nothing names: the next
writer removes them.
"""

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from membra.describe.recipe import Description, Recipe
from membra.errors import MembraError, Refused
from membra.files import PART
from membra.find import manifest
from membra.find.fused import REFERENCES
from membra.find.scales import updated, write_scales
from membra.find.shard import Shard, Stored, write_shard
from membra.find.tensors import Written
from membra.see.fragment import Fragment

if TYPE_CHECKING:
    from membra.find.collection import Collection

LARGE = 64_000_000  # bytes of a shard that is not merged further; bounds the memory that merging takes
_TIER = 8  # shards of about one size that are merged into one of the next size

Outcome = tuple[Fragment, str, Description | Refused]  # with the SHA-256 of the image's bytes


@dataclass(frozen=True)
class Batch:
    """Fragments whose descriptions lie in a shard that nothing names yet, and those that were refused."""

    written: Written | None  # the shard, if any of them was described
    lines: list[tuple[str | int, ...]]  # id, path, sha256, columns, refused, note, glyphs; described ones in its order


def write_batch(folder: Path, outcomes: Sequence[Outcome]) -> Batch:
    """Write the shard of some fragments into the collection at `folder`, in any process; `Writer.store` names it."""
    good = [(fragment.id, Stored.of(result)) for fragment, _, result in outcomes if not isinstance(result, Refused)]
    written = None
    if good:
        written = write_shard(folder / "shards", [stored for _, stored in good], [id for id, _ in good])
    lines: list[tuple[str | int, ...]] = []
    for fragment, content, result in outcomes:
        head = (fragment.id, absolute(fragment.path), content, json.dumps(dict(fragment.columns)))
        if isinstance(result, Refused):
            lines.append((*head, str(result), "", 0))
        else:
            lines.append((*head, "", result.note, len(result.boxes)))
    return Batch(written, lines)


class Writer:
    """What the one process that holds the writer's lock may do. `Collection.writing` gives it."""

    def __init__(self, collection: "Collection") -> None:
        self._collection = collection
        self._path = collection.path

    def news(self, fragments: Iterable[Fragment]) -> tuple[list[tuple[Fragment, str]], int, list[tuple[str, str]]]:
        """The fragments to describe with the SHA-256 of their images, how many are known, and who cannot come in.

        A fragment with the same bytes as before is not described again; one that was refused is tried again.
        """
        work, same, refused = [], [], []
        with manifest.connect(self._path) as database:
            for fragment in fragments:
                digest = content_digest(fragment.path)
                question = "SELECT path, sha256, refused FROM fragments WHERE id = ?"
                path, before, reason = database.execute(question, (fragment.id,)).fetchone() or ("", None, "")
                if digest and digest == before and not reason:
                    same.append(fragment)
                elif path and path != absolute(fragment.path) and Path(path).exists():
                    refused.append((fragment.id, f"another image of this name is in the collection: {path}"))
                else:
                    work.append((fragment, digest))
        self._touch(same)
        return work, len(same), refused

    def store(self, *batches: Batch, scale: bool = True) -> None:
        """Name what `write_batch` wrote, all of it in one transaction, with the local scales brought up to date.

        Without `scale` they stay behind, until the next change: for filling a collection in bulk.
        """
        with manifest.connect(self._path, write=True) as database:
            before = named_files(database)
            for batch in batches:
                ids = [str(line[0]) for line in batch.lines]
                _bury(database, _numbers(database, ids))
                _insert(database, batch, manifest.last_number(database) + 1)
            _drop_empty(database)
            if scale:
                self._scale(database)
        self.unlink(before)
        self.merge_when_due()

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out. All or none: an unknown id is an error."""
        with manifest.connect(self._path, write=True) as database:
            before = named_files(database)
            found = _numbers(database, ids)
            unknown = [id for id in ids if id not in found]
            if unknown:
                raise MembraError(f"{unknown[0]} is not in {self._path}; `membra list` shows what is")
            _bury(database, found)
            _drop_empty(database)
            self._scale(database)
        self.unlink(before)

    def replace(self, batches: Sequence[Batch], recipe: Recipe) -> None:
        """Put `batches`, which hold every fragment, in the place of all that there is; in one transaction."""
        with manifest.connect(self._path, write=True) as database:
            numbers = {id: number for number, id in database.execute("SELECT number, id FROM fragments")}
            if set(numbers) != {line[0] for batch in batches for line in batch.lines}:
                raise MembraError(f"{self._path} was changed meanwhile; run the command again")
            before = named_files(database)
            database.execute("UPDATE fragments SET shard = NULL, place = NULL")
            database.execute("DELETE FROM shards")
            for batch in batches:
                _place(database, batch, [numbers[str(line[0])] for line in batch.lines])
            manifest.write_meta(database, "recipe", recipe.to_json())
            manifest.write_meta(database, "scales", "")
            self._scale(database)
        self._collection.recipe = recipe
        self.unlink(before)

    def compact(self) -> tuple[int, int]:
        """Merge small shards and drop what was removed; how many shards there were, and how many there are."""
        with manifest.connect(self._path) as database:
            shards = manifest.shards(database)
        old = {written.name for written, _ in shards if self._collection.shard(written).old}
        chosen = [
            (written, numbers)
            for written, numbers in shards
            if written.size < LARGE / 2 or not numbers.all() or written.name in old
        ]
        if len(chosen) > 1 or old or not all(numbers.all() for _, numbers in chosen):
            self._merge([written for written, _ in chosen])
        with manifest.connect(self._path) as database:
            return len(shards), len(manifest.shards(database))

    def tidy(self) -> list[str]:
        """Remove what killed writers left behind; the names of the files."""
        gone = orphans(self._path)
        for name in gone:
            (self._path / name).unlink(missing_ok=True)
        return gone

    def _touch(self, fragments: Sequence[Fragment]) -> None:
        """The same images, perhaps elsewhere or with other columns."""
        rows = []
        for fragment in fragments:
            columns = json.dumps(dict(fragment.columns))
            rows.append((absolute(fragment.path), columns, columns, fragment.id))
        with manifest.connect(self._path, write=True) as database:
            database.executemany(
                "UPDATE fragments SET path = ?, columns = CASE WHEN ? = '{}' THEN columns ELSE ? END WHERE id = ?", rows
            )

    def _scale(self, database: sqlite3.Connection) -> None:
        """Bring the local scales up to date, within the transaction."""
        old = self._collection.stored_scales(database)
        new = updated(old, self._collection.rows(database), manifest.reference_numbers(database, REFERENCES))
        if new is not old:
            manifest.write_meta(database, "scales", json.dumps(astuple(write_scales(self._path, new))))

    def merge_when_due(self) -> None:
        """Small shards of about one size are merged when there are eight of them, so that each is written few times."""
        with manifest.connect(self._path) as database:
            small = [written for written, _ in manifest.shards(database) if written.size < LARGE / 2]
        tiers = Counter(_tier(written) for written in small)
        for tier, count in tiers.items():
            if count >= _TIER:
                self._merge([written for written in small if _tier(written) == tier])

    def _merge(self, chosen: Sequence[Written]) -> None:
        """Write the fragments of these shards into as few as may be, then name those instead; numbers stay."""
        names = {written.name for written in chosen}
        with manifest.connect(self._path) as database:
            before = named_files(database)
            held = [(written, numbers) for written, numbers in manifest.shards(database) if written.name in names]
        made = []
        for group in self._groups(held):
            numbers = [number for number, _, _ in group]
            fragments = [shard.stored(place) for _, shard, place in group]
            made.append((write_shard(self._path / "shards", fragments, numbers), numbers))
        with manifest.connect(self._path, write=True) as database:
            database.executemany("DELETE FROM shards WHERE name = ?", [(name,) for name in names])
            for written, numbers in made:
                manifest.put_shard(database, written, np.array(numbers, dtype=np.int32))
                rows = [(written.name, place, number) for place, number in enumerate(numbers)]
                database.executemany("UPDATE fragments SET shard = ?, place = ? WHERE number = ?", rows)
        self.unlink(before)

    def _groups(self, held: Sequence[tuple[Written, manifest.Numbers]]) -> list[list[tuple[int, Shard, int]]]:
        """The fragments of these shards (number, shard, place) by number, in groups that make up a large shard each."""
        alive = sorted(
            (number, which, place)
            for which, (_, numbers) in enumerate(held)
            for place, number in enumerate(numbers.tolist())
            if number
        )
        opened = [self._collection.shard(written) for written, _ in held]
        groups: list[list[tuple[int, Shard, int]]] = []
        room = 0.0
        for number, which, place in alive:
            written, numbers = held[which]
            if room <= 0:
                groups.append([])
                room = LARGE
            groups[-1].append((number, opened[which], place))
            room -= written.size / len(numbers)
        return groups

    def unlink(self, names: Iterable[str]) -> None:
        """Remove those of the files that nothing names. Only after a transaction; who reads them keeps them open."""
        with manifest.connect(self._path) as database:
            named = named_files(database)
        for name in set(names) - named:
            (self._path / name).unlink(missing_ok=True)


def encoder_name(recipe: Recipe) -> str:
    """The file name of a recipe's encoder: by its digest, so that an old and a new one can lie side by side."""
    return f"encoder-{recipe.encoder[:16]}.onnx"


def named_files(database: sqlite3.Connection) -> set[str]:
    """Every file that belongs to the collection, by its path in the folder."""
    scales = scales_file(database)
    shards = [f"shards/{written.name}" for written, _ in manifest.shards(database)]
    encoder = encoder_name(Recipe.from_json(manifest.read_meta(database)["recipe"]))
    return {*shards, encoder, *([scales.name] if scales else [])}


def scales_file(database: sqlite3.Connection) -> Written | None:
    """The file with the local scales, if there is one."""
    text = manifest.read_meta(database).get("scales")
    return Written(*json.loads(text)) if text else None


def orphans(path: Path) -> list[str]:
    """The files that nothing names: of writers that were killed, or of one that is at work."""
    with manifest.connect(path) as database:
        named = named_files(database)
    found = [
        file.relative_to(path).as_posix()
        for pattern in ("shards/*", "scales-*", "encoder-*", f".*{PART}")
        for file in path.glob(pattern)
    ]
    return sorted(set(found) - named)


def content_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes; nothing where it cannot be read: reading it for description will say why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def absolute(path: Path) -> str:
    return str(path.absolute())


def _tier(written: Written) -> int:
    return int(log(written.size, _TIER))


def _numbers(database: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The numbers of those of the ids that there are."""
    found = {}
    for id in ids:
        row = database.execute("SELECT number FROM fragments WHERE id = ?", (id,)).fetchone()
        if row:
            found[id] = int(row[0])
    return found


def _insert(database: sqlite3.Connection, batch: Batch, first: int) -> None:
    """The lines of a batch, numbered from `first` on."""
    numbers = list(range(first, first + len(batch.lines)))
    rows = [(number, *line[:4], "", "", 0) for number, line in zip(numbers, batch.lines, strict=True)]
    columns = "number, id, path, sha256, columns, refused, note, glyphs"
    database.executemany(f"INSERT INTO fragments ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    _place(database, batch, numbers)


def _place(database: sqlite3.Connection, batch: Batch, numbers: Sequence[int]) -> None:
    """Say of the fragments with these numbers what became of them, and name their shard."""
    described: list[int] = []
    rows = []
    for number, (_, _, digest, _, refused, note, glyphs) in zip(numbers, batch.lines, strict=True):
        where = (None, None) if refused or not batch.written else (batch.written.name, len(described))
        described += [number] if where[0] else []
        rows.append((digest, refused, note, glyphs, *where, number))
    if batch.written:
        manifest.put_shard(database, batch.written, np.array(described, dtype=np.int32))
    database.executemany(
        "UPDATE fragments SET sha256 = ?, refused = ?, note = ?, glyphs = ?, shard = ?, place = ? WHERE number = ?",
        rows,
    )


def _bury(database: sqlite3.Connection, ids: dict[str, int]) -> None:
    """Take these fragments out; where they lay, a tombstone stays."""
    gone = np.array(sorted(ids.values()), dtype=np.int32)
    for written, numbers in manifest.shards(database):
        there = np.isin(numbers, gone)
        if there.any():
            manifest.put_shard(database, written, np.where(there, 0, numbers))
    database.executemany("DELETE FROM fragments WHERE number = ?", [(number,) for number in gone.tolist()])


def _drop_empty(database: sqlite3.Connection) -> None:
    """Forget shards in which only tombstones are left."""
    names = [(written.name,) for written, numbers in manifest.shards(database) if not numbers.any()]
    database.executemany("DELETE FROM shards WHERE name = ?", names)
