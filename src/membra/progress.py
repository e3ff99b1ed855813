"""How long work says how far it is: one protocol for all of it. The command line draws a bar of it."""

from typing import Protocol


class Progress(Protocol):
    """Called as work goes on."""

    def __call__(self, done: int, total: int, /) -> None:
        """So much is done, of so much."""


class Bars(Protocol):
    """Gives each stage of the work a progress of its own."""

    def __call__(self, stage: str, /) -> Progress:
        """The progress of the stage of this name."""
