"""Separation of mates and strangers: by hand, in edge cases, and equal to the published code's table."""

import csv
from pathlib import Path

import numpy as np
import pytest

from membra.errors import MembraError
from membra.judge.separation import placements, resample_separation, separate, split_pairs, weighted_separation

# Two joins of two; the distances of mates are 1 and 2, those of strangers 4, 5, 6 and 7.
MATRIX = np.array([[0, 1, 4, 5], [1, 0, 6, 7], [4, 6, 0, 2], [5, 7, 2, 0]], dtype=float)
JOINS = ["a", "a", "b", "b"]


def test_by_hand() -> None:
    found = separate(MATRIX, JOINS)
    assert (found.intra_pairs, found.inter_pairs) == (2, 4)
    assert (found.intra, found.inter, found.gap) == (1.5, 5.5, 4.0)
    assert (found.ks, found.auc) == (1.0, 1.0)
    assert found.cohen_d == pytest.approx(4.0 / np.sqrt((0.5 + 5 / 3) / 2))
    assert found.gap_ci95[0] <= found.gap <= found.gap_ci95[1]


def test_ties_count_half_and_mixed_distances_less() -> None:
    assert separate(np.ones((4, 4)), JOINS).auc == 0.5
    turned = 10 - MATRIX
    assert separate(turned, JOINS).auc == 0.0
    assert separate(turned, JOINS).gap == -4.0


def test_what_stands_farther_than_each_pair_of_mates() -> None:
    """Their mean is the AUC: strangers at 1, 2, 2 and 3, mates at 0, 2 and 4."""
    found = placements(np.array([0.0, 2.0, 4.0]), np.array([2.0, 1.0, 3.0, 2.0]))
    assert found.tolist() == [1.0, 0.5, 0.0]
    draw = np.random.default_rng(4)
    intra, inter = draw.integers(0, 9, 40).astype(float), draw.integers(2, 12, 70).astype(float)
    by_hand = np.mean(intra[:, None] < inter) + np.mean(intra[:, None] == inter) / 2
    assert placements(intra, inter).mean() == pytest.approx(by_hand)


def test_barred_pairs_and_pairs_without_a_distance_are_left_out() -> None:
    barred = np.zeros((4, 4), dtype=bool)
    barred[0, 1] = barred[1, 0] = True
    assert separate(MATRIX, JOINS, barred).intra == 2.0
    unseen = MATRIX.copy()
    unseen[0, 3] = unseen[3, 0] = np.inf
    assert separate(unseen, JOINS).inter_pairs == 3


def test_nothing_to_separate() -> None:
    with pytest.raises(MembraError, match="two fragments of one join"):
        separate(MATRIX, ["a", "b", "c", "d"])
    with pytest.raises(MembraError, match="two different joins"):
        separate(MATRIX, ["a"] * 4)


def test_places_name_the_pairs() -> None:
    intra, inter, indices = split_pairs(MATRIX, JOINS)
    assert [MATRIX[tuple(pair)] for pair in indices] == [*intra, *inter]


def test_resampling_joins_is_wider_than_resampling_pairs() -> None:
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(6, 2)) * 3  # joins differ from each other far more than their fragments do
    points = np.repeat(centres, 5, axis=0) + draw.normal(size=(30, 2)) * np.repeat(draw.uniform(0.1, 2, 6), 5)[:, None]
    matrix = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = separate(matrix, np.repeat(list("abcdef"), 5).tolist())
    assert np.ptp(found.gap_ci95_joins) > 1.5 * np.ptp(found.gap_ci95)


@pytest.mark.parametrize(
    ("matrix", "row"),
    [("bob_hungarian", "BoB (Hungarian-L2)"), ("bow_raw_cosine", "BoW (Cosine)"), ("bob_chamfer", "BoB (Chamfer)")],
)
def test_equal_to_the_published_code(shared: Path, matrix: str, row: str) -> None:
    with np.load(shared / "golden" / "published_code.npz", allow_pickle=False) as golden:
        found = separate(golden[matrix].astype(float), [str(label) for label in golden["labels"]])
    with (shared / "golden" / "distance_separation_stats.csv").open() as file:
        wanted = next(line for line in csv.DictReader(file) if line["method"] == row)
    ours = {
        "n_intra": found.intra_pairs,
        "n_inter": found.inter_pairs,
        "intra_mean": found.intra,
        "inter_mean": found.inter,
        "mean_gap": found.gap,
        "gap_ci95_low": found.gap_ci95[0],
        "gap_ci95_high": found.gap_ci95[1],
        "ks_stat": found.ks,
        "auc_sep": found.auc,
        "cohen_d": found.cohen_d,
    }
    assert ours == pytest.approx({name: float(wanted[name]) for name in ours}, abs=1e-9)


def test_resampled_by_join_the_statistics_are_those_of_the_drawn_joins() -> None:
    """With every join drawn once, the weighted statistics equal the plain ones, also with ties."""
    draw = np.random.default_rng(0)
    points = np.repeat(draw.normal(size=(6, 2)), 3, axis=0) + 0.5 * draw.normal(size=(18, 2))
    matrix = np.round(np.linalg.norm(points[:, None] - points[None], axis=2), 1)
    joins = [str(at // 3) for at in range(18)]
    plain = separate(matrix, joins)
    once = weighted_separation(matrix, joins, None, np.ones((1, 6), dtype=np.int64))[0]
    assert once.tolist() == pytest.approx([plain.ks, plain.auc, plain.cohen_d])
    found = resample_separation(matrix, joins)
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    assert (low <= once).all()
    assert (once <= high).all()
    assert (np.ptp([low, high], axis=0) > 0.01).all()


def test_two_methods_are_resampled_by_the_same_draws() -> None:
    assert np.array_equal(resample_separation(MATRIX, JOINS), resample_separation(MATRIX * 2, JOINS))
    assert resample_separation(MATRIX, ["a", "b", "c", "d"]).shape == (0, 3)  # no mates, no valid draws
