"""Encodes the local descriptors of a fragment as one vector: VLAD and Fisher vectors, normalised and whitened.

VLAD (Jegou and others 2010): for each codeword the sum of its descriptors' residuals. Fisher vectors (Perronnin and
others 2010): the gradients of a Gaussian mixture by its means and variances. Normalisation: intra-normalisation
(Arandjelovic and Zisserman 2013, VLAD only), the power norm sign(x) |x|^0.5, and l2; then whitening by PCA (Jegou and
Chum 2012). These are the steps of the writer retrieval of Christlein and others (2015, 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.errors import NotEnough

_SAMPLE = 60_000  # descriptors that a codebook or a mixture is fitted to
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class EncodingSettings:
    """How descriptors are encoded as one vector."""

    words: int = 100  # codewords of VLAD
    codebooks: int = 1  # number of codebooks whose VLADs are concatenated before whitening
    gaussians: int = 32  # of the mixture of Fisher vectors
    dimensions: int = 64  # to which PCA reduces descriptors for the mixture
    whiten: int = 32  # axes kept by whitening, at most a quarter of the number of fragments; 0: no whitening
    shrinkage: float = 0.05  # share of the largest variance, added to all, so that noise is not amplified
    seed: int = 42


def vlad(descriptors: Sequence[Vectors], settings: EncodingSettings) -> NDArray[np.float64]:
    """Compute one VLAD (words x d) for each fragment's descriptors (n, d), not whitened; zeros where there are none."""
    from sklearn.cluster import MiniBatchKMeans

    sides = []
    for turn in range(settings.codebooks):
        seed = settings.seed + turn
        sample = _sample(descriptors, settings.words, seed)
        fitted = MiniBatchKMeans(settings.words, n_init=3, random_state=seed, batch_size=4096).fit(sample)
        centres = fitted.cluster_centers_.astype(np.float32)
        sides.append(np.array([_residuals(one, centres) for one in descriptors]))
    return np.concatenate(sides, axis=1)


def fisher(descriptors: Sequence[Vectors], settings: EncodingSettings) -> NDArray[np.float64]:
    """Compute one Fisher vector (2 x gaussians x dimensions) for each fragment's descriptors; zeros without any."""
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    sample = _sample(descriptors, settings.gaussians, settings.seed)
    flat = PCA(min(settings.dimensions, sample.shape[1]), random_state=settings.seed).fit(sample)
    mixture = GaussianMixture(
        settings.gaussians, covariance_type="diag", max_iter=50, reg_covar=1e-4, random_state=settings.seed
    ).fit(flat.transform(sample))
    size = 2 * settings.gaussians * flat.n_components_
    return np.array([_gradients(flat.transform(one), mixture) if len(one) else np.zeros(size) for one in descriptors])


def mean_pool(descriptors: Sequence[Vectors]) -> NDArray[np.float64]:
    """Compute the mean descriptor of each fragment, l2-normalised: the simplest pooling, without a codebook."""
    width = next(one.shape[1] for one in descriptors)
    return _unit(np.array([one.mean(axis=0) if len(one) else np.zeros(width) for one in descriptors], np.float64))


def whitened(vectors: NDArray[np.float64], settings: EncodingSettings) -> NDArray[np.float64]:
    """Project vectors (n, D) on their first principal axes, scale these to about equal variance, and l2-normalise.

    At most n / 4 axes: with n - 1 of them all fragments would be equally far apart. Fewer than eight vectors are only
    l2-normalised.
    """
    keep = min(settings.whiten, len(vectors) // 4, vectors.shape[1])
    if keep < 2:
        return _unit(vectors)
    centred = vectors - vectors.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    variances = singular[:keep] ** 2 / len(vectors)
    scale = singular[:keep] / np.sqrt(variances + settings.shrinkage * variances[0])
    return _unit(left[:, :keep] * scale)


def cosine_distances(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances (n, n) 1 - cosine; that of a zero vector to any is 1."""
    unit = _unit(vectors)
    return np.asarray(1 - unit @ unit.T)


def _residuals(descriptors: Vectors, centres: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sum residuals by codeword, each sum of unit length (intra-normalisation), then apply power norm and l2."""
    found = np.zeros(centres.shape, np.float64)
    if len(descriptors):
        apart = (centres**2).sum(axis=1) - 2 * descriptors @ centres.T
        nearest = apart.argmin(axis=1)
        np.add.at(found, nearest, descriptors - centres[nearest])
    return _power(_unit(found).reshape(-1))


def _gradients(points: NDArray[np.float64], mixture: "object") -> NDArray[np.float64]:
    """Compute gradients by means and variances of the mixture, over n and the weights' roots; then power norm, l2."""
    means, variances, weights = (getattr(mixture, f"{name}_") for name in ("means", "covariances", "weights"))
    posterior = mixture.predict_proba(points)  # type: ignore[attr-defined]
    first, second = posterior.T @ points, posterior.T @ points**2
    mass = posterior.sum(axis=0)[:, None]
    by_mean = (first - mass * means) / np.sqrt(variances)
    by_variance = (second - 2 * means * first + mass * means**2) / variances - mass
    roots = np.sqrt(weights)[:, None] * len(points)
    return _power(np.concatenate([by_mean / roots, by_variance / (np.sqrt(2) * roots)]).reshape(-1))


def _sample(descriptors: Sequence[Vectors], least: int, seed: int) -> Vectors:
    pooled = np.concatenate([one for one in descriptors if len(one)] or [np.zeros((0, 1), np.float32)])
    if len(pooled) < 2 * least:
        raise NotEnough(
            "a codebook of {words} words needs {needed} descriptors, and there are {found}",
            words=least,
            needed=2 * least,
            found=len(pooled),
        )
    if len(pooled) <= _SAMPLE:
        return pooled
    return pooled[np.sort(np.random.default_rng(seed).choice(len(pooled), _SAMPLE, replace=False))]


def _power(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return _unit(np.sign(vector) * np.sqrt(np.abs(vector)))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors, np.float64), where=length > 0))
