"""Compare a candidate with strangers: in how many kinds of letter it agrees with the query, and how near it is.

Both are computed from the distances that make up the score. With mu_i the prototypes of the query (a kind of letter
each; a small fragment has one for nearly every letter), nu_j those of a fragment x, and r_x its local scale,

    e_i(x) = min_j ||mu_i - nu_j|| / sqrt(r_x)

is the contribution of kind i to the score of x, up to factors that are the same for all x. *Strangers* are the
references of the local scales (a sample in a large collection), without the query, the candidate, and for e_i the ten
that are nearest to the query, which may be its mates. Kind i agrees with a candidate c if e_i(c) is below the 5 %
quantile of e_i over strangers: by definition a stranger agrees in one kind of twenty. `usual` is the median number of
agreeing kinds over strangers. The score itself, chamfer / sqrt(r), is compared with that of each stranger: `nearer`.
docs/how-to/explain.md reports the values of mates and strangers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import costs
from membra.compare.local_scaling import CHAMFER
from membra.describe.bag import Bag
from membra.find.usual import AROUND
from membra.store.collection import State
from membra.store.manifest import Entry
from membra.store.scales import Scales

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AgreementSettings:
    """The threshold of agreement, and the number of strangers that a candidate is compared with."""

    rare: float = 0.05  # quantile of e_i over strangers below which kind i agrees
    compared: int = 1000  # strangers at most that are compared by score: 10 microseconds each
    closely: int = 200  # of these at most are compared kind by kind: 20 microseconds each
    least: int = 20  # with fewer strangers the result is None


@dataclass(frozen=True)
class Agreement:
    """How a candidate compares with strangers, beside its probability.

    Attributes
    ----------
    kinds : tuple of int
        The query's kinds of letter (indices of its prototypes) that agree, by the ratio of the candidate's e_i to the
        median of strangers, smallest first.
    of : int
        Number of kinds of the query.
    usual : int
        Median number of kinds that agree with a stranger.
    nearer : float
        Share of strangers that are farther from the query than the candidate, 0 to 1.
    strangers : int
        Number of strangers that `nearer` is computed over.
    """

    kinds: tuple[int, ...]
    of: int
    usual: int
    nearer: float
    strangers: int


def agreements(
    state: State,
    bag: Bag,
    entries: Sequence[Entry],
    *,
    number: int | None = None,
    settings: AgreementSettings | None = None,
) -> list[Agreement | None]:
    """Compute the agreement of each of `entries` with a query, given by its `bag`.

    `number` is the query's, if it is in the collection. None for doubtful fragments, or if there are too few strangers.
    """
    settings = settings or AgreementSettings()
    sure = [entry for entry in entries if not entry.doubtful]
    if not sure:
        return [None] * len(entries)
    scales = state.scales()
    references = scales.references[scales.references != (number or -1)]
    some = references[_spread(len(references), settings.compared)]
    skipped = round(AROUND * len(some) / len(scales.numbers))  # the same share of a sample
    if len(some) - skipped < settings.least:
        return [None] * len(entries)
    roots = _roots(scales, some)
    scores = state.rows.below(bag, state.rows.rows_of(some)).astype(np.float64) / roots
    far = np.argsort(scores, kind="stable")[skipped:]
    strangers = far[_spread(len(far), settings.closely)]
    apart = _nearest(bag, [state.rows.bag(int(row)) for row in state.rows.rows_of(some[strangers])])
    apart /= roots[strangers]
    limits, middles = np.quantile(apart, settings.rare, axis=1), np.median(apart, axis=1)
    usual = int(np.median((apart < limits[:, None]).sum(axis=0)))

    def agreement(entry: Entry) -> Agreement:
        (row,) = state.rows.rows_of([entry.number])
        pair = costs(bag, state.rows.bag(int(row)))
        root = _roots(scales, np.array([entry.number], np.int32))[0]
        own, score = pair.min(axis=1) / root, (pair.min(axis=1).mean() + pair.min(axis=0).mean()) / 2 / root
        others = scores[some != entry.number]
        kinds = np.flatnonzero(own < limits)
        best = kinds[np.argsort(own[kinds] / middles[kinds], kind="stable")]
        return Agreement(tuple(best.tolist()), len(bag), usual, float((others > score).mean()), len(others))

    return [None if entry.doubtful else agreement(entry) for entry in entries]


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` evenly spaced indices below `count`."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def _roots(scales: Scales, numbers: NDArray[np.int32]) -> Floats:
    """Return the square roots (m,) of the local scales of these fragments."""
    return np.asarray(np.sqrt(scales.scales[CHAMFER, np.searchsorted(scales.numbers, numbers)]))


def _nearest(bag: Bag, others: Sequence[Bag]) -> Floats:
    """Return the distance (K, n) of each prototype of `bag` to the nearest one of each of `others`."""
    prototypes = np.concatenate([other.prototypes for other in others])
    starts = np.cumsum([0, *(len(other) for other in others[:-1])])
    squares = (bag.prototypes**2).sum(axis=1)[:, None] + (prototypes**2).sum(axis=1)
    squares -= 2 * (bag.prototypes @ prototypes.T)
    return np.sqrt(np.maximum(np.minimum.reduceat(squares, starts, axis=1), 0)).astype(np.float64)
