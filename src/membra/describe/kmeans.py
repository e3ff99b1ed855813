"""k-means of one fragment's embeddings: all restarts at once, one matrix product per iteration.

scikit-learn runs its restarts one after the other, and for a few hundred points much of that time is overhead. Here
the centres of all restarts are rows of one matrix, the distances of centres that did not move are not computed again,
and restarts with a clearly larger inertia are stopped early. Seeding (greedy k-means++) and convergence criterion
(`TOLERANCE`) are those of scikit-learn.
"""

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import Invalid

TOLERANCE = 1e-4  # of the mean variance: below this sum of squared shifts a restart has converged (scikit-learn's)
ITERATIONS = 300  # upper bound, more than a fragment ever needs; scikit-learn's
PATIENCE = 4  # iterations of every restart before the first is stopped early
BEHIND = 0.01  # excess over the best inertia at which a restart is stopped; on real fragments, no later winner had more
TABLE = 1500  # points up to which all pairwise distances are computed at once: 9 MB

Floats = NDArray[np.float32]


def kmeans(
    embeddings: NDArray[np.float32], clusters: int, restarts: int = 10, seed: int = 42
) -> tuple[Floats, NDArray[np.int32]]:
    """Cluster `embeddings` (n, d), n >= 1, into at most `clusters`: centres (K, d) float32, members (n,) int32.

    Returns the run with the smallest sum_i ||z_i - mu_a(i)||^2 of `restarts`. Every centre is the mean of its members,
    and has at least one. With no more distinct embeddings than clusters, each distinct one is a centre, sorted.
    The same seed gives the same result on the same machine, whatever its load.

    >>> centres, members = kmeans(np.array([[0.0], [0.2], [9.0], [9.2]], dtype=np.float32), 2)
    >>> sorted(centres[:, 0].round().tolist())
    [0.0, 9.0]
    """
    if len(embeddings) == 0 or clusters < 1 or restarts < 1:
        raise Invalid(
            "k-means needs at least one embedding, word and restart, not {embeddings}, {words} and {restarts}",
            embeddings=len(embeddings),
            words=clusters,
            restarts=restarts,
        )
    if len(np.unique(embeddings.sum(axis=1))) <= clusters:  # a cheap test; different sums are different embeddings
        distinct, which = np.unique(embeddings, axis=0, return_inverse=True)
        if len(distinct) <= clusters:
            return distinct.astype(np.float32), which.reshape(-1).astype(np.int32)
    middle = embeddings.mean(axis=0, dtype=np.float64)
    points = (embeddings - middle).astype(np.float32)  # centred, where squares lose least to rounding
    # One thread: for products this small the overhead of threads exceeds their gain, and sums stay reproducible.
    with _controller().limit(limits=1):
        centres = _seed(points, clusters, restarts, np.random.default_rng(seed))
        members = _iterate(points, centres)
    belongs = _sparse((np.ones(len(members)), (members, np.arange(len(members)))), (clusters, len(members)))
    means = (belongs @ embeddings.astype(np.float64)) / np.bincount(members, minlength=clusters)[:, None]
    return means.astype(np.float32), members


def _sparse(parts: tuple[Any, ...], shape: tuple[int, int]) -> Any:
    """Make a sparse matrix. SciPy is loaded on first use: a search that describes nothing needs none."""
    from scipy.sparse import csr_array

    return csr_array(parts, shape=shape)


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _seed(points: Floats, clusters: int, restarts: int, rng: "np.random.Generator") -> Floats:
    """Choose initial centres (R, K, d) by greedy k-means++ (Arthur & Vassilvitskii, 2007), all restarts at once.

    Each next centre is the best of a few points, drawn with probability proportional to the squared distance to the
    centres so far.
    """
    trials = 2 + int(math.log(clusters))
    rows = np.arange(restarts)
    chosen = np.empty((restarts, clusters), dtype=np.int64)
    chosen[:, 0] = rng.integers(len(points), size=restarts)
    # All distances at once cost as much as those that are needed, and are then only looked up.
    table = _squared(points, np.arange(len(points))) if len(points) <= TABLE else None
    closest = _squared(points, chosen[:, 0]) if table is None else table[chosen[:, 0]]  # (R, n)
    for cluster in range(1, clusters):
        chances = np.cumsum(closest, axis=1, dtype=np.float64)
        chances /= np.maximum(chances[:, -1:], np.finfo(np.float64).tiny)
        # One search for all: the cumulative probabilities of the restarts, each of length 1, are concatenated.
        drawn = rng.random((restarts, trials)) + rows[:, None]
        found = np.searchsorted((chances + rows[:, None]).ravel(), drawn) - rows[:, None] * len(points)
        candidates = np.clip(found, 0, len(points) - 1)
        reach = _squared(points, candidates.ravel()) if table is None else table[candidates.ravel()]
        reach = reach.reshape(restarts, trials, -1)
        np.minimum(reach, closest[:, None], out=reach)
        best = reach.sum(axis=2).argmin(axis=1)
        chosen[:, cluster] = candidates[rows, best]
        closest = reach[rows, best]
    return points[chosen]


def _squared(points: Floats, chosen: NDArray[np.int64]) -> Floats:
    """Return squared distances (c, n) of the chosen points to all points."""
    squares = (points * points).sum(axis=1)
    found = points[chosen] @ points.T
    found *= -2
    found += squares
    found += squares[chosen][:, None]
    np.maximum(found, 0, out=found)
    found[np.arange(len(chosen)), chosen] = 0
    return np.asarray(found)


def _iterate(points: Floats, centres: Floats) -> NDArray[np.int32]:
    """Run Lloyd's iterations of all restarts until convergence; return the members (n,) of the smallest inertia.

    Cluster sums are updated by the points that change cluster; only centres that gained or lost one move, and only
    their distances are computed again.
    """
    clusters, d = centres.shape[1:]
    allowed = TOLERANCE * float(points.var(axis=0).mean())
    # Of equally close centres the first is chosen, by a maximum over small integers, which is fast.
    ranks = np.arange(clusters, 0, -1).astype(np.int32 if clusters > 127 else np.int8)[:, None]
    going = centres.copy()
    half = _half(points, going.reshape(-1, d)).reshape(*going.shape[:2], -1)  # (R, K, n)
    members = np.full((len(going), len(points)), -1)
    sums, counts = np.zeros(going.shape), np.zeros(going.shape[:2])
    own = (points * points).sum(axis=1) / 2
    leader = np.inf
    arrived: list[Floats] = []
    for iteration in range(ITERATIONS):
        nearest = half.min(axis=1, keepdims=True)
        inertia = (nearest[:, 0] + own).sum(axis=1)  # halved
        now = clusters - ((half == nearest) * ranks).max(axis=1).astype(np.int64)
        stale = _change(points, sums, counts, members, now)
        members = now
        restart = np.nonzero(stale)[0]
        moved = (sums[stale] / np.maximum(counts[stale], 1)[:, None]).astype(np.float32)
        for row in np.flatnonzero(counts[stale] == 0).tolist():
            # A centre without points moves to the point furthest from its centre, the next one to the next furthest.
            index = int((nearest[restart[row], 0] + own).argmax())
            moved[row] = points[index]
            nearest[restart[row], 0, index] = -np.inf
        shift = np.bincount(restart, ((moved - going[stale]) ** 2).sum(axis=1), minlength=len(going))
        going[stale] = moved
        arrived += list(going[shift <= allowed])
        stays = shift > allowed
        if iteration >= PATIENCE:
            leader = min(leader, inertia.min())
            stays &= inertia <= (1 + BEHIND) * leader
        if not stays.all():
            going, half, members = going[stays], half[stays], members[stays]
            sums, counts, stale = sums[stays], counts[stays], stale[stays]
        if len(going) == 0:
            break
        half[stale] = _half(points, going[stale])
    ends = np.stack([*arrived, *going])
    half = _half(points, ends.reshape(-1, d)).reshape(*ends.shape[:2], -1)
    best = int(half.min(axis=1).sum(axis=1, dtype=np.float64).argmin())
    return _filled(half[best].argmin(axis=0).astype(np.int32), half[best], points)


def _change(
    points: Floats,
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
    before: NDArray[np.int64],
    now: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Update `sums` (R, K, d) and `counts` (R, K) in place from members `before` (R, n) to `now`; -1 is none.

    Returns (R, K) whether a centre gained or lost a point.
    """
    centres = counts.size
    restart, point = np.nonzero(before != now)
    first = restart * counts.shape[1]
    lost, gained = before[restart, point], now[restart, point]
    had = lost >= 0
    centre = np.concatenate([first + gained, (first + lost)[had]])
    sign = np.repeat(np.array([1, -1], dtype=np.float32), [len(point), had.sum()])
    order = np.argsort(centre.astype(np.int16 if centres < 2**15 else np.int64), kind="stable")  # int16 sorts faster
    starts = np.concatenate([[0], np.cumsum(np.bincount(centre, minlength=centres))])
    # The three arrays of a sparse matrix (R * K, n) with 1 where a point was gained and -1 where it was lost.
    change = _sparse((sign[order], np.concatenate([point, point[had]])[order], starts), (centres, len(points)))
    sums += (change @ points).reshape(sums.shape)
    counts += np.bincount(centre, sign, minlength=centres).reshape(counts.shape)
    return np.asarray(np.diff(starts) > 0).reshape(counts.shape)


def _half(points: Floats, centres: Floats) -> Floats:
    """Return half the squared distance of each centre (C, d) to each point, less half the point's square: (C, n)."""
    found = centres @ points.T
    np.subtract((centres * centres).sum(axis=1)[:, None] / 2, found, out=found)
    return np.asarray(found)


def _filled(members: NDArray[np.int32], half: Floats, points: Floats) -> NDArray[np.int32]:
    """Fill empty clusters: each takes the point furthest from its centre in a cluster of several."""
    counts = np.bincount(members, minlength=len(half))
    for cluster in np.flatnonzero(counts == 0).tolist():
        worst = half[members, np.arange(len(members))] + (points * points).sum(axis=1) / 2
        worst[counts[members] < 2] = -np.inf
        index = int(worst.argmax())
        counts[members[index]] -= 1
        members[index] = cluster
        counts[cluster] = 1
    return members
