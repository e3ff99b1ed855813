"""How often a fault is repeated, how much is made, how long a load lasts: by where the tests run.

`make test` has minutes and repeats a little. `make test-long`, which CI runs every week, repeats as often as
docs/reliability.md says they were tried. `MEMBRA_LENGTH=full make test-long` is for an hour without haste.
"""

import os
from typing import TypeVar

import pytest

LENGTH = os.environ.get("MEMBRA_LENGTH") or "brief"
N = TypeVar("N", int, float)

only_long = pytest.mark.skipif(LENGTH == "brief", reason="takes a minute: `make test-long` runs it")


def length(brief: N, long: N, full: N) -> N:
    """The one of the three that this run asks for."""
    return {"brief": brief, "long": long, "full": full}[LENGTH]
