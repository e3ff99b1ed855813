"""A collection on disk: a folder with a SQLite manifest, immutable shards, and the encoder that described them."""

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description, Recipe
from membra.errors import MembraError, Refused, TooFewLetters
from membra.files import held_alone, sync_folder, write_whole
from membra.find.shard import read_shard, write_shard
from membra.find.workers import Progress, describe_all
from membra.see.fragment import Fragment

FORMAT = 1  # raised when an older membra could misread the folder
_BATCH = 50  # fragments a shard: work that a kill can cost

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE shards (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL);
CREATE TABLE fragments (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    columns TEXT NOT NULL,
    refused TEXT NOT NULL,  -- why it could not be described; empty where it was
    note TEXT NOT NULL,
    glyphs INTEGER NOT NULL,
    shard TEXT REFERENCES shards (name),
    place INTEGER
);
"""

_ENTRY = "id, path, columns, refused, note, glyphs"
_INSERT = (
    "INSERT OR REPLACE INTO fragments (id, path, sha256, columns, refused, note, glyphs, shard, place) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True)
class Entry:
    """One line of the manifest: a fragment, and what became of it."""

    fragment: Fragment
    refused: str  # the reason, or nothing
    note: str
    glyphs: int


@dataclass(frozen=True)
class Added:
    """What `Collection.add` did, in numbers, and what it could not do, with reasons."""

    described: int
    few_letters: int
    unchanged: int
    readable: int  # images that could be opened, whatever was on them
    refused: list[tuple[str, str]]  # id, reason


class Collection:
    """Fragments described by one recipe and one encoder. Open or create it; never construct it by hand."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path = path
        self.recipe = recipe

    @classmethod
    def create(cls, path: str | Path, *, encoder: Encoder | None = None, recipe: Recipe = MEMBRA) -> "Collection":
        """An empty collection in a new folder `path`, which appears complete or not at all.

        Without an `encoder`, the one that comes with membra.
        """
        path = Path(path)
        encoder = encoder or Encoder.ready()
        if exists(path):
            raise MembraError(f"{path} exists already; give another name, or index into it")
        path.parent.mkdir(parents=True, exist_ok=True)
        recipe = replace(recipe, encoder=encoder.digest)
        beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            os.chmod(beside, 0o755)
            (beside / "shards").mkdir()
            write_whole(beside / encoder_name(recipe), encoder.onnx)
            with closing(sqlite3.connect(beside / "manifest.sqlite")) as database:
                database.executescript(f"PRAGMA journal_mode = WAL; {_SCHEMA}")
                values = {"format": str(FORMAT), "recipe": recipe.to_json()}
                with database:
                    database.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
            os.replace(beside, path)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_folder(path.parent)
        return cls(path, recipe)

    @classmethod
    def open(cls, path: str | Path) -> "Collection":
        """The collection in folder `path`. Checks that it is one and that every shard is there."""
        path = Path(path)
        if not (path / "manifest.sqlite").is_file():
            raise MembraError(f"{path} is not a collection; make one with `membra index SOURCE --into NEW`")
        with _connect(path) as database:
            meta = dict(database.execute("SELECT key, value FROM meta"))
            shards = [name for (name,) in database.execute("SELECT name FROM shards")]
        if meta.get("format") != str(FORMAT):
            raise MembraError(
                f"{path} has format {meta.get('format')}, and this membra reads {FORMAT}; "
                "index again, or use that version"
            )
        lost = [name for name in shards if not (path / "shards" / name).is_file()]
        if lost:
            raise MembraError(f"{path} has lost the shard {lost[0]}; restore it from a copy, or index again")
        return cls(path, Recipe.from_json(meta["recipe"]))

    def encoder(self, *, threads: int = 0) -> Encoder:
        """The encoder that described this collection."""
        encoder = Encoder.open(self.path / encoder_name(self.recipe), threads=threads)
        if encoder.digest != self.recipe.encoder:
            name = encoder_name(self.recipe)
            raise MembraError(f"{self.path}/{name} is not the encoder of this collection; restore it or index again")
        return encoder

    def entries(self) -> list[Entry]:
        """Every fragment, described or refused, in the order in which they came in."""
        with _connect(self.path) as database:
            return [_entry(row) for row in database.execute(f"SELECT {_ENTRY} FROM fragments ORDER BY number")]

    def described(self) -> tuple[list[Entry], list[Description]]:
        """The described fragments and their descriptions, side by side, in the order of `entries`.

        One consistent state: if another process replaces the shards while they are read, they are read again.
        """
        while True:
            rows, digests = self._snapshot()
            try:
                shards = {name: read_shard(self.path / "shards" / name, digest) for name, digest in digests.items()}
            except MembraError:
                if self._snapshot() == (rows, digests):
                    raise  # really damaged or lost
                continue
            found = [replace(shards[row[-2]][row[-1]], note=row[4]) for row in rows]
            return [_entry(row) for row in rows], found

    def _snapshot(self) -> tuple[list[Any], dict[str, str]]:
        """The described lines of the manifest and the checksums of their shards, both of one moment."""
        with _connect(self.path) as database:
            database.execute("BEGIN")
            (recipe,) = database.execute("SELECT value FROM meta WHERE key = 'recipe'").fetchone()
            if recipe != self.recipe.to_json():
                raise MembraError(f"{self.path} was adapted since it was opened; open it again")
            rows = database.execute(
                f"SELECT {_ENTRY}, shard, place FROM fragments WHERE refused = '' ORDER BY number"
            ).fetchall()
            return rows, dict(database.execute("SELECT name, sha256 FROM shards"))

    def add(self, fragments: Iterable[Fragment], *, workers: int = 1, progress: Progress | None = None) -> Added:
        """Describe what is new or changed and store it, a shard at a time; what is stored stays, whatever follows.

        A fragment with the same bytes as before is not described again; one that was refused is tried again.
        """
        with self._sole_writer():
            known = self._known()
            work, same, refused = [], [], []
            for fragment in fragments:
                digest = _digest(fragment.path)
                before = known.get(fragment.id)
                if before and digest and before[1] == digest and not before[2]:
                    same.append(fragment)
                elif before and before[0] != _absolute(fragment.path) and Path(before[0]).exists():
                    refused.append((fragment.id, f"another image of this name is in the collection: {before[0]}"))
                else:
                    work.append((fragment, digest))
            self._touch(same)
            described, few, readable = 0, 0, len(same)
            batch: list[tuple[Fragment, str, Description | Refused]] = []
            outcomes = describe_all(
                [f for f, _ in work], self.path / encoder_name(self.recipe), self.recipe, workers, progress
            )
            for (fragment, digest), outcome in zip(work, outcomes, strict=True):
                batch.append((fragment, digest, outcome))
                if isinstance(outcome, Refused):
                    refused.append((fragment.id, str(outcome)))
                    readable += isinstance(outcome, TooFewLetters)
                else:
                    described += 1
                    readable += 1
                    few += "few letters" in outcome.note
                if len(batch) == _BATCH:
                    self._store(batch)
                    batch = []
            self._store(batch)
        return Added(described, few, len(same), readable, refused)

    def redescribe(self, encoder: Encoder, *, workers: int = 1, progress: Progress | None = None) -> None:
        """Describe every fragment anew with `encoder`: all of them in one transaction at the end, or none."""
        with self._sole_writer():
            recipe = replace(self.recipe, encoder=encoder.digest)
            write_whole(self.path / encoder_name(recipe), encoder.onnx)
            entries = self.entries()
            fragments = [entry.fragment for entry in entries]
            outcomes = describe_all(fragments, self.path / encoder_name(recipe), recipe, workers, progress)
            rows: list[tuple[str | int | None, ...]] = []
            shards, batch = [], []
            for place, (fragment, outcome) in enumerate(zip(fragments, outcomes, strict=True), start=1):
                batch.append((fragment, _digest(fragment.path), outcome))
                if len(batch) == _BATCH or place == len(fragments):
                    shard, lines = self._write(batch)
                    shards += [shard] if shard else []
                    rows += lines
                    batch = []
            with _connect(self.path) as database, database:
                before = [name for (name,) in database.execute("SELECT name FROM shards")]
                database.execute("DELETE FROM fragments")
                database.execute("DELETE FROM shards")
                database.executemany("INSERT OR IGNORE INTO shards VALUES (?, ?)", shards)
                database.executemany(_INSERT, rows)
                database.execute("UPDATE meta SET value = ? WHERE key = 'recipe'", (recipe.to_json(),))
            old, self.recipe = self.recipe, recipe
            # Only now: until the transaction these were the collection, and a reader may still hold them open.
            kept = {name for name, _ in shards}
            for name in (*(f"shards/{name}" for name in before if name not in kept), encoder_name(old)):
                if name != encoder_name(recipe):
                    (self.path / name).unlink(missing_ok=True)

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out. All or none: an unknown id is an error."""
        with self._sole_writer(), _connect(self.path) as database, database:
            for id in ids:
                if database.execute("DELETE FROM fragments WHERE id = ?", (id,)).rowcount == 0:
                    raise MembraError(f"{id} is not in {self.path}; `membra list` shows what is")

    def _store(self, batch: list[tuple[Fragment, str, Description | Refused]]) -> None:
        """One shard, then one transaction: a kill between the two leaves a file that nothing names."""
        if not batch:
            return
        shard, rows = self._write(batch)
        with _connect(self.path) as database, database:
            if shard:
                database.execute("INSERT OR IGNORE INTO shards VALUES (?, ?)", shard)
            database.executemany(_INSERT, rows)

    def _write(
        self, batch: list[tuple[Fragment, str, Description | Refused]]
    ) -> tuple[tuple[str, str] | None, list[tuple[str | int | None, ...]]]:
        """Write the shard of a batch; its name and checksum, and the manifest's lines for the batch."""
        good = [outcome for _, _, outcome in batch if not isinstance(outcome, Refused)]
        shard = write_shard(self.path / "shards", good) if good else None
        rows: list[tuple[str | int | None, ...]] = []
        place = 0
        for fragment, content, outcome in batch:
            head = (fragment.id, _absolute(fragment.path), content, json.dumps(dict(fragment.columns)))
            if isinstance(outcome, Refused) or shard is None:
                rows.append((*head, str(outcome), "", 0, None, None))
            else:
                rows.append((*head, "", outcome.note, len(outcome.boxes), shard[0], place))
                place += 1
        return shard, rows

    def _known(self) -> dict[str, tuple[str, str, str]]:
        """Path, checksum and reason for refusal of every fragment, by id."""
        with _connect(self.path) as database:
            rows = database.execute("SELECT id, path, sha256, refused FROM fragments")
            return {id: (path, digest, refused) for id, path, digest, refused in rows}

    def _touch(self, fragments: Sequence[Fragment]) -> None:
        """The same images, perhaps elsewhere or with other columns."""
        rows = []
        for fragment in fragments:
            columns = json.dumps(dict(fragment.columns))
            rows.append((_absolute(fragment.path), columns, columns, fragment.id))
        with _connect(self.path) as database, database:
            database.executemany(
                "UPDATE fragments SET path = ?, columns = CASE WHEN ? = '{}' THEN columns ELSE ? END WHERE id = ?", rows
            )

    def _sole_writer(self) -> AbstractContextManager[None]:
        """One writer at a time; readers are not disturbed."""
        return held_alone(self.path / "writer.lock", str(self.path))


def _entry(row: Sequence[Any]) -> Entry:
    id, path, columns, refused, note, glyphs = row[:6]
    return Entry(Fragment(id, Path(path), json.loads(columns)), refused, note, glyphs)


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path / "manifest.sqlite", timeout=30)) as database:
            database.execute("PRAGMA synchronous = FULL")
            yield database
    except sqlite3.OperationalError as error:
        raise MembraError(
            f"the manifest of {path} cannot be used now ({error}); make room or check its permissions, then try again"
        ) from None
    except sqlite3.DatabaseError as error:
        raise MembraError(f"the manifest of {path} cannot be used ({error}); restore it from a copy") from None


def exists(path: Path) -> bool:
    """Whether something is at `path`; an empty folder counts as nothing."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def encoder_name(recipe: Recipe) -> str:
    """The file name of a recipe's encoder: by its digest, so that an old and a new one can lie side by side."""
    return f"encoder-{recipe.encoder[:16]}.onnx"


def _absolute(path: Path) -> str:
    return str(path.absolute())


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""  # reading it for description will say why
