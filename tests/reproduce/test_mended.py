"""Errors that a line-by-line comparison of the paper with the code found, one test each."""

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from membra import scribes
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, PAPER
from membra.describe.workers import Workers
from membra.errors import MembraError, TooFewLetters
from membra.find.proposals import Pair, Proposal
from membra.judge import printed
from membra.judge.evaluate import ask, outcomes
from membra.judge.metrics import score
from membra.reproduce import measurements, pictures
from membra.reproduce.experiments import Known
from membra.reproduce.labels import known_of, labels_of
from membra.reproduce.material import Material
from membra.reproduce.paper_pictures import join_groups, one_fragment
from membra.reproduce.runtime import grows, two_stage_query
from membra.reproduce.settings import ReproduceSettings
from membra.reproduce.steps import Steps
from membra.reproduce.work import Work
from membra.show import figures
from membra.sources.fragment import Fragment, fragments
from membra.train.training_glyphs import cut_letters

LEAVES = {"a": "1", "b": "1", "c": "2", "d": "2", "e": "3"}  # five fragments of one join and another, on three leaves


def five() -> tuple[Any, Known, dict[str, dict[str, str]], np.ndarray]:
    """Three described fragments and two that are not; `e` is of another join."""
    labels = {id: {"join": "y" if id == "e" else "x", "leaf": leaf} for id, leaf in LEAVES.items()}
    matrix = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]], dtype=float)
    described = ["a", "b", "e"]
    material = SimpleNamespace(
        fragments=[Fragment(id, Path(id)) for id in LEAVES],
        described=[list(LEAVES).index(id) for id in described],
    )
    known = Known([0, 1, 2], ask(described, [], labels, "leaf"), "", "leaf")
    return material, known, labels, matrix


def test_both_protocols_of_table_10_leave_out_the_same_leaf() -> None:
    material, known, labels, matrix = five()
    row = measurements.everything(material, known, labels, [matrix])
    whole = ask(["a", "b", "e"], ["c", "d"], labels, "leaf")
    assert row["asked"] == len(whole.queries()) == 4
    assert row["hit@1"] == score(outcomes(whole, matrix))["hit@1"] == 0.0
    free = ask(["a", "b", "e"], ["c", "d"], labels, None)
    assert score(outcomes(free, matrix))["hit@1"] == 0.5  # the score if a query may find its own leaf


def test_the_graph_counts_no_edge_between_cuts_of_one_leaf() -> None:
    proposals = [Proposal((0, 1, 2), (Pair(0, 1, 1.0, 0.1), Pair(0, 2, 2.0, 0.2)), 0.15)]
    barred = np.eye(3, dtype=bool)
    assert "Of 2 edges between labelled fragments, 1 connect mates." in pictures.graph_caption(
        proposals, ["x", "x", "y"], barred
    )
    barred[0, 1] = True  # one direction is enough
    said = pictures.graph_caption(proposals, ["x", "x", "y"], barred)
    assert "Of 1 edges between labelled fragments, 0 connect mates" in said
    assert "Not counted: 1 between fragments" in said
    drawn = figures.similarity_graph(np.zeros((3, 2)), proposals, ["x", "x", "y"], barred)
    assert [line.get_linestyle() for line in drawn.axes[0].lines] == [":", "--"]


def test_training_by_the_paper_leaves_out_what_the_paper_leaves_out(drawn: Path) -> None:
    found = fragments(drawn)
    with Workers(1) as pool:
        everything = cut_letters(found, MEMBRA, pool, most=300)
        counts = np.bincount(everything[1])
        least = int(np.sort(counts)[len(counts) // 2])
        patches, owners, pieces, refused = cut_letters(found, replace(MEMBRA, min_glyphs=least), pool, most=300)
    assert len(pieces) == (counts >= least).sum() < len(counts)
    assert len(pieces) + len(refused) == len(found)
    assert all(isinstance(reason, TooFewLetters) and f"fewer than {least}" in str(reason) for reason in refused)
    assert np.bincount(owners).min() >= least
    assert len(patches) == counts[counts >= least].sum()
    assert PAPER.min_glyphs == 200


def test_a_training_without_one_page_of_enough_letters_says_so(drawn: Path) -> None:
    with Workers(1) as pool, pytest.raises(MembraError, match="fewer than 9999"):
        cut_letters(fragments(drawn)[:2], replace(MEMBRA, min_glyphs=9999), pool, most=300)


def test_printed_hits_that_no_number_of_queries_explains_are_named() -> None:
    assert printed.odd_hits(printed.RETRIEVAL) == {"two-stage": ("hit@1", "hit@10")}
    for table in (printed.WORDS, printed.DIMENSIONS, printed.SPARSITY, printed.FIT):
        assert printed.odd_hits(table) == {}


def test_a_folder_a_join_needs_no_table(tmp_path: Path) -> None:
    for name in ("j1/a.png", "j1/b.png", "j2/deep/c.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = fragments(tmp_path)
    labels, why_not = labels_of(tmp_path, None, found)
    assert {id: row["join"] for id, row in labels.items()} == {
        "j1/a.png": "j1",
        "j1/b.png": "j1",
        "j2/deep/c.png": "j2",
    }
    assert why_not == ""


def test_a_table_with_joins_is_its_own_labels(tmp_path: Path) -> None:
    table = scribes.collection(tmp_path, manuscripts=2, fragments=4, letters=(20, 30), seed=1)
    labels, _ = labels_of(table, None, fragments(table))
    with table.open() as file:
        assert {id: row["join"] for id, row in labels.items()} == {r["image"]: r["join"] for r in csv.DictReader(file)}


def test_images_in_one_heap_need_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(MembraError, match="--joins"):
        labels_of(tmp_path, None, fragments(tmp_path))


def test_the_first_stage_is_timed_and_growth_is_measured() -> None:
    """Table 7: the time of the first stage is included, and growth is measured, not assumed."""
    histograms = np.eye(4)[[0, 0, 1, 2]] + 0.01
    asked: list[int] = []

    def distance(query: int, at: int) -> float:
        asked.append(at)
        return float(at)

    found = two_stage_query(histograms, 1, 2, distance)
    assert found == [0, 2]  # never itself, although its twin 0 has the same distance and sorts before it
    assert sorted(asked) == [0, 2]
    assert (grows(1.0, 16.0, 16), grows(1.0, 1.1, 16), grows(1.0, 2.5, 16)) == ("yes", "no", "partly")


def test_run_keeps_the_column_for_the_second_protocol(drawn: Path) -> None:
    material, _, labels, _ = five()
    material.fragments = [Fragment(id, Path(id)) for id in LEAVES]
    assert known_of(material, labels, "", "leaf").exclude_same == "leaf"


@pytest.mark.slow
def test_the_papers_own_two_figures(drawn: Path, tmp_path: Path, given: Path) -> None:
    out = tmp_path / "out"
    settings = replace(ReproduceSettings(), recipe=MEMBRA, words=(4,), rich_words=(), bound_pairs=2)
    material = Material(fragments(drawn), settings, Work(out), Steps(), encoder=Encoder.open(given))
    labels, _ = labels_of(drawn, None, fragments(drawn))
    for images in (join_groups(material, known_of(material, labels, "", None)), one_fragment(material)):
        assert images["png"].startswith(b"\x89PNG")
        assert b"<svg" in images["svg"][:2000]
    nobody = replace(known_of(material, labels, "", None), question=ask([], [], {}, None))
    with pytest.raises(MembraError, match="no join has two"):
        join_groups(material, nobody)
