"""Messages as data: an English sentence that knows what it was made of, and so can be said in another language."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union

Value = Union[str, int, float, Path, "Message", tuple["Value", ...]]

_FIELD = re.compile(r"\{(\w+)\}")


class Message(str):
    """A sentence in English, with the template and the values that it was made of.

    The template has a {name} for each value, and is the key (msgid) under which catalogues have its translation. A
    value is text, a number, a file's path, another message, or several of these, which are listed with commas. Since
    the message is a string, whoever prints, compares or stores it need not know about the rest.

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

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Value]]:  # for pickle, which workers talk in
        return (self.template,), self.values

    def said(self, translate: Callable[[str], str] = str, *, isolate: bool = False, full_paths: bool = True) -> str:
        """The sentence with every template in it translated.

        isolate : put each value between U+2068 and U+2069, so that a Latin file name does not turn a Hebrew line around
        full_paths : of files; otherwise a file is named without the folders it lies in, which are nobody's business
            beyond this machine
        """
        values = {name: _said(value, translate, isolate, full_paths) for name, value in self.values.items()}
        if isolate:
            values = {name: f"\u2068{value}\u2069" for name, value in values.items()}
        return fill(translate(self.template), values)

    def shown(self) -> dict[str, str | int | float]:
        """The values for whoever is not on this machine: numbers and texts, English, without the folders of files."""
        return {
            name: value if isinstance(value, int | float) else _said(value, full_paths=False)
            for name, value in self.values.items()
        }

    def to_json(self) -> str:
        """Template and values, as the manifest of a collection keeps them."""
        return json.dumps(_plain(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Message":
        """The message of `to_json`; `ValueError` where it is none."""
        found = _read(json.loads(text))
        if not isinstance(found, Message):
            raise ValueError("not a message")
        return found


def gettext_noop(text: str) -> str:
    """`text` as it is: marks it for the catalogues, where it is looked up later under another name."""
    return text


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its {names} filled in. One without a value stays, and nothing else means anything in it, unlike
    in `str.format`: templates are read from collections that others made."""
    return _FIELD.sub(lambda field: values.get(field[1], field[0]), template)


def _kept(value: object) -> Value:
    """What a message keeps of a value: of an error its message, of a thing that is none of `Value` its text."""
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
    """A value as JSON has it: a message and a path are objects of one key, `message` or `path`."""
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
