"""Doubtful fragments can be queries and candidates, but never serve as references for others."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from factories import outcome, random_encoder, stored
from membra.cli import cli
from membra.describe.recipe import Description
from membra.find.inbox import inbox
from membra.find.proposals import ProposalSettings, propose
from membra.find.search import search
from membra.judge.evaluate import evaluate
from membra.store import manifest
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

SURE, DOUBTFUL = range(24), range(40, 52)
LOOSE = ProposalSettings(nearness=1.2)


def doubt(one: Outcome) -> Outcome:
    fragment, digest, description = one
    assert isinstance(description, Description)
    return fragment, digest, replace(description, note="few letters, doubtful", legibility=0.2)


def with_doubtful(path: Path, seeds: Iterable[int]) -> Collection:
    """Add fragments like `stored`, marked as doubtful; they are near to those of the same hand."""
    collection = Collection.open(path) if path.exists() else Collection.create(path, encoder=random_encoder(8))
    with collection.writing() as writer:
        writer.store(write_batch(path, [doubt(outcome(path.parent, seed)) for seed in seeds]))
    return collection


@pytest.fixture
def mixed(tmp_path: Path) -> Collection:
    return with_doubtful(stored(tmp_path / "mixed", SURE).path, DOUBTFUL)


@pytest.fixture
def sure(tmp_path: Path) -> Collection:
    return stored(tmp_path / "sure", SURE)


def test_they_are_found_and_searched_for(mixed: Collection) -> None:
    for query in ("0003.jpg", "0040.jpg"):
        hits = search(mixed, query, top=100).hits
        assert len(hits) == 35
        assert {hit.note for hit in hits if int(hit.id[:4]) >= 40} == {"few letters, doubtful"}
    listed = json.loads(CliRunner().invoke(cli, ["list", str(mixed.path), "--json"]).stdout)
    assert [row["note"] for row in listed[22:26]] == ["", "", "few letters, doubtful", "few letters, doubtful"]


@pytest.mark.parametrize("method", ["bob-local", "fused"])
def test_they_are_no_measure_for_others(mixed: Collection, sure: Collection, method: str) -> None:
    """They are neither references nor neighbours: the distances of others do not depend on them."""
    entries = mixed.entries()
    with manifest.connect(mixed.path) as database:
        chosen = set(manifest.reference_numbers(database, 2000).tolist())
    assert chosen == {entry.number for entry in entries if not entry.doubtful}
    for query in ("0000.jpg", "0007.jpg", "0023.jpg"):
        alone = {hit.id: hit.distance for hit in search(sure, query, top=100, method=method).hits}
        among = {hit.id: hit.distance for hit in search(mixed, query, top=100, method=method).hits}
        assert {id: among[id] for id in alone} == pytest.approx(alone, rel=1e-6)
    assert mixed.verify().notes == []


def test_removing_the_doubt_makes_references_of_them(mixed: Collection, tmp_path: Path) -> None:
    both = stored(tmp_path / "both", [*SURE, *DOUBTFUL])
    stored(mixed.path, DOUBTFUL)  # described again, and now legible
    ours, theirs = (search(one, "0000.jpg", top=100).hits for one in (mixed, both))
    assert [hit.id for hit in ours] == [hit.id for hit in theirs]
    assert [hit.distance for hit in ours] == pytest.approx([hit.distance for hit in theirs], rel=1e-6)


@pytest.mark.parametrize("method", ["default", "fused"])
def test_they_are_not_proposed(mixed: Collection, sure: Collection, method: str) -> None:
    """Neither where neighbours are kept nor where all fragments are compared with all."""
    ids, found = propose(mixed, method=method, settings=LOOSE)
    assert ids == [entry.fragment.id for entry in sure.entries()]
    expected = propose(sure, method=method, settings=LOOSE)[1]
    assert len(expected) > 0
    assert [proposal.members for proposal in found] == [proposal.members for proposal in expected]
    np.testing.assert_allclose([one.nearness for one in found], [one.nearness for one in expected], rtol=1e-6)
    done = CliRunner().invoke(cli, ["propose", str(mixed.path), "--json"])
    assert {key: json.loads(done.stdout)[key] for key in ("fragments", "doubtful")} == {"fragments": 24, "doubtful": 12}
    assert "12 doubtful ones left out" in CliRunner().invoke(cli, ["propose", str(mixed.path)]).stdout


def test_they_are_not_asked_about(mixed: Collection) -> None:
    """The inbox asks for no verdict on what may be no writing."""
    doubtful = {entry.fragment.id for entry in mixed.entries() if entry.doubtful}
    found = inbox(mixed, top=1000)
    assert len(found) > 20
    assert not doubtful & {id for pair in found for id in (pair.a, pair.b)}


def test_they_are_scored_all_the_same(mixed: Collection, tmp_path: Path) -> None:
    """Otherwise marking hard fragments as doubtful would improve the score."""
    table = tmp_path / "joins.csv"
    table.write_text("image,join\n" + "".join(f"{seed:04d}.jpg,{seed % 3}\n" for seed in (*SURE, *DOUBTFUL)))
    assert evaluate(mixed, table)["queries"] == 36


def test_where_all_are_doubtful_there_is_still_a_ranking(tmp_path: Path) -> None:
    collection = with_doubtful(tmp_path / "C", range(6))
    for method in ("bob-local", "fused", "bob-chamfer"):
        assert len(search(collection, "0000.jpg", method=method).hits) == 5
    assert propose(collection) == ([], [])
    table = tmp_path / "joins.csv"
    table.write_text("image,join\n" + "".join(f"{seed:04d}.jpg,{seed % 3}\n" for seed in range(6)))
    assert evaluate(collection, table)["queries"] == 6
