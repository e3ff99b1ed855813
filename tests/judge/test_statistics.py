"""Scores over seeds, paired tests, and significance of differences."""

from dataclasses import replace

import numpy as np
import pytest

from membra.judge.metrics import Outcome, score
from membra.judge.statistics import compare_runs, holm, score_runs


def outcome(rank: int, join: str = "a", first: str = "a") -> Outcome:
    """A query with one mate at `rank` (from 1) of ten."""
    return Outcome(np.arange(1, 11) == rank, 1, join, first if rank == 1 else "z")


def run(ranks: list[int], manuscripts: int = 15) -> list[Outcome]:
    names = [f"j{index % manuscripts}" for index in range(len(ranks))]
    return [outcome(rank, join=name, first=name) for rank, name in zip(ranks, names, strict=True)]


GOOD, BAD = run([1] * 30), run([1] * 10 + [4] * 20)


def test_one_run_is_the_plain_score_but_for_its_intervals() -> None:
    single = score_runs([BAD])
    plain = score(BAD)
    assert {name: single[name] for name in plain if name != "ci95"} == {n: v for n, v in plain.items() if n != "ci95"}
    assert single["seeds"]["hit@1"] == [plain["hit@1"]]  # type: ignore[index]


def test_means_over_seeds_and_each_seeds_own() -> None:
    found = score_runs([GOOD, BAD])
    assert found["hit@1"] == pytest.approx((1 + 1 / 3) / 2)
    seeds, intervals, mean = found["seeds"], found["ci95"], found["hit@1"]
    assert isinstance(seeds, dict)
    assert isinstance(intervals, dict)
    assert isinstance(mean, float)
    assert seeds["hit@1"] == pytest.approx([1, 1 / 3])
    low, high = intervals["hit@1"]
    assert low < mean < high


def test_the_unit_is_the_manuscript() -> None:
    """Sixty queries that depend only on their five manuscripts are five observations, and decide nothing."""
    good, bad = run([1] * 60, 5), run([1, 4, 4, 4, 4] * 12, 5)
    alone = [replace(outcome, join=f"q{at}", first=f"q{at}") for at, outcome in enumerate(bad)]
    few = score_runs([bad])["ci95"]["hit@1"]  # type: ignore[index]
    many = score_runs([alone])["ci95"]["hit@1"]  # type: ignore[index]
    assert np.ptp(few) > 2 * np.ptp(many)
    assert few[0] == 0.0  # the one good manuscript may not be drawn
    test = compare_runs([good], [bad], "hit@1")
    assert test.difference == pytest.approx(0.8)
    assert test.p == pytest.approx(2 * 2 / 32)  # two of 32 flips reach it: the sign of the even manuscript is free
    assert np.ptp(test.ci95) == pytest.approx(np.ptp(few), abs=0.05)


def test_a_clear_difference_has_a_small_p() -> None:
    test = compare_runs([GOOD], [BAD], "hit@1")
    assert test.difference == pytest.approx(2 / 3)
    assert test.p < 0.001
    assert test.ci95[0] > 0
    assert test.agree
    assert compare_runs([BAD], [GOOD], "hit@1").difference == pytest.approx(-2 / 3)


def test_no_difference_has_p_one() -> None:
    test = compare_runs([BAD], [BAD], "map")
    assert (test.difference, test.p, test.agree) == (0.0, 1.0, False)


def test_one_query_more_is_noise() -> None:
    test = compare_runs([run([1] * 11 + [4] * 19)], [BAD], "hit@1")
    assert test.difference > 0
    assert test.p > 0.9  # a single changed query flips to the same size either way


def test_p_is_calibrated() -> None:
    draw = np.random.default_rng(1)
    p = [
        compare_runs([run(draw.integers(1, 5, 40).tolist())], [run(draw.integers(1, 5, 40).tolist())], "mrr").p
        for _ in range(100)
    ]
    assert 0 <= np.mean(np.array(p) < 0.05) <= 0.12


def test_seeds_that_disagree() -> None:
    assert not compare_runs([GOOD, BAD], [BAD, GOOD], "hit@1").agree
    assert compare_runs([GOOD, GOOD], [BAD], "hit@1").agree  # one side may have one run


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
