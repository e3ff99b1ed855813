"""Tests of re-ranking: a mate of a mate comes nearer, and barred fragments do not affect the ranking."""

import numpy as np
import pytest

from membra.compare.rerank import expanded, graph_reranked

# 0 - 1 - 2 is a chain of mates; 3 is unrelated and slightly nearer to 0 than 2.
SIMILARITY = np.array([[1.0, 0.9, 0.50, 0.55], [0.9, 1.0, 0.9, 0.3], [0.50, 0.9, 1.0, 0.2], [0.55, 0.3, 0.2, 1.0]])
NONE_BARRED = np.zeros((4, 4), dtype=bool)


def test_a_mate_of_a_mate_comes_nearer() -> None:
    found = graph_reranked(SIMILARITY, NONE_BARRED, neighbours=1, spread=0.1)
    assert SIMILARITY[0, 2] < SIMILARITY[0, 3]
    assert found[0, 2] < found[0, 3]


def test_barred_pairs_are_no_neighbours() -> None:
    barred = NONE_BARRED.copy()
    barred[0, 1] = True  # cuts of one leaf
    free, kept = graph_reranked(SIMILARITY, NONE_BARRED), graph_reranked(SIMILARITY, barred)
    assert kept[0, 2] > free[0, 2]


def test_expansion_by_the_formula() -> None:
    vectors = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    found = expanded(vectors, np.zeros((3, 3), dtype=bool), neighbours=1, power=3.0)
    query = vectors[0] + 0.8**3 * vectors[1]
    assert found[0].tolist() == pytest.approx((1 - vectors @ (query / np.linalg.norm(query))).tolist())


def test_no_neighbour_that_may_answer_leaves_the_query_as_it_is() -> None:
    vectors = np.array([[1.0, 0.0], [0.8, 0.6]])
    found = expanded(vectors, np.ones((2, 2), dtype=bool))
    assert found[0].tolist() == pytest.approx([0.0, 0.2])
