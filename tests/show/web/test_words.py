"""Hebrew pages speak Hebrew: the templates' words, and every sentence of the library that can reach a page."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from membra.describe.recipe import MEMBRA
from membra.see.glyphs import cut_glyphs
from membra.see.ink import Ink
from membra.show import web
from membra.show.web.sentences import HEBREW as SENTENCES
from membra.show.web.translations import HEBREW, say

SOURCES = Path(web.__file__).parents[2]
# What pages call, and what they show that others found out. Reading a whole IIIF source is the shell's alone.
ROOMS = ["sources/photograph.py", "sources/image_api.py", "sources/download.py", "sources/tiles.py", "sources/fetch.py"]
ROOMS += ["describe/recipe.py", "store/verdicts.py", "store/manifest.py", "store/collection.py", "store/tensors.py"]
ROOMS += ["describe/workers.py", "files.py", "show/holding.py", "show/evidence.py", "show/web/*.py"]
ERRORS = {"MembraError", "Refused", "TooFewLetters", "NotFetched", "NotThere", "HTTPException"}
# Said only in the shell: while a source is read, a collection made, a server started, or weights trained.
SHELL = r"no manifest|a manifest|exists already|shows no images|^◆: ◆$|pip install|cannot listen|folder to write"
SHELL += r"|give two to compare|instead of a manifest|the encoder ◆ cannot be read|check the path$|--workers$"


def said(room: str) -> set[str]:
    """Every literal sentence that the files of a room raise, with ◆ for what is filled in."""
    found = set()
    for file in SOURCES.glob(room):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
                for argument in node.args[:2]:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        found.add(argument.value)
                    elif isinstance(argument, ast.JoinedStr):
                        parts = [str(p.value) if isinstance(p, ast.Constant) else "◆" for p in argument.values]
                        found.add("".join(parts))
    return {text for text in found if not re.search(SHELL, text)}


@pytest.mark.parametrize("room", ROOMS)
def test_every_sentence_that_can_reach_a_page_is_known_in_hebrew(room: str) -> None:
    assert list(SOURCES.glob(room)), "the room has moved"
    english = [text for text in said(room) if not re.search("[א-ת]", say(text, "he"))]
    assert english == []


def test_the_test_sees_sentences() -> None:
    assert "◆: the file is gone" in said("sources/photograph.py")
    assert "a verdict needs the name of who gives it" in said("store/verdicts.py")
    assert say("a sentence that nobody translated", "he") == "a sentence that nobody translated"


def test_what_a_sentence_names_stays() -> None:
    refused = "broken.jpg: not a readable image (unknown format); save it as JPEG, PNG or TIFF"
    hebrew = say(refused, "he")
    assert "\u2068broken.jpg\u2069" in hebrew
    assert "תבנית לא מוכרת" in hebrew  # a sentence within a sentence
    assert say(refused, "en") == refused
    deep = say(f"T-S 1 is in the collection but was not described: {refused}", "he")
    assert "\u2068T-S 1\u2069" in deep
    assert "לא תואר" in deep
    assert "אינה תמונה קריאה" in deep
    assert "3" in say("5 letters, fewer than 200 (3 too small, 2 cut off)", "he")
    assert "קטועות" in say("5 letters, fewer than 200 (3 too small, 2 cut off)", "he")


def test_every_reason_to_leave_a_component_out_is_known_in_hebrew() -> None:
    blank = Ink(np.zeros((9, 9), np.uint8), 1.0, 40.0)
    reasons = cut_glyphs(blank, MEMBRA.glyphs).dropped
    assert len(reasons) == 8
    assert [why for why in reasons if not re.search("[א-ת]", say(f"3 {why}", "he"))] == []


def test_a_hebrew_page_says_in_hebrew_why(client: TestClient) -> None:
    for address, why in (
        ("/?show=refused", "אינה תמונה קריאה"),
        ("/fragment?id=images/broken.jpg", "תבנית לא מוכרת"),
        ("/candidates?id=images/broken.jpg", "לא תואר"),
        ("/compare?a=images/0001.jpg&b=images/0001.jpg", "זה אותו הקטע"),
        ("/fragment?id=images/0001.jpg&word=x", "הערך אינו מתאים"),
        ("/nowhere", "לא נמצא"),
    ):
        page = client.get(address, headers={"cookie": "membra-lang=he"}).text
        assert why in page, address
        assert why not in client.get(address, headers={"cookie": "membra-lang=en"}).text


@pytest.mark.parametrize(("english", "hebrew"), [*SENTENCES.items(), *HEBREW.items()])
def test_a_translation_fills_in_what_its_sentence_has(english: str, hebrew: str) -> None:
    names = re.findall(r"\{(\w+)\}", english)
    assert len(set(names)) == len(names)
    assert set(re.findall(r"\{(\w+)\}", hebrew)) <= set(names)
