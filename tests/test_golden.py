"""The `paper` recipe reproduces the numbers of the authors' published code."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from membra.compare.codebook import (
    CodebookSettings,
    Vocabulary,
    compare_histograms,
    fit_codebook,
    term_frequencies,
    weigh_codebook,
)
from membra.compare.distance import chamfer, hungarian, transport
from membra.compare.methods import two_stage
from membra.compare.pooling import compare_vectors, pool
from membra.describe.bag import Bag, make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import PAPER, pick
from membra.judge.evaluate import ask, evaluate, outcomes
from membra.judge.metrics import score
from membra.sources.fragment import Fragment, fragments
from membra.store.index import index

Golden = dict[str, NDArray[Any]]
Measure = Callable[[Bag, Bag], float]

NEAR = 1e-4
PAGES = range(6)  # those with boxes and embeddings

ROWS = {
    "BoB-Chamfer": "bob_chamfer",
    "BoB-Hungarian": "bob_hungarian",
    "BoB-OT": "bob_transport",
    "BoW-Centroids-Cosine + BoB-OT rerank (top-30)": "two_stage",
    **{
        f"BoW-{title}-{measure}": f"bow_{kind}_{measure.lower()}"
        for title, kind in (("Centroids", "centroids"), ("RawPatches", "raw"))
        for measure in ("L2", "Cosine", "Chi2", "Hellinger")
    },
    **{
        f"Page-{title}Pool-{measure}": f"pool_{title.lower()}_{measure.lower()}"
        for title in ("Mean", "Max")
        for measure in ("L2", "Cosine")
    },
}
COLUMNS = {"Hit@1": "hit@1", "mAP@1": "map@1", "Hit@5": "hit@5", "mAP@5": "map@5", "Hit@10": "hit@10"}
COLUMNS |= {"mAP@10": "map@10", "MRR": "mrr", "MacroF1@1": "macro_f1@1"}


@pytest.fixture
def golden(shared: Path) -> Golden:
    with np.load(shared / "golden" / "published_code.npz", allow_pickle=False) as archive:
        return dict(archive)


@pytest.fixture
def bags(golden: Golden) -> list[Bag]:
    return [
        Bag(p, c, np.repeat(np.arange(len(c)), c)) for p, c in zip(golden["prototypes"], golden["counts"], strict=True)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_boxes_embeddings_and_bag_of_a_page(page: int, golden: Golden, bags: list[Bag], shared: Path) -> None:
    name = str(golden["pages"][page])
    glyphs = pick(Fragment(name, shared / "data" / "hebrew-binary" / name), PAPER)[1].glyphs
    np.testing.assert_array_equal(glyphs.boxes, golden[f"boxes_{page}"])
    embeddings = Encoder.open(shared / "golden" / "autoencoder.safetensors").encode(glyphs.patches)
    np.testing.assert_allclose(embeddings, golden[f"embeddings_{page}"], atol=NEAR)
    bag = make_bag(golden[f"embeddings_{page}"], PAPER.bag)
    np.testing.assert_allclose(bag.prototypes, bags[page].prototypes, atol=NEAR)
    np.testing.assert_allclose(bag.weights, bags[page].weights, atol=NEAR)


@pytest.mark.parametrize("measure", [chamfer, hungarian, transport], ids=lambda measure: measure.__name__)
def test_bag_distances(measure: Measure, golden: Golden, bags: list[Bag]) -> None:
    expected = golden[f"bob_{measure.__name__}"]
    for i in range(len(bags)):
        for j in range(i + 1, len(bags)):
            assert measure(bags[i], bags[j]) == pytest.approx(expected[i, j], abs=NEAR)


def test_two_stage_from_the_golden_bags(golden: Golden, bags: list[Bag]) -> None:
    near = golden["bow_centroids_cosine"].astype(np.float64)
    found = two_stage(bags, bags, near, same=range(len(bags)), either_way=True)
    np.fill_diagonal(found, 0)
    np.testing.assert_allclose(found, golden["two_stage"], atol=NEAR)


def test_words_over_prototypes_from_the_golden_bags(golden: Golden, bags: list[Bag]) -> None:
    vectors = [bag.prototypes for bag in bags]
    counts = [counts.astype(np.float64) for counts in golden["counts"]]
    codebook = fit_codebook(vectors, counts, CodebookSettings())
    np.testing.assert_allclose(codebook, golden["bow_centroids_codebook"], atol=NEAR)
    vocabulary = weigh_codebook(vectors, counts, codebook)
    np.testing.assert_allclose(vocabulary.idf, golden["bow_centroids_idf"], atol=NEAR)
    histograms = np.array([vocabulary.histogram(v, c) for v, c in zip(vectors, counts, strict=True)])
    np.testing.assert_allclose(histograms / vocabulary.idf, golden["bow_centroids_tf"], atol=NEAR)
    for measure in ("l2", "cosine", "chi2", "hellinger"):
        found = compare_histograms(histograms, histograms, measure)
        np.testing.assert_allclose(found, golden[f"bow_centroids_{measure}"], atol=NEAR)


def test_words_over_raw_embeddings(golden: Golden) -> None:
    """With the golden codebook: term frequencies of the six pages, then every distance from the golden ones."""
    idf = golden["bow_raw_idf"].astype(np.float64)
    vocabulary = Vocabulary(golden["bow_raw_codebook"], idf, golden["bow_raw_tf"] * idf)
    for page in PAGES:
        embeddings = golden[f"embeddings_{page}"]
        found = term_frequencies(embeddings, np.ones(len(embeddings)), vocabulary.codebook)
        np.testing.assert_allclose(found, golden["bow_raw_tf"][page], atol=NEAR)
    documents = (golden["bow_raw_tf"] > 0).sum(axis=0)
    np.testing.assert_allclose(np.log(61 / (documents + 1)) + 1, vocabulary.idf, atol=NEAR)
    histograms = golden["bow_raw_tf"] * vocabulary.idf
    for measure in ("l2", "cosine", "chi2", "hellinger"):
        np.testing.assert_allclose(
            compare_histograms(histograms, histograms, measure), golden[f"bow_raw_{measure}"], atol=NEAR
        )


@pytest.mark.parametrize("measure", ["l2", "cosine"])
def test_pooling(measure: str, golden: Golden, bags: list[Bag]) -> None:
    """Max from the embeddings of six pages; mean from all bags, whose weighted mean equals that of the embeddings."""
    six = np.array([pool(golden[f"embeddings_{page}"], "max") for page in PAGES])
    np.testing.assert_allclose(compare_vectors(six, six, measure), golden[f"pool_max_{measure}"][:6, :6], atol=NEAR)
    means = np.array([bag.weights @ bag.prototypes for bag in bags])
    np.testing.assert_allclose(compare_vectors(means, means, measure), golden[f"pool_mean_{measure}"], atol=NEAR)
    for page in PAGES:
        np.testing.assert_allclose(pool(golden[f"embeddings_{page}"], "mean"), means[page], atol=NEAR)


@pytest.mark.parametrize("row", ROWS)
def test_scores_from_the_golden_matrices(row: str, golden: Golden, shared: Path) -> None:
    with (shared / "golden" / "retrieval_results.csv").open() as file:
        expected = {line["method"]: line for line in csv.DictReader(file)}[row]
    ids = [str(page) for page in golden["pages"]]
    question = ask(ids, [], {id: {"join": str(j)} for id, j in zip(ids, golden["labels"], strict=True)}, None)
    found = score(outcomes(question, golden[ROWS[row]].astype(np.float64)))
    for title, name in COLUMNS.items():
        assert found[name] == pytest.approx(float(expected[title]), abs=NEAR), title


@pytest.mark.slow
def test_index_and_evaluate_give_the_golden_table(shared: Path, tmp_path: Path) -> None:
    source = shared / "data" / "hebrew-binary"
    joins = tmp_path / "joins.csv"
    names = [path.relative_to(source).as_posix() for path in sorted(source.glob("*/*.png"))]
    joins.write_text("image,join\n" + "".join(f"{name},{name.split('/')[0]}\n" for name in names))
    encoder = Encoder.open(shared / "golden" / "autoencoder.safetensors")
    collection, added = index(fragments(source), tmp_path / "C", recipe=PAPER, encoder=encoder, workers=2)
    assert (added.described, len(added.refused)) == (60, 4)
    methods = {"bob-chamfer": "BoB-Chamfer", "bob-hungarian": "BoB-Hungarian", "bob-transport": "BoB-OT"}
    scores = evaluate(collection, joins, methods=list(methods), protocol="paper")
    with (shared / "golden" / "retrieval_results.csv").open() as file:
        table = {line["method"]: line for line in csv.DictReader(file)}
    assert scores["queries"] == 57
    for name, row in methods.items():
        assert scores["methods"][name]["hit@1"] == pytest.approx(float(table[row]["Hit@1"]), abs=1 / 57), name


def test_paper_recipe_is_the_papers() -> None:
    assert (PAPER.ink.threshold, PAPER.ink.letter_height, PAPER.parchment.find) == ("otsu", 0, False)
    assert (PAPER.glyphs.min_area, PAPER.glyphs.max_area, PAPER.glyphs.longest) == (300, 3000, 60)
    assert (PAPER.glyphs.box_white, PAPER.glyphs.patch_white, PAPER.glyphs.fit) == (0.05, 0.02, "fitpad")
    assert (PAPER.bag.words, PAPER.min_glyphs, PAPER.method) == (20, 200, "bob-chamfer")
    assert PAPER.bag.letters_per_word == 0
