"""Tests of bag of words and pooling against values computed by hand."""

import numpy as np
import pytest

from membra.compare.codebook import CodebookSettings, compare_histograms, fit_codebook, term_frequencies, weigh_codebook
from membra.compare.pooling import compare_vectors, pool
from membra.errors import MembraError

CODEBOOK = np.array([[0.0], [10.0], [20.0]], dtype=np.float32)
VECTORS = [np.array([[1.0], [9.0]], np.float32), np.array([[11.0]], np.float32)]
COUNTS = [np.array([3.0, 1.0]), np.array([5.0])]


def test_term_frequencies_count_members_not_words() -> None:
    assert term_frequencies(VECTORS[0], COUNTS[0], CODEBOOK).tolist() == [0.75, 0.25, 0.0]


def test_smoothed_idf() -> None:
    vocabulary = weigh_codebook(VECTORS, COUNTS, CODEBOOK)
    np.testing.assert_allclose(vocabulary.idf, np.log(3 / np.array([2, 3, 1])) + 1)


def test_codebook_weighs_by_population() -> None:
    vectors = [np.array([[0.0], [1.0], [50.0]], np.float32)]
    codebook = fit_codebook(vectors, [np.array([3.0, 1.0, 1.0])], CodebookSettings(words=2))
    assert sorted(codebook.ravel()) == pytest.approx([0.25, 50.0])


def test_too_few_vectors_for_the_codebook() -> None:
    with pytest.raises(MembraError, match="at least as many different vectors, and this collection has 3"):
        fit_codebook(VECTORS, COUNTS, CodebookSettings(words=4))


def test_distances_of_histograms() -> None:
    a, b = np.array([[2.0, 0.0, 2.0]]), np.array([[0.0, 1.0, 1.0]])
    assert compare_histograms(a, b, "l2")[0, 0] == pytest.approx(np.sqrt(4 + 1 + 1))
    assert compare_histograms(a, b, "cosine")[0, 0] == pytest.approx(0.5)
    assert compare_histograms(a, b, "chi2")[0, 0] == pytest.approx(0.5 + 0.5)
    assert compare_histograms(a, b, "hellinger")[0, 0] == pytest.approx(np.sqrt(0.5))


def test_pooling() -> None:
    embeddings = np.array([[1.0, 5.0], [3.0, 1.0]], np.float32)
    assert pool(embeddings, "mean").tolist() == [2.0, 3.0]
    assert pool(embeddings, "max").tolist() == [3.0, 5.0]
    assert compare_vectors(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0]]), "l2")[0, 0] == 5
    assert compare_vectors(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0]]), "cosine")[0, 0] == 1
