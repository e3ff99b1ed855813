"""How long work says how far it is, and what was done: one protocol, which the command line draws a bar of, and one
logger, `membra`, which is quiet until somebody listens (docs/python.md)."""

import logging
from typing import Protocol

log = logging.getLogger("membra")
log.addHandler(logging.NullHandler())


class Progress(Protocol):
    """Called as work goes on."""

    def __call__(self, done: int, total: int, /) -> None:
        """So much is done, of so much."""


class Bars(Protocol):
    """Gives each stage of the work a progress of its own."""

    def __call__(self, stage: str, /) -> Progress:
        """The progress of the stage of this name."""


class Overview(Protocol):
    """Called as a run of many stages goes on."""

    def __call__(self, stage: str, share: float, whole: float, left: float | None, /) -> None:
        """The stage at work, the share of it and of the whole that is done (0 to 1), seconds left (None: not known)."""
