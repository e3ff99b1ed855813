"""Tests of local scaling: fewer hubs, copies stay nearest, single queries and the whole matrix agree."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from membra.compare.distance import chamfer
from membra.compare.local_scaling import CHAMFER, SHARE, fused_distances, local_scale, measure_local
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.store.collection import Collection


def described(embeddings: np.ndarray) -> Description:
    """Make each embedding a prototype."""
    count = len(embeddings)
    return Description(
        np.zeros((count, 4), np.int32), embeddings.astype(np.float32), Bag(embeddings, np.ones(count), range(count))
    )


def cloud(seed: int, shift: float = 0.0, spread: float = 1.0) -> Description:
    draw = np.random.default_rng(seed)
    return described(shift + spread * draw.normal(size=(9, 6)))


def test_local_scale_is_the_mean_of_the_three_nearest() -> None:
    row = np.concatenate([np.arange(1.0, 13.0), [np.inf]])
    assert local_scale(row[None])[0] == pytest.approx(2.0)
    assert local_scale(np.array([[np.inf, 4.0]]))[0] == 4
    assert local_scale(np.array([[np.inf]]))[0] == 1  # a collection of one fragment has no references
    assert local_scale(np.array([[0.0, 0.0]]))[0] > 0


def test_a_stored_query_and_the_same_from_outside(collection: Collection) -> None:
    """Every fragment as a stored query, then all at once: the same rows; the distance to itself is zero."""
    _, found = collection.described()
    local = measure_local(found)
    whole = fused_distances(found, local, same=range(len(found)))
    assert np.diag(whole).tolist() == [0.0] * len(found)
    np.testing.assert_allclose(fused_distances(found[3:4], local, same=[3])[0], whole[3], atol=1e-5)
    outside = fused_distances(found[3:4], local, same=[None])[0]
    assert int(np.argmin(outside)) == 3


def test_it_is_the_plain_distance_over_both_local_scales() -> None:
    gallery = [cloud(index, shift=0.3 * index) for index in range(14)]
    local = measure_local(gallery)
    bags = [description.bag for description in gallery]
    plain = np.array([[chamfer(a, b) for b in bags] for a in bags])
    np.fill_diagonal(plain, np.inf)
    scale = np.sort(plain, axis=1)[:, :3].mean(axis=1)
    expected = plain / np.sqrt(np.outer(scale, scale))
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(fused_distances(gallery, local, same=range(14), parts=(0,)), expected, rtol=1e-4)


def test_a_hub_is_pushed_back() -> None:
    """One fragment has a letter of every other: it is first for most queries unscaled, for fewer with local scaling."""
    draw = np.random.default_rng(1)
    apart = [described(10 * np.eye(12)[[index] * 6] + draw.normal(size=(6, 12))) for index in range(12)]
    hub = described(np.concatenate([d.embeddings[:1] for d in apart]))
    gallery = [*apart, hub]
    plain = np.array([[chamfer(a.bag, b.bag) for b in gallery] for a in gallery])
    np.fill_diagonal(plain, np.inf)
    scaled = fused_distances(gallery, measure_local(gallery), same=range(13), parts=(0,))
    np.fill_diagonal(scaled, np.inf)
    firsts = [(matrix[:12].argmin(axis=1) == 12).sum() for matrix in (plain, scaled)]
    relative = [(matrix[:12, 12] / np.median(matrix[:12, :12], axis=1)).mean() for matrix in (plain, scaled)]
    assert firsts[0] == 12
    assert relative[1] > relative[0]


def test_a_collection_of_one_or_two_still_answers() -> None:
    for count in (1, 2):
        gallery = [cloud(index) for index in range(count)]
        found = fused_distances(gallery, measure_local(gallery), same=range(count))
        assert np.isfinite(found).all()


def test_the_cosine_is_added_by_its_share() -> None:
    gallery = [cloud(index, shift=0.3 * index) for index in range(14)]
    local = measure_local(gallery)
    means = np.array([description.embeddings.astype(float).mean(axis=0) for description in gallery])
    plain = cdist(means, means, "cosine")
    np.fill_diagonal(plain, np.inf)
    scale = np.sort(plain, axis=1)[:, :3].mean(axis=1)
    hands = SHARE * plain / np.sqrt(np.outer(scale, scale))
    np.fill_diagonal(hands, 0)
    letters = fused_distances(gallery, local, same=range(14), parts=(CHAMFER,))
    np.testing.assert_allclose(fused_distances(gallery, local, same=range(14)), letters + hands, rtol=1e-6)


def test_scales_are_measured_against_the_references_only() -> None:
    gallery = [cloud(index) for index in range(30)]
    local = measure_local(gallery, references=[4, 9, 25])
    plain = np.array([[chamfer(a.bag, b.bag) for b in gallery] for a in gallery])
    assert local.scales[CHAMFER, 0] == pytest.approx(plain[0, [4, 9, 25]].mean(), rel=1e-6)
    assert local.scales[CHAMFER, 9] == pytest.approx(plain[9, [4, 25]].mean(), rel=1e-6)
