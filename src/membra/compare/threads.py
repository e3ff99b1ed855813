"""Distributes work over threads; the native kernels release the interpreter lock while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")


def in_threads(work: Callable[[Item], object], items: Iterable[Item], threads: int | None = None) -> None:
    """Run `work` on each of `items`, in no particular order, in `threads` threads; default the number of processors.

    Each thread takes the next item from a queue, so that one delayed thread does not delay all. One future per item, as
    in a pool, would take longer than some of the items. Where a thread cannot be started for lack of memory, fewer are
    used: at least the calling thread, which takes part.
    """
    waiting = deque(items)

    def take() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            work(item)

    count = min(threads or processors(), len(waiting))
    if count <= 1:
        take()
        return
    with ThreadPoolExecutor(count - 1) as pool:
        others: list[Future[None]] = []
        with suppress(RuntimeError):  # raised where a thread cannot be started
            for _ in range(count - 1):
                others.append(pool.submit(take))
        take()
        for other in others:
            other.result()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
