"""P(same manuscript) falls with distance, is symmetric, and is updated by verdicts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from membra.find.probability import Pairs, Refinement, probabilities, refine
from membra.find.search import search
from membra.store.collection import Collection


def pairs(distance: list[float], *, letters: float = 30.0, fragments: float = 500.0) -> Pairs:
    """Make pairs of fragments with local scale 1, whose sixteenth nearest is a little farther."""
    count = len(distance)
    both = np.ones((count, 2))
    return Pairs(np.array(distance), both, 1.12 * both, letters * both, fragments)


def test_it_falls_with_the_distance() -> None:
    found = probabilities(pairs([0.7, 0.85, 1.0, 1.1]))
    assert (np.diff(found) < 0.01).all()
    assert found[0] > 0.9
    assert found[-1] < 0.1


def test_the_order_of_the_two_makes_no_difference() -> None:
    one = replace(pairs([0.9]), scales=np.array([[0.8, 1.2]]), far=np.array([[1.0, 1.3]]))
    other = replace(one, scales=one.scales[:, ::-1], far=one.far[:, ::-1])
    assert probabilities(one) == pytest.approx(probabilities(other))


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e4), st.floats(0.0, 1e6))
def test_whatever_is_asked_it_is_a_probability(distance: float, letters: float, fragments: float) -> None:
    found = float(probabilities(pairs([distance], letters=letters, fragments=fragments))[0])
    assert 0 <= found <= 1


def test_a_copy_is_as_likely_as_the_nearest_that_was_seen() -> None:
    """Beyond the fitted range it stays constant: its squared terms would reverse the trend."""
    assert probabilities(pairs([0.0]))[0] == pytest.approx(probabilities(pairs([1e-9]))[0])
    assert probabilities(pairs([0.0]))[0] > 0.9


def test_verdicts_move_it_a_little_at_first_and_then_decide() -> None:
    nothing, one, many = (refine([0.3] * count, [True] * count) for count in (0, 1, 60))
    assert nothing == Refinement()
    assert 0.3 < one.of(0.3) < 0.7
    assert many.of(0.3) > 0.9
    assert (many.joins, many.others) == (60, 0)


def test_contradictory_verdicts_never_turn_the_order_round() -> None:
    found = refine([1.0] * 50 + [0.0] * 50, [False] * 50 + [True] * 50)
    assert abs(found.shift) < 5
    assert found.of(0.95) > found.of(0.05)


def test_a_search_says_how_likely_each_is(collection: Collection, tmp_path: Path) -> None:
    own = collection.entries()[0].fragment
    by_default = collection.recipe.method == "bob-local"
    hits = search(collection, own.id, method="bob-local", top=5).hits
    assert all(hit.probability is not None and 0 <= hit.probability <= 1 for hit in hits)
    assert all(hit.probability is None for hit in search(collection, own.id, method="bob-chamfer", top=5).hits)
    # an image that is not in the collection has the probability of its fragment, up to the effect of its absence
    outside = tmp_path / "copy.jpg"
    outside.write_bytes(own.path.read_bytes())
    if by_default:
        copy = search(collection, outside, top=5).hits
        assert copy[0].id == own.id
        assert copy[0].probability is not None
