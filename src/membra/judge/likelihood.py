"""How likely a join is at a given distance, learnt from pairs whose truth is known in this very collection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST = 8  # joins, and as many pairs that are none; with fewer, a likelihood would be a guess


@dataclass(frozen=True)
class Likelihood:
    """P(join | distance) = 1 / (1 + exp(-(slope distance + intercept))), and what it was learnt from."""

    slope: float
    intercept: float
    joins: int
    others: int

    def of(self, distance: float) -> float:
        """0 to 1; falls as the distance grows."""
        return float(1 / (1 + np.exp(-np.clip(self.slope * distance + self.intercept, -50, 50))))


def fit_likelihood(distances: Sequence[float], joined: Sequence[bool]) -> Likelihood | None:
    """Logistic regression of `joined` (n,) on `distances` (n,); None with too few of either kind.

    Infinite distances are left out. None too where known joins do not lie nearer than other pairs: then distance says
    nothing here, and a likelihood made from it would mislead.
    """
    from sklearn.linear_model import LogisticRegression

    values: NDArray[np.float64] = np.asarray(distances, np.float64)
    truth = np.asarray(joined, bool)
    values, truth = values[np.isfinite(values)], truth[np.isfinite(values)]
    joins, others = int(truth.sum()), int((~truth).sum())
    if min(joins, others) < LEAST:
        return None
    middle, spread = float(values.mean()), float(values.std()) or 1.0
    fitted = LogisticRegression(C=10.0, max_iter=1000).fit(((values - middle) / spread)[:, None], truth)
    slope = float(fitted.coef_[0, 0]) / spread
    if slope >= 0:
        return None
    return Likelihood(slope, float(fitted.intercept_[0]) - slope * middle, joins, others)
