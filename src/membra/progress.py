"""The progress protocol, from which the command line draws its bars, and the logger `membra`, which is silent until
the user adds a handler (docs/python.md)."""

import logging
from typing import Protocol

log = logging.getLogger("membra")
log.addHandler(logging.NullHandler())


class Progress(Protocol):
    """A callback that work calls as it advances."""

    def __call__(self, done: int, total: int, /) -> None:
        """Report that `done` of `total` steps are done."""


class Bars(Protocol):
    """Returns a progress callback for each stage of the work."""

    def __call__(self, stage: str, /) -> Progress:
        """Return the progress callback of the stage `stage`."""


class Overview(Protocol):
    """A callback that a run of many stages calls as it advances."""

    def __call__(self, stage: str, share: float, whole: float, left: float | None, /) -> None:
        """Report the current stage, the share of it and of the run that is done (0 to 1), and the seconds left (None:
        unknown)."""
