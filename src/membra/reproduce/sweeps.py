"""Tables 14 and 15: sweeps of the settings that the paper fixes (K_g, M), and other encoders with the same bags."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import CodebookSettings, compare_histograms
from membra.compare.methods import SHORTLIST, fit_vocabulary, two_stage
from membra.compare.pooling import compare_vectors, pool
from membra.describe.bag import make_bag
from membra.describe.encoder import Encoder
from membra.judge.tables import SHORT_SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import Known, by_seed, contend, empty_table, text_column, why_left_out, without
from membra.reproduce.material import Material, bag_matrix
from membra.reproduce.settings import BASE, FIRST_SEED, GIVEN
from membra.reproduce.work import Arrays

SWEEP_STEP, ENCODERS_STEP = "sweeping K_g and M", "other encoders"
CODEBOOKS = (25, 50, 100, 200, 400)  # K_g; the paper has 100
SHORTLISTS = (5, 10, 20, 30, 45)  # M; the paper has 30
_FITTED = 20_000  # patches to which the PCA is fitted
Embeddings = Callable[[], list[NDArray[np.float32]]]


def sweep(material: Material, known: Known) -> Table:
    """Return table 14: K_g of both bags of words, and M of two-stage, each against the paper's value."""
    columns = [text_column("setting"), text_column("value"), *SHORT_SCORES]
    table = empty_table(material, known, 14, "sweep", "The codebook's size K_g and the shortlist's length M", columns)
    if why := why_left_out(material, known):
        return without(table, why)
    contenders: list[Contender] = []
    references: list[int | None] = []
    with material.steps.step(SWEEP_STEP) as within:
        for kind, measure, name in (
            ("raw", "chi2", "BoW-RawPatches-χ²"),
            ("centroids", "cosine", "BoW-centroids-Cosine"),
        ):
            start = len(contenders)
            for count in CODEBOOKS:
                labels = {"setting": f"K_g, {name}", "value": str(count)}
                contenders.append(contend(labels, partial(_by_vocabulary, material, kind, measure, count), known))
                within(len(contenders), 2 * len(CODEBOOKS) + len(SHORTLISTS))
            references += [start + CODEBOOKS.index(100)] * len(CODEBOOKS)
        start = len(contenders)
        for count in SHORTLISTS:
            labels = {"setting": "M, BoW-Cosine → BoB-OT", "value": str(count)}
            contenders.append(contend(labels, partial(_two_stage, material, count), known))
            within(len(contenders), 2 * len(CODEBOOKS) + len(SHORTLISTS))
        references += [start + SHORTLISTS.index(SHORTLIST)] * len(SHORTLISTS)
    return replace(
        table,
        rows=score_rows(contenders, references),
        reading="Do the paper's K_g = 100 and M = 30 decide its comparisons? Each value is tested against the paper's.",
        notes=[f"Seed {FIRST_SEED}. The codebooks of this table have one start of k-means each, those of table 1 ten."],
    )


def encoders(material: Material, known: Known) -> Table:
    """Return table 15: the gain from training the encoder, with the same bags and with mean pooling."""
    columns = [text_column("encoder"), text_column("compared by"), *SHORT_SCORES]
    table = empty_table(material, known, 15, "encoders", "Raw pixels, PCA, an untrained encoder", columns)
    if why := why_left_out(material, known):
        return without(table, why)
    ways: dict[str, Embeddings] = {
        "raw pixels, 16 × 16": lambda: [_pixels(patches) for patches in _patches(material)],
        "PCA of the patches, 128": lambda: _principal(_patches(material)),
        "the autoencoder untrained": lambda: _untrained(material),
    }
    contenders: list[Contender] = []
    references: list[int | None] = []
    with material.steps.step(ENCODERS_STEP) as within:
        for method, label in (("bob-chamfer", "BoB-Chamfer"), ("pool-mean-cosine", "MeanPool-Cosine")):
            start = len(contenders)
            trained = "the given encoder" if material.main is GIVEN else "the autoencoder, trained"
            labels = {"encoder": trained, "compared by": label}
            contenders.append(contend(labels, partial(by_seed, material, method), known))
            for name, make in ways.items():
                labels = {"encoder": name, "compared by": label}
                contenders.append(contend(labels, partial(_encoded, material, name, make, method), known))
                within(len(contenders), 2 * (1 + len(ways)))
            references += [start] * (1 + len(ways))
    return replace(
        table,
        rows=score_rows(contenders, references),
        reading="How much of the accuracy comes from the trained encoder, and how much from the bags: the same bags of "
        "simpler embeddings of the same letters, each tested against the trained encoder.",
        notes=[f"The simpler embeddings have one seed, {FIRST_SEED}."],
    )


def _by_vocabulary(material: Material, kind: str, measure: str, count: int) -> list[NDArray[np.float64]]:
    settings = CodebookSettings(words=count, restarts=1, seed=FIRST_SEED)
    key = material.recipe_key(material.main, FIRST_SEED) | {
        "bag": asdict(material.bag_settings(FIRST_SEED)),
        "words": asdict(settings),
        "kind": kind,
        "measure": measure,
    }

    def make() -> Arrays:
        histograms = fit_vocabulary(material.descriptions(FIRST_SEED), kind, settings).histograms
        return {"matrix": compare_histograms(histograms, histograms, measure)}

    return [material.work.kept("sweep", key, make)["matrix"]]


def _two_stage(material: Material, count: int) -> list[NDArray[np.float64]]:
    key = material.recipe_key(material.main, FIRST_SEED) | {
        "bag": asdict(material.bag_settings(FIRST_SEED)),
        "shortlist": count,
    }

    def make() -> Arrays:
        bags, near = material.bags(material.main, FIRST_SEED), material.baseline(FIRST_SEED, "bow-centroids-cosine")
        same, among = range(len(bags)), material.among
        return {"matrix": two_stage(bags, bags, near, same=same, either_way=True, shortlist=count, among=among)}

    return [material.work.kept("sweep", key | material.among_key(), make)["matrix"]]


def _encoded(material: Material, name: str, make: Embeddings, method: str) -> list[NDArray[np.float64]]:
    settings = material.bag_settings(FIRST_SEED)
    key: dict[str, object] = {"glyphs": material.seen(BASE).digest, "described": material.described, "encoder": name}

    def bob() -> Arrays:
        return {"matrix": bag_matrix([make_bag(one, settings) for one in make()], "bob-chamfer")}

    def pooled() -> Arrays:
        means = np.array([pool(one, "mean") for one in make()])
        return {"matrix": compare_vectors(means, means, "cosine")}

    key |= {"bag": asdict(settings)} if method == "bob-chamfer" else {"pooled": method}
    return [material.work.kept("encoded", key, bob if method == "bob-chamfer" else pooled)["matrix"]]


def _patches(material: Material) -> list[NDArray[np.uint8]]:
    seen = material.seen(BASE)
    return [seen.glyphs[index].patches for index in material.described]


def _pixels(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    small = [cv2.resize(patch, (16, 16), interpolation=cv2.INTER_AREA).reshape(-1) for patch in patches]
    return np.asarray(np.array(small) / 255, np.float32)


def _principal(fragments: Sequence[NDArray[np.uint8]]) -> list[NDArray[np.float32]]:
    from sklearn.decomposition import PCA

    flat = [patches.reshape(len(patches), -1).astype(np.float32) / 255 for patches in fragments]
    pooled = np.concatenate(flat)
    draw = np.random.default_rng(FIRST_SEED)
    chosen = pooled if len(pooled) <= _FITTED else pooled[np.sort(draw.choice(len(pooled), _FITTED, replace=False))]
    found = PCA(min(128, *chosen.shape), svd_solver="randomized", random_state=FIRST_SEED).fit(chosen)
    return [np.asarray(found.transform(one), np.float32) for one in flat]


def _untrained(material: Material) -> list[NDArray[np.float32]]:
    from membra.train.autoencoder import TrainSettings, train_autoencoder

    path = material.work.path("untrained", {"seed": FIRST_SEED}, ".onnx")
    if not path.exists():
        blank = np.zeros((1, 64, 64), np.uint8)
        train_autoencoder(blank, path, TrainSettings(epochs=0, seed=FIRST_SEED), device="cpu")
    encoder = Encoder.open(path)
    return [encoder.encode(patches) for patches in _patches(material)]
