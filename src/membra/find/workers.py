"""Describe many fragments, one after the other or in worker processes, in their order and in bounded memory."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread

import cv2

from membra.describe.encoder import Encoder
from membra.describe.recipe import Description, Recipe, describe
from membra.errors import MembraError, Refused
from membra.see.fragment import Fragment

Progress = Callable[[int, int], None]  # done, of how many


def describe_all(
    fragments: Sequence[Fragment],
    encoder: Path,
    recipe: Recipe,
    workers: int,
    progress: Progress | None,
) -> Iterator[Description | Refused]:
    """The description of each fragment, or the reason why there is none, in their order."""
    outcomes = (
        _in_processes(fragments, encoder, recipe, workers)
        if workers > 1 and len(fragments) > 1
        else _one_by_one(fragments, Encoder.open(encoder), recipe)
    )
    for done, outcome in enumerate(outcomes, start=1):
        yield outcome
        if progress:
            progress(done, len(fragments))


def _one_by_one(fragments: Iterable[Fragment], encoder: Encoder, recipe: Recipe) -> Iterator[Description | Refused]:
    for fragment in fragments:
        yield outcome_of(fragment, encoder, recipe)


def outcome_of(fragment: Fragment, encoder: Encoder, recipe: Recipe) -> Description | Refused:
    """The description of one fragment, or the reason why there is none."""
    try:
        return describe(fragment, encoder, recipe)
    except Refused as reason:
        return reason
    except (MemoryError, cv2.error) as error:  # one image too large or too strange must not end the run
        return Refused(f"{fragment.path.name}: could not be worked on ({type(error).__name__}); scale it down")


def _in_processes(
    fragments: Sequence[Fragment], encoder: Path, recipe: Recipe, workers: int
) -> Iterator[Description | Refused]:
    # Started afresh, not forked: ONNX Runtime and OpenCV hold threads that do not survive a fork.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (encoder, recipe))
    waiting: deque[Future[Description | Refused]] = deque()
    try:
        for fragment in fragments:
            waiting.append(pool.submit(_work, fragment))
            if len(waiting) > 4 * workers:  # bounded, so that memory does not grow with the collection
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise MembraError(
            "a worker process died, probably for want of memory; what is stored is kept: run the command again "
            "with fewer --workers"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[Encoder, Recipe]  # set once in each worker process by _begin


def _begin(encoder: Path, recipe: Recipe) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and ends us
    Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)
    _worker = (Encoder.open(encoder, threads=1), recipe)


def _end_with_parent() -> None:
    """Where the parent is killed nobody tells us, and we would wait for work for ever."""
    parent = parent_process()
    if parent:
        wait([parent.sentinel])
        os._exit(1)


def _work(fragment: Fragment) -> Description | Refused:
    return outcome_of(fragment, *_worker)
