"""State of the pages: the collection, reopened when it changes; verdicts; dropped images; background tasks."""

import hashlib
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from membra.describe.recipe import Description, describe_reading, pick
from membra.errors import Busy, Damaged, Invalid, MembraError, NotFound, Refused
from membra.files import atomic_write
from membra.messages import Message
from membra.show.holding import Holding, name_of
from membra.show.web.images import Pictures, Standing
from membra.show.web.parameters import check_own, signed
from membra.show.web.watch import Watch
from membra.sources.fragment import Fragment
from membra.store.annotations import Annotations, Marks, marks_of, on_photographs
from membra.store.collection import Collection, Entry
from membra.store.verdicts import Verdict, Verdicts

MAX_DROPPED = 40  # dropped images that are kept; the oldest is removed first
ADDED = "added"  # folder of the collection for images that were dropped in and then added


GOING_ON: Any = object()  # instead of a result: not ready, ask again
_QUIET = 0.3  # seconds without a request after which background tasks run


@dataclass(frozen=True)
class Item:
    """A fragment of the collection, or a dropped image."""

    name: str
    path: Path
    id: str = ""  # a fragment's
    upload: str = ""  # a dropped image's
    entry: Entry | None = None
    piece: int = 0  # its number among the photograph's pieces; 0 if there is only one
    sha256: str = ""  # of the photograph's bytes


@dataclass
class _Work:
    """A background task: its thread, the key and future of the current run, and the previous result."""

    worker: ThreadPoolExecutor
    key: object = None
    future: "Future[Any]" = field(default_factory=Future)
    before: Any = GOING_ON

    def latest(self) -> Any:
        """Return the current result if there is one, else the previous one."""
        done = self.future.done() and not self.future.cancelled() and self.future.exception() is None
        return self.future.result() if done else self.before


class Desk:
    """The shared state of one server."""

    def __init__(self, path: Path, cache: Path, base_url: str = "") -> None:
        self.path = path
        self._base_url = checked_base(base_url)
        self.pictures = Pictures(cache)
        self.verdicts = Verdicts.open(path)
        self.dropped_folder = Path(tempfile.mkdtemp(prefix="membra-dropped-"))
        self._dropped: OrderedDict[str, tuple[Item, Description]] = OrderedDict()
        self._watch = Watch(path)
        self._lock = threading.Lock()
        self._renewal = threading.Lock()
        self._state: tuple[Any, Holding] | None = None
        self._work: dict[str, _Work] = {}
        self._marks: tuple[Holding, int, tuple[Mapping[str, Marks], Mapping[str, list[str]]]] | None = None
        self.unread: Message | None = None  # reason why notes and tags cannot be shown
        self._attended = threading.Condition()
        self._requests, self._last = 0, 0.0  # requests in progress; time of the last one
        self._closed = False
        self.holding()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for work in self._work.values():
            work.worker.shutdown(wait=False, cancel_futures=True)
        self._watch.close()
        shutil.rmtree(self.dropped_folder, ignore_errors=True)

    def base_of(self, asked: object) -> str:
        """Return the server's public URL with a trailing slash: the configured one, or that of the request."""
        return self._base_url or str(asked)

    def holding(self, *, newest: bool = False) -> Holding:
        """Return the current state of the collection. It stays in memory until the manifest changes.

        After a change, the first caller reads it again; others get the former state meanwhile, unless they ask for the
        `newest`.
        """
        now = self._watch.now()
        state = self._state
        if state is not None and state[0] == now:
            return state[1]
        if not self._renewal.acquire(blocking=newest or state is None):
            assert state is not None
            return state[1]
        try:
            now, state = self._watch.now(), self._state
            if state is None or state[0] != now:
                holding = Holding(_opened(self.path, state[1].collection if state else None))
                if state is not None:
                    _prepare(holding)
                state = self._state = (now, holding)
            return state[1]
        finally:
            self._renewal.release()

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Count a request as in progress during the block."""
        with self._attended:
            self._requests += 1
        try:
            yield
        finally:
            with self._attended:
                self._requests, self._last = self._requests - 1, time.monotonic()

    def when_quiet(self, at_most: float = 2.0) -> None:
        """Wait, `at_most` seconds, until no request is in progress, so that background tasks do not slow answers."""
        until = time.monotonic() + at_most
        while time.monotonic() < until:
            with self._attended:
                if self._closed or (not self._requests and time.monotonic() - self._last > _QUIET):
                    return
            time.sleep(0.05)

    def item(self, id: str = "", upload: str = "") -> Item:
        """Return the fragment `id` or the dropped image `upload`. Names are looked up, never turned into paths."""
        if upload:
            with self._lock:
                if upload in self._dropped:
                    return self._dropped[upload][0]
            raise NotFound("That image is no longer available; choose it again")
        entry = self.holding().by_id.get(id) or self.holding(newest=True).by_id.get(id)
        if entry is None:
            raise NotFound("There is no fragment of that name in this collection")
        if _is_link_out(entry.fragment.path, self.path):
            raise NotFound("The image of this fragment is not in the collection any more")
        piece, digest = entry.fragment.piece, entry.sha256
        return Item(name_of(entry), entry.fragment.path, id=id, entry=entry, piece=piece, sha256=digest)

    def photograph_of(self, id: str) -> str:
        """Return the photograph of a fragment; the id of a photograph of several pieces is returned as it is."""
        found = self.holding().by_id.get(id) or self.holding(newest=True).by_id.get(id)
        if found:
            return self.item(id).entry.fragment.photograph  # type: ignore[union-attr]
        if id in self.holding().pieces:
            return id
        raise NotFound("There is no fragment of that name in this collection")

    def on_photograph(self, photograph: str) -> list[str]:
        """Return the fragments that a photograph shows now."""
        return self._said()[1].get(photograph, [])

    def marks(self) -> Mapping[str, Marks]:
        """Return the current tags, bookmarks and notes by fragment."""
        return self._said()[0]

    def tags(self) -> dict[str, int]:
        """Return every tag with its number of fragments, the most frequent first."""
        return dict(Counter(tag for marks in self.marks().values() for tag in marks.tags).most_common())

    def _said(self) -> tuple[Mapping[str, Marks], Mapping[str, list[str]]]:
        """Return the marks of fragments and the fragments of photographs; read again after a new annotation.

        If the annotations cannot be read, the marks are empty and `unread` has the reason: pages work without them.
        """
        annotations = Annotations.open(self.path)
        holding, kept = self.holding(), self._marks
        try:
            last = annotations.last()
            known = kept is not None and kept[0] is holding and kept[1] == last
            history = [] if known else annotations.history()
            self.unread = None
        except Damaged as error:
            self.unread = Message("notes and tags cannot be shown: {why}", why=error.message)
            last, history = -1, []
        if kept is None or kept[0] is not holding or kept[1] != last:
            on = on_photographs(holding.entries)
            kept = self._marks = (holding, last, (marks_of(history, on), on))
        return kept[2]

    def description(self, item: Item) -> Description:
        """Return the description of an item; raise `MembraError` with the reason if it was rejected."""
        if item.upload:
            with self._lock:
                if item.upload in self._dropped:
                    return self._dropped[item.upload][1]
            raise NotFound("That image is no longer available; choose it again")
        return self.holding().description(item.id)

    def standing(self, item: Item) -> Standing:
        """Return how its photograph is to be shown."""
        if item.entry and (item.entry.refused or not item.piece):
            return Standing(item.entry.angle)
        description = self.description(item)
        outline = description.outline.tolist() if item.piece else []
        return Standing(description.angle, tuple((x, y) for x, y in outline))

    def take_back(self, number: int, person: str, by: str) -> Verdict:
        """Take a verdict back; if the server identifies people, `person` can take back only their own."""
        given = next((one for one in self.verdicts.history() if one.number == number), None)
        if given:
            check_own(person, given.by)
        return self.verdicts.undo(number, by=signed(person, by))

    def drop(self, name: str, content: bytes) -> Item:
        """Describe an image without adding it to the collection; raise `Refused` with the reason if that fails."""
        if not content:
            raise Invalid("No image was chosen; choose a file or drop one here")
        key = secrets.token_urlsafe(12)
        path = self.dropped_folder / key  # the name is not used in the path
        path.write_bytes(content)
        try:
            holding = self.holding()
            holding.collection.check_current()
            recipe = holding.collection.recipe
            piece, reading = pick(Fragment(name, path), recipe)  # of several pieces the most legible, as in a search
            described = describe_reading(reading, holding.encoder, recipe)
        except MembraError as error:
            path.unlink(missing_ok=True)
            raise error.replaced(file=name) from None  # named as the user named it
        digest = hashlib.sha256(content).hexdigest()
        item = Item(name, path, upload=key, piece=piece.piece, sha256=digest)
        with self._lock:
            self._dropped[key] = (item, described)
            old = self._dropped.popitem(last=False) if len(self._dropped) > MAX_DROPPED else None
        if old:
            old[1][0].path.unlink(missing_ok=True)
        return item

    def add(self, upload: str, columns: Mapping[str, str] | None = None) -> str:
        """Add a dropped image with its metadata to the collection; return its id, or that of its most legible piece.

        The file is kept in the collection's own folder.
        """
        item = self.item(upload=upload)
        folder = self.path / ADDED
        if folder.is_symlink():
            raise Invalid(
                "the collection's folder for added images is a symbolic link, which is not followed for safety; "
                "remove it"
            )
        folder.mkdir(exist_ok=True)
        name = _free_name(folder, item.name)
        atomic_write(folder / name, item.path.read_bytes())
        id = f"{ADDED}/{name}"
        try:
            collection = Collection.open(self.path)
            done = collection.add([Fragment(id, folder / name, columns or {})])
        except BaseException:
            (folder / name).unlink(missing_ok=True)
            raise
        if done.refused and not done.described:
            raise Refused(done.refused[0][1])
        entry = collection.entry(id)
        return entry.fragment.id if entry else id

    def later(self, name: str, depends: object, make: Callable[[], Any], patience: float = 0.6) -> tuple[Any, bool]:
        """Return the result of a background task for the current collection and True, or the former result and False.

        The task starts on first request; `GOING_ON` stands for a missing former result. When `depends` changes, the
        task runs again. Its errors are raised here. Each `name` has its own thread, so that no task waits for one that
        takes minutes in a large collection.
        """
        key: object = (self.holding(), depends)
        with self._lock:
            if self._closed:
                raise Busy("the server is shutting down; start it again")
            if name not in self._work:
                self._work[name] = _Work(ThreadPoolExecutor(1, thread_name_prefix=f"membra-{name}"))
            work = self._work[name]
            if work.key != key:
                work.before = work.latest()
                work.future.cancel()
                work.key, work.future = key, work.worker.submit(make)
            future = work.future
        try:
            return future.result(timeout=patience), True
        except (NotYet, CancelledError):  # cancelled after a verdict in the meantime: it runs again
            return work.before, False

    def latest(self, name: str) -> Any:
        """Return the last result of `later` under this name, possibly of a former state; starts nothing."""
        with self._lock:
            return self._work[name].latest() if name in self._work else GOING_ON


def checked_base(url: str) -> str:
    """Return a base URL with a trailing slash, or "" without one; raise `Invalid` if it is malformed."""
    if url and not re.match(r"https?://[^\s?#]+$", url):
        raise Invalid("{url} is not a valid base URL; give one such as https://example.org/membra/", url=url)
    return f"{url.rstrip('/')}/" if url else ""


def _prepare(holding: Holding) -> None:
    """Read what every page needs before a request waits for it."""
    _ = holding.by_id, holding.indices, holding.names  # computed once and cached
    with suppress(MembraError, OSError):  # raised again by a search; the list works anyway
        _ = holding.mapped


def _opened(path: Path, before: Collection | None) -> Collection:
    """Return the current collection. Mapped, checked shards are reused unless it was adapted; only changes are read."""
    if before is not None:
        with suppress(MembraError), before.reading():
            return before
    return Collection.open(path)


def _is_link_out(path: Path, folder: Path) -> bool:
    """Return whether a file in the collection's folder is a link out of it. Photographs elsewhere are allowed."""
    return path.absolute().is_relative_to(folder.absolute()) and not path.resolve().is_relative_to(folder.resolve())


def _free_name(folder: Path, wanted: str) -> str:
    """Return an unused file name: the given one without folders and control characters, numbered if it is taken."""
    plain = "".join(c for c in wanted.replace("\\", "/").rsplit("/", 1)[-1] if c.isprintable()).strip(". ")
    # A file name is limited to 255 bytes, not characters; some are reserved for a number and a temporary name.
    short = plain.encode("utf-8", "replace")[-160:].decode("utf-8", "ignore")
    stem, dot, suffix = short.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (suffix, "")
    stem = stem or "image"
    for number in range(1, 100_000):
        name = f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}"
        if not (folder / name).exists():
            return name
    raise Invalid("too many images of this name were added; rename the image")
