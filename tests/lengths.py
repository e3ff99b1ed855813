"""Repetitions of faults, sizes of data and durations of loads, by the kind of test run.

`make test` takes minutes and repeats little. `make test-long`, which CI runs every week, repeats as often as
docs/reliability.md states. `MEMBRA_LENGTH=full make test-long` takes about an hour.
"""

import os
from typing import TypeVar

import pytest

LENGTH = os.environ.get("MEMBRA_LENGTH") or "brief"
N = TypeVar("N", int, float)

only_long = pytest.mark.skipif(LENGTH == "brief", reason="takes a minute: `make test-long` runs it")


def length(brief: N, long: N, full: N) -> N:
    """Return the value for this kind of run."""
    return {"brief": brief, "long": long, "full": full}[LENGTH]
