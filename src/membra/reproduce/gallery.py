"""Table 16: accuracy against the size of the gallery, by sampling manuscripts."""

from dataclasses import replace

import numpy as np

from membra.errors import MembraError
from membra.judge.evaluate import Question, outcomes
from membra.judge.metrics import measure
from membra.judge.tables import Column, Row, Table
from membra.reproduce.experiments import RETRIEVAL, Known, empty_table, matrix_of, text_column, without
from membra.reproduce.material import Material
from membra.reproduce.settings import FIRST_SEED

METHODS = ("bob-chamfer", "bob-transport", "bow-raw-chi2", "pool-mean-cosine")
DRAWS = 30  # of manuscripts, for each size


def gallery(material: Material, known: Known) -> Table:
    """Return Hit@1 and mAP for galleries of several sizes: means over draws, with the middle 95 % of the draws."""
    columns = [
        Column("manuscripts", "manuscripts", 0),
        text_column("method"),
        Column("fragments", "fragments", 1),
        Column("hit@1", "Hit@1"),
        Column("map", "mAP"),
    ]
    table = empty_table(material, known, 16, "gallery", "Accuracy against the size of the gallery", columns)
    if known.why_not:
        return without(table, known.why_not)
    names = sorted(set(known.question.joins))
    sizes = sorted({max(2, round(len(names) * share)) for share in (0.125, 0.25, 0.5, 0.75)} | {len(names)})
    sizes = [size for size in sizes if size <= len(names)]
    if len(names) < 4:
        return without(table, f"there are {len(names)} manuscripts, and a sample of them needs at least four")
    rows: list[Row] = []
    for size in sizes:
        draw = np.random.default_rng((FIRST_SEED, size))
        chosen = [
            set(draw.choice(names, size, replace=False).tolist()) for _ in range(DRAWS if size < len(names) else 1)
        ]
        for method in METHODS:
            row: Row = {"manuscripts": size, "method": RETRIEVAL[method], "name": method}
            try:
                matrix = matrix_of(material, FIRST_SEED, method)[np.ix_(known.indices, known.indices)]
            except MembraError as reason:
                rows.append(row | {"missing": str(reason)})
                continue
            found = [scores for some in chosen if (scores := _among(known.question, matrix, some))]
            if not found:
                rows.append(row | {"missing": "no draw has a fragment with a mate"})
                continue
            values = {key: [one[key] for one in found] for key in ("fragments", "hit@1", "map")}
            row |= {key: float(np.mean(value)) for key, value in values.items()}
            ends = {key: np.percentile(values[key], [2.5, 97.5]).tolist() for key in ("hit@1", "map")}
            rows.append(row | {"ci95": ends} if len(found) > 1 else row)
    return replace(
        table,
        rows=rows,
        reading="Queries in galleries of fewer and more manuscripts: how fast the scores of each method fall as "
        "strangers are added. If they fall slowly, a small test underrates the method for large collections.",
        notes=[f"Seed {FIRST_SEED}. Below each mean is the middle 95 % of {DRAWS} draws of manuscripts."],
    )


def _among(question: Question, matrix: np.ndarray, joins: set[str]) -> dict[str, float] | None:
    """Return the scores among the fragments of these joins alone, or None if no fragment has a mate."""
    members = [at for at, join in enumerate(question.joins) if join in joins]
    found = [measure(outcome) for outcome in outcomes(question.among(members), matrix[np.ix_(members, members)])]
    if not found:
        return None
    return {key: float(np.mean([one[key] for one in found])) for key in ("hit@1", "map")} | {"fragments": len(members)}
