"""The desk: cached while valid, computed again after a change, and without blocking requests."""

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from factories import batches, random_encoder, stored
from membra.errors import MembraError
from membra.show.holding import Holding
from membra.show.web import desk as desks
from membra.show.web import groups
from membra.show.web.candidates import EVERYTHING, likelihood_of, ranked, warm
from membra.show.web.desk import GOING_ON, Desk
from membra.show.web.translations import say
from membra.show.web.watch import Watch
from membra.store.batch import write_batch
from membra.store.collection import Collection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return stored(tmp_path / "shelf", range(12)).path


@pytest.fixture
def desk(path: Path, tmp_path: Path) -> Iterator[Desk]:
    opened = Desk(path, tmp_path / "cache")
    yield opened
    opened.close()


def test_long_work_is_done_once_and_waits_for_nothing_else(desk: Desk) -> None:
    go_on, done = threading.Event(), []

    def long() -> str:
        done.append(1)
        go_on.wait(20)
        return "long"

    assert desk.later("one", None, long, 0.05) == (GOING_ON, False)
    assert desk.later("two", None, lambda: "short", 10) == ("short", True)  # while the first is still running
    go_on.set()
    assert desk.later("one", None, long, 10) == ("long", True)
    assert done == [1]


def test_the_outcome_before_serves_while_another_is_made(desk: Desk, path: Path) -> None:
    go_on = threading.Event()
    assert desk.later("x", 1, lambda: "first", 10) == ("first", True)

    def second() -> str:
        go_on.wait(20)
        return "second"

    assert desk.later("x", 2, second, 0.05) == ("first", False)
    go_on.set()
    assert desk.later("x", 2, second, 10) == ("second", True)
    stored(path, range(12, 14))  # the collection changes: its results are computed again
    assert desk.later("x", 2, lambda: "third", 10) == ("third", True)


def test_an_error_of_the_work_is_reported_and_is_no_outcome(desk: Desk) -> None:
    def fail() -> None:
        raise MembraError("no")

    with pytest.raises(MembraError, match="no"):
        desk.later("x", 1, fail, 10)
    assert desk.later("x", 2, lambda: time.sleep(0.3), 0.01) == (GOING_ON, False)


def test_only_a_change_is_a_change(path: Path) -> None:
    watch = Watch(path)
    first = watch.now()
    for _ in range(3):  # readers open and close it, and SQLite checkpoints after the last
        Collection.open(path).entries()
        assert watch.now() == first
    stored(path, range(12, 14))
    second = watch.now()
    assert second != first
    Collection.open(path).entries()
    assert watch.now() == second
    Collection.open(path).remove(["0013.jpg"])
    assert watch.now() != second
    path.rename(path.with_name("away"))
    assert watch.now()[0] == 0
    path.with_name("away").rename(path)
    assert watch.now()[0] == first[0]
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    third = watch.now()
    assert third not in (first, second)
    watch.close()


def test_what_was_opened_stays_open_until_the_collection_is_another(desk: Desk, path: Path) -> None:
    before = desk.holding()
    assert desk.holding() is before
    stored(path, range(12, 20))
    after = desk.holding()
    assert after is not before
    assert after.collection is before.collection  # its mapped, checked shards are reused
    assert len(after.entries) == 20
    assert after.ranking("0013.jpg", 5).hits
    other = Collection.open(path)
    with other.writing() as writer:  # like `adapt`
        recipe = replace(other.recipe, encoder=random_encoder(8, seed=1).digest)
        made = [write_batch(path, batch) for batch in batches(path.parent, range(20), 20)]
        writer.replace(made, recipe)
    assert desk.holding().collection.recipe == recipe
    assert desk.holding().ranking("0013.jpg", 5).hits


def test_proposals_that_do_not_fit_into_memory_are_a_sentence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(_: object) -> None:
        raise MemoryError  # like NumPy

    monkeypatch.setattr(groups, "propose", too_many)
    page = groups.proposals_page(desk)
    assert (page.ready, page.problem) == (True, groups.NO_ROOM)
    assert say(page.problem, "he") != page.problem


def test_while_one_reads_a_change_the_others_do_not_wait(
    desk: Desk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = desk.holding()
    stored(path, range(12, 14))
    reading, go_on = threading.Event(), threading.Event()
    prepare = desks._prepare

    def slowly(holding: Holding) -> None:
        reading.set()
        go_on.wait(20)
        prepare(holding)

    monkeypatch.setattr(desks, "_prepare", slowly)
    first = threading.Thread(target=desk.holding)
    first.start()
    assert reading.wait(20)
    assert desk.holding() is before
    threading.Timer(0.2, go_on.set).start()
    assert desk.item("0013.jpg").id == "0013.jpg"  # an id that the former state does not have waits for the new one
    first.join()
    assert len(desk.holding().entries) == 14


def test_a_page_shows_no_candidate_that_was_added_since_it_was_begun(desk: Desk, path: Path) -> None:
    begun = desk.holding()
    known = set(begun.by_id)
    stored(path, range(12, 30))
    assert "0018.jpg" in desk.holding(newest=True).by_id
    hits, _ = ranked(desk, begun, desk.item("0000.jpg"), EVERYTHING, [], 60)
    found = {hit.id for hit in hits}
    assert found
    assert found <= known


@pytest.mark.alone
def test_work_in_the_background_waits_for_people_but_not_for_ever(desk: Desk) -> None:
    began = time.monotonic()
    desk.when_quiet(5)
    assert time.monotonic() - began < 1
    with desk.attending():
        began = time.monotonic()
        desk.when_quiet(0.4)
        assert 0.4 <= time.monotonic() - began < 2


def test_a_server_that_is_stopped_while_it_warms_up_is_quiet(path: Path, tmp_path: Path) -> None:
    desk = Desk(path, tmp_path / "cache")
    desk.close()
    warm(desk)  # would raise unnoticed in a thread
    with pytest.raises(MembraError, match="shutting down"):
        likelihood_of(desk)
