"""The public surface: small, sorted, documented, and the lines of docs/python.md do what they say."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

import membra


def test_every_name_is_there_documented_and_sorted() -> None:
    assert sorted(membra.__all__) == dir(membra)
    for name in membra.__all__:
        thing = getattr(membra, name)
        assert thing.__doc__, name


def test_the_surface_is_small() -> None:
    """A name more is a promise more: raise this number only for one that users asked for."""
    assert len(membra.__all__) <= 24


PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.mark.parametrize("name", membra.__all__)
def test_every_name_is_on_the_page_about_python(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE.read_text(encoding="utf-8"))


def test_the_page_about_python_is_true(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(drawn.parent / "images", tmp_path / "photographs")
    shutil.copy(drawn, tmp_path / "joins.csv")
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (done.failed, done.attempted > 20) == (0, True)


def test_the_contract_in_python(drawn: Path, tmp_path: Path, encoder: membra.Encoder) -> None:
    collection = membra.Collection.create(tmp_path / "C", encoder=encoder)
    found = membra.fragments(drawn)
    collection.add(found[:6])
    description = membra.describe(found[0], encoder, collection.recipe)
    ranking = membra.search(membra.Collection.open(tmp_path / "C"), found[0].id, top=3)
    assert len(ranking.hits) == 3
    assert membra.chamfer(description.bag, description.bag) == 0
    scores = membra.evaluate(collection, drawn, methods=["bob-hungarian"])
    assert 0 <= scores["methods"]["bob-hungarian"]["hit@1"] <= 1
    collection.remove([found[0].id])
    assert len(collection.entries()) == 5
    bag = membra.Bag(prototypes=[[0.0, 0.0], [3.0, 4.0]], weights=[1, 1])
    assert membra.hungarian(bag, bag) == membra.transport(bag, bag) == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(membra, "nonsense")
