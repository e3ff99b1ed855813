"""The things that can go wrong in a way a user can mend.

The library raises them with one plain sentence (what happened, why, what to do next); only `cli.py`
turns them into `error: ...` and an exit status.
"""


class MembraError(Exception):
    """Something the user can cause and mend; its text is one line: what, why, what next."""


class Refused(MembraError):
    """One image cannot be used. The run goes on without it and lists it with this reason."""


class TooFewLetters(Refused):
    """The image was read, but holds fewer letters than the recipe asks for."""
