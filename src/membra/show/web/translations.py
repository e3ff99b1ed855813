"""The text of the pages in every language they speak, from gettext catalogues in `locale/`.

The English words in the templates, and the templates of the library's messages, are the keys (msgid).
docs/architecture.md says how to add a sentence or a language.
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
    """How a language calls itself, and in which direction it is read."""

    name: str
    direction: str


LANGUAGES = {"en": Language("English", "ltr"), "he": Language("עברית", "rtl")}  # the first is the default
_SOURCE = "en"  # the language of the keys, which needs no catalogue


def say(text: str, language: str, **values: object) -> str:
    """`text` of a template, with {names} filled in, or a message of the library, in a language. What is not known
    stays English. Files are named without their folders, which are nobody's business beyond this machine."""
    if isinstance(text, Message):
        return text.said(lambda key: _translated(key, language), isolate=language != _SOURCE, full_paths=False)
    return fill(_translated(text, language), {name: str(value) for name, value in values.items()})


def _translated(key: str, language: str) -> str:
    return _catalogue(language).gettext(key) if key else ""  # the empty key is the catalogue's own header


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == _SOURCE:
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, LOCALE, [language])
