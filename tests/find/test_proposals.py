"""Proposed joins: which fragments are grouped, which are kept apart, and the CSV file."""

import csv
import json
import shutil
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from membra.cli import cli
from membra.find.proposals import (
    Pair,
    Proposal,
    ProposalSettings,
    close_pairs,
    join_pairs,
    nearness,
    proposals_csv,
    propose,
    propose_joins,
)
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts


def apart(groups: list[list[int]], size: int, *, near: float = 1.0, far: float = 10.0) -> np.ndarray:
    """Make a matrix with distances `near` within each group and `far` elsewhere; groups may share members."""
    matrix = np.full((size, size), far)
    for group in groups:
        matrix[np.ix_(group, group)] = near
    np.fill_diagonal(matrix, 0)
    return matrix


def members(matrix: np.ndarray, **settings: float) -> list[tuple[int, ...]]:
    return [p.members for p in propose_joins(matrix, ProposalSettings(**settings))]  # type: ignore[arg-type]


def test_groups_are_found_and_strangers_stay_alone() -> None:
    matrix = apart([[0, 1, 2], [3, 4, 5, 6]], 20)
    assert sorted(members(matrix)) == [(0, 1, 2), (3, 4, 5, 6)]


def test_one_shared_fragment_does_not_glue_two_groups() -> None:
    assert sorted(members(apart([[0, 1, 2], [2, 3, 4]], 20))) == [(0, 1, 2), (2, 3, 4)]


def test_a_single_edge_does_not_glue_two_groups() -> None:
    matrix = apart([[0, 1, 2], [3, 4, 5]], 20)
    matrix[2, 3] = matrix[3, 2] = 2.0
    assert sorted(members(matrix)) == [(0, 1, 2), (2, 3), (3, 4, 5)]
    assert sorted(members(matrix, least=3)) == [(0, 1, 2), (3, 4, 5)]


def test_near_to_everything_is_not_enough() -> None:
    matrix = apart([[0, 1, 2]], 20)
    matrix[19, :] = matrix[:, 19] = 3.0  # a hub, nearer to all others than they are to each other
    matrix[19, 19] = 0
    assert members(matrix) == [(0, 1, 2)]


def test_it_must_be_mutual() -> None:
    matrix = apart([[0, 1, 2, 3, 4]], 20)
    matrix[5, :5] = matrix[:5, 5] = 1.5  # they are nearest to 5, but nearer to each other
    assert all(5 not in group for group in members(matrix, neighbours=4))


def test_the_closest_proposal_comes_first() -> None:
    matrix = apart([[0, 1], [2, 3]], 20)
    matrix[2, 3] = matrix[3, 2] = 0.5
    assert members(matrix) == [(2, 3), (0, 1)]


@pytest.mark.parametrize("size", [0, 1])
def test_too_few_to_propose_anything(size: int) -> None:
    assert propose_joins(np.zeros((size, size)), ProposalSettings()) == []


def test_equal_and_infinite_distances_propose_nothing() -> None:
    assert members(apart([], 8)) == []
    lost = np.full((5, 5), np.inf)
    np.fill_diagonal(lost, 0)
    assert close_pairs(lost, ProposalSettings()) == []


def test_nearness_divides_out_the_surroundings() -> None:
    matrix = apart([[0, 1]], 20, near=5.0)
    assert nearness(matrix, 10)[0, 1] == pytest.approx(0.5)
    assert nearness(matrix * 7, 10)[0, 1] == pytest.approx(0.5)


def edges(*pairs: tuple[int, int, float]) -> list[Pair]:
    return [Pair(a, b, near, near) for a, b, near in pairs]


def test_a_no_keeps_two_out_of_one_proposal() -> None:
    square = edges((0, 1, 0.1), (1, 2, 0.2), (2, 3, 0.3), (0, 3, 0.4), (0, 2, 0.15))
    assert [p.members for p in join_pairs(square, ProposalSettings())] == [(0, 1, 2, 3)]
    found = [p.members for p in join_pairs(square, ProposalSettings(), [(3, 1)])]  # the two have no edge
    assert found == [(0, 1, 2), (2, 3)]
    assert [p.members for p in join_pairs(square, ProposalSettings(), [(0, 2), (1, 3)])] == [(0, 1), (1, 2), (2, 3)]


def test_what_hangs_together_by_a_hub_is_broken_up() -> None:
    ring = [(i, i + 1, 0.1) for i in range(0, 60, 2)] + [(i, i + 1, 0.5) for i in range(1, 59, 2)] + [(0, 59, 0.6)]
    found = join_pairs(edges(*ring), ProposalSettings(largest=10))
    assert all(len(p.members) <= 10 for p in found)
    assert {(i, i + 1) for i in range(0, 60, 2)} <= {p.members for p in found}


def test_what_was_decided_is_respected(collection: Collection, tmp_path: Path) -> None:
    collection = Collection.open(shutil.copytree(collection.path, tmp_path / "copy"))
    settings = ProposalSettings(nearness=0.95)
    ids, before = propose(collection, settings=settings)
    first = next(p for p in before if p.gain)
    a, b = (ids[first.pairs[0].a], ids[first.pairs[0].b])
    verdicts = Verdicts.open(collection.path)
    verdict = verdicts.give(a, b, "no", by="x")
    after = propose(collection, settings=settings)[1]
    assert all(not {ids.index(a), ids.index(b)} <= set(p.members) for p in after)
    verdicts.undo(verdict.number, by="x")
    assert propose(collection, settings=settings)[1] == before
    members = [ids[index] for index in first.members]
    for other in members[1:]:
        verdicts.give(members[0], other, "join", by="x")
    last = propose(collection, settings=settings)[1][-1]
    assert (last.gain, last.why) == (0, "nothing new")


def test_csv_opens_in_a_spreadsheet_and_runs_nothing() -> None:
    proposal = Proposal((0, 1), (Pair(0, 1, 0.5, 0.25),), 0.25)
    text = proposals_csv([proposal], ["=cmd()", "אב.jpg"], ["-x/=cmd()", "+y"], [("=1", "Oxford"), ("", "")])
    assert text.startswith("\ufeffproposal,")
    first, second = csv.DictReader(StringIO(text.lstrip("\ufeff")))
    assert (first["fragment"], first["image"], first["nearest"]) == ("'=cmd()", "'-x/=cmd()", "אב.jpg")
    assert (first["shelfmark"], first["library"]) == ("'=1", "Oxford")
    assert (second["image"], second["nearest"], second["fragments"]) == ("'+y", "'=cmd()", "2")


def test_command(collection: Collection, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["propose", str(collection.path), "--json", "--nearness", "0.95"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    known = {entry.fragment.id for entry in collection.entries()}
    assert found["fragments"] == 12
    assert found["proposals"]
    for proposal in found["proposals"]:
        ids = {fragment["id"] for fragment in proposal["fragments"]}
        assert ids <= known
        assert {pair[end] for pair in proposal["pairs"] for end in "ab"} == ids
    file = tmp_path / "p.csv"
    assert CliRunner().invoke(cli, ["propose", str(collection.path), "--csv", str(file)]).exit_code == 0
    assert file.read_bytes().startswith(b"\xef\xbb\xbfproposal")
    assert CliRunner().invoke(cli, ["propose", str(collection.path)]).exit_code == 0
