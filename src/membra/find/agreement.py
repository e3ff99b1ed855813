"""How many kinds of letter of a query agree with a candidate, and how much nearer it stands than strangers do.

Both are read off the distances that the score is made of. With mu_i the prototypes of the query (a kind of letter each;
a small fragment has one for nearly every letter), nu_j those of a fragment x, and r_x its local scale,

    e_i(x) = min_j ||mu_i - nu_j|| / sqrt(r_x)

is what kind i brings to the score of x, but for factors that are the same for all x. *Strangers* are the references
of the local scales (of a large collection a sample), without the query, the candidate, and for e_i the ten that are
nearest to the query, which may be its mates. Kind i agrees with a candidate c where e_i(c) is below the 5 % quantile
of e_i over strangers: a stranger agrees in one kind of twenty, by definition. `usual` says how many that is for the
middle one of them. The score itself, chamfer / sqrt(r), is compared with that of each stranger: `nearer`.
docs/how-to/explain.md has what mates and strangers reach.
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
    """What counts as agreeing, and with how many strangers a candidate is compared."""

    rare: float = 0.05  # of strangers: so few are as near to a kind of letter as what agrees with it
    compared: int = 1000  # strangers at most, by the score: 10 microseconds each
    closely: int = 200  # of these at most, kind by kind: 20 microseconds each
    least: int = 20  # strangers without which nothing is said


@dataclass(frozen=True)
class Agreement:
    """What letters say of a candidate, beside its probability.

    Attributes
    ----------
    kinds : tuple of int
        The query's kinds of letter (numbers of its prototypes) that agree, best first: how many times nearer than is
        usual among strangers.
    of : int
        How many kinds the query has.
    usual : int
        How many agree with the middle one of the strangers.
    nearer : float
        Of the strangers, the share that the candidate is nearer than, 0 to 1.
    strangers : int
        How many those are.
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
    """For each of `entries` how it agrees with the query, whose `bag` and, where it is in the collection, `number` are
    given. None for what is doubtful, or where there are too few strangers."""
    settings = settings or AgreementSettings()
    sure = [entry for entry in entries if not entry.doubtful]
    if not sure:
        return [None] * len(entries)
    scales = state.scales()
    references = scales.references[scales.references != (number or -1)]
    some = references[_spread(len(references), settings.compared)]
    skipped = round(AROUND * len(some) / len(scales.numbers))  # of a sample as large a share
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
    """At most so many indices below `count`, spread over all."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def _roots(scales: Scales, numbers: NDArray[np.int32]) -> Floats:
    """(m,), the roots of the local scales of these fragments."""
    return np.asarray(np.sqrt(scales.scales[CHAMFER, np.searchsorted(scales.numbers, numbers)]))


def _nearest(bag: Bag, others: Sequence[Bag]) -> Floats:
    """(K, n), how far each prototype of `bag` is from the nearest one of each of `others`, in one product."""
    prototypes = np.concatenate([other.prototypes for other in others])
    starts = np.cumsum([0, *(len(other) for other in others[:-1])])
    squares = (bag.prototypes**2).sum(axis=1)[:, None] + (prototypes**2).sum(axis=1)
    squares -= 2 * (bag.prototypes @ prototypes.T)
    return np.sqrt(np.maximum(np.minimum.reduceat(squares, starts, axis=1), 0)).astype(np.float64)
