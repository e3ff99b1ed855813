"""The measured tables: 8 (the proposition) and 10 (letters and coverage)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from membra.judge.bound import check_bound, transport_components
from membra.judge.evaluate import ask, outcomes
from membra.judge.statistics import Runs, score_runs
from membra.judge.tables import Column, Row, Table
from membra.reproduce.experiments import COVERAGE, Known, empty_table, text_column, without
from membra.reproduce.material import Material
from membra.reproduce.overlap import cut_runs
from membra.reproduce.settings import FIRST_SEED
from membra.reproduce.work import Arrays

BOUND_STEP, LETTERS_STEP = "checking the proposition", "cutting queries"
BINS = (1, 50, 100, 200, 300, 500)  # letters: lower bounds of the classes of table 10


def proposition(material: Material, known: Known) -> tuple[Table, Arrays]:
    """Return table 8, the bound on every pair of a sample for each K, and the pairs' values for the figure."""
    columns = [
        Column("words", "K", 0),
        Column("pairs", "pairs", 0),
        Column("violations", "violations", 0),
        Column("deviation", "mean |W1 − W1 of bags|"),
        Column("allowed", "mean ε_I + ε_J"),
        Column("used", "share of bound used"),
        Column("used_most", "largest share"),
        Column("components", "mean W1"),
    ]
    table = empty_table(material, known, 8, "proposition", "The approximation bound, checked", columns)
    most = material.settings.bound_components
    fit = [index for index, at in enumerate(material.described) if material.glyph_counts[at] <= most]
    pairs = list(combinations(fit, 2))
    if not pairs:
        why = f"two described fragments with at most {most} letters are needed, and {len(fit)} could be described"
        return without(table, why), {}
    if len(pairs) > material.settings.bound_pairs:
        draw = np.random.default_rng(FIRST_SEED).choice(len(pairs), material.settings.bound_pairs, replace=False)
        pairs = [pairs[index] for index in np.sort(draw)]
    arrays = _check_pairs(material, pairs)
    rows = []
    for count in material.settings.words:
        deviation, allowed = np.abs(arrays["components"] - arrays[f"bags_{count}"]), arrays[f"allowed_{count}"]
        share = np.divide(deviation, allowed, out=np.zeros_like(deviation), where=allowed > 0)
        rows.append(
            {
                "words": count,
                "pairs": len(pairs),
                "violations": int(arrays[f"violated_{count}"].sum()),
                "deviation": float(deviation.mean()),
                "allowed": float(allowed.mean()),
                "used": float(share.mean()),
                "used_most": float(share.max()),
                "components": float(arrays["components"].mean()),
            }
        )
    notes = [
        f"{len(pairs)} of {len(fit) * (len(fit) - 1) // 2} pairs, drawn once, with all components of both fragments."
    ]
    if len(fit) < len(material.described):
        notes.append(f"{len(material.described) - len(fit)} fragments with more than {most} letters are left out.")
    return (
        replace(
            table,
            rows=rows,
            notes=notes,
            reading="By the proposition, no pair deviates by more than ε_I + ε_J: violations must be 0. A larger K "
            "makes both smaller. The share of the bound used shows how loose the bound is: 1 would be tight.",
        ),
        arrays,
    )


def _check_pairs(material: Material, pairs: list[tuple[int, int]]) -> Arrays:
    counts = material.settings.words
    bags = {count: material.bags(material.main, FIRST_SEED, count) for count in counts}
    encoder = material.encoder_path(material.main, FIRST_SEED).name
    key = {"encoder": encoder, "glyphs": material.seen(material.main).digest, "pairs": pairs, "words": counts}

    def make() -> Arrays:
        embeddings = material.embeddings(material.main, FIRST_SEED)
        with material.steps.step(BOUND_STEP) as within:
            full = []
            for done, (a, b) in enumerate(pairs, start=1):
                full.append(transport_components(embeddings[a], embeddings[b]))
                within(done, len(pairs))
        arrays: Arrays = {"components": np.array(full)}
        for count, own in bags.items():
            checks = [check_bound(w, own[a], own[b]) for w, (a, b) in zip(full, pairs, strict=True)]
            arrays[f"bags_{count}"] = np.array([check.bags for check in checks])
            arrays[f"allowed_{count}"] = np.array([check.allowed for check in checks])
            arrays[f"violated_{count}"] = np.array([check.violated for check in checks])
        return arrays

    return material.work.kept("bound", key, make)


def letters(material: Material, known: Known, joins: dict[str, dict[str, str]]) -> Table:
    """Return table 10: coverage and scores by number of letters, and scores of queries cut to fewer letters."""
    columns = [
        text_column("letters", "letters in the query"),
        Column("fragments", "fragments", 0),
        *COVERAGE,
        Column("hit@1", "Hit@1"),
        Column("hit@5", "Hit@5"),
        Column("map", "mAP"),
        Column("mrr", "MRR"),
    ]
    table = empty_table(material, known, 10, "letters", "Letters in the query, and coverage (BoB-Chamfer)", columns)
    described = set(material.described)
    rows: list[Row] = [
        {
            "letters": "all fragments, the paper's protocol",
            "fragments": len(material.fragments),
            "described": len(described),
            "asked": table.queries,
        }
    ]
    ends = [*BINS[1:], 10**9]
    for low, high in zip(BINS, ends, strict=True):
        within = [index for index, count in enumerate(material.glyph_counts) if low <= count < high]
        name = f"{low} or more" if high == ends[-1] else f"{low} to {high - 1}"
        rows.append({"letters": name, "fragments": len(within), "described": len(described & set(within)), "asked": 0})
    notes = []
    least = material.settings.recipe.min_glyphs
    if len(described) < len(material.fragments):
        notes.append(
            f"{len(material.fragments) - len(described)} of {len(material.fragments)} fragments are not described: the "
            f"recipe requires {least} letters. The second protocol counts each of them that has a mate as a miss."
        )
    if known.why_not:
        notes.append(f"Coverage only: {known.why_not}")
        return replace(table, rows=rows, notes=notes, reading=_LETTERS_READING)
    matrices = [material.matrix(material.main, seed, "bob-chamfer") for seed in material.seeds(material.main)]
    runs = known.runs(matrices)
    counts = [material.glyph_counts[material.described[known.indices[query]]] for query in known.question.queries()]
    rows[0] |= plain_scores(runs)
    for row, low, high in zip(rows[1:], BINS, ends, strict=True):
        queries = [index for index, count in enumerate(counts) if low <= count < high]
        row["asked"] = len(queries)
        if queries:
            row |= plain_scores([[run[index] for index in queries] for run in runs])
    rows.insert(1, everything(material, known, joins, matrices))
    with material.steps.step(LETTERS_STEP) as report:
        for done, count in enumerate(material.settings.cut_letters, start=1):
            rows.append(_cut(material, known, count))
            report(done, len(material.settings.cut_letters))
    return replace(table, rows=rows, notes=notes, reading=_LETTERS_READING)


_LETTERS_READING = (
    "First both protocols, then the fragments by number of letters, then every query cut to the given number of "
    "neighbouring letters and searched among whole fragments: how much writing a query needs."
)


def everything(
    material: Material, known: Known, joins: dict[str, dict[str, str]], matrices: Sequence[NDArray[np.float64]]
) -> Row:
    """Score all labelled fragments: one that is not described counts as a miss as a query, and is never found."""
    described = set(material.described)
    lost = [f.id for index, f in enumerate(material.fragments) if index not in described and f.id in joins]
    whole = ask(known.question.ids, lost, joins, known.exclude_same)
    runs = [outcomes(whole, matrix[np.ix_(known.indices, known.indices)]) for matrix in matrices]
    return {
        "letters": "all fragments, undescribed ones as misses",
        "fragments": len(material.fragments),
        "described": len(described),
        "asked": len(whole.queries()),
        **plain_scores(runs),
    }


def _cut(material: Material, known: Known, count: int) -> Row:
    """Score queries cut to the `count` letters nearest to a random one, against whole fragments."""
    scores = plain_scores(cut_runs(material, known, count, "Chamfer"))
    return {"letters": f"every query cut to {count}", "asked": len(known.question.queries()), **scores}


def plain_scores(runs: Runs) -> Row:
    """Return the four scores of these tables, with their intervals and the value of each seed."""
    scores: Row = score_runs(runs)
    keys = ("hit@1", "hit@5", "map", "mrr")
    nested = {name: {key: scores[name][key] for key in keys} for name in ("ci95", "seeds")}
    return {key: scores[key] for key in keys} | nested
