"""Pages are complete in every language: all texts of the templates and the library are translated, none is stale."""

import gettext
import re
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from pydantic_core import PydanticKnownError
from tools.translations import extracted, read

from membra.describe import recipe
from membra.describe.recipe import MEMBRA
from membra.errors import NotFetched, Refused, Unavailable, system_says
from membra.messages import Message
from membra.see.fixes import BY_HAND
from membra.see.glyphs import cut_glyphs
from membra.see.ink import Ink
from membra.see.letters import LetterSettings, find_letters
from membra.show.web.problems import WRONG
from membra.show.web.translations import DOMAIN, LANGUAGES, LOCALE, say

TRANSLATED = [language for language in LANGUAGES if language != "en"]
BROKEN = Message(
    "{file}: not a readable image ({why}); save it as JPEG, PNG or TIFF",
    file="broken.jpg",
    why=Message("unknown format"),
)


def catalogue(language: str) -> dict[str, str]:
    """Return the translations in the `.po` of a language."""
    return {str(one.id): str(one.string) for one in read(_file(language, "po")) if one.id and not one.fuzzy}


def _file(language: str, ending: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.{ending}"


def test_there_is_a_catalogue_for_each_language() -> None:
    assert sorted(path.name for path in LOCALE.iterdir()) == sorted(TRANSLATED)
    assert "he" in TRANSLATED


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_sentence_is_translated_and_none_is_stale(language: str) -> None:
    """After a change: python tools/translations.py"""
    needed = {str(one.id) for one in extracted() if one.id}
    known = catalogue(language)
    assert sorted(needed - {id for id, said in known.items() if said}) == []
    assert sorted(set(known) - needed) == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_what_is_read_is_what_was_translated(language: str) -> None:
    """The compiled catalogue is up to date with the `.po`."""
    with _file(language, "mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert {id: compiled.gettext(id) for id in catalogue(language)} == catalogue(language)
    assert compiled.gettext("") != ""


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_fills_in_what_its_sentence_has(language: str) -> None:
    for english, said in catalogue(language).items():
        names = set(re.findall(r"\{(\w+)\}", english))
        used = set(re.findall(r"\{(\w+)\}", said))
        assert used <= names, english
        assert used == names or english.startswith("Input should"), english


def test_the_extraction_sees_sentences() -> None:
    needed = {str(one.id) for one in extracted()}
    for sentence in (
        "{file}: the file is gone",  # an error
        "a verdict needs the name of its author",
        "unknown format",  # a message within one
        "{count} cut off",  # marked with gettext_noop
        "To the content",  # from a template
        "What was seen on {name}",
    ):
        assert sentence in needed
    assert "{file}: {why}" not in needed  # nothing to translate
    assert say("a sentence that nobody translated", "he") == "a sentence that nobody translated"
    assert say("", "he") == ""


def test_what_a_sentence_names_stays() -> None:
    hebrew = say(BROKEN, "he")
    assert "\u2068broken.jpg\u2069" in hebrew
    assert "\u2068תבנית לא מוכרת\u2069" in hebrew  # a sentence within a sentence
    assert say(BROKEN, "en") == BROKEN
    deep = Message("{id} is in the collection but was not described: {why}", id="T-S 1", why=Refused(BROKEN))
    assert "\u2068T-S 1\u2069" in say(deep, "he")
    assert "לא תואר" in say(deep, "he")
    assert "אינה תמונה קריאה" in say(deep, "he")
    few = [Message("{count} too small", count=3), Message("{count} cut off", count=2)]
    said = Message("{count} letters, fewer than {least} ({why})", count=5, least=200, why=few)
    assert said == "5 letters, fewer than 200 (3 too small, 2 cut off)"
    assert "(\u2068\u20683\u2069 קטנות מדי, \u20682\u2069 קטועות\u2069)" in say(said, "he")


def test_words_of_a_page_are_filled_in_without_marks() -> None:
    assert say("{n} letters", "he", n=3) == "3 אותיות"
    assert say("Photograph of {name}", "en", name="{name}") == "Photograph of {name}"


def test_a_page_does_not_say_where_a_file_lies() -> None:
    said = Message("{file} cannot be used ({why}); restore it from a copy", file=Path("/home/me/C/verdicts"), why="no")
    assert "/home/me/C/verdicts cannot" in said
    for language in LANGUAGES:
        assert "verdicts" in say(said, language)
        assert "home" not in say(said, language)


def test_what_the_system_and_servers_say_is_translated() -> None:
    full = Unavailable("{why}; free disk space or try again", why=system_says(OSError(28, "No space left on device")))
    assert str(full) == "No space left on device; free disk space or try again"
    assert "לא נותר מקום" in say(full.message, "he")
    odd = system_says(OSError(5000, "The disk\nis odd"))
    assert odd == say(odd, "he") == "The disk\nis odd"
    assert say(system_says(OSError()), "he") == "שגיאת מערכת לא ידועה"
    lost = NotFetched("no answer ({why})", url="http://x", why="timed\nout")
    assert str(lost) == "http://x: no answer (timed out)"
    assert say(lost.message, "he") == "\u2068http://x\u2069: \u2068אין תשובה (\u2068timed out\u2069)\u2069"


def test_every_reason_to_leave_a_component_out_is_known() -> None:
    blank = Ink(np.zeros((9, 9), np.uint8), 1.0, 40.0)
    reasons = {**cut_glyphs(blank, MEMBRA.glyphs).dropped, "cut off": 0, BY_HAND: 0}
    reasons |= find_letters(np.zeros((9, 9), np.uint8), LetterSettings()).dropped
    assert reasons.keys() == recipe._NO_LETTERS.keys()
    for why, template in recipe._NO_LETTERS.items():
        assert why in Message(template, count=3)


def test_what_is_wrong_with_a_request_is_said_in_pydantics_own_words() -> None:
    context = {"expected": "'a'", "pattern": "b", "max_length": 3, "actual_length": 5, "field_type": "List"}
    for code, template in WRONG.items():
        if code == "json_invalid":  # reported by FastAPI
            continue
        fields = set(re.findall(r"\{(\w+)\}", template)) | ({"field_type"} if code == "too_long" else set())
        own = PydanticKnownError(code, {name: context[name] for name in fields} or None)  # type: ignore[arg-type]
        assert own.message() == Message(template, **context), code


def test_a_hebrew_page_says_in_hebrew_why(client: TestClient) -> None:
    for url, why in (
        ("/?show=refused", "אינה תמונה קריאה"),
        ("/fragment?id=images/broken.jpg", "תבנית לא מוכרת"),
        ("/candidates?id=images/broken.jpg", "לא תואר"),
        ("/compare?a=images/0001.jpg&b=images/0001.jpg", "זה אותו הקטע"),
        ("/fragment?id=images/0001.jpg&word=x", "הערך אינו מתאים"),
        ("/nowhere", "לא נמצא"),
    ):
        page = client.get(url, headers={"cookie": "membra-lang=he"}).text
        assert why in page, url
        assert why not in client.get(url, headers={"cookie": "membra-lang=en"}).text
