"""Likelihoods: what they say happens as often as they say it, and with little to learn from they say nothing."""

import numpy as np
import pytest

from membra.judge.likelihood import LEAST, fit_likelihood


def pairs(count: int, seed: int) -> tuple[list[float], list[bool]]:
    """Distances of joins and of other pairs, ten others to a join, as in a small collection."""
    draw = np.random.default_rng(seed)
    joins, others = draw.normal(0.8, 0.15, count), draw.normal(1.3, 0.15, 10 * count)
    return [*joins, *others], [True] * count + [False] * (10 * count)


def test_what_is_said_to_be_likely_happens_as_often() -> None:
    fitted = fit_likelihood(*pairs(60, 1))
    assert fitted
    distances, joined = (np.array(one) for one in pairs(4000, 2))
    said = np.array([fitted.of(distance) for distance in distances])
    for low, high in ((0.1, 0.3), (0.3, 0.7), (0.7, 0.9), (0.9, 1.0)):
        inside = (said >= low) & (said < high)
        assert inside.sum() > 50
        assert joined[inside].mean() == pytest.approx(said[inside].mean(), abs=0.12)


def test_it_falls_with_the_distance() -> None:
    fitted = fit_likelihood(*pairs(30, 3))
    assert fitted
    values = [fitted.of(distance) for distance in np.linspace(0, 3, 50)]
    assert values == sorted(values, reverse=True)
    assert (fitted.joins, fitted.others) == (30, 300)
    assert 0 <= fitted.of(1e300) <= fitted.of(-1e300) <= 1


def test_too_few_pairs_say_nothing() -> None:
    distances, joined = pairs(LEAST - 1, 4)
    assert fit_likelihood(distances, joined) is None
    assert fit_likelihood([], []) is None
    assert fit_likelihood([1.0] * 30, [True] * 30) is None


def test_distances_that_tell_nothing_say_nothing() -> None:
    draw = np.random.default_rng(5)
    distances = draw.normal(1, 0.1, 200)
    assert fit_likelihood([*distances], [*(distances > 1)]) is None  # joins further apart than others
    assert fit_likelihood([1.0] * 40, [True, False] * 20) is None


def test_pairs_that_the_search_did_not_rank_are_left_out() -> None:
    distances, joined = pairs(20, 6)
    assert fit_likelihood([*distances, np.inf], [*joined, True]) == fit_likelihood(distances, joined)
