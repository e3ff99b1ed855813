"""Proposals from the neighbour graph are those of the full matrix of distances."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import factories
from factories import stored
from membra.compare.methods import distances
from membra.describe.bag import Bag
from membra.describe.recipe import DOUBTFUL, Description
from membra.errors import MembraError
from membra.find import edges, usual
from membra.find.exact import nearest_rows
from membra.find.proposals import Proposal, ProposalSettings, close_pairs, join_pairs, nearness, propose
from membra.store.collection import Collection

SEEDS = range(90)
LOOSE = ProposalSettings(nearness=0.9)


@pytest.fixture(scope="module")
def half_sure(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """90 fragments of 30 hands, with noise that grows within each hand; every seventh is doubtful."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = factories.description

        def description(seed: int) -> Description:
            one, draw = drawn(seed // 3 * 3 % 11, letters=12), np.random.default_rng(seed)
            moved = one.bag.prototypes + draw.normal(0, 0.05 + 0.3 * (seed % 3), one.bag.prototypes.shape)
            bag = Bag(moved + seed // 3 % 4, one.bag.weights, one.bag.members, one.bag.error)
            return replace(one, bag=bag, note=DOUBTFUL if seed % 7 == 6 else "")

        patch.setattr(factories, "description", description)
        return stored(tmp_path_factory.mktemp("sure") / "C", SEEDS, size=30)


def by_matrix(collection: Collection, settings: ProposalSettings, leaves: bool = False) -> list[Proposal]:
    """Return the proposals from the full matrix of distances."""
    sure = [(entry, one) for entry, one in zip(*collection.described(), strict=True) if not entry.doubtful]
    descriptions, entries = [one for _, one in sure], [entry for entry, _ in sure]
    references = collection.references(entries)
    matrix = distances(descriptions, descriptions, "bob-local", same=range(len(descriptions)), references=references)
    values = edges.column_values(entries, "leaf" if leaves else None)
    return join_pairs(close_pairs(matrix, settings, (values[:, None] == values) & (values >= 0)[:, None]), settings)


def same(found: list[Proposal], expected: list[Proposal]) -> None:
    assert sorted(one.members for one in found) == sorted(one.members for one in expected)
    ours, theirs = (
        {(pair.a, pair.b): (pair.distance, pair.nearness) for one in all_ for pair in one.pairs}
        for all_ in (found, expected)
    )
    assert ours.keys() == theirs.keys()
    for pair, values in ours.items():
        assert values == pytest.approx(theirs[pair], rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [ProposalSettings(), LOOSE, replace(LOOSE, least=3), replace(LOOSE, neighbours=2), replace(LOOSE, around=3)],
    ids=str,
)
def test_as_from_the_matrix(half_sure: Collection, settings: ProposalSettings) -> None:
    ids, found = propose(half_sure, settings=settings)
    expected = by_matrix(half_sure, settings)
    assert expected, "nothing to compare"
    assert ids == [entry.fragment.id for entry in half_sure.entries() if not entry.doubtful]
    same(found, expected)


def test_lists_that_say_too_little_are_searched(
    half_sure: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list guarantees two neighbours, of which one may be doubtful and the other not close enough."""
    monkeypatch.setattr(edges, "TOP", 1)
    monkeypatch.setattr("membra.find.neighbours._MORE", 0)
    searched = []

    def search(*given: Any, **more: Any) -> Any:
        searched.append(given)
        return nearest_rows(*given, **more)

    monkeypatch.setattr(edges, "nearest_rows", search)
    settings = ProposalSettings(nearness=1.1, neighbours=4)
    alone = tmp_path / "C"
    shutil.copytree(half_sure.path, alone, ignore=shutil.ignore_patterns("neighbours"))
    found = propose(Collection.open(alone), settings=settings)[1]
    assert searched
    same(found, by_matrix(half_sure, settings))


def test_other_leaves_only(half_sure: Collection) -> None:
    found = propose(half_sure, settings=LOOSE, exclude_same="leaf")[1]
    expected = by_matrix(half_sure, LOOSE, leaves=True)
    assert expected
    same(found, expected)
    ids = propose(half_sure, settings=LOOSE)[0]
    leaf = {entry.fragment.id: entry.fragment.columns["leaf"] for entry in half_sure.entries()}
    assert all(leaf[ids[pair.a]] != leaf[ids[pair.b]] for one in found for pair in one.pairs)
    with pytest.raises(MembraError, match="no fragment has a column `shelf`"):
        propose(half_sure, exclude_same="shelf")


def test_by_another_method_too(half_sure: Collection) -> None:
    ids, found = propose(half_sure, settings=LOOSE, method="pool-mean-cosine", exclude_same="leaf")
    leaf = {entry.fragment.id: entry.fragment.columns["leaf"] for entry in half_sure.entries()}
    assert found
    assert all(leaf[ids[pair.a]] != leaf[ids[pair.b]] for one in found for pair in one.pairs)


def test_what_is_usual_is_the_median_that_nearness_takes(half_sure: Collection) -> None:
    matrix = np.random.default_rng(0).uniform(1, 2, (25, 25))
    np.fill_diagonal(matrix, np.inf)
    found = usual.usual_of(matrix, 10)
    assert nearness(matrix, 10)[3, 4] == matrix[3, 4] / min(found[3], found[4])


def test_what_is_usual_is_kept_and_measured_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = stored(tmp_path / "C", range(30))
    _, first = usual.usual_scores(collection)
    with monkeypatch.context() as patch:
        patch.setattr(usual, "chamfer_many", None)  # the stored scores are read
        assert np.array_equal(usual.usual_scores(collection)[1], first)
    stored(collection.path, range(30, 35))
    numbers, second = usual.usual_scores(collection)
    assert len(numbers) == 35
    assert (second[:30] != first).any()


def test_a_sample_says_about_the_same(half_sure: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = usual.usual_scores(half_sure)[1]
    monkeypatch.setattr(usual, "REFERENCES", 40)
    part = usual.usual_scores(half_sure)[1]
    assert (part != whole).any()
    assert np.median(np.abs(part / whole - 1)) < 0.1


def test_a_collection_without_anything_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = factories.description
    monkeypatch.setattr(factories, "description", lambda seed: replace(drawn(seed), note=DOUBTFUL))
    collection = stored(tmp_path / "C", range(4))
    assert propose(collection) == ([], [])


def test_proposals_by_another_method_leave_the_kept_neighbours(half_sure: Collection, tmp_path: Path) -> None:
    """The lists are of the recipe's own method, and may have taken a night."""
    path = tmp_path / "C"
    shutil.copytree(half_sure.path, path)
    own = Collection.open(path)
    propose(own)
    kept = {file.name: file.read_bytes() for file in (path / "neighbours").iterdir() if file.suffix}
    assert kept
    propose(own, method="bob-chamfer")
    assert {file.name: file.read_bytes() for file in (path / "neighbours").iterdir() if file.suffix} == kept
