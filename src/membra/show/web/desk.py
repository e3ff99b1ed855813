"""What the pages work on: the collection, opened again when it changes; verdicts; dropped images; long work."""

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

MAX_DROPPED = 40  # images that are kept for looking at; the oldest goes first
ADDED = "added"  # folder of the collection for images that were dropped in and then added


GOING_ON: Any = object()  # in place of an outcome: ask again
_QUIET = 0.3  # seconds without a request after which work in the background takes nobody's time


@dataclass(frozen=True)
class Item:
    """Something to look at: a fragment of the collection, or an image that was dropped in."""

    name: str
    path: Path
    id: str = ""  # a fragment's
    upload: str = ""  # a dropped image's
    entry: Entry | None = None
    piece: int = 0  # its number among the pieces of the photograph; 0 where that shows one
    sha256: str = ""  # of the photograph's bytes


@dataclass
class _Work:
    """Long work of one kind: a thread of its own, what the present outcome depends on, and the outcome before."""

    worker: ThreadPoolExecutor
    key: object = None
    future: "Future[Any]" = field(default_factory=Future)
    before: Any = GOING_ON

    def latest(self) -> Any:
        """The present outcome where there is one, else the one before."""
        done = self.future.done() and not self.future.cancelled() and self.future.exception() is None
        return self.future.result() if done else self.before


class Desk:
    """One for each server."""

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
        self.unread: Message | None = None  # why notes and tags are not shown
        self._attended = threading.Condition()
        self._requests, self._last = 0, 0.0  # being answered now; when the last was
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
        """The address of this server, with a slash at its end, as others reach it: as told, or as asked."""
        return self._base_url or str(asked)

    def holding(self, *, newest: bool = False) -> Holding:
        """The collection as it is now. What was read stays until the manifest changes.

        When it has changed, whoever comes first reads it anew; to others the state before serves meanwhile, unless
        they ask for the `newest`.
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
        """While a request is answered."""
        with self._attended:
            self._requests += 1
        try:
            yield
        finally:
            with self._attended:
                self._requests, self._last = self._requests - 1, time.monotonic()

    def when_quiet(self, at_most: float = 2.0) -> None:
        """Wait until nobody is being served, but not for ever: what is worked out beside takes no one's time."""
        until = time.monotonic() + at_most
        while time.monotonic() < until:
            with self._attended:
                if self._closed or (not self._requests and time.monotonic() - self._last > _QUIET):
                    return
            time.sleep(0.05)

    def item(self, id: str = "", upload: str = "") -> Item:
        """The fragment `id`, or the dropped image `upload`. Names are looked up, never made into paths."""
        if upload:
            with self._lock:
                if upload in self._dropped:
                    return self._dropped[upload][0]
            raise NotFound("That image is no longer kept; drop it in again")
        entry = self.holding().by_id.get(id) or self.holding(newest=True).by_id.get(id)
        if entry is None:
            raise NotFound("There is no fragment of that name in this collection")
        if _leads_out(entry.fragment.path, self.path):
            raise NotFound("The image of this fragment is not in the collection any more")
        piece, digest = entry.fragment.piece, entry.sha256
        return Item(name_of(entry), entry.fragment.path, id=id, entry=entry, piece=piece, sha256=digest)

    def photograph_of(self, id: str) -> str:
        """The photograph that a fragment is on; a photograph of several pieces stands for itself."""
        found = self.holding().by_id.get(id) or self.holding(newest=True).by_id.get(id)
        if found:
            return self.item(id).entry.fragment.photograph  # type: ignore[union-attr]
        if id in self.holding().pieces:
            return id
        raise NotFound("There is no fragment of that name in this collection")

    def on_photograph(self, photograph: str) -> list[str]:
        """The fragments that a photograph shows now."""
        return self._said()[1].get(photograph, [])

    def marks(self) -> Mapping[str, Marks]:
        """Tags, bookmarks and notes, by fragment, as they are now."""
        return self._said()[0]

    def tags(self) -> dict[str, int]:
        """Every tag, the most frequent first, and on how many fragments it is."""
        return dict(Counter(tag for marks in self.marks().values() for tag in marks.tags).most_common())

    def _said(self) -> tuple[Mapping[str, Marks], Mapping[str, list[str]]]:
        """What was said of fragments, and which each photograph shows; read anew when something more was said.

        While it cannot be read it is nothing, and `unread` says why: no page is refused for what is beside the matter.
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
        """What is known of an item; `MembraError` with the reason where it was refused."""
        if item.upload:
            with self._lock:
                if item.upload in self._dropped:
                    return self._dropped[item.upload][1]
            raise NotFound("That image is no longer kept; drop it in again")
        return self.holding().description(item.id)

    def standing(self, item: Item) -> Standing:
        """How its photograph is to be shown."""
        if item.entry and (item.entry.refused or not item.piece):
            return Standing(item.entry.angle)
        description = self.description(item)
        outline = description.outline.tolist() if item.piece else []
        return Standing(description.angle, tuple((x, y) for x, y in outline))

    def take_back(self, number: int, person: str, by: str) -> Verdict:
        """Take a verdict back: one's own, where the server knows the `person` who asks."""
        given = next((one for one in self.verdicts.history() if one.number == number), None)
        if given:
            check_own(person, given.by)
        return self.verdicts.undo(number, by=signed(person, by))

    def drop(self, name: str, content: bytes) -> Item:
        """Look at an image without adding it to the collection. `Refused` with the reason where that cannot be."""
        if not content:
            raise Invalid("No image was chosen; choose a file or drop one here")
        key = secrets.token_urlsafe(12)
        path = self.dropped_folder / key  # by its content, whatever it is called
        path.write_bytes(content)
        try:
            holding = self.holding()
            holding.collection.check_current()
            recipe = holding.collection.recipe
            piece, reading = pick(Fragment(name, path), recipe)  # of several the most legible, as the search does
            described = describe_reading(reading, holding.encoder, recipe)
        except MembraError as error:
            path.unlink(missing_ok=True)
            raise error.replaced(file=name) from None  # by the name that it has for whoever dropped it
        digest = hashlib.sha256(content).hexdigest()
        item = Item(name, path, upload=key, piece=piece.piece, sha256=digest)
        with self._lock:
            self._dropped[key] = (item, described)
            old = self._dropped.popitem(last=False) if len(self._dropped) > MAX_DROPPED else None
        if old:
            old[1][0].path.unlink(missing_ok=True)
        return item

    def add(self, upload: str, columns: Mapping[str, str] | None = None) -> str:
        """Add a dropped image to the collection, with what is known of it; its id, or that of its most legible piece.

        The file is kept in the collection's own folder.
        """
        item = self.item(upload=upload)
        folder = self.path / ADDED
        if folder.is_symlink():
            raise Invalid("the collection's folder for added images is a link, which may lead anywhere; remove it")
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
        """The outcome of long work on the collection as it is, and True; else what there was before, and False.

        The work is started when it is first asked for; `GOING_ON` stands for an outcome that never was. `depends`:
        when it changes, the work is done anew. An error of the work is raised here. Each `name` has a thread of its
        own, so that nothing waits for what takes minutes in a large collection.
        """
        key: object = (self.holding(), depends)
        with self._lock:
            if self._closed:
                raise Busy("the server is being stopped; start it again")
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
        except (NotYet, CancelledError):  # cancelled where something was decided meanwhile: it is done anew
            return work.before, False

    def latest(self, name: str) -> Any:
        """What `later` has worked out last under this name, though it may be of a state before; nothing is started."""
        with self._lock:
            return self._work[name].latest() if name in self._work else GOING_ON


def checked_base(url: str) -> str:
    """An address that others can reach, with a slash at its end; nothing where none is given."""
    if url and not re.match(r"https?://[^\s?#]+$", url):
        raise Invalid("{url} is no base address; give one such as https://example.org/membra/", url=url)
    return f"{url.rstrip('/')}/" if url else ""


def _prepare(holding: Holding) -> None:
    """Read what every page asks for, before it is anybody's turn to wait for it."""
    _ = holding.by_id, holding.indices, holding.names  # these keep what they have read once
    with suppress(MembraError, OSError):  # told to whoever searches; the list is there all the same
        _ = holding.mapped


def _opened(path: Path, before: Collection | None) -> Collection:
    """The collection as it is now. What was mapped and checked stays, unless it was adapted: only news are read."""
    if before is not None:
        with suppress(MembraError), before.reading():
            return before
    return Collection.open(path)


def _leads_out(path: Path, folder: Path) -> bool:
    """Whether a file of the collection's own folder is a link to elsewhere. Photographs lie where their owner likes."""
    return path.absolute().is_relative_to(folder.absolute()) and not path.resolve().is_relative_to(folder.resolve())


def _free_name(folder: Path, wanted: str) -> str:
    """A file name of its own: what was given without folders and control characters, and a number if it is taken."""
    plain = "".join(c for c in wanted.replace("\\", "/").rsplit("/", 1)[-1] if c.isprintable()).strip(". ")
    # Bytes, not letters, are what a file's name may have 255 of; some are for a number and for writing it whole.
    short = plain.encode("utf-8", "replace")[-160:].decode("utf-8", "ignore")
    stem, dot, suffix = short.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (suffix, "")
    stem = stem or "image"
    for number in range(1, 100_000):
        name = f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}"
        if not (folder / name).exists():
            return name
    raise Invalid("too many images of this name were added; rename it")
