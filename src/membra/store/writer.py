"""Write to a collection: atomically written files first; then one transaction that names them; then old files go.

After a kill at any moment the collection is in the state before or after; at most files remain that the manifest does
not name, which the next writer removes.
"""

import itertools
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path

import numpy as np

from membra.compare.local_scaling import REFERENCES
from membra.describe.recipe import Recipe
from membra.errors import Conflict, Damaged, MembraError, NotFound
from membra.files import PART
from membra.files import content_digest as content_digest
from membra.messages import Message
from membra.progress import log
from membra.sources.fragment import Fragment, piece_of, split_piece
from membra.store import manifest
from membra.store.batch import Added, Batch
from membra.store.corrections import FILE as CORRECTIONS
from membra.store.corrections import Corrections, applied, fixes_for
from membra.store.edits import edits_given, edits_in, put_stated, settle, stated
from membra.store.histograms import forget_codebooks
from membra.store.manifest import FragmentRow
from membra.store.numbering import numbered, taken_out
from membra.store.open_files import OpenFiles, scales_file
from membra.store.scales import updated, write_scales
from membra.store.shard import Shard, write_shard
from membra.store.tensors import FileRecord, check_whole

LARGE = 64_000_000  # bytes of a merged shard; shards of half this size are not merged again. Limits memory
MAPPING = "mapping"  # key in the manifest's `meta`: tables' column names -> membra's
_TIER = 8  # shards of about one size that are merged into one of the next size


class Writer:
    """The write operations, for the one process that holds the writer's lock. `Collection.writing` provides it."""

    def __init__(self, path: Path, files: OpenFiles) -> None:
        self._path = path
        self._files = files

    def pending(self, photographs: Iterable[Fragment]) -> tuple[list[tuple[Fragment, str]], Added]:
        """Return the photographs to describe, with the SHA-256 of their bytes, and counts of the others.

        The counts are of fragments that are unchanged, of those among them whose metadata are updated now, and of
        rejected photographs. A photograph with the same bytes and corrections as before is not described again, however
        many pieces it had; one with a rejected piece is tried again. A described photograph whose file cannot be read
        now is rejected in this run and keeps its descriptions: the file may be on a drive that is not there.
        """
        work, same = [], []
        refused: list[tuple[str, str]] = []
        question = "SELECT piece, path, sha256, refused, corrected FROM fragments WHERE photograph = ?"
        standing = Corrections(self._path / CORRECTIONS).standing()
        with manifest.connect(self._path) as database:
            for fragment in photographs:
                digest = content_digest(fragment.path)
                rows = database.execute(question, (fragment.id,)).fetchall()
                other = next((path for _, path, *_ in rows if path != absolute(fragment.path)), "")
                fixes = fixes_for(standing, fragment.id, digest)
                now = (digest, "", applied(fixes))
                if split_piece(fragment.id)[1]:
                    refused.append((fragment.id, Message("its name ends like the id of a piece; rename the file")))
                elif digest and rows and all(tuple(before) == now for _, _, *before in rows):
                    same += [(fragment, piece) for piece, *_ in rows]
                elif not digest and any(not reason for _, _, _, reason, _ in rows):
                    why = fragment.refused or Message("the file cannot be read")
                    refused.append((fragment.id, Message("{why}; the earlier description is kept", why=why)))
                elif other and Path(other).exists():
                    reason = Message("the collection has another image of this name: {file}", file=Path(other))
                    refused.append((fragment.id, reason))
                else:
                    work.append((replace(fragment, fixes=fixes), digest))
        updated = self._touch(same)
        return work, Added(unchanged=len(same), updated=updated, readable=len(same), refused=refused)

    def store(self, *batches: Batch, scale: bool = True) -> None:
        """Add the shards that `write_batch` wrote to the manifest in one transaction, and update the local scales.

        Without `scale` the local scales stay outdated until the next change, for bulk insertion.
        """
        with manifest.connect(self._path, write=True) as database:
            before = named_files(database)
            for batch in batches:
                out = taken_out(self._path, database, batch.rows)
                batch = replace(batch, rows=stated(database, batch.rows, edits_in(self._path, database)))
                _bury(database, manifest.numbers_of(database, batch.photographs))
                fresh = itertools.count(manifest.last_number(database) + 1)
                _insert(database, batch, [0 if row.id in out else next(fresh) for row in batch.rows])
            _drop_empty(database)
            settle(database, edits_in(self._path, database))
            if scale:
                self._scale(database)
        self._clear(before)
        refused = sum(bool(row.refused) for batch in batches for row in batch.rows)
        count = sum(len(batch.rows) for batch in batches) - refused
        log.info("%s: %d fragments described and stored, %d refused", self._path, count, refused)
        self.merge_when_due()

    def remove(self, ids: Sequence[str]) -> int:
        """Remove fragments, or all pieces of a photograph; return how many. An unknown id raises; none is removed."""
        with manifest.connect(self._path, write=True) as database:
            before = named_files(database)
            found: set[int] = set()
            for id in ids:
                entry = manifest.entry_named(database, id)
                if entry is None:
                    raise NotFound(
                        "{id} is not in {collection}; run `membra list` to see its fragments",
                        id=id,
                        collection=self._path,
                    )
                one = entry.fragment.id == id
                found |= {entry.number} if one else manifest.numbers_of(database, [id])
            _bury(database, found)
            _drop_empty(database)
            self._scale(database)
        self._clear(before)
        log.info("%s: %d fragments removed", self._path, len(found))
        return len(found)

    def annotate(self, said: Mapping[str, Mapping[str, str]], mapping: Mapping[str, str] | None = None) -> int:
        """Add a source's columns to fragments, by id, and store the table's `mapping`; return how many changed."""
        with manifest.connect(self._path, write=True) as database:
            if mapping:
                kept = json.loads(manifest.read_meta(database).get(MAPPING, "{}"))
                manifest.write_meta(database, MAPPING, json.dumps({**kept, **mapping}, ensure_ascii=False))
            return put_stated(database, said.items(), edits_in(self._path, database))

    def settle(self) -> None:
        """Write people's edits into the columns, and restore the source's values where an edit was undone.

        If the annotations cannot be read, the columns stay and a warning is logged: `verify` names the remedy.
        """
        with manifest.connect(self._path, write=True) as database:
            try:
                settle(database, edits_given(self._path, database))
            except Damaged as error:
                log.warning("%s", error)

    def replace(self, batches: Sequence[Batch], recipe: Recipe) -> None:
        """Replace all fragments by `batches`, which hold every photograph, in one transaction.

        A fragment that exists in both keeps its number; new pieces get the next numbers.
        """
        with manifest.connect(self._path, write=True) as database:
            old = database.execute("SELECT number, id, photograph, sha256, corrected FROM fragments").fetchall()
            rows = [row for batch in batches for row in batch.rows]
            if {photograph for _, _, photograph, *_ in old} != {row.photograph for row in rows}:
                raise Conflict("{collection} was changed during the run; run the command again", collection=self._path)
            before = named_files(database)
            same_eyes = recipe.eyes == Recipe.from_json(manifest.read_meta(database)["recipe"]).eyes
            numbers = numbered(rows, old, manifest.last_number(database) + 1, same_eyes)
            edits = edits_in(self._path, database)
            batches = [replace(batch, rows=stated(database, batch.rows, edits)) for batch in batches]
            for table in ("fragments", "shards", "pending"):
                database.execute(f"DELETE FROM {table}")
            for batch in batches:
                _insert(database, batch, [numbers[row.id] for row in batch.rows])
            _drop_empty(database)
            settle(database, edits_in(self._path, database))
            manifest.write_meta(database, "recipe", recipe.to_json())
            manifest.write_meta(database, "scales", "")
            self._scale(database)
        self._clear(before)
        log.info("%s: all %d fragments described anew, by revision %d", self._path, len(rows), recipe.revision)

    def keep(self, batch: Batch, recipe: Recipe) -> None:
        """Store a finished batch of a redescription by `recipe`, so that a kill costs only the batch in progress."""
        row = (recipe.to_json(), batch.record.name if batch.record else "", batch.to_json())
        with manifest.connect(self._path, write=True) as database:
            database.execute("INSERT INTO pending (recipe, shard, batch) VALUES (?, ?, ?)", row)
            manifest.put_reasons(database, batch.rows)

    def kept(self, recipe: Recipe, work: Sequence[tuple[Fragment, str]]) -> list[Batch]:
        """Return the stored batches by `recipe` that are intact and have photographs as in `work`; drop the rest."""
        known = {(one.id, digest, applied(one.fixes)): one for one, digest in work}
        found = []
        with manifest.connect(self._path, write=True) as database:
            before = named_files(database)
            for number, text, batch in database.execute("SELECT rowid, recipe, batch FROM pending").fetchall():
                one = Batch.from_json(batch)
                of = [known.get((row.photograph, row.sha256, row.corrected)) for row in one.rows]
                if text == recipe.to_json() and None not in of and self._is_whole(one):
                    rows = [_moved(row, photograph) for row, photograph in zip(one.rows, of, strict=True)]
                    found.append(replace(one, rows=rows))
                else:
                    database.execute("DELETE FROM pending WHERE rowid = ?", (number,))
        self.unlink(before)
        return found

    def _is_whole(self, batch: Batch) -> bool:
        try:
            if batch.record:
                check_whole(self._path / "shards", batch.record)
        except MembraError:
            return False
        return True

    def compact(self) -> tuple[int, int]:
        """Merge small shards and drop removed fragments; return the number of shards before and after."""
        with manifest.connect(self._path) as database:
            shards = manifest.shards(database)
        old = {record.name for record, _ in shards if self._files.shard(record).old}
        chosen = [
            (record, numbers)
            for record, numbers in shards
            if record.size < LARGE / 2 or not numbers.all() or record.name in old
        ]
        if len(chosen) > 1 or old or not all(numbers.all() for _, numbers in chosen):
            self._merge([record for record, _ in chosen])
        with manifest.connect(self._path) as database:
            return len(shards), len(manifest.shards(database))

    def tidy(self) -> list[str]:
        """Remove files that killed writers left behind; return their names."""
        gone = orphans(self._path)
        for name in gone:
            (self._path / name).unlink(missing_ok=True)
        return gone

    def _touch(self, fragments: Sequence[tuple[Fragment, int]]) -> int:
        """Update paths and columns of unchanged photographs' fragments; return how many fragments' columns changed."""
        owners = [(fragment, piece_of(fragment, piece) if piece else fragment) for fragment, piece in fragments]
        paths = [(absolute(own.path), own.id) for _, own in owners]
        # A folder gives no columns for its images; earlier values stay, unless a source gives new ones.
        columns = [(own.id, own.columns) for fragment, own in owners if fragment.columns]
        with manifest.connect(self._path, write=True) as database:
            database.executemany("UPDATE fragments SET path = ? WHERE id = ?", paths)
            return put_stated(database, columns, edits_in(self._path, database))

    def _scale(self, database: sqlite3.Connection) -> None:
        """Update the local scales within the transaction."""
        old = self._files.stored_scales(database)
        new = updated(old, self._files.rows(database), manifest.reference_numbers(database, REFERENCES))
        if new is not old:
            manifest.write_meta(database, "scales", json.dumps(astuple(write_scales(self._path, new))))

    def merge_when_due(self) -> None:
        """Merge small shards of about one size once there are eight of them, so that each is rewritten few times."""
        with manifest.connect(self._path) as database:
            small = [record for record, _ in manifest.shards(database) if record.size < LARGE / 2]
        tiers = Counter(_tier(record) for record in small)
        for tier, count in tiers.items():
            if count >= _TIER:
                self._merge([record for record in small if _tier(record) == tier])

    def _merge(self, chosen: Sequence[FileRecord]) -> None:
        """Merge these shards into as few as possible and name those instead; fragments keep their numbers."""
        names = {record.name for record in chosen}
        with manifest.connect(self._path) as database:
            before = named_files(database)
            shards = [(record, numbers) for record, numbers in manifest.shards(database) if record.name in names]
        merged = []
        for group in self._groups(shards):
            numbers = [number for number, _, _ in group]
            fragments = [shard.stored(row) for _, shard, row in group]
            merged.append((write_shard(self._path / "shards", fragments, numbers), numbers))
        log.info("%s: %d shards merged into %d", self._path, len(shards), len(merged))
        with manifest.connect(self._path, write=True) as database:
            database.executemany("DELETE FROM shards WHERE name = ?", [(name,) for name in names])
            for record, numbers in merged:
                manifest.put_shard(database, record, np.array(numbers, dtype=np.int32))
                rows = [(record.name, row, number) for row, number in enumerate(numbers)]
                database.executemany("UPDATE fragments SET shard = ?, place = ? WHERE number = ?", rows)
        self.unlink(before)

    def _groups(self, shards: Sequence[tuple[FileRecord, manifest.Numbers]]) -> list[list[tuple[int, Shard, int]]]:
        """Return the fragments of these shards (number, shard, row) by number, in groups of one large shard each."""
        alive = sorted(
            (number, which, row)
            for which, (_, numbers) in enumerate(shards)
            for row, number in enumerate(numbers.tolist())
            if number
        )
        opened = [self._files.shard(record) for record, _ in shards]
        groups: list[list[tuple[int, Shard, int]]] = []
        room = 0.0
        for number, which, row in alive:
            record, numbers = shards[which]
            if room <= 0:
                groups.append([])
                room = LARGE
            groups[-1].append((number, opened[which], row))
            room -= record.size / len(numbers)
        return groups

    def _clear(self, names: Iterable[str]) -> None:
        """Remove, after a change of the fragments, the files no longer named, and the codebooks, which are stale."""
        self.unlink(names)
        forget_codebooks(self._path)

    def unlink(self, names: Iterable[str]) -> None:
        """Remove those of the files that the manifest does not name. Call it only after a transaction; readers keep
        their files open."""
        with manifest.connect(self._path) as database:
            named = named_files(database)
        for name in set(names) - named:
            (self._path / name).unlink(missing_ok=True)


def encoder_name(recipe: Recipe) -> str:
    """Return the file name of a recipe's encoder, with its digest, so that an old and a new one can coexist."""
    return f"encoder-{recipe.encoder[:16]}.onnx"


def named_files(database: sqlite3.Connection) -> set[str]:
    """Return the path in the folder of every file that the manifest names."""
    scales = scales_file(database)
    shards = [f"shards/{record.name}" for record, _ in manifest.shards(database)]
    shards += [f"shards/{name}" for (name,) in database.execute("SELECT shard FROM pending WHERE shard != ''")]
    encoder = encoder_name(Recipe.from_json(manifest.read_meta(database)["recipe"]))
    return {*shards, encoder, *([scales.name] if scales else [])}


def orphans(path: Path) -> list[str]:
    """Return the files that the manifest does not name: of killed writers, or of one that is running."""
    with manifest.connect(path) as database:
        named = named_files(database)
    found = [
        file.relative_to(path).as_posix()
        for pattern in ("shards/*", "scales-*", "encoder-*", f".*{PART}")
        for file in path.glob(pattern)
    ]
    return sorted(set(found) - named)


def absolute(path: Path) -> str:
    return str(path.absolute())


def _tier(record: FileRecord) -> int:
    return int(math.log(record.size, _TIER))


def _moved(row: FragmentRow, photograph: Fragment | None) -> FragmentRow:
    """Update path and columns in the row of a fragment from its photograph."""
    if photograph is None:
        return row
    own = piece_of(photograph, row.piece) if row.piece else photograph
    return replace(row, path=absolute(own.path), columns=json.dumps(dict(own.columns)))


def _insert(database: sqlite3.Connection, batch: Batch, numbers: Sequence[int]) -> None:
    """Insert the rows of a batch with these numbers, and its shard; a row with the number 0 is left out."""
    described: list[int] = []
    rows = []
    for number, row in zip(numbers, batch.rows, strict=True):
        values = {"number": number, **asdict(row), "shard": None, "place": None}
        if batch.record and not row.refused:
            values |= {"shard": batch.record.name, "place": len(described)}
            described.append(number)
        rows += [values] if number else []
    if batch.record:
        manifest.put_shard(database, batch.record, np.array(described, dtype=np.int32))
    if rows:
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        database.executemany(f"INSERT INTO fragments ({', '.join(names)}) VALUES ({marks})", rows)
    manifest.put_reasons(database, batch.rows)


def _bury(database: sqlite3.Connection, numbers: set[int]) -> None:
    """Remove these fragments and leave tombstones in their shards' rows."""
    gone = np.array(sorted(numbers), dtype=np.int32)
    for record, placed in manifest.shards(database):
        there = np.isin(placed, gone)
        if there.any():
            manifest.put_shard(database, record, np.where(there, 0, placed))
    database.executemany("DELETE FROM fragments WHERE number = ?", [(number,) for number in gone.tolist()])


def _drop_empty(database: sqlite3.Connection) -> None:
    """Remove shards that consist of tombstones from the manifest."""
    names = [(record.name,) for record, numbers in manifest.shards(database) if not numbers.any()]
    database.executemany("DELETE FROM shards WHERE name = ?", names)
