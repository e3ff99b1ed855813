"""The claims of the paper, each tested on the same queries: what holds on this collection, what does not, how sure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.errors import MembraError, NotEnough
from membra.judge import printed
from membra.judge.claims import MARGIN, Claim, Comparison, Kind, Tested, check_claim, decide
from membra.judge.metrics import measure
from membra.judge.separation import resample_separation, separate
from membra.judge.statistics import Runs
from membra.judge.tables import Column, Row, Table
from membra.reproduce.experiments import RETRIEVAL, Known, barred_pairs, by_seed, empty_table, matrices_of, matrix_of
from membra.reproduce.material import Material
from membra.reproduce.measured_claims import measured
from membra.reproduce.overlap import cut_runs
from membra.reproduce.settings import ABLATION_WORDS, BASE, DIMENSIONS, FITS, MAIN_WORDS, SPARSITIES, Variant


@dataclass(frozen=True)
class Scores:
    """Average precision and hit@1 of every query, (seeds, queries) each."""

    map: NDArray[np.float64]
    hit: NDArray[np.float64]


@dataclass(frozen=True)
class Stated:
    """A claim as the paper states it, and where; `make` finds the comparisons on which it stands or falls."""

    text: str
    where: str
    kind: Kind
    make: Callable[[], list[Comparison]]
    paper: float | None = None  # the difference in Hit@1 that the paper prints


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
    everything = _stated(material, known)
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


def _stated(material: Material, known: Known) -> list[Stated]:
    """Every comparison that the paper draws a conclusion from, in its order."""
    kept: dict[str, Scores] = {}

    def scored(name: str, make: Callable[[], Runs]) -> Scores:
        if name not in kept:
            kept[name] = _scores(make())
        return kept[name]

    def method(name: str) -> Scores:
        return scored(name, lambda: known.runs(by_seed(material, name)))

    def variant(one: Variant, distance: str, words: int) -> Scores:
        return scored(f"{one} {distance} {words}", lambda: known.runs(matrices_of(material, one, distance, words)))

    def words(count: int) -> Scores:
        return variant(material.main, "bob-hungarian", count)

    def pair(a: str, b: str) -> list[Comparison]:
        return [_compared(known, f"{RETRIEVAL[a]} − {RETRIEVAL[b]}", method(a), method(b))]

    def against_all(ours: str, others: Sequence[str]) -> list[Comparison]:
        return [pair(ours, other)[0] for other in others]

    def kinds(prefix: str) -> Scores:
        held = [method(name) for name in RETRIEVAL if name.startswith(prefix)]
        return Scores(np.mean([one.map for one in held], axis=0), np.mean([one.hit for one in held], axis=0))

    def other_words() -> list[Comparison]:
        others = [count for count in material.settings.words if count != MAIN_WORDS]
        if not others or MAIN_WORDS not in material.settings.words:
            raise NotEnough("no other K was tried")
        ours = words(MAIN_WORDS)
        return [_compared(known, f"K = {MAIN_WORDS} − K = {count} (Hungarian)", ours, words(count)) for count in others]

    def variants(choices: Sequence[Variant], names: Sequence[str], count: int) -> list[Comparison]:
        base = choices.index(BASE)
        ours = variant(BASE, "bob-hungarian", count)
        return [
            _compared(known, f"{names[base]} − {name}", ours, variant(one, "bob-hungarian", count))
            for one, name in zip(choices, names, strict=True)
            if one is not BASE
        ]

    def lead_when_cut() -> list[Comparison]:
        if not material.settings.cut_letters:
            raise NotEnough("no query was cut")
        count = sorted(material.settings.cut_letters)[min(1, len(material.settings.cut_letters) - 1)]
        found = []
        for other in ("OT", "Hungarian"):
            names = [(c, d) for c in (count, None) for d in ("Chamfer", other)]
            of = {name: scored(f"cut {name}", partial(cut_runs, material, known, *name)) for name in names}
            cut, whole = ((of[c, "Chamfer"], of[c, other]) for c in (count, None))
            gained = Scores(*(getattr(cut[0], m) - getattr(cut[1], m) for m in ("map", "hit")))
            before = Scores(*(getattr(whole[0], m) - getattr(whole[1], m) for m in ("map", "hit")))
            found.append(_compared(known, f"lead over {other} at {count} letters − lead when whole", gained, before))
        return found

    hit = {name: row["hit@1"] for name, row in printed.RETRIEVAL.items()}
    baselines = [name for name in RETRIEVAL if name.startswith(("pool-", "bow-"))]
    pooled = [name for name in baselines if name.startswith(("pool-", "bow-centroids"))]
    one = "table 1"
    return [
        Stated(
            "Chamfer finds mates better than OT",
            one,
            "better",
            partial(pair, "bob-chamfer", "bob-transport"),
            hit["bob-chamfer"] - hit["bob-transport"],
        ),
        Stated(
            "OT finds mates better than Hungarian",
            one,
            "better",
            partial(pair, "bob-transport", "bob-hungarian"),
            hit["bob-transport"] - hit["bob-hungarian"],
        ),
        Stated(
            "Bags of bags beat the best bag of words of the paper",
            one,
            "better",
            partial(pair, "bob-chamfer", "bow-raw-chi2"),
            hit["bob-chamfer"] - hit["bow-raw-chi2"],
        ),
        Stated(
            "Bags of bags beat every baseline",
            one,
            "better",
            partial(against_all, "bob-chamfer", baselines),
            hit["bob-chamfer"] - max(hit[name] for name in baselines),
        ),
        Stated(
            f"Two stages find mates as BoB-OT does (within {MARGIN} mAP)",
            one,
            "alike",
            partial(pair, "two-stage", "bob-transport"),
            hit["two-stage"] - hit["bob-transport"],
        ),
        Stated(
            "Codebooks of raw patches beat codebooks of centroids",
            one,
            "better",
            lambda: [_compared(known, "mean of BoW-raw − of BoW-centroids", kinds("bow-raw"), kinds("bow-centroids"))],
            float(np.mean([hit[n] for n in hit if "raw" in n]) - np.mean([hit[n] for n in hit if "centroids" in n])),
        ),
        Stated(
            "The gain is not from the encoder alone: with the same encoder, BoB beats pooling and BoW-centroids",
            one,
            "better",
            partial(against_all, "bob-chamfer", pooled),
            hit["bob-chamfer"] - max(hit[name] for name in pooled),
        ),
        Stated(
            f"K = {MAIN_WORDS} suffices: no other K is better by {MARGIN} mAP or more",
            "table 3",
            "no worse",
            other_words,
            printed.WORDS["20"]["hit@1"] - max(row["hit@1"] for row in printed.WORDS.values()),
        ),
        Stated(
            "d = 128 is best",
            "table 4",
            "better",
            partial(variants, DIMENSIONS, ("d = 64", "d = 128", "d = 256"), ABLATION_WORDS),
            printed.DIMENSIONS["128"]["hit@1"] - printed.DIMENSIONS["64"]["hit@1"],
        ),
        Stated(
            "Sparsity helps",
            "table 5",
            "better",
            partial(variants, SPARSITIES, ("sparsity on", "off"), ABLATION_WORDS),
            printed.SPARSITY["on"]["hit@1"] - printed.SPARSITY["off"]["hit@1"],
        ),
        Stated(
            "Keeping a letter's shape helps",
            "table 6",
            "better",
            partial(variants, FITS[:2], ("shape kept", "stretched"), MAIN_WORDS),
            printed.FIT["fitpad"]["hit@1"] - printed.FIT["stretched"]["hit@1"],
        ),
        Stated(
            "Chamfer leads because fragments overlap only in part: its lead grows when queries are cut",
            "table 13",
            "better",
            lead_when_cut,
        ),
    ]


def _scores(runs: Runs) -> Scores:
    single = [[measure(outcome) for outcome in run] for run in runs]
    of = {key: np.array([[scores[key] for scores in run] for run in single]) for key in ("map", "hit@1")}
    return Scores(of["map"], of["hit@1"])


def _compared(known: Known, name: str, ours: Scores, theirs: Scores) -> Comparison:
    sides = np.sign(np.round(ours.map.mean(axis=1) - theirs.map.mean(axis=1), 12))
    return Comparison(
        name,
        ours.map.mean(axis=0) - theirs.map.mean(axis=0),
        ours.hit.mean(axis=0) - theirs.hit.mean(axis=0),
        [known.question.joins[query] for query in known.question.queries()],
        bool((sides == sides[0]).all()),
    )


def _separation(material: Material, known: Known) -> tuple[Row, float, float] | None:
    """BoB-Hungarian against BoW-Cosine by AUC, draw by draw of the same resampled joins; its p for and against."""
    if known.why_not:
        return None
    drawn, values = [], []
    try:
        for method in ("bob-hungarian", "bow-raw-cosine"):
            held, auc = [], []
            for seed in material.seeds(material.main):
                matrix = matrix_of(material, seed, method)[np.ix_(known.places, known.places)]
                pairs = (matrix, known.question.joins, barred_pairs(known.question))
                held.append(resample_separation(*pairs)[:, 1])
                auc.append(separate(*pairs).auc)
            drawn.append(np.mean(held, axis=0))
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
        "tested": f"AUC {values[0] - values[1]:+.3f} ({ends[0]:+.3f} to {ends[1]:+.3f}), by resampled manuscripts",
        "where": "table 2",
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
        "sure": _sure(verdict, yes, no),
        "where": stated.where,
        "p_for": yes,
        "p_against": no,
        "seeds_agree": shown.agree,
        "queries": len(shown.map),
        "manuscripts": len(set(shown.manuscripts)),
        "ci95": {"map": list(one.ci95), "hit@1": list(one.hit_ci95)},
        "paper": {} if stated.paper is None else {"hit@1": round(stated.paper, 3)},
    }


def _sure(verdict: str, yes: float, no: float) -> str:
    if verdict == "undecided":
        return f"p for yes {_p(yes)}, for no {_p(no)}"
    return f"p {_p(yes if verdict == 'yes' else no)}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _untested(text: str, where: str, why: str) -> Row:
    return {"claim": text, "verdict": "undecided", "tested": f"not tested: {why}", "sure": "–", "where": where}
