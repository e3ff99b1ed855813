"""Table 12: exact transport and Chamfer of all components without k-means, which the paper calls infeasible."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from membra.judge.bound import transport_components
from membra.judge.tables import SHORT_SCORES, Column, Contender, Table, score_rows
from membra.reproduce.experiments import Known, by_seed, contend, empty_table, text_column, why_left_out, without
from membra.reproduce.material import Material
from membra.reproduce.runtime import PAPER_IMAGES
from membra.reproduce.settings import FIRST_SEED
from membra.reproduce.work import Arrays

COMPONENTS_STEP = "comparing all components"
Embeddings = NDArray[np.float32]  # (n, d)


def components(material: Material, known: Known) -> Table:
    """Compare bags with all components, by OT and Chamfer, on the first seed, with the time per pair."""
    columns = [text_column("method"), *SHORT_SCORES, Column("ms", "ms/pair")]
    table = empty_table(material, known, 12, "components", "All components, without k-means", columns)
    if why := why_left_out(material, known):
        return without(table, why)
    pairs = list(combinations(known.indices, 2))
    most = max(material.glyph_counts[material.described[index]] for index in known.indices)
    settings = material.settings
    if len(pairs) > settings.component_pairs or most > settings.bound_components:
        return without(
            table,
            f"{len(pairs)} pairs of up to {most} letters would take too long (at most {settings.component_pairs} pairs "
            f"of {settings.bound_components} letters)",
        )
    arrays = _all_pairs(material, pairs)
    contenders: list[Contender] = []
    for method, name in (("bob-transport", "OT"), ("bob-chamfer", "Chamfer")):
        labels = {"method": f"{name}, bags", "name": method}
        contenders.append(contend(labels, lambda method=method: by_seed(material, method)[:1], known))  # type: ignore[misc]
        matrix = arrays[name]
        labels = {"method": f"{name}, all components", "name": f"{method} components"}
        contenders.append(contend(labels, lambda matrix=matrix: [matrix], known))  # type: ignore[misc]
    rows = score_rows(contenders, [None, 0, None, 2])
    for row, name in ((rows[1], "OT"), (rows[3], "Chamfer")):
        row["ms"] = float(arrays[f"{name} seconds"] * 1000 / len(pairs))
    hours = rows[1]["ms"] / 3.6e6 * PAPER_IMAGES * (PAPER_IMAGES - 1) / 2
    return replace(
        table,
        rows=rows,
        reading="What clustering costs or gains: exact distances between all letters of two fragments, beside "
        "distances between their bags by the same encoder. The paper calls the former infeasible for a gallery.",
        notes=[
            f"One seed, one thread. All pairs of the paper's {PAPER_IMAGES} images would take {hours:.1f} hours by OT."
        ],
    )


def _all_pairs(material: Material, pairs: list[tuple[int, int]]) -> Arrays:
    key = {
        "encoder": material.encoder_path(material.main, FIRST_SEED).name,
        "glyphs": material.seen(material.main).digest,
        "described": material.described,
        "pairs": pairs,
        "clock": "thread",
    }

    def make() -> Arrays:
        embeddings, size = material.embeddings(material.main, FIRST_SEED), len(material.described)
        found: Arrays = {name: np.zeros((size, size)) for name in ("OT", "Chamfer")}
        seconds = {"OT": 0.0, "Chamfer": 0.0}
        others: dict[int, list[int]] = {}
        for a, b in pairs:
            others.setdefault(a, []).append(b)
        work = [(embeddings[a], [embeddings[b] for b in own]) for a, own in others.items()]
        with material.steps.step(COMPONENTS_STEP) as within:
            for (a, own), row in zip(others.items(), material.pool.each(_row, work, within), strict=True):
                for name, (values, spent) in row.items():
                    found[name][a, own] = found[name][own, a] = values
                    seconds[name] += spent
        return found | {f"{name} seconds": np.array(spent) for name, spent in seconds.items()}

    return material.work.kept("components", key, make)


def _row(work: tuple[Embeddings, Sequence[Embeddings]]) -> dict[str, tuple[list[float], float]]:
    """Measure one fragment against others by OT and Chamfer, with the seconds of each; runs in a worker process."""
    one, others = work
    found: dict[str, tuple[list[float], float]] = {}
    for name, measure in (("OT", transport_components), ("Chamfer", _chamfer)):
        started = time.thread_time()
        values = [measure(one, other) for other in others]
        found[name] = values, time.thread_time() - started
    return found


def _chamfer(a: Embeddings, b: Embeddings) -> float:
    distance = cdist(a.astype(np.float64), b.astype(np.float64))
    return float((distance.min(axis=0).mean() + distance.min(axis=1).mean()) / 2)
