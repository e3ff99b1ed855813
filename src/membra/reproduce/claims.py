"""The claims of the paper, each tested on the same queries: what holds on this collection, what does not, how sure."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from membra.errors import MembraError, NotEnough
from membra.judge.claims import MARGIN, Claim, Kind, Tested, check_claim, decide
from membra.judge.separation import resample_separation, separate
from membra.judge.tables import Column, Row, Table
from membra.reproduce.experiments import Known, barred_pairs, empty_table, matrix_of
from membra.reproduce.material import Material
from membra.reproduce.measured_claims import measured
from membra.reproduce.stated_claims import Stated, stated_claims


def claims(material: Material, known: Known, tables: Mapping[str, Table]) -> Table:
    """Table 0, the first of the page. What cannot be tested here is undecided, with the reason."""
    columns = [
        Column("claim", "the paper says"),
        Column("verdict", "here"),
        Column("tested", "what was compared"),
        Column("map", "difference in mAP"),
        Column("hit@1", "in Hit@1"),
        Column("sure", "how sure"),
        Column("where", "numbers"),
    ]
    table = empty_table(material, known, 0, "claims", "What holds here, and how sure that is", columns)
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
        p_for, p_against, agree = [*p_for, apart[1]], [*p_against, apart[2]], [*agree, True]
    decided = decide(p_for, p_against, agree)
    judged = zip(decided.verdicts, decided.p_for, decided.p_against, strict=True)
    judged_rows = {stated.text: _row(stated, one, *said) for (stated, one), said in zip(tested, judged, strict=False)}
    rows = [(judged_rows | untested)[stated.text] for stated in everything]
    if apart:
        yes, no = decided.p_for[-1], decided.p_against[-1]
        rows.append(apart[0] | {"verdict": decided.verdicts[-1], "sure": _sure(decided.verdicts[-1], yes, no)})
    else:
        rows.append(_untested(_APART, "table 2", known.why_not or "its distances could not be made"))
    rows += measured(tables)
    return replace(table, rows=rows, reading=_READING, notes=_NOTES)


_APART = "BoB-Hungarian separates mates from strangers better than BoW-Cosine"
_READING = (
    "Each claim of the paper, tested on this collection's own queries. Yes: it holds here beyond chance. No: it is "
    f"ruled out here, or a lead of as much as {MARGIN} mAP is. Undecided: these manuscripts are too few to tell, "
    "whatever the means say."
)
_NOTES = [
    "Differences are means over queries and seeds, with 95 % intervals by resampling whole manuscripts, which are not "
    "adjusted for the number of claims. Where a claim has several comparisons, the one that speaks least for it is "
    "shown: all must hold.",
    "p by flipping the signs of whole manuscripts, one-sided, adjusted by Holm's method over all claims, for yes and "
    "for no: the chance that any yes of this page is wrong is at most 2.5 %, and so is that of any no. In italics the "
    "paper's own difference in Hit@1 on its 88 queries.",
]


def _separation(material: Material, known: Known) -> tuple[Row, float, float] | None:
    """BoB-Hungarian against BoW-Cosine by AUC, draw by draw of the same resampled joins; its p for and against."""
    if known.why_not:
        return None
    drawn, values = [], []
    try:
        for method in ("bob-hungarian", "bow-raw-cosine"):
            draws, auc = [], []
            for seed in material.seeds(material.main):
                matrix = matrix_of(material, seed, method)[np.ix_(known.indices, known.indices)]
                pairs = (matrix, known.question.joins, barred_pairs(known.question))
                draws.append(resample_separation(*pairs)[:, 1])
                auc.append(separate(*pairs).auc)
            drawn.append(np.mean(draws, axis=0))
            values.append(float(np.mean(auc)))
    except MembraError:
        return None
    differences = drawn[0] - drawn[1]
    if not len(differences):
        return None
    p_for = float((1 + (differences <= 0).sum()) / (1 + len(differences)))
    p_against = float((1 + (differences >= MARGIN).sum()) / (1 + len(differences)))
    ends = np.percentile(differences, [2.5, 97.5])
    row: Row = {
        "claim": _APART,
        "tested": f"AUC of BoB-Hungarian − of BoW-Cosine: {_signed(values[0] - values[1])} ({_signed(ends[0])} to "
        f"{_signed(ends[1])}), by resampled manuscripts",
        "where": "table 2",
        "leans": _side(_leans("better", values[0] - values[1])),
        "auc_difference": values[0] - values[1],
        "auc_ci95": ends.tolist(),
    }
    return row, p_for, p_against


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
        "paper": {} if stated.paper is None else {"hit@1": round(stated.paper, 3)},
    }


def _leans(kind: Kind, difference: float) -> bool:
    """Whether the mean alone would speak for the claim."""
    return {"better": difference > 0, "no worse": difference > -MARGIN, "alike": abs(difference) < MARGIN}[kind]


def _side(to_the_paper: bool) -> str:
    return "to the paper" if to_the_paper else "away from it"


def _signed(value: float) -> str:
    """With its sign, the true minus."""
    return f"{value:+.3f}".replace("-", "−")


def _sure(verdict: str, yes: float, no: float, kind: Kind = "better") -> str:
    if verdict == "undecided":
        return f"p for yes {_p(yes)}, for no {_p(no)}"
    if verdict == "no" and kind == "better":
        return f"a lead of {MARGIN} is ruled out, p {_p(no)}"
    return f"p {_p(yes if verdict == 'yes' else no)}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _untested(text: str, where: str, why: str) -> Row:
    return {"claim": text, "verdict": "undecided", "tested": f"not tested: {why}", "sure": "–", "where": where}
