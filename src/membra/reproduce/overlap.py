"""Table 13: queries cut to fewer letters under four distances. The paper explains Chamfer's lead by partial overlap."""

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from membra.compare.distance import chamfer, hungarian, transport
from membra.compare.partial import SHARE, partial_transport
from membra.describe.bag import Bag, make_bag
from membra.judge.evaluate import outcomes
from membra.judge.statistics import Runs
from membra.judge.tables import SHORT_SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import Known, empty_table, text_column, without
from membra.reproduce.material import Material
from membra.reproduce.measurements import neighbouring
from membra.reproduce.work import Arrays

OVERLAP_STEP = "cutting queries: four distances"
DISTANCES: dict[str, tuple[str, Callable[[Bag, Bag], float]]] = {
    "Chamfer": ("bob-chamfer", chamfer),
    "Hungarian": ("bob-hungarian", hungarian),
    "OT": ("bob-transport", transport),
    "partial OT": ("bob-partial", partial_transport),
}


def overlap(material: Material, known: Known) -> Table:
    """Every query whole and cut down, by each distance; at each length all are tested against Chamfer."""
    columns = [text_column("letters", "letters in the query"), text_column("distance"), *SHORT_SCORES]
    title = "Partial overlap: queries cut to fewer letters"
    table = empty_table(material, known, 13, "overlap", title, columns)
    if known.why_not:
        return without(table, known.why_not)
    contenders: list[Contender] = []
    references: list[int | None] = []
    with material.steps.step(OVERLAP_STEP) as within:
        for done, count in enumerate([None, *reversed(material.settings.cut_letters)], start=1):
            start = len(contenders)
            for name in DISTANCES:
                labels = {"letters": "whole" if count is None else str(count), "distance": name}
                contenders.append(Contender(labels, cut_runs(material, known, count, name)))
                references.append(None if name == "Chamfer" else start)
            within(done, 1 + len(material.settings.cut_letters))
    return replace(
        table,
        rows=score_rows(contenders, references),
        reading="The paper says that Chamfer leads because torn fragments share only some of their letters. If so, its "
        "lead over Hungarian and OT must grow as queries are cut, and partial OT, which lets "
        f"{1 - SHARE:.0%} of the mass lie, must catch up with it.",
        notes=["A query is cut to so many letters nearest to one drawn by chance, and sought among whole fragments."],
    )


def cut_runs(material: Material, known: Known, count: int | None, distance: str) -> Runs:
    """What queries cut to `count` letters (None: whole) bring by one of `DISTANCES`, for each seed."""
    queries = known.question.queries()
    runs = []
    for seed in material.seeds(material.main):
        key = {
            "encoder": material.encoder_path(material.main, seed).name,
            "glyphs": material.seen(material.main).digest,
            "described": material.described,
            "queries": [known.indices[query] for query in queries],
            "letters": count,
            "bag": asdict(material.bag_settings(seed)),
            "distance": distance,
            "share": SHARE,
        }

        def make(seed: int = seed) -> Arrays:
            bags, measure = material.bags(material.main, seed), DISTANCES[distance][1]
            parts = [_part(material, known.indices[query], count, seed) for query in queries]
            return {"rows": np.array([[measure(part, bag) for bag in bags] for part in parts])}

        found = material.work.kept("overlap", key, make)["rows"]
        matrix = np.full((len(known.indices), len(known.indices)), np.inf)
        matrix[queries] = found[:, known.indices]
        runs.append(outcomes(known.question, matrix))
    return runs


def _part(material: Material, index: int, count: int | None, seed: int) -> Bag:
    if count is None:
        return material.bags(material.main, seed)[index]
    boxes = material.seen(material.main).glyphs[material.described[index]].boxes
    near = neighbouring(boxes, count, seed=(seed, index))
    return make_bag(material.embeddings(material.main, seed)[index][near], material.bag_settings(seed))
