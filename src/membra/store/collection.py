"""A collection on disk: a folder with a SQLite manifest, immutable shards, and the encoder that described them."""

import glob
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import Vocabulary
from membra.compare.local_scaling import REFERENCES
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Described, Description, Recipe, computed
from membra.describe.workers import Workers, describe_all
from membra.errors import Conflict, Damaged, Incompatible, MembraError, NotFound, Refused
from membra.files import atomic_write, exclusive_lock, is_locked, sync_folder
from membra.progress import Progress, log
from membra.sources.fragment import Fragment
from membra.store import manifest
from membra.store.annotations import FILE as ANNOTATIONS
from membra.store.batch import Added as Added
from membra.store.batch import Batch, batch_of
from membra.store.histograms import vocabulary_of
from membra.store.manifest import FILE, FORMAT, READS
from membra.store.manifest import Entry as Entry
from membra.store.open_files import OpenFiles, check_there
from membra.store.rows import Rows
from membra.store.scales import Scales
from membra.store.tensors import check_whole
from membra.store.verify import Verified, verify
from membra.store.writer import MAPPING, Writer, encoder_name

BATCH = 50  # fragments per shard before `compact`: the work that a kill can cost
_CHECKED_AT_OPEN = 128_000_000  # bytes; shards up to this total size are verified in full when a collection is opened
_LOCK = "writer.lock"
_UNFINISHED = ".unfinished"  # suffix of the folder in which a collection is created

Found = TypeVar("Found")


@dataclass(frozen=True)
class State:
    """A snapshot of a collection, which does not change while it is open, whatever a writer does."""

    rows: Rows  # the described fragments, as stored in the shards
    database: sqlite3.Connection  # a transaction on the manifest; see store/manifest.py for its queries
    _files: OpenFiles

    def scales(self) -> Scales:
        """Return the local scales of all fragments. Those that are not stored yet are computed now."""
        return self._scales

    @cached_property
    def _scales(self) -> Scales:
        return self._files.scales(self.rows, self.database)

    def vocabulary(self, kind: str, gallery: Sequence[Description]) -> Vocabulary:
        """Return the codebook of this kind over `gallery`: every described fragment, in the order of insertion."""
        return vocabulary_of(self._files.path, self.database, kind, gallery)


class Collection:
    """Fragments described by one recipe and one encoder. Use `open` or `create`, not the constructor."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path = path
        self.recipe = recipe
        self.files = OpenFiles(path)

    @classmethod
    def create(cls, path: str | Path, *, encoder: Encoder | None = None, recipe: Recipe = MEMBRA) -> "Collection":
        """Create an empty collection in a new folder `path`, atomically.

        `encoder` defaults to the one that comes with membra.
        """
        path = Path(path)
        encoder = encoder or Encoder.ready()
        if exists(path):
            raise Conflict("{path} exists already; give another name, or index into it", path=path)
        path.parent.mkdir(parents=True, exist_ok=True)
        recipe = computed(replace(recipe, encoder=encoder.digest))
        _remove_unfinished(path)
        beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=_UNFINISHED))
        try:
            with exclusive_lock(beside / _LOCK, path):  # keeps _remove_unfinished in another process from removing it
                os.chmod(beside, 0o755)
                (beside / "shards").mkdir()
                atomic_write(beside / encoder_name(recipe), encoder.onnx)
                manifest.make_manifest(beside, {"recipe": recipe.to_json(), "scales": ""})
                os.replace(beside, path)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_folder(path.parent)
        return cls(path, recipe)

    @classmethod
    def open(cls, path: str | Path) -> "Collection":
        """Open the collection in folder `path`.

        Checks its format and that every shard exists with its full length. Shards of at most 128 MB in total are also
        verified by checksum; in a larger collection each part is verified when it is first used.
        """
        path = Path(path)
        cls.check_format(path)

        def look(database: sqlite3.Connection) -> "Collection":
            shards = [record for record, _ in manifest.shards(database)]
            few = sum(record.size for record in shards) <= _CHECKED_AT_OPEN
            for record in shards:
                check_there(path / "shards", record)
                if few:
                    check_whole(path / "shards", record)
            recipe = Recipe.from_json(manifest.read_meta(database)["recipe"])
            log.info("opened %s: %d shards, recipe %s", path, len(shards), recipe.name)
            return cls(path, recipe)

        return _settled(path, look)

    @staticmethod
    def check_format(path: Path) -> None:
        """Raise an error unless the folder `path` is a collection of a format that this membra reads."""
        if not (path / FILE).is_file():
            raise NotFound("{folder} is not a collection; make one with `membra index SOURCE --into NEW`", folder=path)
        with manifest.connect(path) as database:
            found = manifest.read_meta(database).get("format")
        if found not in READS:
            raise Incompatible(
                "{collection} has format {format}, but this version of membra reads {formats} and {last}; index the "
                "images again into a new collection, or use the version of membra that made it",
                collection=path,
                format=found,
                formats=READS[:-1],
                last=READS[-1],
            )

    def encoder(self, *, threads: int = 0) -> Encoder:
        """Open the encoder that described this collection."""
        name = encoder_name(self.recipe)
        encoder = Encoder.open(self.path / name, threads=threads)
        if encoder.digest != self.recipe.encoder:
            raise Damaged(
                "{file} is not the encoder of this collection; restore it or index again", file=self.path / name
            )
        return encoder

    def check_current(self) -> None:
        """Raise `Incompatible`, with the remedy, unless this membra describes as this collection was described."""
        own, now = self.recipe, computed(self.recipe)
        if own.revision > now.revision:
            raise Incompatible(
                "{collection} was described by a newer membra (revision {revision}); use that version",
                collection=self.path,
                revision=own.revision,
            )
        if own.revision < now.revision:
            raise Incompatible(
                "{collection} was described by revision {revision} of its recipe, but this version of membra uses "
                "revision {own}; describe it again first: membra index --redescribe --into {collection}",
                collection=self.path,
                revision=own.revision,
                own=now.revision,
            )
        if own != now:
            raise Incompatible(
                "{collection} was described with another eye than that of this version of membra; describe it again "
                "first: membra index --redescribe --into {collection}",
                collection=self.path,
            )

    def entries(self) -> list[Entry]:
        """Return every fragment, described or rejected, in the order of insertion."""
        with manifest.connect(self.path) as database:
            return manifest.entries(database)

    def mapping(self) -> dict[str, str]:
        """Return the stored mapping of column names, from those of earlier tables to membra's."""
        with manifest.connect(self.path) as database:
            found: dict[str, str] = json.loads(manifest.read_meta(database).get(MAPPING, "{}"))
            return found

    def entry(self, id: str) -> Entry | None:
        """Return the fragment with this id, or the most legible piece of the photograph with this id, or None."""
        with manifest.connect(self.path) as database:
            return manifest.entry_named(database, id)

    def described(self) -> tuple[list[Entry], list[Description]]:
        """Return the described fragments and their descriptions, aligned, in the order of `entries`, from one state."""
        with self.reading() as state:
            entries = manifest.entries(state.database, described=True)
            rows = state.rows.rows_of([entry.number for entry in entries]).tolist()
            outlines = manifest.outlines(state.database)
            pairs = zip(entries, rows, strict=True)
            return entries, [_whole(state.rows.description(row), e, outlines[e.number]) for e, row in pairs]

    def references(self, entries: Sequence[Entry]) -> list[int]:
        """Return the indices in `entries` of the references for local scales (`compare/local_scaling.py`)."""
        with manifest.connect(self.path) as database:
            chosen = set(manifest.reference_numbers(database, REFERENCES).tolist())
        return [index for index, entry in enumerate(entries) if entry.number in chosen]

    def description(self, id: str) -> Description:
        """Return the description of one fragment, without reading the rest of the collection."""

        def look(database: sqlite3.Connection) -> Description:
            self._check_recipe(database)
            entry = manifest.entry_named(database, id)
            if entry is None:
                raise NotFound(
                    "{id} is not in {collection}; run `membra list` to see its fragments", id=id, collection=self.path
                )
            if entry.refused:
                raise Refused("{id} is in the collection but was not described: {why}", id=id, why=entry.refused)
            name, row = manifest.location_of(database, entry.number)
            record = next(record for record, _ in manifest.shards(database) if record.name == name)
            outline = manifest.outlines(database, entry.number)[entry.number]
            return _whole(self.files.shard(record).description(row), entry, outline)

        return _settled(self.path, look)

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Open one state of the collection for the duration of the block; writers are not blocked."""
        while True:
            with manifest.connect(self.path) as database:
                self._check_recipe(database)
                try:
                    rows = self.files.rows(database)
                except MembraError:
                    if _unchanged(self.path, database):
                        raise  # not a concurrent change: the files are damaged or lost
                    continue
                yield State(rows, database, self.files)
                return

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Lock the collection as its only writer. Readers are not blocked; a second writer gets an error that names the
        first."""
        with exclusive_lock(self.path / _LOCK, self.path):
            with manifest.connect(self.path) as database:
                self._check_recipe(database)
                old = manifest.read_meta(database).get("format") != str(FORMAT)
            if old:
                manifest.migrate(self.path)
            writer = Writer(self.path, self.files)
            writer.tidy()
            if (self.path / ANNOTATIONS).is_file():
                writer.settle()  # a process may have been killed after an annotation and before settling it
            try:
                yield writer
            except BaseException:
                with suppress(MembraError, OSError):
                    writer.tidy()  # removes files that the manifest does not name: the disk may be full
                raise

    def add(self, fragments: Iterable[Fragment], *, workers: int = 1, progress: Progress | None = None) -> Added:
        """Describe new and changed photographs and store them one shard at a time; stored shards survive a later error.

        Each of `fragments` is a photograph, and may be split into several pieces. A photograph with the same bytes as
        before is not described again; one that was rejected is tried again.
        """
        self.check_current()
        with self.writing() as writer, Workers(workers) as pool:
            work, done = writer.pending(fragments)
            for batch in self.batches(pool, work, self.recipe, progress):
                writer.store(batch)
                done = done.plus(batch)
        return done

    def remove(self, ids: Sequence[str]) -> int:
        """Remove fragments, or all pieces of a photograph, and return how many were removed.

        An unknown id raises an error and nothing is removed. `compact` frees their disk space.
        """
        with self.writing() as writer:
            return writer.remove(ids)

    def compact(self) -> tuple[int, int]:
        """Merge small shards and drop removed fragments; return the number of shards before and after."""
        with self.writing() as writer:
            return writer.compact()

    def verify(self, *, progress: Progress | None = None) -> Verified:
        """Verify every byte; return the problems, with remedies, and remarks."""
        return verify(self.path, progress=progress)

    def batches(
        self, pool: Workers, work: Sequence[tuple[Fragment, str]], recipe: Recipe, progress: Progress | None
    ) -> Iterator[Batch]:
        """Describe photographs and write their shards, a batch at a time; a batch has all pieces of a photograph."""
        encoder = self.path / encoder_name(recipe)
        described = describe_all([photograph for photograph, _ in work], encoder, recipe, pool, progress)
        some: list[tuple[str, Described]] = []
        for (_, digest), one in zip(work, described, strict=True):
            some.append((digest, one))
            if sum(len(one.pieces) for _, one in some) >= BATCH:
                yield batch_of(self.path, some)
                some = []
        if some:
            yield batch_of(self.path, some)

    def _check_recipe(self, database: sqlite3.Connection) -> None:
        if Recipe.from_json(manifest.read_meta(database)["recipe"]) != self.recipe:
            raise Conflict("{collection} was adapted since it was opened; open it again", collection=self.path)


def _whole(description: Description, entry: Entry, outline: NDArray[np.int32]) -> Description:
    """Complete a shard's description of a fragment with the manifest's columns."""
    return replace(description, note=entry.note, outline=outline, **entry.measured)


def exists(path: Path) -> bool:
    """Return whether `path` exists and is not an empty folder."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _settled(path: Path, look: Callable[[sqlite3.Connection], Found]) -> Found:
    """Call `look` on one state of the manifest. Retry if its files vanish because a writer replaced them."""
    while True:
        with manifest.connect(path) as database:
            try:
                return look(database)
            except MembraError:
                if _unchanged(path, database):
                    raise


def _unchanged(path: Path, database: sqlite3.Connection) -> bool:
    """Return whether the manifest names the same shards now as in the open transaction."""
    with manifest.connect(path) as now:
        return [w for w, _ in manifest.shards(now)] == [w for w, _ in manifest.shards(database)]


def _remove_unfinished(path: Path) -> None:
    """Remove the folders that killed creations of this same collection left behind."""
    for lock in path.parent.glob(f".{glob.escape(path.name[:60])}.*{_UNFINISHED}/{_LOCK}"):
        if not is_locked(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)
