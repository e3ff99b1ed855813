"""Optional re-ranking steps: alpha query expansion, and re-ranking by the graph of neighbours."""

import numpy as np
from numpy.typing import NDArray

NEIGHBOURS, SPREAD = 2, 0.4  # k and gamma: the values of Peer and others (2023) for historical writers
EXPANDED, POWER = 2, 3.0  # neighbours in query expansion, and alpha, the exponent of their weights


def graph_reranked(
    similarity: NDArray[np.float64],
    barred: NDArray[np.bool_],
    *,
    neighbours: int = NEIGHBOURS,
    spread: float = SPREAD,
) -> NDArray[np.float64]:
    """Return distances (n, n) after similarity graph re-ranking (SGR; Zhang and others 2020, Peer and others 2023).

    A_ij = exp(-(1 - s_ij)^2 / spread) describes fragment i by its similarity to all; each row then adds those of its
    nearest, h_i = A_i + sum_{j in N(i)} A_ij A_j, and rows are compared by cosine. `barred` (n, n) pairs are no
    neighbours, and their affinity is 0, so that a fragment that may not be a candidate does not affect the ranking.
    """
    barred = barred | barred.T | np.eye(len(similarity), dtype=bool)
    affinity = np.where(barred, 0.0, np.exp(-((1 - similarity) ** 2) / spread))
    near = _nearest(affinity, barred, neighbours)
    rows = affinity + np.eye(len(affinity))
    spread_out = rows + near @ rows
    unit = spread_out / np.linalg.norm(spread_out, axis=1, keepdims=True)
    return np.asarray(1 - unit @ unit.T)


def expanded(
    vectors: NDArray[np.float64], barred: NDArray[np.bool_], *, neighbours: int = EXPANDED, power: float = POWER
) -> NDArray[np.float64]:
    """Return distances (n, n) of expanded queries, q' = q + sum_{j in N(q)} s_qj^power x_j, to the original vectors.

    Alpha query expansion (Radenovic and others 2019) of unit vectors (n, d).
    """
    barred = barred | barred.T | np.eye(len(vectors), dtype=bool)
    similarity = vectors @ vectors.T
    near = _nearest(np.where(barred, 0.0, np.maximum(similarity, 0) ** power), barred, neighbours)
    queries = vectors + near @ vectors
    queries = queries / np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-12)
    return np.asarray(1 - queries @ vectors.T)


def _nearest(weights: NDArray[np.float64], barred: NDArray[np.bool_], count: int) -> NDArray[np.float64]:
    """Keep `weights` (n, n) of each row's `count` largest that are not barred; zeros elsewhere."""
    order = np.argsort(-np.where(barred, -np.inf, weights), axis=1, kind="stable")[:, :count]
    kept = np.zeros_like(weights)
    np.put_along_axis(kept, order, np.take_along_axis(weights, order, axis=1), axis=1)
    return np.where(barred, 0.0, kept)
