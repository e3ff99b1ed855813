"""Messages as data: an English sentence with its template and values, so that it can be translated."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union

Value = Union[str, int, float, Path, "Message", tuple["Value", ...]]

_FIELD = re.compile(r"\{(\w+)\}")


class Message(str):
    """A sentence in English, with the template and the values that fill it.

    The template has a {name} for each value; it is the key (msgid) of its translations in the catalogues. A value is
    text, a number, a path, another message, or several of these, which are listed with commas. A message is a string:
    code that prints, compares or stores it needs nothing else.

    >>> lost = Message("{file}: the file is gone", file="T-S 1.jpg")
    >>> lost, lost.template, lost.values
    ('T-S 1.jpg: the file is gone', '{file}: the file is gone', {'file': 'T-S 1.jpg'})
    """

    template: str
    values: dict[str, Value]

    def __new__(cls, template: str, /, **values: object) -> "Message":
        kept = {name: _kept(value) for name, value in values.items()}
        message = super().__new__(cls, fill(template, {name: _said(value) for name, value in kept.items()}))
        message.template, message.values = template, kept
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Value]]:  # for pickle, by which workers send results
        return (self.template,), self.values

    def said(self, translate: Callable[[str], str] = str, *, isolate: bool = False, full_paths: bool = True) -> str:
        """Return the sentence with every template in it translated.

        isolate : put each value between U+2068 and U+2069, so that a Latin file name does not turn a Hebrew line around
        full_paths : of files; otherwise only the name of a file is shown, because its folders are private to this
            machine
        """
        values = {name: _said(value, translate, isolate, full_paths) for name, value in self.values.items()}
        if isolate:
            values = {name: f"\u2068{value}\u2069" for name, value in values.items()}
        return fill(translate(self.template), values)

    def shown(self) -> dict[str, str | int | float]:
        """Return the values for a reader on another machine: numbers and English texts, files without their folders."""
        return {
            name: value if isinstance(value, int | float) else _said(value, full_paths=False)
            for name, value in self.values.items()
        }

    def to_json(self) -> str:
        """Return template and values as JSON, the form that a collection's manifest stores."""
        return json.dumps(_plain(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Message":
        """Return the message that `to_json` wrote; raise `ValueError` for anything else."""
        found = _read(json.loads(text))
        if not isinstance(found, Message):
            raise ValueError("not a message")
        return found


def gettext_noop(text: str) -> str:
    """Return `text` unchanged: marks it for the catalogues where the code translates it later from a variable."""
    return text


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the template with its {names} filled in. A {name} without a value stays; unlike in `str.format`, nothing
    else is interpreted: templates are also read from collections that others made."""
    return _FIELD.sub(lambda field: values.get(field[1], field[0]), template)


def _kept(value: object) -> Value:
    """Return what a message stores of a value: an error's message; the text of an object that is no `Value`."""
    value = getattr(value, "message", value) if isinstance(value, Exception) else value
    if isinstance(value, Message | Path | bool | int | float) or type(value) is str:
        return value
    if isinstance(value, list | tuple):
        return tuple(_kept(each) for each in value)
    return str(value)


def _said(value: Value, translate: Callable[[str], str] = str, isolate: bool = False, full_paths: bool = True) -> str:
    if isinstance(value, Message):
        return value.said(translate, isolate=isolate, full_paths=full_paths)
    if isinstance(value, tuple):
        return ", ".join(_said(each, translate, isolate, full_paths) for each in value)
    return value.name if isinstance(value, Path) and not full_paths else str(value)


def _plain(value: Value) -> Any:
    """Return a value as JSON: a message is {"message", "values"}, a path is {"path"}."""
    if isinstance(value, Message):
        return {"message": value.template, "values": {name: _plain(each) for name, each in value.values.items()}}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return {"path": str(value)} if isinstance(value, Path) else value


def _read(value: Any) -> Value:
    match value:
        case {"message": str(template), "values": dict(values)}:
            return Message(template, **{str(name): _read(each) for name, each in values.items()})
        case {"path": str(path)}:
            return Path(path)
        case list(several):
            return tuple(_read(each) for each in several)
        case str() | int() | float():
            return value
    raise ValueError(f"no value of a message: {value!r}"[:200])
