"""Proposed joins: what is glued together, what is kept apart, and the files."""

import csv
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from membra.cli import cli
from membra.find.proposals import Pair, Proposal, ProposalSettings, close_pairs, nearness, proposals_csv, propose_joins
from membra.store.collection import Collection


def apart(groups: list[list[int]], size: int, *, near: float = 1.0, far: float = 10.0) -> np.ndarray:
    """Distances `near` within each group and `far` elsewhere; groups may share members."""
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
    matrix[19, :] = matrix[:, 19] = 3.0  # a hub: nearer to all than they are to each other
    matrix[19, 19] = 0
    assert members(matrix) == [(0, 1, 2)]


def test_it_must_be_mutual() -> None:
    matrix = apart([[0, 1, 2, 3, 4]], 20)
    matrix[5, :5] = matrix[:5, 5] = 1.5  # 5 has them nearest, they have each other nearer
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


def test_csv_opens_in_a_spreadsheet_and_runs_nothing() -> None:
    proposal = Proposal((0, 1), (Pair(0, 1, 0.5, 0.25),), 0.25)
    text = proposals_csv([proposal], ["=cmd()", "אב.jpg"], ["-x/=cmd()", "+y"])
    assert text.startswith("\ufeffproposal,")
    first, second = csv.DictReader(StringIO(text.lstrip("\ufeff")))
    assert (first["fragment"], first["image"], first["nearest"]) == ("'=cmd()", "'-x/=cmd()", "אב.jpg")
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
