"""Tests of VLAD, Fisher vectors and whitening against their formulas, and on descriptors of known hands."""

import numpy as np
import pytest

from membra.compare.encodings import EncodingSettings, cosine_distances, fisher, mean_pool, vlad, whitened
from membra.errors import MembraError

SMALL = EncodingSettings(words=6, gaussians=4, dimensions=8)


def hands(count: int = 8, each: int = 4, letters: int = 120) -> tuple[list[np.ndarray], np.ndarray]:
    """Draw fragments of `count` hands: all use the same shapes, which each hand shifts by its own offsets."""
    draw = np.random.default_rng(0)
    shapes, own = draw.normal(size=(6, 16)), 0.35 * draw.normal(size=(count, 6, 16))
    descriptors = []
    for hand in np.repeat(np.arange(count), each):
        kind = draw.integers(0, 6, letters)
        descriptors.append((shapes[kind] + own[hand, kind] + 0.5 * draw.normal(size=(letters, 16))).astype(np.float32))
    return descriptors, np.repeat(np.arange(count), each)


def hits(vectors: np.ndarray, truth: np.ndarray) -> float:
    matrix = cosine_distances(vectors) + 9 * np.eye(len(vectors))
    return float((truth[matrix.argmin(axis=1)] == truth).mean())


def test_vlad_by_hand() -> None:
    """Two codewords far apart: each block is the sum of its residuals, of length 1, and the whole has length 1."""
    near, far = np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[10.0, 10.0], [10.0, 10.4]])
    descriptors = [np.concatenate([near, far]).astype(np.float32)] * 3
    found = vlad(descriptors, EncodingSettings(words=2))
    assert found.shape == (3, 4)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3))


def test_hands_are_told_apart() -> None:
    descriptors, truth = hands()
    assert hits(vlad(descriptors, SMALL), truth) > 0.9
    assert hits(fisher(descriptors, SMALL), truth) > 0.9
    assert hits(whitened(vlad(descriptors, SMALL), SMALL), truth) > 0.9
    # The gain of a codebook: the hands' shifts nearly cancel in the mean of all shapes.
    assert hits(vlad(descriptors, SMALL), truth) >= hits(mean_pool(descriptors), truth)


def test_fisher_of_the_mixtures_own_points_is_small() -> None:
    """The mean gradient over the points to which the mixture was fitted is zero."""
    descriptors, _ = hands(count=1, each=2, letters=4000)
    alone, shifted = fisher([*descriptors, descriptors[0] + 1], SMALL)[[0, 2]]
    assert alone @ shifted < 0.6


def test_whitening_keeps_at_most_a_quarter_and_nobody_equidistant() -> None:
    descriptors, _ = hands()
    found = whitened(vlad(descriptors, SMALL), SMALL)
    assert found.shape == (32, 8)
    apart = cosine_distances(found)[~np.eye(32, dtype=bool)]
    assert apart.std() > 0.1
    assert whitened(vlad(descriptors[:7], SMALL), SMALL).shape == (7, 96)  # too few to estimate variances
    assert whitened(vlad(descriptors, SMALL), EncodingSettings(whiten=5)).shape == (32, 5)


def test_a_fragment_without_descriptors_is_far_from_all() -> None:
    descriptors, _ = hands()
    descriptors[3] = np.zeros((0, 16), np.float32)
    for vectors in (vlad(descriptors, SMALL), fisher(descriptors, SMALL), mean_pool(descriptors)):
        assert not vectors[3].any()
        assert cosine_distances(vectors)[3, 4] == 1.0


def test_too_few_descriptors_for_a_codebook() -> None:
    with pytest.raises(MembraError, match="needs 200 descriptors, and there are 5"):
        vlad([np.ones((5, 128), np.float32)], EncodingSettings())


def test_more_codebooks_stand_side_by_side() -> None:
    descriptors, _ = hands()
    assert vlad(descriptors, EncodingSettings(words=6, codebooks=3)).shape == (32, 3 * 6 * 16)
