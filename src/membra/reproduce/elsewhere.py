"""Table 17: encoder and codebook trained on other manuscripts than the queried ones."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import CodebookSettings, compare_histograms, fit_codebook, weigh_codebook
from membra.describe.bag import make_bag
from membra.describe.encoder import Encoder
from membra.judge.evaluate import outcomes
from membra.judge.statistics import Runs
from membra.judge.tables import SHORT_SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import LEADERS, Known, empty_table, matrix_of, text_column, why_left_out, without
from membra.reproduce.material import Material, bag_matrix
from membra.reproduce.settings import BASE, FIRST_SEED, GIVEN
from membra.reproduce.work import Arrays
from membra.train.side_by_side import Training, train_all

ELSEWHERE_STEP = "training on other manuscripts"


def elsewhere(material: Material, known: Known) -> Table:
    """Split the manuscripts in two halves; query each with models trained on the other half and on all."""
    columns = [text_column("method"), text_column("trained on"), *SHORT_SCORES]
    title = "Encoder and codebook from other manuscripts"
    table = empty_table(material, known, 17, "elsewhere", title, columns)
    if why := why_left_out(material, known):
        return without(table, why)
    halves = _halves(known)
    if len(halves) < 2 or not any(known.question.among(half).queries() for half in halves):
        return without(table, "there are too few manuscripts to train on some and query others")
    paths = _train(material, known, halves)
    contenders: list[Contender] = []
    first = "the given encoder" if material.main is GIVEN else "all"
    for method, label in LEADERS.items():
        whole = matrix_of(material, FIRST_SEED, method)[np.ix_(known.indices, known.indices)]
        contenders.append(Contender({"method": label, "trained on": first}, _half_runs(known, halves, [whole, whole])))
        foreign = [_matrix(material, known, halves, at, paths[at], method) for at in (0, 1)]
        contenders.append(Contender({"method": label, "trained on": "others"}, _half_runs(known, halves, foreign)))
    return replace(
        table,
        rows=score_rows(contenders, [None, 0, None, 2]),
        reading="The paper trains its encoder and its codebook on the same images that it queries. Here each half of "
        "the manuscripts is queried with an encoder (and, for BoW, a codebook) trained only on the other half.",
        notes=[
            "Both rows of a method have the same queries, and the same half of the manuscripts as gallery, so scores "
            f"are higher than in table 1, whose gallery has all manuscripts. Seed {FIRST_SEED}."
        ],
    )


def _halves(known: Known) -> list[list[int]]:
    """Return the indices in the question of two random halves of the manuscripts."""
    names = np.array(sorted(set(known.question.joins)))
    order = np.random.default_rng(FIRST_SEED).permutation(len(names))
    sides = [set(names[order[: len(names) // 2]]), set(names[order[len(names) // 2 :]])]
    halves = [[at for at, join in enumerate(known.question.joins) if join in side] for side in sides]
    return [half for half in halves if half]


def _half_runs(known: Known, halves: list[list[int]], matrices: list[NDArray[np.float64]]) -> Runs:
    """Return one run: the queries of the first half, then of the second, each searched in its own half."""
    found = []
    for half, matrix in zip(halves, matrices, strict=True):
        found += outcomes(known.question.among(half), matrix[np.ix_(half, half)])
    return [found]


def _train(material: Material, known: Known, halves: list[list[int]]) -> list[Path]:
    """Return the encoder for the queries of each half, trained on the fragments of the other half."""
    glyphs = material.work.path("glyphs", material.glyphs_key(BASE), ".npz")
    trainings = []
    for at in (0, 1):
        others = tuple(material.described[known.indices[index]] for index in halves[1 - at])
        settings = material.training(BASE, FIRST_SEED)
        key = {"glyphs": material.seen(BASE).digest, "described": others, "training": asdict(settings)}
        trainings.append(Training(glyphs, others, settings, material.work.path("encoder", key, ".onnx")))
    if not all(training.out.exists() for training in trainings):
        with material.steps.step(ELSEWHERE_STEP) as progress:
            train_all(trainings, device=material.device, progress=progress)
    return [training.out for training in trainings]


def _matrix(
    material: Material, known: Known, halves: list[list[int]], at: int, path: Path, method: str
) -> NDArray[np.float64]:
    """Return distances (n, n) of the question's fragments, finite within half `at`; models are from the other half."""
    settings, codebook = material.bag_settings(FIRST_SEED), CodebookSettings(seed=FIRST_SEED, restarts=3)
    key = {
        "encoder": path.name,
        "asked": [known.indices[index] for index in halves[at]],
        "bag": asdict(settings),
        "words": asdict(codebook),
        "method": method,
    }

    def make() -> Arrays:
        encoder, seen = Encoder.open(path), material.seen(BASE)
        patches = [seen.glyphs[material.described[index]].patches for index in known.indices]
        matrix = np.full((len(patches), len(patches)), np.inf)
        own, others = halves[at], halves[1 - at]
        embeddings = {index: encoder.encode(patches[index]) for index in (*own, *others)}
        if method == "bob-chamfer":
            inner = bag_matrix([make_bag(embeddings[index], settings) for index in own], method)
        else:
            there, here = ([embeddings[index] for index in side] for side in (others, own))
            counts = [np.ones(len(one)) for one in there]
            fitted = weigh_codebook(there, counts, fit_codebook(there, counts, codebook))
            rows = np.array([fitted.histogram(one, np.ones(len(one))) for one in here])
            inner = compare_histograms(rows, rows, "chi2")
        matrix[np.ix_(own, own)] = inner
        return {"matrix": matrix}

    return material.work.kept("elsewhere", key, make)["matrix"]
