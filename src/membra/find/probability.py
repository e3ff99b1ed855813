"""P(same manuscript) of two fragments, from how near they stand to each other and to all others.

A logistic regression on what a pair of candidates is known by: its distance, the local scales of both, how far each
stands from its sixteenth nearest, how many letters each has, and how many fragments there are. It was fitted on
manuscripts that the encoder had not seen (`tools/probability.py`; docs/decisions/probability.md), on collections of
which some manuscripts have no second fragment, some one, some many; it says what is true of such. What people decide
about a collection moves it (`refine`), from the first verdict on.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

FITTED = Path(__file__).with_name("probability.json")
MAX_LETTERS = 64  # more make no difference: a bag has no more prototypes
UNUSUAL = 0.1  # probability below which a candidate is nothing unusual
_SLOPE, _SHIFT = 0.3, 1.5  # how far verdicts may be expected to move slope and shift: spreads of a normal prior

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """What pairs of fragments are known by.

    distances : (m,) by the default score; scales, far, letters : (m, 2), of either side: local scale by Chamfer,
    distance to the sixteenth nearest reference, and number of letters; fragments : (m,) or one number, how many there
    are in the collection
    """

    distances: Floats
    scales: Floats
    far: Floats
    letters: Floats
    fragments: Floats | float


@dataclass(frozen=True)
class Fit:
    """The regression: `low` and `high` are the range (6,) in which numbers were seen; beyond it they count as its ends.

    mean, spread, weights : (27,) of the six numbers and their products; intercept
    """

    low: Floats
    high: Floats
    mean: Floats
    spread: Floats
    weights: Floats
    intercept: float

    def logits(self, pairs: Pairs) -> Floats:
        """(m,) logarithms of the odds."""
        terms = with_products(np.clip(numbers_of(pairs), self.low, self.high))
        return np.asarray((terms - self.mean) / self.spread @ self.weights + self.intercept)


@dataclass(frozen=True)
class Refinement:
    """What verdicts make of the logits: slope * logit + shift."""

    slope: float = 1.0
    shift: float = 0.0
    joins: int = 0
    others: int = 0

    def of(self, probability: float) -> float:
        """The refined probability."""
        return float(self.of_all(np.array(probability)))

    def of_all(self, probabilities: Floats) -> Floats:
        """The refined probabilities (m,), in the same order as the others."""
        clipped = np.clip(probabilities, 1e-9, 1 - 1e-9)
        return expit(self.slope * np.log(clipped / (1 - clipped)) + self.shift)


def probabilities(pairs: Pairs) -> Floats:
    """(m,) P(same manuscript) of each pair, 0 to 1."""
    return expit(ready_fit().logits(pairs))


def refine(found: Sequence[float], joined: Sequence[bool]) -> Refinement:
    """What the truth of some pairs (n,) makes of the probabilities `found` (n,) of pairs like them.

    Platt scaling (J. Platt, "Probabilistic outputs for support vector machines", 1999) with a normal prior about
    leaving them as they are: one verdict moves little, a hundred decide. Newton's method.

    >>> refine([], [])
    Refinement(slope=1.0, shift=0.0, joins=0, others=0)
    >>> refine([0.2] * 20, [True] * 18 + [False] * 2).of(0.2) > 0.6
    True
    """
    truth = np.asarray(joined, np.float64)
    chance = np.clip(np.asarray(found, np.float64), 1e-9, 1 - 1e-9)
    terms = np.column_stack([np.log(chance / (1 - chance)), np.ones(len(chance))])
    prior, precision = np.array([1.0, 0.0]), np.diag([_SLOPE**-2, _SHIFT**-2])

    def cost(at: Floats) -> float:
        logits = terms @ at
        off = at - prior
        return float(np.logaddexp(0, logits).sum() - truth @ logits + off @ precision @ off / 2)

    at = prior.copy()
    for _ in range(100):
        likely = expit(terms @ at)
        slope = terms.T @ (truth - likely) - precision @ (at - prior)
        step = np.linalg.solve((terms * (likely * (1 - likely))[:, None]).T @ terms + precision, slope)
        while cost(at + step) > cost(at) + 1e-12 and np.abs(step).max() > 1e-12:
            step = step / 2  # where all were certain and wrong, a whole step leads too far
        at = at + step
        if np.abs(step).max() < 1e-9:
            break
    joins = int(truth.sum())
    # A slope below zero would put the farther first: then verdicts contradict what is seen, and only the shift counts.
    return Refinement(max(float(at[0]), 0.05), float(at[1]), joins, len(truth) - joins)


def numbers_of(pairs: Pairs) -> Floats:
    """(m, 6): logarithms of the scaled distance, of the plain one over what is far, of the fewer and the more letters,
    and of the fragments; and by how much the local scales differ.

    All are ratios: how far letters of one script stand apart by themselves is another matter for each script.
    """
    scaled = np.log(np.maximum(pairs.distances, 1e-3))
    scales, far = np.log(np.maximum(pairs.scales, 1e-6)), np.log(np.maximum(pairs.far, 1e-6))
    plain = scaled + scales.mean(axis=1)
    letters = np.log(np.clip(pairs.letters, 1, MAX_LETTERS))
    count = np.broadcast_to(np.log(np.maximum(pairs.fragments, 2)), scaled.shape)
    apart = np.abs(scales[:, 0] - scales[:, 1])
    return np.column_stack([scaled, plain - far.mean(axis=1), letters.min(axis=1), letters.max(axis=1), count, apart])


def with_products(numbers: Floats) -> Floats:
    """(m, n + n (n + 1) / 2): numbers (m, n), and the product of each with each."""
    pairs = combinations_with_replacement(range(numbers.shape[1]), 2)
    return np.column_stack([numbers, *(numbers[:, a] * numbers[:, b] for a, b in pairs)])


def expit(logits: ArrayLike) -> Floats:
    """1 / (1 + exp(-logit)).

    >>> expit([0.0, 1000.0]).tolist()
    [0.5, 1.0]
    """
    return np.asarray(1 / (1 + np.exp(-np.clip(np.asarray(logits, np.float64), -50, 50))))


@lru_cache(maxsize=1)
def ready_fit() -> Fit:
    """The fit that comes with membra."""
    kept = json.loads(FITTED.read_text(encoding="utf-8"))
    intercept = float(kept.pop("intercept"))
    return Fit(intercept=intercept, **{name: np.array(kept[name], np.float64) for name in FIT_ARRAYS})


FIT_ARRAYS = ("low", "high", "mean", "spread", "weights")
