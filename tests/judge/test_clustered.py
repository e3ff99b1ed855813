"""Intervals and tests with the manuscript as unit, not the query, and the decisions based on them."""

from itertools import product

import numpy as np
import pytest

from membra.judge.claims import MARGIN, Claim, Comparison, check_claim, decide
from membra.judge.clustered import cluster_interval, flip_p


def comparison(values: np.ndarray, manuscripts: list[str]) -> Comparison:
    return Comparison("a against b", values, values, manuscripts)


def test_flips_are_all_tried_where_they_are_few() -> None:
    values, clusters = np.array([0.3, 0.1, -0.2, 0.5]), ["a", "a", "b", "c"]
    sums = [0.4, -0.2, 0.5]
    by_hand = [
        sum(s * v for s, v in zip(signs, sums, strict=True)) >= 0.7 - 1e-12 for signs in product((1, -1), repeat=3)
    ]
    assert flip_p(values, clusters) == pytest.approx(np.mean(by_hand))


def test_a_floor_moves_the_question() -> None:
    values, clusters = np.full(12, 0.05), [str(at) for at in range(12)]
    assert flip_p(values, clusters, 0.04) == pytest.approx(2**-12)
    assert flip_p(values, clusters, 0.06) == 1.0
    assert flip_p(values, clusters, 0.05) == 1.0  # at the boundary nothing is significant


def test_queries_of_one_manuscript_count_as_one() -> None:
    """Forty queries that agree, from four manuscripts, are four observations."""
    values = np.full(40, 0.2)
    assert flip_p(values, [str(at) for at in range(40)]) < 0.001
    assert flip_p(values, [str(at % 4) for at in range(40)]) == pytest.approx(1 / 16)


def test_the_interval_is_wider_by_manuscript_than_by_query() -> None:
    draw = np.random.default_rng(0)
    manuscripts = [str(at // 6) for at in range(120)]
    values = np.repeat(draw.normal(size=20), 6) + 0.1 * draw.normal(size=120)
    by_manuscript = np.ptp(cluster_interval(values, manuscripts))
    by_query = np.ptp(cluster_interval(values, [str(at) for at in range(120)]))
    assert by_manuscript > 2 * by_query


@pytest.mark.slow
def test_a_true_null_is_rejected_as_rarely_as_promised() -> None:
    """300 sets of 20 manuscripts without any difference: p < 0.05 in some 5 % of them, by query in far more."""
    draw = np.random.default_rng(1)
    manuscripts = [str(at // 4) for at in range(80)]
    found, naive = [], []
    for _ in range(300):
        values = np.repeat(draw.normal(size=20), 4)
        found.append(flip_p(values, manuscripts) < 0.05)
        naive.append(flip_p(values, [str(at) for at in range(80)]) < 0.05)
    assert np.mean(found) < 0.08
    assert np.mean(naive) > 0.12


def test_a_claim_holds_only_if_all_of_it_holds() -> None:
    draw, manuscripts = np.random.default_rng(2), [str(at // 3) for at in range(60)]
    good = comparison(0.2 + 0.05 * draw.normal(size=60), manuscripts)
    flat = comparison(0.3 * draw.normal(size=60), manuscripts)
    assert check_claim(Claim("x", "better", [good])).p_for < 0.001
    both = check_claim(Claim("x", "better", [good, flat]))
    assert both.closest is flat
    assert both.p_for > 0.025


def test_the_three_kinds_of_claim() -> None:
    draw, manuscripts = np.random.default_rng(3), [str(at // 3) for at in range(60)]

    def said(mean: float, kind: str, spread: float = 0.01) -> str:
        one = comparison(mean + spread * draw.normal(size=60), manuscripts)
        tested = check_claim(Claim("x", kind, [one]))  # type: ignore[arg-type]
        return decide([tested.p_for], [tested.p_against], [True]).verdicts[0]

    assert MARGIN == 0.02
    assert [said(mean, "better") for mean in (0.1, 0.0, -0.1)] == ["yes", "no", "no"]
    assert [said(mean, "no worse") for mean in (0.1, 0.0, -0.1)] == ["yes", "yes", "no"]
    assert [said(mean, "alike") for mean in (0.1, 0.0, -0.1)] == ["no", "yes", "no"]
    assert [said(0.0, kind, spread=0.5) for kind in ("better", "no worse", "alike")] == ["undecided"] * 3


def test_few_manuscripts_decide_nothing() -> None:
    one = comparison(np.full(50, 0.5), [str(at % 5) for at in range(50)])
    tested = check_claim(Claim("x", "better", [one]))
    assert decide([tested.p_for], [tested.p_against], [True]).verdicts == ["undecided"]


def test_seeds_that_disagree_and_many_claims_at_once() -> None:
    assert decide([0.001], [1.0], [False]).verdicts == ["undecided"]
    assert decide([0.02], [1.0], [True]).verdicts == ["yes"]
    assert decide([0.02, 0.02, 0.5], [1.0] * 3, [True] * 3).verdicts == ["undecided"] * 3
