"""Tests of photographs with several pieces: each is a fragment with its own id, in reading order; chips are counted."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from factories import plate, see_plates, slip
from membra.describe import recipe as recipes
from membra.describe.encoder import Encoder
from membra.describe.recipe import (
    MEMBRA,
    Described,
    Description,
    Recipe,
    describe,
    describe_photograph,
    pick,
)
from membra.errors import Refused, TooFewLetters
from membra.see.reading import Reading
from membra.sources.fragment import Fragment, piece_of, split_piece


@pytest.fixture(autouse=True)
def _eye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "see", see_plates)


@pytest.fixture
def photograph(tmp_path: Path) -> Fragment:
    """A plate with three pieces and, between them, a chip without writing."""
    (tmp_path / "plate.png").write_bytes(plate(1, 2, None, 3))
    return Fragment("box/plate.png", tmp_path / "plate.png", {"shelfmark": "T-S 8C1"})


def test_each_piece_is_a_fragment_and_chips_are_counted(photograph: Fragment, encoder: Encoder) -> None:
    found = describe_photograph(photograph, encoder, MEMBRA)
    assert found.blank == 1
    assert [fragment.id for fragment, _ in found.pieces] == ["box/plate.png#1", "box/plate.png#2", "box/plate.png#3"]
    assert [fragment.piece for fragment, _ in found.pieces] == [1, 2, 3]
    assert {fragment.photograph for fragment, _ in found.pieces} == {"box/plate.png"}
    for fragment, _ in found.pieces:
        assert fragment.columns == {"shelfmark": "T-S 8C1", "photograph": "box/plate.png"}
        assert fragment.path == photograph.path
    descriptions = [result for _, result in found.pieces if isinstance(result, Description)]
    assert [result.angle for result in descriptions] == [0.0, 45.0, 135.0]
    assert [result.legibility for result in descriptions] == [0.6, 0.9, 0.7]
    assert [result.outline[0].tolist() for result in descriptions] == [[0, 0], [160, 0], [480, 0]]
    assert all(result.letter_height > 0 for result in descriptions)
    for result, left in zip(descriptions, (0, 160, 480), strict=True):
        assert (result.boxes[:, 0] >= left).all()
        assert (result.boxes[:, 0] + result.boxes[:, 2] <= left + 160).all()


def test_the_fragment_of_one_piece_is_the_photograph_itself(tmp_path: Path, encoder: Encoder) -> None:
    for name, content, blank in (("one.png", slip(1), 0), ("chips.png", plate(None, 1, None), 2)):
        (tmp_path / name).write_bytes(content)
        own = Fragment(name, tmp_path / name, {"leaf": "3"})
        found = describe_photograph(own, encoder, MEMBRA)
        assert [fragment for fragment, _ in found.pieces] == [own]
        assert found.blank == blank


def test_as_one_fragment_whatever_is_on_it(photograph: Fragment, encoder: Encoder) -> None:
    whole = Recipe(glyphs=MEMBRA.glyphs, bag=MEMBRA.bag, pieces="one")
    ((fragment, result),) = describe_photograph(photograph, encoder, whole).pieces
    assert fragment == photograph
    assert isinstance(result, Description)
    assert len(result.boxes) == 24


def test_what_cannot_be_read_and_what_has_no_letters_is_refused_as_a_whole(tmp_path: Path, encoder: Encoder) -> None:
    (tmp_path / "no.png").write_text("no image")
    Image.new("RGB", (300, 200), "white").save(tmp_path / "blank.png")
    (tmp_path / "chips.png").write_bytes(plate(None, None))
    for name, kind in (("no.png", Refused), ("blank.png", TooFewLetters), ("chips.png", TooFewLetters)):
        found = describe_photograph(Fragment(name, tmp_path / name), encoder, MEMBRA)
        ((fragment, result),) = found.pieces
        assert (fragment.id, found.blank) == (name, 0)
        assert isinstance(result, kind)


def test_an_eye_that_finds_nothing_refuses(
    photograph: Fragment, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: list[Reading] = []
    monkeypatch.setattr(recipes, "see", lambda *_: nothing)
    ((fragment, result),) = describe_photograph(photograph, encoder, MEMBRA).pieces
    assert fragment == photograph
    assert str(result) == "no writing was found on it"


def test_a_piece_with_too_few_letters_is_refused_by_itself(photograph: Fragment, encoder: Encoder) -> None:
    strict = Recipe(glyphs=MEMBRA.glyphs, bag=MEMBRA.bag, pieces="auto", min_glyphs=9)
    found: Described = describe_photograph(photograph, encoder, strict)
    assert [fragment.id.rpartition("#")[2] for fragment, _ in found.pieces] == ["1", "2", "3"]
    assert all(isinstance(result, TooFewLetters) for _, result in found.pieces)


def test_describe_takes_the_piece_it_is_told_or_the_most_legible(photograph: Fragment, encoder: Encoder) -> None:
    every = [
        result
        for _, result in describe_photograph(photograph, encoder, MEMBRA).pieces
        if isinstance(result, Description)
    ]
    assert describe(photograph, encoder, MEMBRA).legibility == 0.9
    assert pick(photograph, MEMBRA)[0].id == "box/plate.png#2"
    for number, one in enumerate(every, start=1):
        found = describe(piece_of(photograph, number), encoder, MEMBRA)
        np.testing.assert_array_equal(found.boxes, one.boxes)
        np.testing.assert_array_equal(found.outline, one.outline)
    with pytest.raises(Refused, match=r"plate\.png has 3 pieces with writing, and no piece 4"):
        describe(piece_of(photograph, 4), encoder, MEMBRA)


def test_little_legibility_is_noted_as_doubt(tmp_path: Path, encoder: Encoder) -> None:
    (tmp_path / "plate.png").write_bytes(plate(1, 2, 3))
    found = describe_photograph(Fragment("plate.png", tmp_path / "plate.png"), encoder, MEMBRA).pieces
    assert [result.note for _, result in found if isinstance(result, Description)] == [
        "few letters",
        "few letters",
        "few letters, doubtful",
    ]


def test_names_of_pieces() -> None:
    for name, expected in (
        ("a.jpg#12", ("a.jpg", 12)),
        ("a.jpg#0", ("a.jpg#0", 0)),
        ("a#1.jpg", ("a#1.jpg", 0)),
        ("#1", ("#1", 0)),
        ("a\nb.jpg#3", ("a\nb.jpg", 3)),
        ("a.jpg#٣", ("a.jpg#٣", 0)),
        ("a.jpg#1#2", ("a.jpg#1", 2)),
    ):
        assert split_piece(name) == expected
    library = Fragment("a.jpg", Path("a.jpg"), {"photograph": "negative 12"})
    assert piece_of(library, 2).columns == {"photograph": "negative 12"}  # the value in the table is kept
    assert piece_of(library, 2).photograph == "a.jpg"
