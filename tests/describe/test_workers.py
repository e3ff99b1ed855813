"""Tests of worker processes: results in order, start on demand, `dismiss`, and Ctrl-C, handled by the parent only."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from membra.describe.workers import Workers

# A process started in the background ignores Ctrl-C, and so do its children: this one restores the handler.
INTERRUPTED = """
import signal
import sys

signal.signal(signal.SIGINT, signal.default_int_handler)
from membra.describe.workers import Workers

if __name__ == "__main__":
    try:
        with Workers(2) as pool:
            print("begun", flush=True)
            for _ in range(1000):
                list(pool.each(abs, range(1000)))
    except KeyboardInterrupt:
        sys.exit(1)
"""


def test_in_their_order_and_only_when_there_is_work() -> None:
    done: list[tuple[int, int]] = []
    with Workers(2) as pool:
        assert multiprocessing.active_children() == []
        found = pool.each(abs, range(-20, 0), lambda *so_far: done.append(so_far))
        assert list(found) == list(range(20, 0, -1))
        assert len(multiprocessing.active_children()) == 2
    assert done == [(count, 20) for count in range(1, 21)]
    assert multiprocessing.active_children() == []


def test_dismissed_they_end_and_others_go_on() -> None:
    with Workers(2) as pool:
        first = set(pool.each(_process, range(20)))
        pool.dismiss()
        assert multiprocessing.active_children() == []
        second = set(pool.each(_process, range(20)))
    assert os.getpid() not in first | second
    assert not first & second


@pytest.mark.parametrize(("count", "items"), [(1, 5), (4, 1)])
def test_alone_the_work_is_done_here(count: int, items: int) -> None:
    with Workers(count) as pool:
        assert set(pool.each(_process, range(items))) == {os.getpid()}


def _process(_: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("after", [0.0, 0.2, 0.4, 2.0])
def test_ctrl_c_at_any_moment_is_quiet(tmp_path: Path, after: float) -> None:
    code = tmp_path / "run.py"
    code.write_text(INTERRUPTED)
    pipe = subprocess.PIPE
    # As in the background, wherever the tests run: a shell without job control starts `command &` with Ctrl-C ignored.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen([sys.executable, code], stdout=pipe, stderr=pipe, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, handler)
    with process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(after)  # while the workers start, load their modules or work
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole process group
        _, said = process.communicate(timeout=60)
    assert said.decode() == ""
    assert process.returncode == 1
