"""Work spread over threads: the kernels leave the interpreter while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")


def in_threads(work: Callable[[Item], object], items: Iterable[Item], threads: int | None = None) -> None:
    """`work` on every one of `items`, in no order, by so many threads: as many as there are processors unless given.

    Each takes the next as it comes, so that one held up by other work does not hold up all. A future for each item, as
    a pool would have it, takes longer than some of them. Where there is no memory for a thread, fewer do it: at least
    this one, which takes part.
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
        with suppress(RuntimeError):  # of a thread that cannot be started
            for _ in range(count - 1):
                others.append(pool.submit(take))
        take()
        for other in others:
            other.result()


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
