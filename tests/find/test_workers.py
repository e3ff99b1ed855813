"""Worker processes that describe fragments."""

import os
import time
from collections.abc import Iterable
from multiprocessing import active_children
from pathlib import Path

import pytest

from membra.describe.encoder import READY
from membra.describe.recipe import MEMBRA, Description
from membra.find.workers import describe_all
from membra.see.fragment import fragments


def priorities(processes: Iterable[int | None]) -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, process) for process in processes if process}


@pytest.mark.skipif(not hasattr(os, "nice"), reason="this system has no priorities to give up")
def test_workers_give_way_to_whoever_searches(drawn: Path) -> None:
    own, others = os.getpriority(os.PRIO_PROCESS, 0), active_children()
    outcomes = describe_all(fragments(drawn)[:10], READY, MEMBRA, 2, None)
    assert isinstance(next(outcomes), Description)
    workers = [child.pid for child in active_children() if child not in others]
    assert workers
    until = time.monotonic() + 30  # the second may still be starting
    while (nice := priorities(workers)) != {min(own + 10, 19)} and time.monotonic() < until:
        time.sleep(0.1)
    assert nice == {min(own + 10, 19)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
    assert len(list(outcomes)) == 9
