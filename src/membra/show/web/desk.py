"""What the pages work on: the collection, opened again when it changes; verdicts; dropped images; long work."""

import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from membra.describe.recipe import Description, describe
from membra.errors import MembraError
from membra.files import write_whole
from membra.find.collection import Collection, Entry
from membra.find.verdicts import Verdicts
from membra.see.fragment import Fragment
from membra.show.holding import Holding, name_of
from membra.show.web.images import Pictures

MOST_DROPPED = 40  # images that are kept for looking at; the oldest goes first
ADDED = "added"  # folder of the collection for images that were dropped in and then added


GOING_ON = object()  # in place of an outcome: ask again


class NotThere(MembraError):
    """No fragment or dropped image of that name."""


@dataclass(frozen=True)
class Item:
    """Something to look at: a fragment of the collection, or an image that was dropped in."""

    name: str
    path: Path
    id: str = ""  # a fragment's
    upload: str = ""  # a dropped image's
    entry: Entry | None = None


class Desk:
    """One for each server."""

    def __init__(self, path: Path, cache: Path) -> None:
        self.path = path
        self.pictures = Pictures(cache)
        self.verdicts = Verdicts.open(path)
        self._dropped_folder = Path(tempfile.mkdtemp(prefix="membra-dropped-"))
        self._dropped: OrderedDict[str, tuple[Item, Description]] = OrderedDict()
        self._lock = threading.Lock()
        self._state: tuple[Any, Holding] | None = None
        self._work: dict[str, tuple[object, Future[Any]]] = {}
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="membra-work")
        self.holding()

    def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._dropped_folder, ignore_errors=True)

    def holding(self) -> Holding:
        """The collection as it is now. What was read stays until the manifest changes."""
        now = _fingerprint(self.path)
        with self._lock:
            if self._state is None or self._state[0] != now:
                self._state = (now, Holding(Collection.open(self.path)))
            return self._state[1]

    def item(self, id: str = "", upload: str = "") -> Item:
        """The fragment `id`, or the dropped image `upload`. Names are looked up, never made into paths."""
        if upload:
            with self._lock:
                if upload in self._dropped:
                    return self._dropped[upload][0]
            raise NotThere("That image is no longer kept; drop it in again")
        entry = self.holding().by_id.get(id)
        if entry is None:
            raise NotThere("There is no fragment of that name in this collection")
        return Item(name_of(entry), entry.fragment.path, id=id, entry=entry)

    def description(self, item: Item) -> Description:
        """What is known of an item; `MembraError` with the reason where it was refused."""
        if item.upload:
            with self._lock:
                if item.upload in self._dropped:
                    return self._dropped[item.upload][1]
            raise NotThere("That image is no longer kept; drop it in again")
        return self.holding().description(item.id)

    def drop(self, name: str, content: bytes) -> Item:
        """Look at an image without adding it to the collection. `Refused` with the reason where that cannot be."""
        if not content:
            raise MembraError("No image was chosen; choose a file or drop one here")
        key = secrets.token_urlsafe(12)
        path = self._dropped_folder / key  # by its content, whatever it is called
        path.write_bytes(content)
        try:
            holding = self.holding()
            described = describe(Fragment(name, path), holding.encoder, holding.collection.recipe)
        except MembraError as error:
            path.unlink(missing_ok=True)
            raise MembraError(str(error).replace(key, name)) from None
        item = Item(name, path, upload=key)
        with self._lock:
            self._dropped[key] = (item, described)
            old = self._dropped.popitem(last=False) if len(self._dropped) > MOST_DROPPED else None
        if old:
            old[1][0].path.unlink(missing_ok=True)
        return item

    def add(self, upload: str) -> str:
        """Add a dropped image to the collection; its id. The file is kept in the collection's own folder."""
        item = self.item(upload=upload)
        folder = self.path / ADDED
        folder.mkdir(exist_ok=True)
        name = _free_name(folder, item.name)
        write_whole(folder / name, item.path.read_bytes())
        id = f"{ADDED}/{name}"
        try:
            done = Collection.open(self.path).add([Fragment(id, folder / name)])
        except BaseException:
            (folder / name).unlink(missing_ok=True)
            raise
        if done.refused:
            raise MembraError(done.refused[0][1])
        return id

    def later(self, name: str, depends: object, make: Callable[[], Any], patience: float = 0.6) -> Any:
        """The outcome of long work on the collection as it is, or `GOING_ON`. It is started when first asked for.

        `depends`: when it changes, the work is done anew. An error of the work is raised here.
        """
        key: object = (id(self.holding()), depends)
        with self._lock:
            known = self._work.get(name)
            if known is None or known[0] != key:
                if known:
                    known[1].cancel()
                known = self._work[name] = (key, self._workers.submit(make))
        try:
            return known[1].result(timeout=patience)
        except NotYet:
            return GOING_ON


def _fingerprint(path: Path) -> tuple[int, ...]:
    """Changes when the manifest does: SQLite writes to the file, or to the log beside it."""
    found = []
    for name in ("manifest.sqlite", "manifest.sqlite-wal"):
        try:
            there = (path / name).stat()
        except OSError:
            found += [0, 0]
            continue
        # An empty log comes and goes with readers; only one with content says something.
        found += [there.st_mtime_ns, there.st_size] if there.st_size else [0, 0]
    return tuple(found)


def _free_name(folder: Path, wanted: str) -> str:
    """A file name of its own: what was given without folders and control characters, and a number if it is taken."""
    plain = "".join(c for c in wanted.replace("\\", "/").rsplit("/", 1)[-1] if c.isprintable()).strip(". ")
    stem, dot, suffix = plain[-80:].rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (suffix, "")
    stem = stem or "image"
    for number in range(1, 100_000):
        name = f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}"
        if not (folder / name).exists():
            return name
    raise MembraError("too many images of this name were added; rename it")
