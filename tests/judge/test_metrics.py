"""Metrics agree with values computed by hand and by scikit-learn, and never improve when hard fragments are dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score

from membra.errors import MembraError
from membra.judge.evaluate import ask, outcomes
from membra.judge.metrics import Outcome, macro_f1, measure, score


def outcome(*relevant: int, mates: int, join: str = "a", first: str = "a") -> Outcome:
    return Outcome(np.array(relevant, dtype=bool), mates, join, first)


def test_by_hand() -> None:
    scores = measure(outcome(0, 1, 1, 0, 0, 0, 1, mates=4))
    assert (scores["hit@1"], scores["hit@5"], scores["mrr"]) == (0, 1, 0.5)
    assert scores["map@1"] == 0
    assert scores["map@5"] == pytest.approx((1 / 2 + 2 / 3) / 4)
    assert scores["map"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 7) / 4)


def test_map_at_k_divides_by_what_can_be_found_within_k() -> None:
    assert measure(outcome(1, 1, 1, mates=3))["map@1"] == 1


def test_nothing_found() -> None:
    scores = measure(outcome(mates=2))
    assert set(scores.values()) == {0.0}


@given(st.lists(st.booleans(), min_size=1, max_size=30).filter(any))
def test_map_is_scikit_learns_average_precision(relevant: list[bool]) -> None:
    found = measure(outcome(*relevant, mates=sum(relevant)))["map"]
    assert found == pytest.approx(average_precision_score(relevant, -np.arange(len(relevant))))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_macro_f1_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    truth, found = (np.array(side) for side in zip(*pairs, strict=True))
    assert macro_f1(truth, found) == pytest.approx(f1_score(truth, found, average="macro"))


def test_the_interval_holds_the_mean_and_narrows_with_queries() -> None:
    few = score([outcome(i % 2, mates=1) for i in range(10)])
    many = score([outcome(i % 2, mates=1) for i in range(400)])
    widths = []
    for scores in (few, many):
        intervals = scores["ci95"]
        assert isinstance(intervals, dict)
        low, high = intervals["hit@1"]
        assert low < 0.5 < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


KNOWN = {
    "a1": {"join": "a", "leaf": "1"},
    "a2": {"join": "a", "leaf": "1"},
    "a3": {"join": "a", "leaf": "2"},
    "b1": {"join": "b", "leaf": "3"},
    "c1": {"join": "c", "leaf": "4"},
    "c2": {"join": "c", "leaf": "5"},
}
IDS = list(KNOWN)
LINE = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))


def test_queries_are_those_with_a_mate() -> None:
    question = ask(IDS, [], KNOWN, None)
    assert [IDS[index] for index in question.queries()] == ["a1", "a2", "a3", "c1", "c2"]


def test_the_querys_own_leaf_may_not_answer() -> None:
    question = ask(IDS, [], KNOWN, "leaf")
    first = outcomes(question, LINE)[0]
    assert first.mates == 1  # a3 alone: a2 is cut from the same leaf
    assert first.relevant.tolist() == [True, False, False, False]


def test_an_undescribed_fragment_is_a_miss_and_an_undescribed_mate_not_found() -> None:
    question = ask(IDS[:5], IDS[5:], KNOWN, None)
    found = outcomes(question, LINE[:5, :5])
    assert len(found) == 5
    c1, c2 = found[3], found[4]
    assert (measure(c1)["map"], c1.mates) == (0.0, 1)
    assert (len(c2.relevant), c2.first, measure(c2)["hit@20"]) == (0, "", 0.0)


def test_dropping_hard_fragments_never_pays() -> None:
    """Each fragment with a mate in turn is left undescribed: it is still a query, and counts as a miss."""
    matrix = np.random.default_rng(4).random((6, 6))
    for index in (0, 1, 2, 4, 5):
        kept = [i for i in range(6) if i != index]
        question = ask([IDS[i] for i in kept], [IDS[index]], KNOWN, None)
        found = outcomes(question, matrix[np.ix_(kept, kept)])
        assert len(found) == 5
        assert set(measure(found[-1]).values()) == {0.0}
        assert sum(outcome.mates for outcome in found) == 3 * 2 + 2


def test_candidates_at_infinity_are_not_ranked() -> None:
    matrix = LINE.copy()
    matrix[0, 1:3] = np.inf
    first = outcomes(ask(IDS, [], KNOWN, None), matrix)[0]
    assert (len(first.relevant), measure(first)["mrr"], first.mates) == (3, 0.0, 2)


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(MembraError, match="no column `side`; it has: join, leaf"):
        ask(IDS, [], KNOWN, "side")


def test_intervals_are_those_of_resampling_all_queries_at_once() -> None:
    """Drawing one resample at a time, which bounds the memory, gives the same draws."""
    draw = np.random.default_rng(3)
    found = [Outcome(draw.random(9) < 0.3, 4, f"j{draw.integers(4)}", f"j{draw.integers(4)}") for _ in range(31)]
    table = np.array([[measure(one)["hit@1"], measure(one)["map"]] for one in found])
    draws = np.random.default_rng(0).integers(0, 31, size=(2000, 31))
    low, high = np.percentile(table[draws].mean(axis=1), [2.5, 97.5], axis=0)
    intervals = score(iter(found))["ci95"]
    assert isinstance(intervals, dict)
    np.testing.assert_allclose([intervals["hit@1"], intervals["map"]], np.column_stack([low, high]), rtol=1e-12)
