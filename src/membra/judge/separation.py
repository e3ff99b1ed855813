"""The paper's distance-separation statistics: distances of mates against distances of strangers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.errors import NotEnough
from membra.messages import Message

PAIR_DRAWS = 200  # resamples of the pairs, as in the published code, so that intervals can be compared
PAIR_SEED = 42  # seed of the published code
JOIN_DRAWS = 2000  # resamples of whole joins


@dataclass(frozen=True)
class Separation:
    """Distances of mates (intra) against those of strangers (inter).

    gap = mean inter - mean intra. `gap_ci95` resamples pairs like the published code, which treats pairs that share a
    fragment as independent, so that it is too narrow; `gap_ci95_joins` resamples whole joins.
    ks : largest difference of the two distribution functions; auc : P(inter > intra) + 1/2 P(inter = intra)
    cohen_d : gap / sqrt((var intra + var inter) / 2), variances with n - 1
    """

    intra_pairs: int
    inter_pairs: int
    intra: float
    inter: float
    gap: float
    gap_ci95: tuple[float, float]
    gap_ci95_joins: tuple[float, float]
    ks: float
    ks_p: float
    auc: float
    cohen_d: float


def separate(matrix: NDArray[np.float64], joins: Sequence[str], barred: NDArray[np.bool_] | None = None) -> Separation:
    """Compute the separation of distances `matrix` (n, n) of fragments with these `joins` (n,).

    Pairs that are `barred` (n, n) are left out. Raises `MembraError` without any mates or without any strangers.

    >>> near_mates = np.array([[0, 1, 5], [1, 0, 6], [5, 6, 0]], dtype=float)
    >>> found = separate(near_mates, ["a", "a", "b"])
    >>> found.gap, found.auc
    (4.5, 1.0)
    """
    from scipy.stats import ks_2samp

    intra, inter, _ = split_pairs(matrix, joins, barred)
    if len(intra) == 0 or len(inter) == 0:
        joined = Message("two fragments of one join")
        lacking = joined if len(intra) == 0 else Message("fragments of two different joins")
        raise NotEnough("separating distances requires {lacking}; label more fragments", lacking=lacking)
    test = ks_2samp(intra, inter)
    spread = np.sqrt((_variance(intra) + _variance(inter)) / 2)
    gap = float(inter.mean() - intra.mean())
    return Separation(
        intra_pairs=len(intra),
        inter_pairs=len(inter),
        intra=float(intra.mean()),
        inter=float(inter.mean()),
        gap=gap,
        gap_ci95=_pairs_interval(intra, inter),
        gap_ci95_joins=_joins_interval(matrix, joins, barred),
        ks=float(test.statistic),
        ks_p=float(test.pvalue),
        auc=float(placements(intra, inter).mean()),
        cohen_d=float(gap / spread) if spread > 0 else float("inf"),
    )


def split_pairs(
    matrix: NDArray[np.float64], joins: Sequence[str], barred: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the distances of mates, those of strangers, and the indices (pairs, 2) of both, mates first.

    Each pair occurs once; a pair without a finite distance, which the method did not compare, is left out.
    """
    rows, columns = np.triu_indices(len(joins), k=1)
    labels, values = np.asarray(joins), matrix[rows, columns]
    may = np.isfinite(values)
    if barred is not None:
        may &= ~barred[rows, columns]
    mates = labels[rows] == labels[columns]
    intra, inter = values[may & mates], values[may & ~mates]
    indices = np.column_stack([rows, columns])
    return intra, inter, np.concatenate([indices[may & mates], indices[may & ~mates]])


def placements(intra: NDArray[np.float64], inter: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each pair of mates (m,) the share of strangers `inter` that are farther apart; ties count half.

    Their mean is the AUC, so that differences of AUC can be tested pair by pair (DeLong and others 1988).

    >>> placements(np.array([1.0, 3.0]), np.array([2.0, 3.0, 4.0, 5.0])).tolist()
    [1.0, 0.625]
    """
    ordered = np.sort(inter)
    below, upto = (np.searchsorted(ordered, intra, side=side) for side in ("left", "right"))
    return np.asarray(1 - (below + upto) / 2 / len(inter))


def resample_separation(
    matrix: NDArray[np.float64], joins: Sequence[str], barred: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Compute KS, AUC and Cohen's d, (draws, 3), for resamples of whole joins (the cluster bootstrap).

    Draws without mates or without strangers are left out. The same joins give the same draws, so that two methods can
    be compared draw by draw.
    """
    count = len(set(joins))
    drawn = np.random.default_rng(PAIR_SEED).integers(0, count, size=(JOIN_DRAWS, count))
    return weighted_separation(matrix, joins, barred, np.array([np.bincount(d, minlength=count) for d in drawn]))


def weighted_separation(
    matrix: NDArray[np.float64], joins: Sequence[str], barred: NDArray[np.bool_] | None, counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute KS, AUC and d, (draws, 3), with each join (in sorted order) counted `counts` (draws, joins) times.

    A pair of mates counts as often as its join, a pair of strangers as the product of its two joins' counts.
    """
    intra, inter, indices = split_pairs(matrix, joins, barred)
    member = np.unique(np.asarray(joins), return_inverse=True)[1]
    first, second = member[indices[:, 0]], member[indices[:, 1]]
    values = np.concatenate([intra, inter])
    order = np.argsort(values, kind="stable")
    values, first, second, mates = values[order], first[order], second[order], (order < len(intra))
    starts = np.flatnonzero(np.r_[True, np.diff(values) > 0]) if len(values) else np.zeros(0, np.int64)
    found = []
    for count in counts:
        near = np.where(mates, count[first], 0).astype(np.float64)
        far = np.where(mates, 0, count[first] * count[second]).astype(np.float64)
        if near.sum() == 0 or far.sum() == 0:
            continue
        # By groups of equal distances: a smaller one counts whole, an equal one half.
        a, b = (np.add.reduceat(weights / weights.sum(), starts) for weights in (near, far))
        below = np.cumsum(a)
        ks = np.abs(below - np.cumsum(b)).max()
        found.append((ks, float(b @ (below - a / 2)), _weighted_d(values, near, far)))
    return np.array(found).reshape(-1, 3)


def _weighted_d(values: NDArray[np.float64], near: NDArray[np.float64], far: NDArray[np.float64]) -> float:
    means = [float(weights @ values / weights.sum()) for weights in (near, far)]
    variances = [
        float(weights @ (values - mean) ** 2 / max(weights.sum() - 1, 1))
        for weights, mean in zip((near, far), means, strict=True)
    ]
    spread = np.sqrt(sum(variances) / 2)
    return float((means[1] - means[0]) / spread) if spread > 0 else float("inf")


def _variance(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def _pairs_interval(intra: NDArray[np.float64], inter: NDArray[np.float64]) -> tuple[float, float]:
    draw = np.random.default_rng(PAIR_SEED)
    gaps = []
    for _ in range(PAIR_DRAWS):
        near = draw.choice(intra, size=len(intra), replace=True)
        gaps.append(draw.choice(inter, size=len(inter), replace=True).mean() - near.mean())
    low, high = np.percentile(gaps, [2.5, 97.5])
    return float(low), float(high)


def _joins_interval(
    matrix: NDArray[np.float64], joins: Sequence[str], barred: NDArray[np.bool_] | None
) -> tuple[float, float]:
    """Compute the gap's interval by resampling joins; weights of pairs are as in `weighted_separation`."""
    intra, inter, indices = split_pairs(matrix, joins, barred)
    names, member = np.unique(np.asarray(joins), return_inverse=True)
    first, second = member[indices[:, 0]], member[indices[:, 1]]
    mates = len(intra)
    draw = np.random.default_rng(PAIR_SEED)
    gaps = []
    for _ in range(JOIN_DRAWS):
        count = np.bincount(draw.integers(0, len(names), len(names)), minlength=len(names))
        near, far = count[first[:mates]], (count[first[mates:]] * count[second[mates:]])
        if near.sum() and far.sum():  # a draw without mates, or of one join alone, has no gap
            gaps.append(np.average(inter, weights=far) - np.average(intra, weights=near))
    if not gaps:
        return float("-inf"), float("inf")
    low, high = np.percentile(gaps, [2.5, 97.5])
    return float(low), float(high)
