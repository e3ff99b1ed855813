"""Test claims of the form "this is better than that" on queries: yes, no, or undecided."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from membra.judge.clustered import cluster_interval, flip_p
from membra.judge.statistics import holm

MARGIN = 0.02  # of mAP; the smallest difference that the paper treats as a finding between two distances is 0.023
ALPHA = 0.025  # one-sided, as a claim has a direction

Kind = Literal["better", "no worse", "alike"]
Verdict = Literal["yes", "no", "undecided"]


@dataclass(frozen=True)
class Comparison:
    """Scores of one method minus another on the same queries (n,), each query's scores averaged over the seeds.

    agree : whether the difference in mAP has the same sign for every seed
    paper : the difference in Hit@1 that the paper prints for these two methods, if it does
    """

    name: str
    map: NDArray[np.float64]
    hit: NDArray[np.float64]
    manuscripts: Sequence[str]  # (n,) of each query
    agree: bool = True
    paper: float | None = None


@dataclass(frozen=True)
class Claim:
    """The claim that each of the comparisons is `better` (> 0), `no worse` (> -margin) or `alike`."""

    name: str
    kind: Kind
    comparisons: Sequence[Comparison]


@dataclass(frozen=True)
class Tested:
    """The test of one claim. `closest` is the comparison that decides it: the one that supports the claim least.

    p_for : p value of a yes; p_against : p value of a no; both before adjusting for all claims of a page
    """

    claim: Claim
    closest: Comparison
    difference: float
    ci95: tuple[float, float]
    hit_difference: float
    hit_ci95: tuple[float, float]
    p_for: float
    p_against: float
    against: Comparison  # the comparison that contradicts the claim most


def check_claim(claim: Claim) -> Tested:
    """Test a claim by its comparisons.

    It holds if every comparison holds, so that p_for is the largest of theirs, with nothing to adjust for (the
    intersection-union test, Berger 1982). It fails if any fails: p_against is the smallest, times their number.
    A claim of `better` fails if a lead of as much as the margin is ruled out; `no worse` if a loss of more than the
    margin is shown; `alike` if a difference of more than the margin is shown. `alike` holds by two one-sided tests
    (Schuirmann 1987).
    """
    for_it = [_p_for(one, claim.kind) for one in claim.comparisons]
    against = [_p_against(one, claim.kind) for one in claim.comparisons]
    worst = int(np.argmax(for_it))
    closest = claim.comparisons[worst]
    return Tested(
        claim=claim,
        closest=closest,
        difference=float(closest.map.mean()),
        ci95=cluster_interval(closest.map, closest.manuscripts),
        hit_difference=float(closest.hit.mean()),
        hit_ci95=cluster_interval(closest.hit, closest.manuscripts),
        p_for=for_it[worst],
        p_against=min(1.0, min(against) * len(against)),
        against=claim.comparisons[int(np.argmin(against))],
    )


@dataclass(frozen=True)
class Decided:
    """Verdicts on all claims of a page, and their p values adjusted by Holm's method.

    They are adjusted over all claims for "yes", and separately for "no": the probability that any yes of the page is
    wrong is at most 2.5 %, and so is the probability that any no is.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    p_for: list[float] = field(default_factory=list)
    p_against: list[float] = field(default_factory=list)


def decide(p_for: Sequence[float], p_against: Sequence[float], agree: Sequence[bool]) -> Decided:
    """Decide each claim: yes if the adjusted `p_for` is below 0.025 and `agree` is true; else no if the adjusted
    `p_against` is below 0.025; else undecided."""
    yes, no = holm(p_for), holm(p_against)
    verdicts: list[Verdict] = []
    for a, b, same in zip(yes, no, agree, strict=True):
        verdicts.append("yes" if a < ALPHA and same else "no" if b < ALPHA else "undecided")
    return Decided(verdicts, yes, no)


def _p_for(one: Comparison, kind: Kind) -> float:
    if kind == "better":
        return flip_p(one.map, one.manuscripts)
    above = flip_p(one.map, one.manuscripts, -MARGIN)
    return above if kind == "no worse" else max(above, flip_p(-one.map, one.manuscripts, -MARGIN))


def _p_against(one: Comparison, kind: Kind) -> float:
    if kind == "better":
        return flip_p(-one.map, one.manuscripts, -MARGIN)
    below = flip_p(-one.map, one.manuscripts, MARGIN)
    return below if kind == "no worse" else min(1.0, 2 * min(below, flip_p(one.map, one.manuscripts, MARGIN)))
