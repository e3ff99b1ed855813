"""Pooling baselines: all embeddings of a fragment pooled into one vector."""

import numpy as np
from numpy.typing import NDArray


def pool(embeddings: NDArray[np.float32], how: str) -> NDArray[np.float64]:
    """Return the `mean` or the element-wise `max` (d,) of a fragment's embeddings (n, d)."""
    values = embeddings.astype(np.float64)
    return np.asarray(values.mean(axis=0) if how == "mean" else values.max(axis=0))


def compare_vectors(queries: NDArray[np.float64], gallery: NDArray[np.float64], measure: str) -> NDArray[np.float64]:
    """Return Euclidean (`l2`) or `cosine` distances (q, n) between vectors (q, d) and (n, d)."""
    from scipy.spatial.distance import cdist  # here, since most searches need nothing of SciPy

    return np.asarray(cdist(queries, gallery, {"l2": "euclidean", "cosine": "cosine"}[measure]))
