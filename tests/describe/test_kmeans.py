"""Tests of k-means against scikit-learn's: the same inertia, and valid results for few points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from membra.describe import kmeans as module
from membra.describe.kmeans import kmeans
from membra.errors import MembraError


def inertia(embeddings: NDArray[np.float32], centres: NDArray[np.float32], members: NDArray[np.int32]) -> float:
    return float(((embeddings.astype(np.float64) - centres[members]) ** 2).sum())


def letters(rng: np.random.Generator, n: int, d: int = 32, kinds: int = 25) -> NDArray[np.float32]:
    """Draw points around `kinds` centres, some of them rare, as letters are; not centred at the origin."""
    heads = rng.normal(0, 1, (kinds, d)) + 5
    return (heads[np.minimum(rng.geometric(0.12, n) - 1, kinds - 1)] + rng.normal(0, 0.5, (n, d))).astype(np.float32)


def test_as_tight_as_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = [], []
    for n, clusters in [(60, 10), (150, 20), (300, 20), (400, 32), (700, 20)]:
        embeddings = letters(rng, n)
        ours.append(inertia(embeddings, *kmeans(embeddings, clusters, 10, 42)))
        with threadpool_limits(limits=1):
            theirs.append(KMeans(clusters, n_init=10, random_state=42).fit(embeddings).inertia_)
    assert np.mean(np.array(ours) / theirs) < 1.01
    assert np.max(np.array(ours) / theirs) < 1.04


def test_restarts_make_it_tighter() -> None:
    rng = np.random.default_rng(1)
    sets = [letters(rng, 200) for _ in range(5)]
    one, ten = (np.mean([inertia(e, *kmeans(e, 20, restarts, 0)) for e in sets]) for restarts in (1, 10))
    assert ten < one


def test_it_has_arrived() -> None:
    """Check that each point belongs to its nearest centre, and that each centre is the mean of its points."""
    embeddings = letters(np.random.default_rng(2), 300)
    centres, members = kmeans(embeddings, 12)
    assert centres.shape == (12, 32)
    assert centres.dtype == np.float32
    assert members.dtype == np.int32
    for cluster in range(12):
        np.testing.assert_allclose(centres[cluster], embeddings[members == cluster].mean(axis=0), rtol=1e-5, atol=1e-5)
    nearest = ((embeddings[:, None].astype(np.float64) - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == members) > 0.98  # up to the tolerance at which the iterations end


def test_the_seed_decides() -> None:
    embeddings = letters(np.random.default_rng(3), 200)
    first, again, other = kmeans(embeddings, 15, 2, 7), kmeans(embeddings, 15, 2, 7), kmeans(embeddings, 15, 2, 8)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])


def test_the_input_is_left_as_it_was() -> None:
    embeddings = letters(np.random.default_rng(4), 50)
    before = embeddings.copy()
    kmeans(embeddings, 5)
    np.testing.assert_array_equal(embeddings, before)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_no_more_points_than_words(n: int) -> None:
    embeddings = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
    centres, members = kmeans(embeddings, 5)
    assert len(centres) == n
    np.testing.assert_array_equal(centres[members], embeddings)


def test_copies_count_as_one_point() -> None:
    embeddings = np.repeat(np.eye(4, dtype=np.float32), 10, axis=0)
    centres, members = kmeans(embeddings, 4)
    np.testing.assert_array_equal(centres[members], embeddings)
    centres, members = kmeans(embeddings, 3)
    assert sorted(np.bincount(members).tolist()) == [10, 10, 20]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_every_cluster_has_a_member_and_is_its_mean(n: int, clusters: int, d: int, values: int, seed: int) -> None:
    """Points on a coarse grid: many copies, many ties."""
    embeddings = np.random.default_rng(seed).integers(0, values, (n, d)).astype(np.float32)
    centres, members = kmeans(embeddings, clusters, 3, seed)
    distinct = len(np.unique(embeddings, axis=0))
    assert len(centres) == min(clusters, distinct)
    assert set(members.tolist()) == set(range(len(centres)))
    for cluster, centre in enumerate(centres):
        np.testing.assert_allclose(centre, embeddings[members == cluster].mean(axis=0), atol=1e-6)


def test_empty_clusters_take_the_point_worst_off() -> None:
    points = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    half = module._half(points, np.array([[1.0], [90.0], [80.0]], dtype=np.float32))
    members = module._filled(half.argmin(axis=0).astype(np.int32), half, points)
    assert members.tolist() == [2, 0, 1]  # 5 is furthest from its centre, then 0


def test_a_centre_without_points_finds_some() -> None:
    rng = np.random.default_rng(5)
    points = rng.normal(size=(100, 3)).astype(np.float32)
    centres = np.stack([points[:4], np.array([points[0], points[0], points[0], points[0] + 100])])
    members = module._iterate(points, centres.astype(np.float32)[1:])
    assert len(np.unique(members)) == 4


def test_what_cannot_be_clustered_is_said() -> None:
    with pytest.raises(MembraError, match="needs at least one embedding"):
        kmeans(np.zeros((0, 4), dtype=np.float32), 3)


def test_many_points_and_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the table of all distances, and with more clusters than int8 can count."""
    embeddings = letters(np.random.default_rng(6), 500)
    looked_up = inertia(embeddings, *kmeans(embeddings, 20))
    monkeypatch.setattr(module, "TABLE", 100)
    assert inertia(embeddings, *kmeans(embeddings, 20)) == pytest.approx(looked_up, rel=0.01)
    centres, members = kmeans(embeddings, 200)
    assert set(members.tolist()) == set(range(200))
    assert len(centres) == 200
