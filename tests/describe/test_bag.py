"""Tests of bags: prototypes, masses, members and error are as in the paper, down to one glyph."""

from typing import Any

import numpy as np
import pytest

from membra.describe.bag import Bag, BagSettings, make_bag, prototype_count
from membra.errors import MembraError

CLOUD = np.random.default_rng(3).normal(size=(90, 5)).astype(np.float32)


def test_prototypes_are_means_and_weights_shares_of_their_members() -> None:
    bag = make_bag(CLOUD, BagSettings(words=6))
    assert bag.members is not None
    for word in range(6):
        own = CLOUD[bag.members == word]
        np.testing.assert_allclose(bag.prototypes[word], own.mean(axis=0), atol=1e-5)
        assert bag.weights[word] == pytest.approx(len(own) / len(CLOUD))


def test_words_can_be_as_long_as_their_letters() -> None:
    letters = CLOUD / np.linalg.norm(CLOUD, axis=1, keepdims=True)
    plain, full = (make_bag(letters, BagSettings(6, clusters="membra", full_length=full)) for full in (False, True))
    lengths = np.linalg.norm(plain.prototypes, axis=1)
    assert (lengths < 0.95).any(), "means of several directions are shorter than one"
    np.testing.assert_allclose(full.prototypes, plain.prototypes / lengths[:, None], atol=1e-5)
    twice = make_bag(2 * letters, BagSettings(6, clusters="membra", full_length=True))
    np.testing.assert_allclose(np.linalg.norm(twice.prototypes, axis=1), 2, rtol=1e-5)


def test_error_is_the_mean_distance_to_the_prototype() -> None:
    bag = make_bag(CLOUD, BagSettings(words=6))
    assert bag.members is not None
    expected = np.mean([np.linalg.norm(z - bag.prototypes[a]) for z, a in zip(CLOUD, bag.members, strict=True)])
    assert bag.error == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("glyphs", [1, 2, 5])
def test_fewer_glyphs_than_words_are_words_themselves(glyphs: int) -> None:
    bag = make_bag(CLOUD[:glyphs], BagSettings(words=20))
    assert len(bag) == glyphs
    assert bag.error == 0
    np.testing.assert_allclose(bag.prototypes[bag.members], CLOUD[:glyphs])


def test_repeated_glyphs_are_one_word_with_their_mass() -> None:
    bag = make_bag(np.repeat(CLOUD[:2], [3, 1], axis=0), BagSettings(words=20))
    assert sorted(bag.weights) == [0.25, 0.75]


def test_the_same_seed_gives_the_same_bag() -> None:
    first, second = (make_bag(CLOUD, BagSettings(words=6)) for _ in range(2))
    np.testing.assert_array_equal(first.prototypes, second.prototypes)


def test_words_by_number_of_glyphs() -> None:
    by_letters = BagSettings(words=32, letters_per_word=6, min_words=4)
    assert [prototype_count(n, by_letters) for n in (1, 30, 60, 400)] == [4, 5, 10, 32]
    assert prototype_count(5, BagSettings(words=20)) == 20


@pytest.mark.parametrize(
    ("prototypes", "weights"),
    [([], []), ([[1.0, 2.0]], [1.0, 1.0]), ([[1.0], [2.0]], [1.0, -1.0]), ([[1.0]], [0.0]), ([1.0, 2.0], [1.0, 1.0])],
)
def test_what_is_no_bag(prototypes: list[Any], weights: list[float]) -> None:
    with pytest.raises(MembraError):
        Bag(prototypes, weights)


def test_no_glyphs_no_bag() -> None:
    with pytest.raises(MembraError, match="without glyphs"):
        make_bag(CLOUD[:0], BagSettings())
