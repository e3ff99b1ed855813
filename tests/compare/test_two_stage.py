"""The shortlist of `two-stage`: it has only fragments that may be candidates, wherever it is made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from factories import description, stored
from membra.compare import methods
from membra.compare.distance import transport
from membra.compare.methods import distances, two_stage
from membra.describe.encoder import Encoder
from membra.describe.recipe import SAUVOLA
from membra.find.search import search, search_many, search_together
from membra.judge.evaluate import ask, evaluate, outcomes
from membra.judge.joins import read_joins
from membra.judge.metrics import score
from membra.sources.fragment import fragments
from membra.store.collection import Collection

COUNT = 14
BAGS = [description(seed).bag for seed in range(COUNT)]
NEAR = np.random.default_rng(0).random((COUNT, COUNT))


@pytest.mark.parametrize("either_way", [False, True])
def test_what_may_not_be_a_candidate_takes_no_place(either_way: bool) -> None:
    """Left out before the cut, it is as if it were not in the gallery."""
    some = np.arange(0, COUNT, 2)
    among = np.zeros((COUNT, COUNT), dtype=bool)
    among[np.ix_(some, some)] = True
    found = two_stage(BAGS, BAGS, NEAR, same=range(COUNT), either_way=either_way, shortlist=3, among=among)
    own = [BAGS[index] for index in some]
    expected = two_stage(own, own, NEAR[np.ix_(some, some)], same=range(7), either_way=either_way, shortlist=3)
    assert np.array_equal(found[np.ix_(some, some)], expected)
    assert np.isinf(found[~among]).all()
    assert np.isfinite(found).sum() >= 3 * len(some)


@pytest.mark.parametrize("either_way", [False, True])
def test_nothing_changes_where_all_others_may_be_candidates(either_way: bool) -> None:
    options: dict[str, Any] = {"same": range(COUNT), "either_way": either_way, "shortlist": 3}
    plain = two_stage(BAGS, BAGS, NEAR, **options)
    for among in (np.ones((COUNT, COUNT), dtype=bool), ~np.eye(COUNT, dtype=bool)):
        assert np.array_equal(two_stage(BAGS, BAGS, NEAR, **options, among=among), plain)


def test_nobody_may_be_a_candidate() -> None:
    nobody = np.zeros((COUNT, COUNT), dtype=bool)
    assert np.isinf(two_stage(BAGS, BAGS, NEAR, same=range(COUNT), among=nobody)).all()


@pytest.mark.parametrize("shortlist", [1, 4])
def test_a_search_fills_its_shortlist_with_candidates(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, shortlist: int
) -> None:
    monkeypatch.setattr(methods, "SHORTLIST", shortlist)
    entries = collection.entries()
    joins = {entry.fragment.id: entry.fragment.columns["join"] for entry in entries}
    for id, join in joins.items():
        hits = search(collection, id, method="two-stage", exclude_same="join").hits
        assert len(hits) == shortlist
        assert join not in {joins[hit.id] for hit in hits}
    pair = [entry.fragment.id for entry in entries[:2]]
    together = search_together(collection, pair, method="two-stage").hits
    assert len(together) == shortlist
    assert not {hit.id for hit in together} & set(pair)
    numbers = [entry.number for entry in entries[5:]]
    hits = search_many(collection, pair, method="two-stage", numbers=numbers)[0].hits
    assert len(hits) == shortlist
    assert {hit.id for hit in hits} <= {entry.fragment.id for entry in entries[5:]}


@pytest.mark.parametrize("exclude_same", [None, "leaf"])
def test_evaluation_ranks_as_many_as_the_shortlist_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exclude_same: str | None
) -> None:
    """Compared with the two stages by hand, among the fragments that the joins file names."""
    monkeypatch.setattr(methods, "SHORTLIST", 4)
    collection = stored(tmp_path / "C", range(50))
    table = tmp_path / "joins.csv"
    rows = [f"{seed:04d}.jpg,{seed % 6},{seed % 4}" for seed in range(0, 50, 2)]
    table.write_text("\n".join(["image,join,leaf", *rows]))
    entries, found = collection.described()
    known = read_joins(table, [entry.fragment.id for entry in entries])
    labelled = [index for index, entry in enumerate(entries) if entry.fragment.id in known]
    question = ask([entries[index].fragment.id for index in labelled], [], known, exclude_same)
    near = distances(found, found, "bow-centroids-cosine", same=range(50))[np.ix_(labelled, labelled)]
    near[question.barred] = np.inf
    expected = np.full(near.shape, np.inf)
    for row, line in enumerate(near):
        for column in np.argsort(line, kind="stable")[:4]:
            expected[row, column] = transport(found[labelled[row]].bag, found[labelled[column]].bag)
    scores = evaluate(collection, table, exclude_same=exclude_same, methods=["two-stage"])
    assert scores["methods"]["two-stage"] == score(outcomes(question, expected))


def test_a_reproduction_leaves_out_the_same(
    drawn: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In tables 1 and 14; without a restriction neither the distances nor their cache keys change."""
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    from membra.reproduce import material as of_material
    from membra.reproduce.labels import known_of, labels_of
    from membra.reproduce.material import Material
    from membra.reproduce.settings import FIRST_SEED, ReproduceSettings
    from membra.reproduce.steps import Steps
    from membra.reproduce.sweeps import _two_stage
    from membra.reproduce.work import Work

    settings = ReproduceSettings(recipe=SAUVOLA, seeds=1)
    material = Material(fragments(drawn), settings, Work(tmp_path / "work"), Steps(), encoder=encoder)
    labels, _ = labels_of(drawn, None, material.fragments)
    count = len(material.described)
    assert known_of(material, labels, "", None).among(count) is None

    def short(*args: Any, **options: Any) -> NDArray[np.float64]:
        return two_stage(*args, **options | {"shortlist": 3})

    monkeypatch.setattr(of_material, "two_stage", short)
    free = material.baseline(FIRST_SEED, "two-stage")
    known = known_of(material, labels, "", "join")  # nobody's mates, so that no place may be taken by one
    material.among = known.among(count)
    assert material.among is not None
    joins = np.array(known.question.joins)
    for found in (material.baseline(FIRST_SEED, "two-stage"), _two_stage(material, 3)[0]):
        assert np.isinf(found[np.equal.outer(joins, joins)]).all()
        assert (np.isfinite(found).sum(axis=1) >= 3).all()
    material.among = None
    assert np.array_equal(material.baseline(FIRST_SEED, "two-stage"), free)
    assert np.isfinite(free[np.equal.outer(joins, joins)]).any()
