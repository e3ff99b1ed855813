"""Maps work over many fragments, serially or in worker processes, in order and in bounded memory."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import TypeVar

import cv2
from threadpoolctl import threadpool_limits

from membra.describe.encoder import Encoder
from membra.describe.recipe import Described, Recipe, describe_photograph
from membra.errors import Refused, Unavailable
from membra.progress import Progress
from membra.sources.fragment import Fragment

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A pool of `count` worker processes, started with the first work, ended by `dismiss` or at the end of the block.

    With a `count` of one, or for one item, the work is done in the calling process.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()

    def dismiss(self) -> None:
        """End the processes, which occupy memory; the next work starts new ones."""
        pool, self._pool = self._pool, None
        if pool:
            pool.shutdown(cancel_futures=True)

    def each(
        self, work: Callable[[Item], Result], items: Sequence[Item], progress: Progress | None = None
    ) -> Iterator[Result]:
        """Yield the result of `work`, which must be picklable, for each of `items`, in order."""
        outcomes = map(work, items) if self.alone(items) else self._in_processes(work, items)
        for done, outcome in enumerate(outcomes, start=1):
            yield outcome
            if progress:
                progress(done, len(items))

    def alone(self, items: Sequence[object]) -> bool:
        """Return whether work on `items` is done in the calling process."""
        return min(self.count, len(items)) <= 1

    def _in_processes(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        # Spawned, not forked: ONNX Runtime and OpenCV have threads that do not survive a fork.
        pool = self._pool = self._pool or ProcessPoolExecutor(self.count, get_context("spawn"), _begin)
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                with _deferred(signal.SIGINT):
                    waiting.append(pool.submit(work, item))
                if len(waiting) > 4 * self.count:  # bounded, so that memory does not grow with the collection
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise Unavailable(
                "a worker process died, probably because memory ran out; stored results are kept: run the command "
                "again with fewer --workers"
            ) from None


def describe_all(
    photographs: Sequence[Fragment],
    encoder: Path,
    recipe: Recipe,
    pool: Workers,
    progress: Progress | None,
) -> Iterator[Described]:
    """Describe each photograph, and yield the results in order."""
    if pool.alone(photographs):
        here = partial(describe_photograph, encoder=Encoder.open(encoder), recipe=recipe)
        return pool.each(partial(described_by, here), photographs, progress)
    return pool.each(partial(_describe, encoder=encoder, recipe=recipe), photographs, progress)


def described_by(work: Callable[[Fragment], Described], photograph: Fragment) -> Described:
    """Run `work` on one photograph; where it fails, the photograph is rejected as a whole."""
    found = outcome_of(work, photograph)
    return Described([(photograph, found)]) if isinstance(found, Refused) else found


def outcome_of(work: Callable[[Fragment], Result], fragment: Fragment) -> Result | Refused:
    """Run `work` on one fragment; return its result, or the reason of its failure."""
    try:
        return work(fragment)
    except Refused as reason:
        return reason
    except (MemoryError, cv2.error) as error:  # an image that is too large or malformed must not end the run
        return Refused(
            "{file}: could not be processed ({why}); scale the image down",
            file=fragment.path.name,
            why=type(error).__name__,
        )


def _describe(photograph: Fragment, *, encoder: Path, recipe: Recipe) -> Described:
    """Describe one photograph in a worker process."""
    return described_by(partial(describe_photograph, encoder=_encoder(encoder), recipe=recipe), photograph)


@lru_cache(maxsize=1)
def _encoder(path: Path) -> Encoder:
    return Encoder.open(path, threads=1)  # once per worker process


@contextmanager
def _deferred(sign: signal.Signals) -> Iterator[None]:
    """Defer a signal until the block ends. Processes started within it never receive it: the parent ends them.

    The signal mask, which child processes inherit, protects them. It does not suffice for the parent: threads of
    libraries do not block the signal, and Python would interrupt the main thread for one of them while it starts a
    process. So the parent replaces its handler as well.
    """
    received: list[int] = []
    here = current_thread() is main_thread()  # only there can signals be handled
    handler = signal.signal(sign, lambda number, _: received.append(number)) if here else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {sign})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if here:
            signal.signal(sign, handler)
    if received:
        signal.raise_signal(sign)


def _begin() -> None:
    """Initialise a worker process."""
    Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)  # one thread of everything: there are as many workers as cores
    threadpool_limits(1)


def _end_with_parent() -> None:
    """End this process when its parent dies: a worker is not notified of that, and would wait for work for ever."""
    parent = parent_process()
    if parent:
        wait([parent.sentinel])
        os._exit(1)
