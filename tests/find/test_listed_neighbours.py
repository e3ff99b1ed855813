"""Neighbours by a shortlist: those of such searches, entered both ways, with measured recall, never taken for exact."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from factories import stored
from membra.cli import cli
from membra.errors import Invalid
from membra.find import listed_neighbours as finding
from membra.find.inbox import inbox
from membra.find.listed_neighbours import both_ways, listed_neighbours
from membra.find.neighbours import neighbours, shortlisted
from membra.find.proposals import propose
from membra.find.search import search_many
from membra.store.collection import Collection
from membra.store.neighbour_lists import FOLDER, LISTS, NeighbourLists, read_listed, read_lists, write_lists
from membra.store.verify import verify

TOP = 6


@pytest.fixture
def some(tmp_path: Path) -> Collection:
    """70 fragments added in parts, two of them removed."""
    collection = stored(tmp_path / "C", range(70))
    collection.remove(["0003.jpg", "0040.jpg"])
    return collection


def pairs(lists: NeighbourLists) -> dict[int, dict[int, float]]:
    """Return for each fragment the numbers of its neighbours, with their scores."""
    return {
        number: {other: score for other, score in zip(which, scores, strict=True) if other}
        for number, which, scores in zip(
            lists.numbers.tolist(), lists.which.tolist(), lists.scores().tolist(), strict=True
        )
    }


def test_a_shortlist_of_all_finds_what_exact_searches_find(some: Collection) -> None:
    found = listed_neighbours(some, shortlist="67", top=TOP).lists
    ids = {entry.number: entry.fragment.id for entry in some.entries()}
    exact = search_many(some, list(ids.values()), top=TOP)
    for (number, own), one in zip(sorted(pairs(found).items()), exact, strict=True):
        assert {ids[other] for other in own} == {hit.id for hit in one.hits}, ids[number]
        assert list(own.values()) == pytest.approx([hit.distance for hit in one.hits], rel=1e-12)
    assert found.recall == 1.0
    assert found.sample == finding.SAMPLE


def test_the_recall_is_what_a_comparison_with_the_truth_gives(
    some: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "SAMPLE", 1000)  # every fragment, so that it is not an estimate
    found = listed_neighbours(some, shortlist="9", top=TOP).lists
    exact = neighbours(some, top=TOP).lists
    shares = [
        len({*own} & {*other.tolist()[:TOP]}) / TOP
        for own, other in zip(pairs(found).values(), exact.which, strict=True)
    ]
    assert found.recall == pytest.approx(np.mean(shares))
    assert 0.2 < found.recall < 1  # nine of 68 are compared: some are missed, but fewer than by chance
    assert found.listed == 9


def test_whoever_finds_another_is_found(some: Collection) -> None:
    lists = listed_neighbours(some, shortlist="9", top=TOP).lists
    found = pairs(lists)
    for number, own in found.items():
        assert list(own.values()) == sorted(own.values())
        for other, score in own.items():
            worst = max(found[other].values())
            assert number in found[other] or score >= worst - 1e-12
    before = lists.which.copy()
    both_ways(lists)
    assert np.array_equal(lists.which, before)  # nothing is entered twice


def test_nothing_takes_them_for_exact(some: Collection) -> None:
    listed_neighbours(some, shortlist="9", top=TOP)
    assert read_lists(some.path) is None
    folder = some.path / FOLDER
    shutil.copy(folder / "listed.json", folder / f"{LISTS}.json")  # not even under the name of exact ones
    assert read_lists(some.path) is None
    (folder / f"{LISTS}.json").unlink()
    done = neighbours(some, top=TOP)
    assert done.compared == 68
    assert read_listed(some.path) is not None  # still stored beside them
    assert not done.lists.listed
    assert shortlisted(some) is None  # the exact ones are better


def test_inbox_and_proposals_go_by_them_while_there_are_no_exact_ones(
    some: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {entry.number: entry.fragment.id for entry in some.entries()}
    lists = listed_neighbours(some, shortlist="30").lists
    near = {frozenset((ids[one], ids[other])) for one, own in pairs(lists).items() for other in own}
    monkeypatch.setattr("membra.find.neighbours._make", lambda *_: pytest.fail("all pairs were compared"))
    assert shortlisted(some) is not None
    found = inbox(some, top=200)
    assert found
    assert {frozenset((pair.a, pair.b)) for pair in found} <= near
    order, proposals = propose(some)
    assert {frozenset((order[pair.a], order[pair.b])) for one in proposals for pair in one.pairs} <= near
    with pytest.raises(pytest.fail.Exception):
        neighbours(some)  # `neighbours` itself returns exact ones


def test_a_collection_that_has_changed_has_none(some: Collection) -> None:
    listed_neighbours(some, shortlist="30", top=TOP)
    some.remove(["0007.jpg"])
    assert shortlisted(some) is None
    again = listed_neighbours(some, shortlist="30", top=TOP)
    assert (again.compared, again.begun_before) == (67, False)
    assert 8 not in again.lists.which  # the number of what was removed


@pytest.mark.parametrize("writes", [1, 2, 5])
def test_it_goes_on_where_it_was(some: Collection, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pairs(listed_neighbours(some, shortlist="9", top=TOP).lists)
    shutil.rmtree(some.path / FOLDER)
    monkeypatch.setattr(finding, "_KEPT_EVERY", 0.0)
    monkeypatch.setattr(finding, "_WRITING", 0)
    count = 0

    def killed(path: Path, lists: NeighbourLists) -> None:
        nonlocal count
        write_lists(path, lists)
        count += 1
        if count == writes:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finding, "write_lists", killed)
        with pytest.raises(KeyboardInterrupt):
            listed_neighbours(some, shortlist="9", top=TOP)
    assert shortlisted(some) is None  # not while it is half finished
    done = listed_neighbours(some, shortlist="9", top=TOP)
    assert (done.compared, done.begun_before) == (68 - writes, True)
    assert pairs(done.lists) == whole
    assert listed_neighbours(some, shortlist="9", top=TOP).compared == 0
    assert verify(some.path).wrong == []


def test_damaged_ones_are_made_again(some: Collection) -> None:
    listed_neighbours(some, shortlist="9", top=TOP)
    (file,) = (some.path / FOLDER).glob("listed-*")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert any("damaged" in line for line in [*verify(some.path).wrong, *verify(some.path).notes])
    assert listed_neighbours(some, shortlist="9", top=TOP).compared == 68


def test_what_is_no_shortlist(some: Collection) -> None:
    for shortlist in ("off", "0", "-3", "many"):
        with pytest.raises(Invalid):
            listed_neighbours(some, shortlist=shortlist)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_fragments(tmp_path: Path, count: int) -> None:
    lists = listed_neighbours(stored(tmp_path / "C", range(count)), top=TOP).lists
    assert len(lists) == count
    assert (lists.which > 0).sum() == (2 if count == 2 else 0)


def test_command(some: Collection) -> None:
    def run(*words: str) -> tuple[str, str]:
        done = CliRunner().invoke(cli, list(words), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout, done.stderr

    said, aside = run("neighbours", str(some.path), "--shortlist", "20")
    assert "68 newly compared" in said
    assert "they hold" in aside
    found = json.loads(run("neighbours", str(some.path), "--shortlist", "20", "--json")[0])
    assert (found["exact"], found["listed"], found["compared"]) == (False, 20, 0)
    assert 0 < found["recall"] <= 1
    assert "by a shortlist of 20" in run("inbox", str(some.path))[1]
    assert "by a shortlist of 20" in run("propose", str(some.path))[1]
    assert (
        CliRunner().invoke(cli, ["neighbours", str(some.path), "--shortlist", "9", "--device", "cuda"]).exit_code == 2
    )
