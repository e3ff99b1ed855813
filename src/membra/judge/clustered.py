"""Statistics of differences with the manuscript as unit: intervals by resampling manuscripts, tests by sign flips.

Queries of one manuscript share its hand, its photographs and each other as answers, so they are not independent:
a method that fails on one manuscript fails on all of its queries at once. With queries q of manuscript m, differences
d_q and S_m = sum of d_q over m, the estimate is the mean over queries, sum_m S_m / sum_m n_m.

Interval: the cluster bootstrap (Davison and Hinkley 1997, section 3.8; Field and Welsh 2007): draw M of the M
manuscripts with replacement, each with all of its queries; take the 2.5 and 97.5 percentiles of the estimate. With few
manuscripts it is somewhat too narrow (Cameron, Gelbach and Miller 2008), so no verdict rests on it.

Test: at the boundary of "ours is better by no more than `floor`", S_m - floor n_m has either sign with equal
probability: p is the share of all 2^M sign flips of whole manuscripts that give at least the observed sum
(randomisation test for paired rankings: Smucker, Allan and Carterette 2007; by cluster: Gail and others 1996). With M
manuscripts p is never below 2^-M: fewer than six cannot decide anything at 0.025.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000  # resamples; also random flips, if there are more than this number of flips in all
_CHUNK = 1000  # flips in one block; limits the memory


def cluster_interval(values: NDArray[np.float64], clusters: Sequence[str], *, seed: int = 0) -> tuple[float, float]:
    """Compute the 95 % interval of the mean of `values` (n,) by resampling their clusters (n,).

    >>> cluster_interval(np.array([1.0, 1.0, 1.0]), ["a", "a", "b"])
    (1.0, 1.0)
    """
    sums, sizes = _by_cluster(values, clusters)
    draws = np.random.default_rng(seed).integers(0, len(sums), size=(DRAWS, len(sums)))
    low, high = np.percentile(sums[draws].sum(axis=1) / sizes[draws].sum(axis=1), [2.5, 97.5])
    return float(low), float(high)


def flip_p(values: NDArray[np.float64], clusters: Sequence[str], floor: float = 0.0, *, seed: int = 0) -> float:
    """Compute the one-sided p of "the mean of `values` (n,) is not above `floor`" by sign flips of whole clusters.

    All flips are tried if there are at most 10,000; otherwise 10,000 are drawn at random.

    >>> flip_p(np.array([0.5, 0.2, 0.3]), ["a", "b", "c"])  # one of eight
    0.125
    """
    sums, sizes = _by_cluster(values, clusters)
    sums = sums - floor * sizes
    observed = sums.sum() - 1e-12  # tolerance, so that sums that differ only by rounding count as equal
    count = len(sums)
    if 2**count <= DRAWS:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float((signs @ sums >= observed).mean())
    draw = np.random.default_rng(seed)
    extreme = 0
    for _ in range(DRAWS // _CHUNK):
        extreme += int(((draw.integers(0, 2, size=(_CHUNK, count)) * 2 - 1) @ sums >= observed).sum())
    return (1 + extreme) / (1 + DRAWS)


def _by_cluster(
    values: NDArray[np.float64], clusters: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the number of the values of each cluster."""
    _, member = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(member, weights=values).astype(np.float64), np.bincount(member).astype(np.float64)
