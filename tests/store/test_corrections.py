"""Corrections are kept for ever, applied whenever the photograph is described, undoable, and change nothing else."""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

import membra
from factories import random_encoder
from membra import scribes
from membra.cli import cli
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, SAUVOLA
from membra.errors import Busy, Incompatible, Invalid, MembraError, NotFound
from membra.find.neighbours import current, neighbours
from membra.find.search import search
from membra.sources.fix import Fix, fix_of
from membra.sources.fragment import fragments
from membra.sources.photograph import displayed_size
from membra.store.collection import Collection
from membra.store.corrections import FILE, Corrections
from membra.store.index import index
from membra.store.merge import merge
from membra.store.redescribe import redescribe
from membra.store.verdicts import Verdicts

TURN = fix_of("turn", 90)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Path:
    """Three leaves, and a plate with two pieces, described."""
    folder = tmp_path_factory.mktemp("corrected")
    (folder / "images").mkdir()
    camera = scribes.camera(1)
    drawn = [scribes.fragment(scribes.hand(hand), camera, letters=30, seed=hand).image for hand in range(3)]
    for name, image in zip(("a.png", "b.png", "c.png"), drawn, strict=True):
        cv2.imwrite(str(folder / "images" / name), image[..., ::-1])
    plate = scribes.plate([scribes.hand(5), scribes.hand(6)], camera, pieces=2, seed=3)
    cv2.imwrite(str(folder / "images" / "plate.png"), plate.image[..., ::-1])
    collection = Collection.create(folder / "C", encoder=encoder, recipe=MEMBRA)
    collection.add(fragments(folder / "images"))
    return folder


@pytest.fixture
def own(shelf: Path, tmp_path: Path) -> Collection:
    """A writable copy with its own images."""
    shutil.copytree(shelf / "images", tmp_path / "images")
    shutil.copytree(shelf / "C", tmp_path / "C")
    collection = Collection.open(tmp_path / "C")
    assert collection.add(fragments(tmp_path / "images")).described == 0  # only the paths differ
    return collection


def ids(collection: Collection) -> list[str]:
    return sorted(entry.fragment.id for entry in collection.entries())


def rankings(collection: Collection) -> dict[str, list[tuple[str, float]]]:
    found = {id: search(collection, id).hits for id in ids(collection)}
    return {id: [(hit.id, round(hit.distance, 6)) for hit in hits] for id, hits in found.items()}


ALL = ["a.png", "b.png", "c.png", "plate.png#1", "plate.png#2"]


def test_nothing_is_ever_deleted(tmp_path: Path) -> None:
    corrections = Corrections.open(tmp_path)
    assert corrections.history() == []
    assert not (tmp_path / FILE).exists()
    first, second = corrections.give("a.jpg", "a.jpg#1", "0f", [TURN, fix_of("pieces", "one")], by=" Rivka ", note="x")
    assert (first.number, second.number, first.by, first.note, first.value) == (1, 2, "Rivka", "x", 90.0)
    undo = corrections.undo(1, by="Dov")
    assert (undo.kind, undo.undoes, undo.photograph) == ("undo", 1, "a.jpg")
    assert [(one.number, one.undone) for one in corrections.history("a.jpg")] == [(1, True), (2, False), (3, False)]
    assert [one.number for one in corrections.standing()["a.jpg"]] == [2]
    assert corrections.history("b.jpg") == []
    with pytest.raises(Invalid, match="already undone"):
        corrections.undo(1, by="Dov")
    with pytest.raises(Invalid, match="is an undo"):
        corrections.undo(3, by="Dov")
    for number in (9, -1, 2**70):
        with pytest.raises(NotFound, match="there is no correction"):
            corrections.undo(number, by="Dov")
    with pytest.raises(Invalid, match="needs the name"):
        corrections.give("a.jpg", "a.jpg", "0f", [TURN], by=" ")
    with pytest.raises(Invalid, match="is not valid"):  # all or none
        corrections.give("a.jpg", "a.jpg", "0f", [TURN, Fix("crop", [1])], by="Dov")
    assert len(corrections.history()) == 3


def test_what_both_took_back_is_taken_over_once(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours, theirs = Corrections.open(tmp_path / "ours"), Corrections.open(tmp_path / "theirs")
    theirs.give("a.jpg", "a.jpg", "0f", [TURN], by="Rivka")
    ours.take(theirs.history())
    ours.undo(1, by="David")
    theirs.undo(1, by="Rivka")
    theirs.give("a.jpg", "a.jpg", "0f", [TURN], by="Rivka")
    for _ in range(2):
        assert ours.take(theirs.history()) == {1: 1, 2: 2, 3: 3}
        assert [(one.number, one.by, one.undone) for one in ours.history()] == [
            (1, "Rivka", True),
            (2, "David", False),
            (3, "Rivka", False),
        ]


def test_what_is_damaged_is_told_by_verify(own: Collection) -> None:
    Corrections.open(own.path).give("a.png", "a.png", "00", [TURN], by="R")
    with sqlite3.connect(own.path / FILE) as database:
        database.execute("UPDATE corrections SET value = '\"north\"'")
    database.close()
    (said,) = own.verify().wrong
    assert said.startswith(FILE)
    (own.path / FILE).write_bytes(b"no database at all, but long enough to be one" * 99)
    for beside in own.path.glob(f"{FILE}-*"):
        beside.unlink()
    (said,) = own.verify().wrong
    assert "restore it from a copy" in said


def test_a_corrected_fragment_is_what_a_fresh_collection_with_the_correction_has(
    own: Collection, tmp_path: Path
) -> None:
    listed = neighbours(own).lists
    before = {entry.fragment.id: entry for entry in own.entries()}
    boxes = own.description("a.png").boxes
    done = membra.correct(own, "a.png", turn=350, drop_letters=[0, boxes[5].tolist()], by="Rivka")
    assert (done.described, done.problem, done.fragments) == (True, "", ["a.png"])
    assert [one.kind for one in done.entries] == ["turn", "drop-letters"]
    after = {entry.fragment.id: entry for entry in own.entries()}
    assert after["a.png"].angle == 350.0
    assert after["a.png"].corrected == "1,2"
    assert after["a.png"].number > max(entry.number for entry in before.values()), "scales and neighbours notice"
    assert {id: after[id].number for id in ALL[1:]} == {id: before[id].number for id in ALL[1:]}
    assert not current(own, listed)
    assert current(own, neighbours(own).lists)
    verified = own.verify()
    assert (verified.wrong, verified.notes) == ([], [])
    fresh = Collection.create(tmp_path / "fresh", encoder=own.encoder(), recipe=MEMBRA)
    Corrections.open(fresh.path).take(Corrections.open(own.path).history())
    fresh.add(fragments(tmp_path / "images"))
    assert rankings(fresh) == rankings(own)


def test_it_holds_when_everything_is_described_anew_and_is_taken_back(own: Collection, tmp_path: Path) -> None:
    first = own.description("a.png")
    membra.correct(own, "a.png", turn=350, by="Rivka")
    assert own.add(fragments(tmp_path / "images")).unchanged == 5
    redescribe(own, random_encoder(seed=1))
    entry = own.entry("a.png")
    assert entry
    assert (entry.angle, entry.corrected) == (350.0, "1")
    done = membra.correct(own, "a.png", undo=1, by="Dov")
    assert [one.undoes for one in done.entries] == [1]
    now = own.description("a.png")
    np.testing.assert_array_equal(now.boxes, first.boxes)
    entry = own.entry("a.png")
    assert entry
    assert entry.corrected == ""


def test_what_was_not_described_again_is_noted_and_done_by_the_next_run(own: Collection, tmp_path: Path) -> None:
    """As after a kill between the two steps, or while another process is writing."""
    done = membra.correct(own, "a.png", turn=350, by="Rivka", describe=False)
    assert not done.described
    (note,) = own.verify().notes
    assert "1 photographs were corrected and not described again" in note
    assert own.add(fragments(tmp_path / "images")).described == 1
    assert own.description("a.png").angle == 350.0
    with own.writing():
        done = membra.correct(own, "b.png", turn=5, by="Rivka")
        assert "is writing to" in done.problem
        with pytest.raises(Busy):
            membra.correct(own, "b.png", by="")  # nothing to store, and nothing could be described
    assert membra.correct(own, "b.png", by="").described
    assert own.description("b.png").angle == 5.0


def test_a_resumed_run_does_not_take_what_was_described_before_the_correction(own: Collection) -> None:
    encoder = random_encoder(seed=2)
    recipe = replace(MEMBRA, encoder=encoder.digest)

    def stop(done: int, _: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        redescribe(own, encoder, recipe, resumable=True, progress=stop)
    membra.correct(own, "a.png", turn=350, by="Rivka")
    redescribe(own, encoder, recipe, resumable=True)
    assert own.description("a.png").angle == 350.0
    assert own.verify().notes == []


def test_pieces_are_split_and_joined_and_come_back(own: Collection) -> None:
    wide, high = displayed_size(own.path.parent / "images" / "a.png")
    done = membra.correct(own, "a.png", split=[[0, high // 2], [wide, high // 2]], by="R")
    assert done.fragments == ["a.png#1", "a.png#2"]
    halves = [own.description(id) for id in done.fragments]
    assert all(len(half.boxes) for half in halves)
    membra.correct(own, "a.png#2", turn=180, by="R")
    assert [own.description(id).angle == 180.0 for id in done.fragments] == [False, True]
    joined = membra.correct(own, "a.png#1", join=["a.png#2"], by="R")
    assert joined.fragments == ["a.png"]
    for number in (3, 2, 1):
        membra.correct(own, "a.png", undo=number, by="R")
    assert ids(own) == ALL
    one = membra.correct(own, "plate.png", pieces="one", by="R")
    assert one.fragments == ["plate.png"]
    assert own.verify().wrong == []
    assert membra.correct(own, "plate.png", undo=one.entries[0].number, by="R").fragments == ALL[3:]


def test_verdicts_on_pieces_that_are_numbered_anew_are_named(own: Collection) -> None:
    Verdicts.open(own.path).give("plate.png#2", "a.png", "join", by="R")
    wide, high = displayed_size(own.path.parent / "images" / "b.png")
    assert membra.correct(own, "b.png", split=[[0, high // 2], [wide, high // 2]], by="R").renumbered == []
    assert membra.correct(own, "plate.png#1", turn=10, by="R").renumbered == []
    joined = membra.correct(own, "plate.png#1", join=["plate.png#2"], by="R")
    assert joined.renumbered == [("a.png", "plate.png#2")]
    undone = CliRunner().invoke(
        cli, ["correct", str(own.path), "plate.png", "--undo", str(joined.entries[0].number), "--by", "R"]
    )
    assert "check 1 pairs with a verdict (first: a.png and plate.png#2)" in undone.stderr


def test_what_was_taken_out_by_hand_stays_out(own: Collection) -> None:
    own.remove(["plate.png#1"])
    assert membra.correct(own, "plate.png#2", turn=10, by="R").fragments == ["plate.png#2"]
    assert membra.correct(own, "plate.png#2", undo=1, by="R").fragments == ["plate.png#2"]
    redescribe(own, random_encoder(seed=1))
    assert ids(own) == [*ALL[:3], "plate.png#2"]
    assert own.verify().wrong == []


def test_no_other_piece_gets_the_number_of_one_whose_letters_all_go(own: Collection) -> None:
    count = len(own.description("plate.png#1").boxes)
    second = own.description("plate.png#2")
    done = membra.correct(own, "plate.png#1", drop_letters=list(range(count)), by="R")
    assert done.fragments == ALL[3:]
    entry = own.entry("plate.png#1")
    assert entry
    assert "removed by hand" in entry.refused
    np.testing.assert_array_equal(own.description("plate.png#2").boxes, second.boxes)
    outline = second.outline
    low, high = outline.min(axis=0).tolist(), outline.max(axis=0).tolist()
    membra.correct(own, "plate.png#2", paint_out=[[[max(0, low[0] - 9), max(0, low[1] - 9)], high]], by="R")
    entry = own.entry("plate.png#2")
    assert entry
    assert entry.refused


def test_it_is_for_these_very_bytes(own: Collection, tmp_path: Path) -> None:
    membra.correct(own, "a.png", turn=350, by="R")
    shutil.copy(tmp_path / "images" / "b.png", tmp_path / "images" / "a.png")
    own.add(fragments(tmp_path / "images"))
    entry = own.entry("a.png")
    assert entry
    assert entry.corrected == ""
    assert entry.angle != 350.0
    assert own.verify().notes == []
    (tmp_path / "images" / "b.png").unlink()
    done = membra.correct(own, "a.png", undo=1, by="R")
    assert done.described
    with pytest.raises(NotFound, match="the file is gone"):
        membra.correct(own, "b.png", turn=1, by="R")
    assert own.description("b.png").boxes.shape[0], "and it is as it was"


def test_what_makes_no_sense_is_one_line(own: Collection) -> None:
    own.remove(["c.png"])
    for id, what, said in (
        ("c.png", {"turn": 90}, "c.png is not in"),
        ("a.png", {"crop": [0, 0, 99999, 10]}, "outside the photograph"),
        ("a.png", {"paint_out": [[[-1, 0], [5, 5]]]}, "outside the photograph"),
        ("a.png", {"drop_letters": [1000]}, "there is no letter 1000"),
        ("a.png", {"drop_letters": [[0, 0, 2, 2]]}, "has no letter at 0,0,2,2"),
        ("a.png", {"join": ["b.png"]}, "is not a piece of a.png"),
        ("plate.png#1", {"join": ["plate.png#1"]}, "cannot be joined with itself"),
        ("a.png", {"join": ["x.png"]}, "x.png is not in"),
        ("a.png", {"undo": 7}, "there is no correction 7 of a.png"),
        ("a.png", {"up": "north"}, "the value of up is not valid"),
        ("a.png", {"turn": 90, "by": ""}, "needs the name"),
    ):
        with pytest.raises(MembraError, match=said) as caught:
            membra.correct(own, id, **{"by": "R", **what})  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    assert Corrections.open(own.path).history() == []


def test_with_an_undo_that_cannot_be_done_nothing_is_kept(own: Collection) -> None:
    membra.correct(own, "a.png", turn=350, by="R", describe=False)
    membra.correct(own, "a.png", undo=1, by="R", describe=False)
    for number in (1, 2, 99):
        with pytest.raises(MembraError, match=r"already undone|is an undo|no correction 99"):
            membra.correct(own, "a.png", turn=90, undo=number, by="R", describe=False)
    assert len(Corrections.open(own.path).history()) == 2
    done = membra.correct(own, "a.png", turn=90, by="R", describe=False)
    done = membra.correct(own, "a.png", turn=10, undo=done.entries[0].number, by="R", describe=False)
    assert [(one.kind, one.undoes) for one in done.entries] == [("turn", None), ("undo", 3)]


def test_a_recipe_without_an_eye_has_letters_taken_out_only(tmp_path: Path, shelf: Path, encoder: Encoder) -> None:
    collection, _ = index(fragments(shelf / "images")[:1], tmp_path / "S", recipe=SAUVOLA, encoder=encoder)
    before = len(collection.description("a.png").boxes)
    membra.correct(collection, "a.png", drop_letters=[0], by="R")
    assert len(collection.description("a.png").boxes) == before - 1
    with pytest.raises(Incompatible, match="uses photographs unchanged"):
        membra.correct(collection, "a.png", turn=90, by="R")


def test_they_come_along_when_collections_are_merged(own: Collection, tmp_path: Path, encoder: Encoder) -> None:
    other = Collection.create(tmp_path / "other", encoder=encoder, recipe=MEMBRA)
    Corrections.open(other.path).give("x.png", "x.png", "00", [TURN], by="R")  # takes the first number
    membra.correct(own, "a.png", turn=350, by="Rivka")
    membra.correct(own, "a.png", turn=10, by="Rivka")
    membra.correct(own, "a.png", undo=2, by="Rivka")
    merge(other, own)
    entry = other.entry("a.png")
    assert entry
    assert (entry.angle, entry.corrected) == (350.0, "2")
    assert [(one.by, one.kind, one.undoes) for one in Corrections.open(other.path).history("a.png")] == [
        ("Rivka", "turn", None),
        ("Rivka", "turn", None),
        ("Rivka", "undo", 3),
    ]
    assert merge(other, own).known == 5
    assert len(Corrections.open(other.path).history()) == 4, "none is written twice"
    assert other.add(fragments(tmp_path / "images")).described == 0
    assert other.verify().notes == []


def test_of_a_fragment_that_was_removed_meanwhile_nothing_is_kept_and_nothing_lost(own: Collection) -> None:
    membra.correct(own, "a.png", by="Rivka", turn=350)
    own.remove(["a.png"])
    before = Corrections.open(own.path).history()
    for more in ({"turn": 10.0}, {"undo": 1}, {}):
        with pytest.raises(NotFound, match=r"a\.png is not in"):
            membra.correct(own, "a.png", by="Dov", **more)
    assert Corrections.open(own.path).history() == before
    own.add(fragments(own.path.parent / "images"))
    assert own.description("a.png").angle == 350.0, "it comes back as it was corrected"


def test_on_the_command_line(own: Collection) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["correct", str(own.path), *words])
        return done.exit_code, done.output if not done.exception or done.exit_code == 2 else str(done.exception)

    code, said = run("a.png", "--turn", "350", "--paint-out", "0,0,40,40", "--brush", "20:5,5 9,9", "--by", "Rivka")
    assert code == 0, said
    assert "stored as correction 1: turn" in said
    assert "stored as correction 2: paint-out" in said
    assert "letters" in said
    assert own.description("a.png").angle == 350.0
    code, said = run("a.png", "--undo", "1", "--by", "Dov", "--json")
    assert json.loads(said)["described"] is True
    code, said = run("a.png", "--list")
    assert ("undo 1" in said, "undone" in said) == (True, True)
    code, said = run("a.png", "--list", "--json")
    assert [one["kind"] for one in json.loads(said)] == ["turn", "paint-out", "undo"]
    assert run("a.png", "--crop", "1,2", "--by", "R")[1].startswith("'1,2' is not a rectangle")
    assert run("a.png", "--turn", "9")[0] == 2
    assert run("nothing.png", "--list")[1].startswith("nothing.png is not in")
    membra.note(own, "a.png", by="Rivka", columns={"shelfmark": "T-S NS 100.1"})
    assert json.loads(run("TS NS 100.1", "--list", "--json")[1]) == json.loads(said), "by its shelfmark too"
    assert run("ts ns 100.1", "--undo", "2", "--by", "Dov")[0] == 0
    assert run("ts ns 100.1", "--paint-out", "0,0,40,40", "--by", "Rivka")[0] == 0
    code, said = run("a.png", "--crop", "1,2,90,9000", "--by", "R")
    assert (code, "outside the photograph" in said) == (1, True)
    listed = CliRunner().invoke(cli, ["list", str(own.path), "--json"]).output
    assert {one["id"]: one["corrected"] for one in json.loads(listed)}["a.png"] == [5]
