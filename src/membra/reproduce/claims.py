"""Table 0: each claim of the paper, tested on the same queries, with its verdict and its p values."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from membra.errors import MembraError, NotEnough
from membra.judge import printed
from membra.judge.claims import MARGIN, Claim, Kind, Tested, check_claim, decide
from membra.judge.clustered import flip_p
from membra.judge.separation import placements, resample_separation, split_pairs
from membra.judge.tables import Column, Row, Table
from membra.reproduce.experiments import Known, barred_pairs, empty_table, matrix_of
from membra.reproduce.material import Material
from membra.reproduce.measured_claims import measured
from membra.reproduce.stated_claims import Stated, stated_claims


def claims(material: Material, known: Known, tables: Mapping[str, Table]) -> Table:
    """Return table 0, the first on the page. A claim that cannot be tested here is undecided, with the reason."""
    columns = [
        Column("claim", "claim of the paper"),
        Column("verdict", "verdict here"),
        Column("tested", "comparison"),
        Column("map", "difference in mAP"),
        Column("hit@1", "difference in Hit@1"),
        Column("sure", "certainty"),
        Column("where", "values"),
    ]
    table = empty_table(material, known, 0, "claims", "Verdicts on the paper's claims", columns)
    untested: dict[str, Row] = {}
    tested: list[tuple[Stated, Tested]] = []
    everything = stated_claims(material, known)
    for stated in everything:
        try:
            if known.why_not:
                raise NotEnough(known.why_not)
            found = stated.make()
        except MembraError as reason:
            untested[stated.text] = _untested(stated.text, stated.where, str(reason))
            continue
        tested.append((stated, check_claim(Claim(stated.text, stated.kind, found))))
    apart = _separation(material, known)
    p_for, p_against = ([getattr(one, name) for _, one in tested] for name in ("p_for", "p_against"))
    agree = [one.closest.agree or stated.kind != "better" for stated, one in tested]
    if apart:
        p_for, p_against, agree = [*p_for, apart[1]], [*p_against, apart[2]], [*agree, apart[0]["seeds_agree"]]
    decided = decide(p_for, p_against, agree)
    judged = zip(decided.verdicts, decided.p_for, decided.p_against, strict=True)
    judged_rows = {stated.text: _row(stated, one, *said) for (stated, one), said in zip(tested, judged, strict=False)}
    rows = [(judged_rows | untested)[stated.text] for stated in everything]
    if apart:
        yes, no = decided.p_for[-1], decided.p_against[-1]
        said = _sure(decided.verdicts[-1], yes, no, of="AUC")
        rows.append(apart[0] | {"verdict": decided.verdicts[-1], "sure": said, "p_for": yes, "p_against": no})
    else:
        rows.append(_untested(_APART, "table 2", known.why_not or "its distances could not be computed"))
    rows += measured(tables)
    return replace(table, rows=rows, reading=_READING, notes=_NOTES)


_APART = "BoB-Hungarian separates mates from strangers better than BoW-Cosine"
_PAPER_APART = printed.SEPARATION["bob-hungarian"]["auc"] - printed.SEPARATION["bow-raw-cosine"]["auc"]
_READING = (
    "Each claim of the paper, tested on the queries of this collection. Yes: the claim holds here, beyond chance. No: "
    f"it is ruled out here, or a lead of {MARGIN} mAP or more is. Undecided: there are too few manuscripts to tell, "
    "whatever the means are."
)
_NOTES = [
    "Differences are means over queries and seeds. Their 95 % intervals, by resampling whole manuscripts, are not "
    "adjusted for the number of claims. If a claim has several comparisons, all must hold, and the one that supports "
    "it least is shown.",
    "p values are one-sided, from sign flips of whole manuscripts, and adjusted by Holm's method over all claims, "
    "separately for yes and for no: the probability that any yes of this page is wrong is at most 2.5 %, and so is "
    "that of any no. In italics: the paper's difference in Hit@1 between the same two methods, on its 88 queries.",
]


def _separation(material: Material, known: Known) -> tuple[Row, float, float] | None:
    """Compare BoB-Hungarian with BoW-Cosine by AUC; return the row and the unadjusted p for and against, or None.

    AUC is the mean over pairs of mates of the share of strangers that are farther apart. The test flips
    the signs of whole manuscripts, with the strangers fixed. The interval resamples them too, alike for both methods.
    """
    if known.why_not:
        return None
    drawn, placed = [], []  # of both methods: (draws,), and (seeds, pairs of mates)
    joins, barred = known.question.joins, barred_pairs(known.question)
    try:
        for method in ("bob-hungarian", "bow-raw-cosine"):
            draws, own = [], []
            for seed in material.seeds(material.main):
                matrix = matrix_of(material, seed, method)[np.ix_(known.indices, known.indices)]
                intra, inter, indices = split_pairs(matrix, joins, barred)
                if not len(inter):
                    return None
                draws.append(resample_separation(matrix, joins, barred)[:, 1])
                own.append(placements(intra, inter))
            drawn.append(np.mean(draws, axis=0))
            placed.append(np.array(own))
    except MembraError:
        return None
    by_seed = placed[0] - placed[1]
    differences, manuscripts = by_seed.mean(axis=0), [joins[pair] for pair in indices[: by_seed.shape[1], 0]]
    difference, sides = float(differences.mean()), np.sign(np.round(by_seed.mean(axis=1), 12))
    ends = np.percentile(drawn[0] - drawn[1], [2.5, 97.5])
    row: Row = {
        "claim": _APART,
        "tested": f"AUC of BoB-Hungarian − AUC of BoW-Cosine: {_signed(difference)} ({_signed(ends[0])} to "
        f"{_signed(ends[1])}), paper {_signed(_PAPER_APART)}",
        "where": "table 2",
        "leans": _side(_leans("better", difference)),
        "seeds_agree": bool((sides == sides[0]).all()),
        "auc_difference": difference,
        "auc_ci95": ends.tolist(),
    }
    return row, flip_p(differences, manuscripts), flip_p(-differences, manuscripts, -MARGIN)


def _row(stated: Stated, one: Tested, verdict: str, yes: float, no: float) -> Row:
    shown = one.against if verdict == "no" and one.against is not one.closest else one.closest
    if shown is not one.closest:
        one = check_claim(Claim(stated.text, stated.kind, [shown]))
    return {
        "claim": stated.text,
        "verdict": verdict,
        "tested": shown.name,
        "map": one.difference,
        "hit@1": one.hit_difference,
        "sure": _sure(verdict, yes, no, stated.kind),
        "where": stated.where,
        "p_for": yes,
        "p_against": no,
        "seeds_agree": shown.agree,
        "leans": _side(_leans(stated.kind, one.difference)),
        "queries": len(shown.map),
        "manuscripts": len(set(shown.manuscripts)),
        "ci95": {"map": list(one.ci95), "hit@1": list(one.hit_ci95)},
        "paper": {} if shown.paper is None else {"hit@1": round(shown.paper, 3)},
    }


def _leans(kind: Kind, difference: float) -> bool:
    """Return whether the mean difference alone supports the claim."""
    return {"better": difference > 0, "no worse": difference > -MARGIN, "alike": abs(difference) < MARGIN}[kind]


def _side(to_the_paper: bool) -> str:
    return "to the paper" if to_the_paper else "away from it"


def _signed(value: float) -> str:
    """Format with sign, with a true minus."""
    return f"{value:+.3f}".replace("-", "−")


def _sure(verdict: str, yes: float, no: float, kind: Kind = "better", *, of: str = "mAP") -> str:
    if verdict == "undecided":
        return f"p for yes {_p(yes)}, for no {_p(no)}"
    if verdict == "no" and kind == "better":
        return f"a lead of {MARGIN} {of} is ruled out, p {_p(no)}"
    return f"p {_p(yes if verdict == 'yes' else no)}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _untested(text: str, where: str, why: str) -> Row:
    return {"claim": text, "verdict": "undecided", "tested": f"not tested: {why}", "sure": "–", "where": where}
