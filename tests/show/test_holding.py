"""An open collection while another process describes fragments of it again."""

from pathlib import Path

import pytest

from factories import stored
from membra.find.agreement import Agreement
from membra.show import holding as holdings
from membra.show.holding import Holding
from membra.store.collection import Collection

QUERY, AGAIN, GONE, LAST = "0000.jpg", "0003.jpg", "0006.jpg", "0039.jpg"
CANDIDATES = (AGAIN, "0004.jpg", GONE, LAST)


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return stored(tmp_path / "shelf", range(40))


def begun(collection: Collection) -> Holding:
    """The state with which a page was begun."""
    holding = Holding(collection)
    assert holding.by_id
    return holding


def describe_again(path: Path, *ids: str) -> None:
    """Describe fragments again in another process; each then has a new number."""
    Collection.open(path).remove(ids)
    stored(path, [int(id.removesuffix(".jpg")) for id in ids])


def agreed(holding: Holding) -> list[Agreement | None]:
    return holding.agreements(QUERY, holding.description(QUERY), CANDIDATES)


@pytest.mark.parametrize("ids", [(AGAIN,), (LAST,), (QUERY,), (AGAIN, LAST, QUERY)])
def test_agreement_outlives_that_others_are_described_again(collection: Collection, ids: tuple[str, ...]) -> None:
    expected, holding = agreed(begun(collection)), begun(collection)
    assert None not in expected
    describe_again(collection.path, *ids)
    assert agreed(holding) == expected


def test_nothing_is_said_of_what_was_taken_out_meanwhile(collection: Collection) -> None:
    holding = begun(collection)
    Collection.open(collection.path).remove([GONE])
    assert [found is None for found in agreed(holding)] == [False, False, True, False]


def test_distances_outlive_that_others_are_described_again(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdings, "NEAR", 1)
    monkeypatch.setattr(holdings, "SMALL", 1)  # in a large collection the rank of far fragments is not computed
    expected, holding = begun(collection).apart(QUERY, AGAIN), begun(collection)
    assert expected[1] == 0
    describe_again(collection.path, QUERY, AGAIN)
    assert holding.apart(QUERY, AGAIN) == pytest.approx(expected)
    Collection.open(collection.path).remove([GONE])
    assert holding.apart(QUERY, GONE) == (float("inf"), 0)
