"""Statistics of scores over several seeds: intervals and paired tests, with the manuscript as unit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.judge.clustered import cluster_interval, flip_p
from membra.judge.metrics import Outcome, macro_f1, measure

DRAWS = 2000  # bootstrap resamples of the manuscripts
LEVEL = 0.05  # significance level

Runs = Sequence[Sequence[Outcome]]  # the outcomes of each seed, for the same queries in the same order


@dataclass(frozen=True)
class Paired:
    """Paired test of two methods on the same queries, each query's scores averaged over the seeds.

    p : two-sided, by flipping the signs of whole manuscripts
    ci95 : interval of the mean difference, by resampling manuscripts
    agree : whether the difference has the same sign for every seed
    """

    difference: float
    ci95: tuple[float, float]
    p: float
    agree: bool


def score_runs(runs: Runs, *, seed: int = 0) -> dict[str, object]:
    """Compute means over seeds and queries, `ci95` by resampling manuscripts (`clustered`), and `seeds`: each seed's
    value.

    With one run, the means equal those of `metrics.score`, whose intervals resample queries.
    """
    tables = np.array([[list(measure(outcome).values()) for outcome in run] for run in runs])  # (seeds, queries, m)
    names = list(measure(runs[0][0]))
    truth, found = _labels(runs)
    single = tables.mean(axis=1)  # (seeds, m)
    f1 = [macro_f1(truth, row) for row in found]
    own = [np.flatnonzero(truth == join) for join in np.unique(truth)]  # the queries of each manuscript
    sums = np.array([tables.mean(axis=0)[queries].sum(axis=0) for queries in own])  # (manuscripts, m)
    sizes = np.array([len(queries) for queries in own])
    draws = np.random.default_rng(seed).integers(0, len(own), size=(DRAWS, len(own)))
    resampled = sums[draws].sum(axis=1) / sizes[draws].sum(axis=1)[:, None]  # (draws, m)
    drawn = [np.concatenate([own[at] for at in draw]) for draw in draws]
    resampled_f1 = [np.mean([macro_f1(truth[queries], row[queries]) for row in found]) for queries in drawn]
    low, high = np.percentile(np.column_stack([resampled, resampled_f1]), [2.5, 97.5], axis=0)
    values = [*single.mean(axis=0).tolist(), float(np.mean(f1))]
    names.append("macro_f1@1")
    by_seed = [*single.T.tolist(), [float(value) for value in f1]]
    return {
        **dict(zip(names, values, strict=True)),
        "ci95": {name: [float(a), float(b)] for name, a, b in zip(names, low, high, strict=True)},
        "seeds": dict(zip(names, by_seed, strict=True)),
    }


def compare_runs(ours: Runs, theirs: Runs, metric: str) -> Paired:
    """Run a paired test of one of `measure`'s metrics, ours minus theirs, by manuscript (`clustered`).

    Both sides need the same queries; the number of seeds may differ if one side has a single run, as it does not depend
    on the seed.
    """
    a, b = (np.array([[measure(outcome)[metric] for outcome in run] for run in runs]) for runs in (ours, theirs))
    differences = a.mean(axis=0) - b.mean(axis=0)  # (queries,)
    manuscripts = [outcome.join for outcome in ours[0]]
    p = min(1.0, 2 * min(flip_p(differences, manuscripts), flip_p(-differences, manuscripts)))
    sides = np.sign(np.round(a.mean(axis=1) - b.mean(axis=1), 12))  # broadcasts where one side has one run
    agree = bool((sides == sides[0]).all() and sides[0] != 0)
    return Paired(float(differences.mean()), cluster_interval(differences, manuscripts), p, agree)


def holm(p: Sequence[float]) -> list[float]:
    """Adjust p values for multiple tests by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, running = [0.0] * len(p), 0.0
    for rank, index in enumerate(np.argsort(p, kind="stable").tolist()):
        running = max(running, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = running
    return adjusted


def _labels(runs: Runs) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the queries' joins as numbers, and for each seed those of the first candidates (-1 if there is none)."""
    joins = {outcome.join for run in runs for outcome in run} | {outcome.first for run in runs for outcome in run}
    numbers = {join: index for index, join in enumerate(sorted(joins - {""}))}
    truth = np.array([numbers[outcome.join] for outcome in runs[0]])
    return truth, [np.array([numbers.get(outcome.first, -1) for outcome in run]) for run in runs]
