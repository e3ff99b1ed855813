"""The things that can go wrong in a way a user can mend, as data: a kind, a sentence, and the values in it.

MembraError            422  failed           anything that a user can cause and mend
  Invalid              422  invalid          what was asked for or given makes no sense as it is
  NotFound             404  not-found        there is nothing of that name
  Forbidden            403  forbidden        whoever asks may not, or not any more
  Conflict             409  conflict         it is there already, or was changed by somebody else meanwhile
  Incompatible         422  incompatible     made by another version of membra, another recipe or another encoder
  NotEnough            422  not-enough       there are too few fragments, letters or known joins for this work
  Unsupported          501  unsupported      a package or a device that this machine does not have
  Unavailable          503  unavailable      the disk, the network or another process keeps us from it
    Busy               503  busy             somebody else is writing; wait
    Damaged            503  damaged          a file of the collection is lost or not what it was
    Unreadable         503  unreadable       the disk does not give a file
  Refused              422  refused          one image cannot be used; the run goes on without it
    TooFewLetters      422  too-few-letters  it was read, but holds fewer letters than the recipe asks for
    NotFetched         422  not-fetched      a server did not give it, or was not asked

The number is the HTTP status with which the workbench answers, the word is the error's `code`: programs may rely on
both. Nobody else needs to look at a sentence: what it says is in `message.values`. Sentences are one line each (what
happened, why, what to do next), English here and translated from their templates where a page shows them
(`show/web/translations.py`). Only `cli` turns them into `error: ...` and an exit status.
"""

import errno
from typing import ClassVar, Self

from membra.messages import Message, Value


class MembraError(Exception):
    """Something the user can cause and mend.

    `message` is a template with {names} and `values` are what they stand for; or it is a message that was made before.

    >>> error = NotFound("there is no fragment {id}", id="T-S 1")
    >>> str(error), error.code, error.status, error.values
    ('there is no fragment T-S 1', 'not-found', 404, {'id': 'T-S 1'})
    """

    code: ClassVar[str] = "failed"
    status: ClassVar[int] = 422

    def __init__(self, message: str, /, **values: object) -> None:
        super().__init__(message)
        self.message = message if isinstance(message, Message) else Message(message, **values)

    def __str__(self) -> str:
        return str(self.message)

    @property
    def values(self) -> dict[str, Value]:
        """What the sentence names, by name."""
        return self.message.values

    def replaced(self, **values: object) -> Self:
        """The same error with other values, as far as its sentence has them."""
        known = {name: value for name, value in values.items() if name in self.values}
        other = type(self)(*self.args)  # not by `copy`: where Dask was loaded, a copied error shares its attributes
        vars(other).update(vars(self), message=Message(self.message.template, **{**self.values, **known}))
        return other


class Invalid(MembraError):
    """What was asked for or given makes no sense as it is."""

    code = "invalid"


class NotFound(MembraError):
    """There is nothing of that name."""

    code = "not-found"
    status = 404


class Forbidden(MembraError):
    """Whoever asks may not, or not any more."""

    code = "forbidden"
    status = 403


class Conflict(MembraError):
    """It is there already, or was changed by somebody else meanwhile."""

    code = "conflict"
    status = 409


class Incompatible(MembraError):
    """It was made by another version of membra, by another recipe or with another encoder."""

    code = "incompatible"


class NotEnough(MembraError):
    """There are too few fragments, letters or known joins for this work."""

    code = "not-enough"


class Unsupported(MembraError):
    """It needs a package or a device that this machine does not have."""

    code = "unsupported"
    status = 501


class Unavailable(MembraError):
    """The disk, the network or another process keeps us from it: no fault of what was asked."""

    code = "unavailable"
    status = 503


class Busy(Unavailable):
    """Somebody else is writing, or the server is being stopped: it can be tried again."""

    code = "busy"


class Damaged(Unavailable):
    """A file of the collection is lost, or is not what it was."""

    code = "damaged"


class Unreadable(Unavailable):
    """The disk does not give a file: `file`, and `why`."""

    code = "unreadable"


class Refused(MembraError):
    """One image cannot be used. The run goes on without it and lists it with this reason."""

    code = "refused"


class TooFewLetters(Refused):
    """The image was read, but holds fewer letters than the recipe asks for."""

    code = "too-few-letters"


class NotFetched(Refused):
    """A server did not give what is at `url`, or was not asked.

    `reason` is the sentence without the URL; `answered` is the HTTP status that the server gave, 0 for nothing;
    `later` says whether another run may have more luck. What servers say is brought onto one line.
    """

    code = "not-fetched"

    def __init__(self, reason: str, /, url: str = "", answered: int = 0, later: bool = False, **values: object) -> None:
        if not isinstance(reason, Message):
            reason = Message(reason, **{name: _on_one_line(value) for name, value in values.items()})
        super().__init__(Message("{address}: {reason}", address=_on_one_line(url), reason=reason))
        self.args = (reason, url, answered, later)  # by which a pickled error is made again
        self.reason, self.url, self.answered, self.later = reason, url, answered, later


# What the system says most often, in the words of the C library, so that it can be translated.
_SYSTEM = {
    errno.ENOSPC: Message("No space left on device"),
    errno.EROFS: Message("Read-only file system"),
    errno.EACCES: Message("Permission denied"),
    errno.EIO: Message("Input/output error"),
    errno.ENOENT: Message("No such file or directory"),
}


def system_says(error: OSError) -> str:
    """What the system says of a file or a connection, without the file's name."""
    known = _SYSTEM.get(error.errno) if error.errno else None
    return known or error.strerror or Message("the disk does not answer")


def _on_one_line(value: object) -> object:
    return value if isinstance(value, Message | int | float) else " ".join(str(value).split())
