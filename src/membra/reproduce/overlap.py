"""Table 13: queries cut to fewer letters under four distances. The paper explains Chamfer's lead by partial overlap."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import chamfer, hungarian, transport
from membra.compare.partial import SHARE, partial_transport
from membra.describe.bag import Bag, make_bag
from membra.judge.evaluate import outcomes
from membra.judge.statistics import Runs
from membra.judge.tables import SHORT_SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import Known, empty_table, text_column, without
from membra.reproduce.material import Material, packed, unpacked
from membra.reproduce.work import Arrays

OVERLAP_STEP = "cutting queries: four distances"
DISTANCES: dict[str, tuple[str, Callable[[Bag, Bag], float]]] = {
    "Chamfer": ("bob-chamfer", chamfer),
    "Hungarian": ("bob-hungarian", hungarian),
    "OT": ("bob-transport", transport),
    "partial OT": ("bob-partial", partial_transport),
}


def overlap(material: Material, known: Known) -> Table:
    """Score queries whole and cut, by each distance; at each length all are tested against Chamfer."""
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
        "lead over Hungarian and OT must grow as queries are cut, and partial OT, which leaves "
        f"{1 - SHARE:.0%} of the mass unmatched, must catch up with it.",
        notes=[
            "A query is cut to the given number of letters, those nearest to a randomly drawn one, and searched among "
            "whole fragments."
        ],
    )


def cut_runs(material: Material, known: Known, count: int | None, distance: str) -> Runs:
    """Return the runs of queries cut to `count` letters (None: whole) by one of `DISTANCES`, for each seed."""
    queries = known.question.queries()
    indices = [known.indices[query] for query in queries]
    runs = []
    for seed in material.seeds(material.main):
        key = _key(material, indices, count, seed) | {"distance": distance, "share": SHARE}

        def make(seed: int = seed) -> Arrays:
            gallery = [Bag(bag.prototypes, bag.weights) for bag in material.bags(material.main, seed)]
            row = partial(_row, gallery=gallery, distance=distance)
            return {"rows": np.array(list(material.pool.each(row, _parts(material, indices, count, seed))))}

        found = material.work.kept("overlap", key, make)["rows"]
        matrix = np.full((len(known.indices), len(known.indices)), np.inf)
        matrix[queries] = found[:, known.indices]
        runs.append(outcomes(known.question, matrix))
    return runs


def neighbouring(boxes: NDArray[np.int32], count: int, *, seed: tuple[int, int]) -> NDArray[np.int64]:
    """Return the indices of the `count` boxes (n, 4) nearest to a random one, sorted: they simulate a torn piece."""
    centres = boxes[:, :2] + boxes[:, 2:] / 2
    anchor = centres[np.random.default_rng(seed).integers(len(centres))]
    return np.sort(np.argsort(np.linalg.norm(centres - anchor, axis=1), kind="stable")[:count])


def _key(material: Material, indices: list[int], count: int | None, seed: int) -> dict[str, object]:
    return {
        "encoder": material.encoder_path(material.main, seed).name,
        "glyphs": material.seen(material.main).digest,
        "described": material.described,
        "queries": indices,
        "letters": count,
        "bag": asdict(material.bag_settings(seed)),
    }


def _parts(material: Material, indices: list[int], count: int | None, seed: int) -> list[Bag]:
    """Return the bags of these described fragments cut to `count` letters; they are the same for every distance."""
    bags = material.bags(material.main, seed)
    if count is None:
        return [bags[index] for index in indices]

    def make() -> Arrays:
        embeddings, glyphs = material.embeddings(material.main, seed), material.seen(material.main).glyphs
        found = []
        for index in indices:
            near = neighbouring(glyphs[material.described[index]].boxes, count, seed=(seed, index))
            found.append(make_bag(embeddings[index][near], material.bag_settings(seed)))
        return packed(found)

    return unpacked(material.work.kept("parts", _key(material, indices, count, seed), make))


def _row(part: Bag, *, gallery: Sequence[Bag], distance: str) -> list[float]:
    """Return the distances of the gallery to a part; runs in a worker process."""
    return [DISTANCES[distance][1](part, bag) for bag in gallery]
