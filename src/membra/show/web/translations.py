"""Translations of the pages, from gettext catalogues in `locale/`.

The English texts in the templates, and the templates of the library's messages, are the keys (msgid).
docs/architecture.md explains how to add a sentence or a language.
"""

import gettext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from membra.messages import Message, fill

DOMAIN = "membra"
LOCALE = Path(__file__).with_name("locale")


@dataclass(frozen=True)
class Language:
    """A language's name for itself, and its direction."""

    name: str
    direction: str


LANGUAGES = {"en": Language("English", "ltr"), "he": Language("עברית", "rtl")}  # the first is the default
_SOURCE = "en"  # the language of the keys, which needs no catalogue


def say(text: str, language: str, **values: object) -> str:
    """Translate a template's `text`, with {names} filled in, or a message of the library. A text without a translation
    stays English. Files are named without their folders, which are private to this machine."""
    if isinstance(text, Message):
        return text.said(lambda key: _translated(key, language), isolate=language != _SOURCE, full_paths=False)
    return fill(_translated(text, language), {name: str(value) for name, value in values.items()})


def _translated(key: str, language: str) -> str:
    return _catalogue(language).gettext(key) if key else ""  # the empty key would return the catalogue's header


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == _SOURCE:
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, LOCALE, [language])
