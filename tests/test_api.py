"""The public surface: small, sorted, documented, and the README's Python lines work."""

from pathlib import Path

import membra


def test_every_name_is_there_documented_and_sorted() -> None:
    assert sorted(membra.__all__) == dir(membra)
    for name in membra.__all__:
        thing = getattr(membra, name)
        assert thing.__doc__, name


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
