"""Work on many fragments, one after the other or in worker processes, in their order and in bounded memory."""

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
    """Processes that work side by side, from the first work that they are given until the block ends or `dismiss`.

    With a `count` of one, or for one item, the work is done here.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()

    def dismiss(self) -> None:
        """End the processes, for as long as there is nothing for them to do: each holds memory."""
        pool, self._pool = self._pool, None
        if pool:
            pool.shutdown(cancel_futures=True)

    def each(
        self, work: Callable[[Item], Result], items: Sequence[Item], progress: Progress | None = None
    ) -> Iterator[Result]:
        """`work`, which must be picklable, on each of `items`, in their order."""
        outcomes = map(work, items) if self.alone(items) else self._side_by_side(work, items)
        for done, outcome in enumerate(outcomes, start=1):
            yield outcome
            if progress:
                progress(done, len(items))

    def alone(self, items: Sequence[object]) -> bool:
        """Whether work on `items` is done here."""
        return min(self.count, len(items)) <= 1

    def _side_by_side(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        # Started afresh, not forked: ONNX Runtime and OpenCV hold threads that do not survive a fork.
        pool = self._pool = self._pool or ProcessPoolExecutor(self.count, get_context("spawn"), _begin)
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                with _unheard(signal.SIGINT):
                    waiting.append(pool.submit(work, item))
                if len(waiting) > 4 * self.count:  # bounded, so that memory does not grow with the collection
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise Unavailable(
                "a worker process died, probably for want of memory; what was stored before is kept: run the "
                "command again with fewer --workers"
            ) from None


def describe_all(
    photographs: Sequence[Fragment],
    encoder: Path,
    recipe: Recipe,
    pool: Workers,
    progress: Progress | None,
) -> Iterator[Described]:
    """What became of each photograph, in their order."""
    if pool.alone(photographs):
        here = partial(describe_photograph, encoder=Encoder.open(encoder), recipe=recipe)
        return pool.each(partial(described_by, here), photographs, progress)
    return pool.each(partial(_describe, encoder=encoder, recipe=recipe), photographs, progress)


def described_by(work: Callable[[Fragment], Described], photograph: Fragment) -> Described:
    """`work` on one photograph; where it cannot be done at all, the photograph is refused as a whole."""
    found = outcome_of(work, photograph)
    return Described([(photograph, found)]) if isinstance(found, Refused) else found


def outcome_of(work: Callable[[Fragment], Result], fragment: Fragment) -> Result | Refused:
    """`work` on one fragment, or the reason why it cannot be done."""
    try:
        return work(fragment)
    except Refused as reason:
        return reason
    except (MemoryError, cv2.error) as error:  # one image too large or too strange must not end the run
        return Refused(
            "{file}: could not be worked on ({why}); scale it down", file=fragment.path.name, why=type(error).__name__
        )


def _describe(photograph: Fragment, *, encoder: Path, recipe: Recipe) -> Described:
    """In a worker process."""
    return described_by(partial(describe_photograph, encoder=_encoder(encoder), recipe=recipe), photograph)


@lru_cache(maxsize=1)
def _encoder(path: Path) -> Encoder:
    return Encoder.open(path, threads=1)  # once in each worker process


@contextmanager
def _unheard(sign: signal.Signals) -> Iterator[None]:
    """Hold a signal back. Processes that are started meanwhile never hear it: Ctrl-C is for us, who then end them.

    Blocking it is for them. It is not enough for us: libraries have threads that do not block it, and Python would stop
    the main thread for what one of them hears, in the middle of starting a process.
    """
    heard: list[int] = []
    here = current_thread() is main_thread()  # only there can signals be handled
    handler = signal.signal(sign, lambda number, _: heard.append(number)) if here else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {sign})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if here:
            signal.signal(sign, handler)
    if heard:
        signal.raise_signal(sign)


def _begin() -> None:
    """In each worker process, before it works."""
    Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)  # and no more of anything: there are as many of us as cores
    threadpool_limits(1)


def _end_with_parent() -> None:
    """Where the parent is killed nobody tells us, and we would wait for work for ever."""
    parent = parent_process()
    if parent:
        wait([parent.sentinel])
        os._exit(1)
