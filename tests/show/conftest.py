"""A small collection with awkward names, rights and verdicts, for everything that takes results out."""

import shutil
import unicodedata
from pathlib import Path

import pytest

from membra.describe.encoder import Encoder
from membra.find.collection import Collection
from membra.find.verdicts import Verdicts
from membra.see.fragment import Fragment, fragments

NAMES = (
    "=cmd|'!A0.jpg",
    "אב \"גד'\nה.jpg",
    unicodedata.normalize("NFD", "é-für.jpg"),
    "<script>alert(1)<b>.jpg",
    "x" * 251 + ".jpg",
    "-2 + 3@home.jpg",
)
SHELFMARKS = ("T-S 8C1.3", "כ״י ירושלים 5", "+1 <script>alert('x')</script>", "@Or. 1080", "", "ENA 1")


@pytest.fixture(scope="session")
def decided(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Six fragments, two of them from a library with an image service; four verdicts, one taken back."""
    folder = tmp_path_factory.mktemp("decided")
    found = []
    for fragment, name, shelfmark in zip(fragments(drawn), NAMES, SHELFMARKS, strict=False):
        path = folder / name
        shutil.copy(fragment.path, path)
        columns = {"shelfmark": shelfmark, "join": fragment.columns["join"]}
        if name in NAMES[:2]:
            version = "3" if name == NAMES[0] else "1"
            columns |= {
                "manifest": "https://library.example/manifest",
                "canvas": "https://library.example/canvas/1",
                "rights": "https://creativecommons.org/licenses/by-nc/4.0/"
                if version == "3"
                else "all rights reserved",
                "attribution": "<script>alert(1)</script>",
                "service": f"https://library.example/image/{version}/a%2Fb",
                "image_api": version,
            }
        found.append(Fragment(name, path, columns))
    made = Collection.create(folder / "אוסף", encoder=Encoder.ready(threads=1))
    made.add(found)
    verdicts = Verdicts.open(made.path)
    wrong = verdicts.give(NAMES[0], NAMES[1], "no", by="A", note="=HYPERLINK(1)")
    verdicts.undo(wrong.number, by="A", note="mistyped")
    verdicts.give(NAMES[0], NAMES[1], "join", by="ש. לוי", note="אותה יד\n<script>alert(2)</script>")
    verdicts.give(NAMES[1], NAMES[2], "join", by="@B")
    verdicts.give(NAMES[3], NAMES[4], "unsure", by="C")
    return made
