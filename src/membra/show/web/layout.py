"""Layout of fragments in the plane: near means similar handwriting."""

import numpy as np
from numpy.typing import NDArray

FINE = 1500  # fragments that t-SNE lays out in seconds; of more, this many are, and the rest is interpolated
NEAREST = 4  # of those, between which every other fragment is interpolated
PERPLEXITY = 20.0  # neighbours that t-SNE keeps near


def rough(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map vectors (n, d) to points (n, 2) of the unit square by two principal components: fast for any n."""
    return unit_square(_principal(_centred_unit_vectors(vectors)))


def fine(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map vectors (n, d) to points (n, 2) of the unit square by t-SNE, which keeps neighbours together.

    Of more than `FINE`, an even selection is laid out by t-SNE; every other one is interpolated between its `NEAREST`
    of the selection by cosine, with a small deterministic jitter, so that points do not coincide.
    """
    apart = _centred_unit_vectors(vectors)
    if len(apart) < 8:
        return unit_square(_principal(apart))
    chosen = np.unique(np.linspace(0, len(apart) - 1, min(FINE, len(apart))).astype(int))
    laid = unit_square(_tsne(apart[chosen]))
    if len(chosen) == len(apart):
        return laid
    points = np.empty((len(apart), 2))
    draw = np.random.default_rng(0)
    for start in range(0, len(apart), 4096):  # in blocks: n x FINE cosines of 300,000 would be gigabytes
        cosines = apart[start : start + 4096] @ apart[chosen].T
        near = np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST]
        weights = np.exp(8.0 * np.take_along_axis(cosines, near, axis=1))
        middle = (laid[near] * weights[:, :, None]).sum(axis=1) / weights.sum(axis=1, keepdims=True)
        points[start : start + 4096] = middle + draw.normal(0, 0.004, middle.shape)
    points[chosen] = laid
    return unit_square(points)


def unit_square(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale points (n, 2) to the unit square per axis; a constant axis becomes 0.5."""
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high - low > 1e-9, high - low, 1.0)
    return np.asarray(np.where(high - low > 1e-9, (points - low) / extent, 0.5))


def _centred_unit_vectors(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre the vectors and scale them to unit length."""
    apart = vectors - vectors.mean(axis=0)
    return np.asarray(apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9))


def _principal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, 2) from the covariance (d, d), which for many vectors is far faster than an SVD of them."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    plane = np.zeros((len(vectors), 2))
    first = directions[:, ::-1][:, :2]
    first = first * np.where(first.sum(axis=0) < 0, -1.0, 1.0)  # same sign on every machine
    plane[:, : first.shape[1]] = centred @ first
    return plane


def _tsne(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    plane = _principal(vectors)
    spread = plane / max(float(plane[:, 0].std()), 1e-9) * 1e-4  # t-SNE starts small and is deterministic
    found = TSNE(2, perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3), init=spread, max_iter=500, random_state=0)
    return np.asarray(found.fit_transform(vectors), np.float64)
