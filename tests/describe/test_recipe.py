"""Tests of recipes: every setting is stored, an unknown one is an error, and small fragments are described too."""

import json
from pathlib import Path

import pytest
from PIL import Image

from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, PAPER, SAUVOLA, Recipe, describe
from membra.errors import MembraError, TooFewLetters
from membra.sources.fragment import Fragment, fragments


@pytest.mark.parametrize("recipe", [MEMBRA, PAPER, SAUVOLA], ids=["membra", "paper", "sauvola"])
def test_a_recipe_survives_its_json(recipe: Recipe) -> None:
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_an_unknown_setting_is_an_error() -> None:
    values = json.loads(MEMBRA.to_json())
    values["ink"]["sharpness"] = 3
    with pytest.raises(MembraError, match="sharpness"):
        Recipe.from_json(json.dumps(values))


def test_a_drawn_fragment_is_described(drawn: Path, encoder: Encoder) -> None:
    found = describe(fragments(drawn)[0], encoder, MEMBRA)
    assert found.bag.members is not None
    assert len(found.boxes) == len(found.embeddings) == len(found.bag.members) > 30
    assert found.embeddings.shape[1] == found.bag.prototypes.shape[1] == encoder.dimension
    assert found.note == ""


def test_the_paper_leaves_out_what_has_fewer_than_200_letters_and_says_so(drawn: Path, encoder: Encoder) -> None:
    with pytest.raises(TooFewLetters, match=r"letters, fewer than 200 \(.*too small"):
        describe(fragments(drawn)[0], encoder, PAPER)


def test_a_blank_page_has_no_letters(tmp_path: Path, encoder: Encoder) -> None:
    Image.new("RGB", (300, 200), "white").save(tmp_path / "blank.png")
    with pytest.raises(TooFewLetters, match="no writing was found"):
        describe(Fragment("blank.png", tmp_path / "blank.png"), encoder, MEMBRA)


def test_settings_by_their_former_names_are_still_understood() -> None:
    former = PAPER.to_json().replace('"min_', '"least_').replace('"max_', '"most_').replace("_per_", "_a_")
    assert "least_glyphs" in former
    assert "letters_a_word" in former
    assert Recipe.from_json(former) == PAPER
