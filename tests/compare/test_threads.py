"""Tests of threaded work: each item is processed once, by the number of threads for which there is memory."""

import threading

import pytest

from membra.compare.threads import in_threads


@pytest.mark.parametrize("there", [0, 1, 99])
def test_all_is_done_once_whatever_threads_can_be_started(there: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def starting(thread: threading.Thread) -> None:
        if len(started) == there:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    done: list[int] = []
    in_threads(done.append, range(100), 4)
    assert sorted(done) == list(range(100))
    assert len(started) <= min(there, 3)


def test_what_goes_wrong_in_any_thread_is_raised() -> None:
    together = threading.Barrier(2, timeout=10)  # at least one is not the calling thread

    def work(item: int) -> None:
        together.wait()
        if threading.current_thread() is not threading.main_thread():
            raise ValueError(item)

    with pytest.raises(ValueError, match=r"0|1"):
        in_threads(work, range(2), 2)
