"""The errors that a user can cause and fix, as data: a class, a message template, and the values in it.

MembraError            422  failed           any error that a user can cause and fix
  Invalid              422  invalid          a value or a request is not valid
  NotFound             404  not-found        nothing has that name
  Forbidden            403  forbidden        the caller has no permission, or has it no longer
  Conflict             409  conflict         it exists already, or another user has changed it meanwhile
  Incompatible         422  incompatible     made by another version of membra, another recipe or another encoder
  NotEnough            422  not-enough       too few fragments, letters or known joins for this work
  Unsupported          501  unsupported      needs a package or a device that this machine does not have
  Unavailable          503  unavailable      the disk, the network or another process prevents the work
    Busy               503  busy             another process is writing; wait
    Damaged            503  damaged          a file of the collection is missing or was changed
    Unreadable         503  unreadable       the disk does not return a file
  Refused              422  refused          an image cannot be used; the run goes on without it
    TooFewLetters      422  too-few-letters  an image was read, but has fewer letters than the recipe requires
    NotFetched         422  not-fetched      a server did not deliver a URL, or was not queried

The number is the HTTP status of the workbench's answer, the word is the error's `code`; programs may rely on both.
Programs need not parse a message: what it says is in `message.values`. A message is one line (what happened, why,
what to do next), written in English and translated from its template where a page shows it
(`show/web/translations.py`). Only `cli` turns errors into `error: ...` and an exit status.
"""

import errno
from typing import ClassVar, Self

from membra.messages import Message, Value


class MembraError(Exception):
    """An error that the user can cause and fix.

    `message` is a template with {names}, and `values` are their values; or it is a finished `Message`.

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
        """The values in the message, by name."""
        return self.message.values

    def replaced(self, **values: object) -> Self:
        """Return the same error with new values; names that its template does not have are ignored."""
        known = {name: value for name, value in values.items() if name in self.values}
        other = type(self)(*self.args)  # not `copy`: once Dask is loaded, a copied error shares its attributes
        vars(other).update(vars(self), message=Message(self.message.template, **{**self.values, **known}))
        return other


class Invalid(MembraError):
    """A value or a request is not valid."""

    code = "invalid"


class NotFound(MembraError):
    """Nothing has that name."""

    code = "not-found"
    status = 404


class Forbidden(MembraError):
    """The caller has no permission, or has it no longer."""

    code = "forbidden"
    status = 403


class Conflict(MembraError):
    """It exists already, or another user has changed it meanwhile."""

    code = "conflict"
    status = 409


class Incompatible(MembraError):
    """It was made by another version of membra, by another recipe or with another encoder."""

    code = "incompatible"


class NotEnough(MembraError):
    """Too few fragments, letters or known joins for this work."""

    code = "not-enough"


class Unsupported(MembraError):
    """It needs a package or a device that this machine does not have."""

    code = "unsupported"
    status = 501


class Unavailable(MembraError):
    """The disk, the network or another process prevents the work; the request itself is valid."""

    code = "unavailable"
    status = 503


class Busy(Unavailable):
    """Another process is writing, or the server is shutting down; the caller can try again."""

    code = "busy"


class Damaged(Unavailable):
    """A file of the collection is missing or was changed."""

    code = "damaged"


class Unreadable(Unavailable):
    """The disk does not return a file; the values are `file` and `why`."""

    code = "unreadable"


class Refused(MembraError):
    """An image cannot be used. The run continues without it and lists it with this reason."""

    code = "refused"


class TooFewLetters(Refused):
    """The image was read, but has fewer letters than the recipe requires."""

    code = "too-few-letters"


class NotFetched(Refused):
    """A server did not deliver `url`, or was not queried.

    `reason` is the message without the URL; `answered` is the HTTP status of the answer, 0 if there was none; `later`
    says whether a later run may succeed. Text from servers is put on one line.
    """

    code = "not-fetched"

    def __init__(self, reason: str, /, url: str = "", answered: int = 0, later: bool = False, **values: object) -> None:
        if not isinstance(reason, Message):
            reason = Message(reason, **{name: _on_one_line(value) for name, value in values.items()})
        super().__init__(Message("{address}: {reason}", address=_on_one_line(url), reason=reason))
        self.args = (reason, url, answered, later)  # pickle rebuilds the error from these
        self.reason, self.url, self.answered, self.later = reason, url, answered, later


# The most frequent system errors, worded as in the C library, so that they can be translated.
_SYSTEM = {
    errno.ENOSPC: Message("No space left on device"),
    errno.EROFS: Message("Read-only file system"),
    errno.EACCES: Message("Permission denied"),
    errno.EIO: Message("Input/output error"),
    errno.ENOENT: Message("No such file or directory"),
}


def system_says(error: OSError) -> str:
    """Return the system's message for a failed file or connection, without the file's name."""
    known = _SYSTEM.get(error.errno) if error.errno else None
    return known or error.strerror or Message("unknown system error")


def _on_one_line(value: object) -> object:
    return value if isinstance(value, Message | int | float) else " ".join(str(value).split())
