"""The people who may sign in a workbench: a small file of names, each with the digest of the key in that person's link.

A CSV file, or a plain list with one name per line; lines that begin with # are comments. The key itself is stored only
in the link: a reader of the file, or of a copy of it, cannot enter with it.

    name,key
    Rivka,sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

import csv
import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from membra.errors import Invalid, MembraError, NotFound
from membra.files import atomic_write, check_place, exclusive_lock
from membra.messages import Message
from membra.store.append_only import MAX_NAME, check_text
from membra.store.verdicts import person_key

MAX_PEOPLE = 1000
_MAX_BYTES = 1_000_000
_HEADER = "name,key"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Person:
    """One line of the file."""

    name: str
    digest: str  # of the key, `sha256:` and 64 hex digits; empty for a person without a link


def people(file: str | Path, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> dict[str, str]:
    """Add and remove people of a file; return all names, with the keys of those just added.

    A key is available only now: give it to its owner, in the link `/enter?key=...` of the server. Adding a person again
    creates another key and invalidates the previous one.

    Parameters
    ----------
    file : path
        CSV with the columns name,key. It is created with the first name.
    add : sequence of str
        Names that get a new key.
    remove : sequence of str
        Names to remove; what they signed stays.

    Returns
    -------
    dict of str to str
        Every name of the file, with its key if it was created by this call, else an empty string.

    Raises
    ------
    MembraError
        If the file cannot be read, another process is changing it, or a name is invalid.
    """
    path = Path(file)
    if not add and not remove:
        return {person.name: "" for person in _parsed(path, _lines(path))}
    check_place(path)
    with exclusive_lock(path.parent / f".{path.name[:60]}.lock", path):  # no lost update
        return _changed(path, add, remove)


def _changed(path: Path, add: Sequence[str], remove: Sequence[str]) -> dict[str, str]:
    lines = _lines(path) if path.exists() or not add else [_HEADER]
    known = {person_key(person.name): person.name for person in _parsed(path, lines)}
    keys: dict[str, str] = {}
    for name in remove:
        if person_key(name) not in known:
            raise NotFound("{name} is not in {file}", name=name, file=path)
    for name in (" ".join(name.split()) for name in add):
        _check_name(path, 0, name)
        keys[name] = secrets.token_urlsafe(24)
    gone = {person_key(name) for name in (*add, *remove)}
    lines = [line for line in lines if not any(person_key(one.name) in gone for one in _parsed(path, [line]))]
    lines += [f"{_cell(name)},{_digest(key)}" for name, key in keys.items()]
    found = _parsed(path, lines)
    atomic_write(path, ("\n".join(lines) + "\n").encode())
    return {person.name: keys.get(person.name, "") for person in found}


class People:
    """The people of a file in its current state. People without a key in it get one for the lifetime of this object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read: tuple[object, list[Person]] = (None, [])
        people = read_people(path)
        self.links = {person.name: secrets.token_urlsafe(24) for person in people if not person.digest}
        self._own = {name: _digest(key) for name, key in self.links.items()}

    def named(self, key: str) -> str:
        """Return the name of the owner of a key, or an empty string. All keys are compared, each in constant time."""
        digest, found = _digest(key), ""
        for person in self._now():
            if hmac.compare_digest(person.digest or self._own.get(person.name, ""), digest):
                found = person.name
        return found

    def _now(self) -> list[Person]:
        """Return the people, read again if the file has changed; none while it is unreadable, so that no key works."""
        with self._lock:
            try:
                there = self.path.stat()
                stamp = (there.st_mtime_ns, there.st_size, there.st_ino)
                if self._read[0] != stamp:
                    self._read = (stamp, read_people(self.path))
            except (OSError, MembraError):
                return []
            return self._read[1]


def read_people(path: Path) -> list[Person]:
    """Read the people of a file, in its order."""
    found = _parsed(path, _lines(path))
    if not found:
        raise Invalid("{file} contains no names; add one: membra people {file} --add NAME", file=path)
    return found


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise Invalid("{file} is too large for a list of people; give another file", file=path)
        return path.read_bytes().decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise NotFound("{file} does not exist; create it: membra people {file} --add NAME", file=path) from None
    except UnicodeDecodeError:
        raise Invalid("{file} is not UTF-8 text; save it as UTF-8", file=path) from None


def _parsed(path: Path, lines: Sequence[str]) -> list[Person]:
    found: dict[str, Person] = {}
    for number, line in enumerate(lines, start=1):
        cells = _cells(line)
        if not any(cells) or line.lstrip().startswith("#") or ",".join(cells).casefold() in (_HEADER, "name"):
            continue
        name, digest = " ".join(cells[0].split()), cells[1] if len(cells) > 1 else ""
        _check_name(path, number, name)
        if len(cells) > 2 or (digest and not _DIGEST.fullmatch(digest)):
            raise Invalid(
                "{file}, line {number}: a line must be a name and a key from `membra people --add`",
                file=path,
                number=number,
            )
        if person_key(name) in found:
            raise Invalid("{file}, line {number}: {name} is listed twice", file=path, number=number, name=name)
        found[person_key(name)] = Person(name, digest)
    if len(found) > MAX_PEOPLE:
        raise Invalid("{file} names more than {most} people", file=path, most=MAX_PEOPLE)
    return list(found.values())


def _cells(line: str) -> list[str]:
    """Split a line into cells, at semicolons if a spreadsheet of a locale with decimal commas wrote it.

    Returns three invalid cells if the csv module cannot parse the line, e.g. because a cell is too long.
    """
    _, semicolon, last = line.rpartition(";")
    last = last.strip().strip('"').casefold()
    european = semicolon and (last in ("", "key") or last.startswith("sha256:"))
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=";" if european else ","), [])]
    except csv.Error:
        return ["?"] * 3


def _check_name(path: Path, number: int, name: str) -> None:
    check_text(Message("a name"), name, MAX_NAME)
    if not name or not name.isprintable() or name.startswith("#"):
        raise Invalid("{file}, line {number}: {name} is not a valid name", file=path, number=number, name=repr(name))


def _cell(name: str) -> str:
    """Format a name as a CSV cell."""
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name


def _digest(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"
