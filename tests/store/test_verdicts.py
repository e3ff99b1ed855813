"""Verdicts: no acknowledged entry is lost or deleted, and the verdict in force follows from the history."""

import sqlite3
import threading
from pathlib import Path

import pytest

from membra.errors import MembraError
from membra.store.verdicts import DISPUTED, FILE, SAYS, UNDO, Verdicts


def test_without_verdicts_there_is_nothing_and_no_file(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    assert [verdicts.standing(), verdicts.history(), verdicts.groups()] == [[], [], []]
    assert not (tmp_path / FILE).exists()


def test_a_verdict_is_kept_in_order_and_with_its_date(tmp_path: Path) -> None:
    given = Verdicts.open(tmp_path).give("b", "a", "join", by=" Rivka ", note=" same ink ")
    assert (given.a, given.b, given.says, given.by, given.note) == ("a", "b", "join", "Rivka", "same ink")
    assert given.at.endswith("+00:00")
    assert Verdicts.open(tmp_path).standing() == [given]


def test_the_last_verdict_holds_and_undo_brings_back_the_one_before(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    first = verdicts.give("a", "b", "unsure", by="x")
    second = verdicts.give("b", "a", "join", by="y")
    assert [v.says for v in verdicts.standing()] == ["join"]
    undo = verdicts.undo(second.number, by="x")
    assert (undo.says, undo.undoes) == (UNDO, second.number)
    assert [v.number for v in verdicts.standing()] == [first.number]
    verdicts.undo(first.number, by="x")
    assert verdicts.standing() == []
    assert [(v.says, v.undone) for v in verdicts.history("b", "a")] == [
        ("unsure", True),
        ("join", True),
        ("undo", False),
        ("undo", False),
    ]


def test_each_person_has_a_verdict_of_her_own(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    mine = verdicts.give("a", "b", "join", by="Rivka")
    verdicts.give("a", "b", "unsure", by="David")
    assert verdicts.standing() == [mine], "another's doubt takes nothing from who is sure"
    verdicts.give("a", "b", "unsure", by=" rivka ")
    (pair,) = verdicts.pairs().values()
    assert [(v.by, v.says) for v in pair.each] == [("David", "unsure"), ("rivka", "unsure")]
    assert pair.holds == pair.each[-1]


@pytest.mark.parametrize("against", ["no", "same hand"])
def test_who_contradict_each_other_leave_nothing_that_holds(tmp_path: Path, against: str) -> None:
    verdicts = Verdicts.open(tmp_path)
    verdicts.give("a", "b", "join", by="Rivka")
    verdicts.give("b", "c", "join", by="Rivka")
    other = verdicts.give("a", "b", against, by="David")
    assert verdicts.pairs()["a", "b"].says == DISPUTED
    assert [(v.a, v.b) for v in verdicts.standing()] == [("b", "c")]
    assert verdicts.groups() == [["b", "c"]]
    verdicts.undo(other.number, by="David")
    assert verdicts.groups() == [["a", "b", "c"]]
    assert len(verdicts.history()) == 4, "nothing was overwritten"


def test_no_and_same_hand_agree_that_it_is_no_join(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    verdicts.give("a", "b", "no", by="Rivka")
    verdicts.give("a", "b", "same hand", by="David")
    assert [v.says for v in verdicts.standing()] == ["same hand"]


def test_a_dispute_waits_for_whoever_has_not_answered_it(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)

    def waits() -> list[str]:
        return [name for name in ("Rivka", "David", "Noa") if verdicts.pairs()["a", "b"].waits_for(name)]

    verdicts.give("a", "b", "join", by="Rivka")
    assert waits() == []
    verdicts.give("a", "b", "no", by="David")
    assert waits() == ["Rivka", "Noa"], "David knew what Rivka said"
    verdicts.give("a", "b", "join", by="Rivka")
    assert waits() == ["Noa"], "both know, and stay with it: it is not thrown back and forth"
    verdicts.give("a", "b", "unsure", by="Rivka")
    assert waits() == []
    assert verdicts.pairs()["a", "b"].says == "no"


def test_who_is_unsure_of_a_dispute_has_answered_it(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)

    def waits(name: str) -> bool:
        return verdicts.pairs()["a", "b"].waits_for(name)

    verdicts.give("a", "b", "unsure", by="Ada")
    verdicts.give("a", "b", "join", by="Rivka")
    assert not waits("Ada"), "nobody disputes it yet"
    verdicts.give("a", "b", "no", by="David")
    assert waits("Ada"), "since she answered it has become disputed"
    verdicts.give("a", "b", "unsure", by="Noa")
    verdicts.give("a", "b", "unsure", by="Ada")
    assert not waits("Noa")
    assert not waits("Ada")
    verdicts.give("a", "b", "join", by="Rivka")
    assert not waits("Noa"), "Rivka says what she has said before"
    verdicts.give("a", "b", "same hand", by="Rivka")
    verdicts.give("a", "b", "join", by="David")
    assert waits("Noa"), "both have said something else since"


@pytest.mark.parametrize("number", [99, -1, 2**80])
def test_what_is_not_there_cannot_be_undone(tmp_path: Path, number: int) -> None:
    verdicts = Verdicts.open(tmp_path)
    verdicts.give("a", "b", "no", by="x")
    with pytest.raises(MembraError, match="there is no verdict"):
        verdicts.undo(number, by="x")


def test_nothing_is_undone_twice_and_no_undo_is_undone(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    given = verdicts.give("a", "b", "no", by="x")
    undo = verdicts.undo(given.number, by="x")
    for number in (given.number, undo.number):
        with pytest.raises(MembraError, match=r"already undone|is an undo"):
            verdicts.undo(number, by="x")


@pytest.mark.parametrize(("by", "note"), [(" ", ""), ("x" * 201, ""), ("x", "y" * 10_001)])
def test_an_undo_is_checked_like_a_verdict(tmp_path: Path, by: str, note: str) -> None:
    verdicts = Verdicts.open(tmp_path)
    given = verdicts.give("a", "b", "no", by="x")
    with pytest.raises(MembraError):
        verdicts.undo(given.number, by=by, note=note)
    assert verdicts.standing() == [given]


@pytest.mark.parametrize(
    ("a", "b", "says", "by"),
    [("a", "a", "join", "x"), ("a", "b", "yes", "x"), ("a", "b", "join", " "), ("a", "b", "join", "x" * 201)],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, a: str, b: str, says: str, by: str) -> None:
    with pytest.raises(MembraError):
        Verdicts.open(tmp_path).give(a, b, says, by=by)
    assert Verdicts.open(tmp_path).history() == []


def test_groups_are_what_joins_connect(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    for a, b, says in (("c", "b", "join"), ("a", "b", "join"), ("x", "y", "same hand"), ("p", "q", "join")):
        verdicts.give(a, b, says, by="x")
    assert verdicts.groups() == [["a", "b", "c"], ["p", "q"]]
    assert verdicts.joins() == {"a": "a", "b": "a", "c": "a", "p": "p", "q": "p"}


def test_history_of_one_fragment(tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path)
    verdicts.give("a", "b", "join", by="x")
    verdicts.give("b", "c", "no", by="x")
    assert [v.says for v in verdicts.history("b")] == ["join", "no"]
    assert [v.says for v in verdicts.history("c")] == ["no"]


def test_many_people_at_once_lose_nothing(tmp_path: Path) -> None:
    def work(who: int) -> None:
        for number in range(5):
            Verdicts.open(tmp_path).give(f"a{number}", f"b{who}", SAYS[number % 4], by=f"person {who}")

    people = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert len(Verdicts.open(tmp_path).history()) == 20
    assert len(Verdicts.open(tmp_path).standing()) == 20


def test_names_in_any_script_and_with_quotes(tmp_path: Path) -> None:
    a, b = "קטע 'א'\n<script>.jpg", "e\u0301/é; DROP TABLE.jpg"
    given = Verdicts.open(tmp_path).give(a, b, "join", by="רבקה", note="אותה יד")
    assert {given.a, given.b} == {a, b}
    assert Verdicts.open(tmp_path).history(a, b) == [given]


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all, but long enough to be read as one" * 40)
    with pytest.raises(MembraError, match="restore it from a copy"):
        Verdicts.open(tmp_path).standing()


def test_a_newer_format_is_not_misread(tmp_path: Path) -> None:
    Verdicts.open(tmp_path).give("a", "b", "join", by="x")
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(MembraError, match="newer membra"):
        Verdicts.open(tmp_path).standing()


def test_only_a_folder_can_hold_verdicts(tmp_path: Path) -> None:
    with pytest.raises(MembraError, match="not a collection"):
        Verdicts.open(tmp_path / "nowhere")
