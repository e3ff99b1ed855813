"""Annotations are stored with author and time, can be undone, and survive whatever happens to their fragment."""

import csv
import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from factories import plate, random_encoder, see_plates, slip, stored
from membra.cli import cli
from membra.describe import recipe as recipes
from membra.errors import Busy, Damaged, MembraError
from membra.sources.fragment import Fragment, fragments
from membra.store.annotations import FILE, Annotations, Marks, marks_in
from membra.store.catalogue import catalogue
from membra.store.collection import Collection
from membra.store.merge import merge
from membra.store.note import note, said_of
from membra.store.redescribe import redescribe

A, B = "0000.jpg", "0001.jpg"
PLATE = "images/plate.png"
PIECES = [f"{PLATE}#1", f"{PLATE}#2"]


@pytest.fixture
def shelf(tmp_path: Path) -> Collection:
    return stored(tmp_path / "shelf", range(4))


@pytest.fixture
def photographed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Collection, Path]:
    """Slips and a plate of two pieces, with a table that names their library."""
    monkeypatch.setattr(recipes, "see", see_plates)
    (tmp_path / "images").mkdir()
    for seed in range(2):
        (tmp_path / "images" / f"{seed}.png").write_bytes(slip(seed))
    (tmp_path / "images" / "plate.png").write_bytes(plate(3, 4))
    table = tmp_path / "images.csv"
    tell(table, "Oxford")
    collection = Collection.create(tmp_path / "shelf", encoder=random_encoder(8))
    collection.add(fragments(table))
    return collection, table


def tell(table: Path, library: str) -> None:
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "library"])
        writer.writerows([[f"images/{path.name}", library] for path in sorted((table.parent / "images").iterdir())])


def columns(collection: Collection) -> dict[str, str]:
    """Return the library of each fragment."""
    return {e.fragment.id: e.fragment.columns.get("library", "") for e in Collection.open(collection.path).entries()}


def marks(collection: Collection, id: str) -> Marks:
    return marks_in(collection.path, collection.entries()).get(id, Marks())


def test_nothing_said_is_nothing_and_no_file(shelf: Collection) -> None:
    assert marks(shelf, A) == Marks()
    assert [said_of(shelf, A), Annotations.open(shelf.path).last()] == [[], 0]
    assert not (shelf.path / FILE).exists()


def test_notes_tags_and_bookmarks_with_who_and_when(shelf: Collection) -> None:
    given = note(shelf, A, by=" Rivka ", text=" same ruling ", tags=["to  check", "ראוי"], bookmark=True)
    assert [(one.kind, one.name, one.text, one.by) for one in given] == [
        ("tag", "to check", "", "Rivka"),
        ("tag", "ראוי", "", "Rivka"),
        ("bookmark", "", "", "Rivka"),
        ("note", "", "same ruling", "Rivka"),
    ]
    assert all(one.at.endswith("+00:00") for one in given)
    own = marks(shelf, A)
    assert (own.tags, own.bookmarked, [one.text for one in own.notes]) == (
        ("to check", "ראוי"),
        ("Rivka",),
        ["same ruling"],
    )
    assert marks(shelf, B) == Marks()
    assert note(shelf, A, by="rivka", tags=["to check"], bookmark=True) == [], "it was so already"


def test_a_tag_is_taken_off_and_everything_stays_in_the_history(shelf: Collection) -> None:
    note(shelf, A, by="Rivka", tags=["x"], bookmark=True)
    note(shelf, A, by="David", tags=["x"], bookmark=True)
    note(shelf, A, by="David", untag=["x"], bookmark=False)
    assert marks(shelf, A) == Marks(bookmarked=("Rivka",)), "a tag is everybody's, a bookmark one's own"
    assert [(one.kind, one.by, one.undone) for one in said_of(shelf, A)] == [
        ("tag", "Rivka", True),
        ("bookmark", "Rivka", False),
        ("tag", "David", True),
        ("bookmark", "David", True),
        ("undo", "David", False),
        ("undo", "David", False),
        ("undo", "David", False),
    ]
    with pytest.raises(MembraError, match="has no tag x"):
        note(shelf, A, by="David", untag=["x"], text="and this is not kept either")
    assert marks(shelf, A).notes == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": " ", "text": "x"},
        {"by": "x", "tags": [" "]},
        {"by": "x", "tags": ["a" * 101]},
        {"by": "x", "tags": ["a\u200bb"]},
        {"by": "x", "text": "x" * 10_001},
        {"by": "x", "columns": {" ": "x"}},
        {"by": "x", "columns": {"a" * 201: "x"}},
        {"by": "x", "columns": {f"a{number}": "x" for number in range(61)}},
        {"by": "x", "undo": 99},
        {"by": "x", "undo": 2**80},
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_kept(shelf: Collection, wrong: dict[str, object]) -> None:
    with pytest.raises(MembraError):
        note(shelf, A, **wrong)  # type: ignore[arg-type]
    with pytest.raises(MembraError):
        note(shelf, "nothing.jpg", by="x", text="y")
    assert said_of(shelf, A) == []


def test_with_an_undo_that_cannot_be_done_nothing_is_kept(shelf: Collection) -> None:
    given = note(shelf, A, by="x", text="y", tags=["z"])
    (undo,) = note(shelf, A, by="x", undo=given[1].number)
    for number in (given[1].number, undo.number, 99):
        for more in ({"text": "more"}, {"columns": {"library": "Oxford"}}):
            with pytest.raises(MembraError, match=r"already undone|is an undo|no entry 99"):
                note(shelf, A, by="x", undo=number, **more)
    with pytest.raises(MembraError, match="has no tag"):
        note(shelf, A, by="x", untag=["no"], undo=given[0].number)
    assert said_of(shelf, A)[-1].number == undo.number
    done = note(shelf, A, by="x", untag=["z"], text="more", undo=given[0].number)
    assert [(one.kind, one.undoes) for one in done] == [("note", None), ("undo", given[0].number)], "undone once"


def test_an_entry_of_another_fragment_and_an_undo_are_not_taken_back(shelf: Collection) -> None:
    (given,) = note(shelf, A, by="x", text="y")
    with pytest.raises(MembraError, match="about"):
        note(shelf, B, by="x", undo=given.number)
    (undo,) = note(shelf, A, by="x", undo=given.number)
    for number in (given.number, undo.number):
        with pytest.raises(MembraError, match=r"already undone|is an undo"):
            note(shelf, A, by="x", undo=number)
    assert marks(shelf, A) == Marks()


def test_notes_are_kept_while_another_writes_and_edits_say_who_does(shelf: Collection) -> None:
    with shelf.writing():
        note(shelf, A, by="x", text="y")
        with pytest.raises(Busy):
            note(shelf, A, by="x", columns={"library": "Oxford"})
    assert [one.kind for one in said_of(shelf, A)] == ["note"]


def test_many_people_at_once_lose_nothing(shelf: Collection) -> None:
    def work(who: int) -> None:
        for number in range(5):
            note(shelf, f"{number % 4:04d}.jpg", by=f"person {who}", text=str(number))

    people = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert Annotations.open(shelf.path).last() == 20


def test_what_a_person_knows_has_an_author_and_is_taken_back(shelf: Collection) -> None:
    (first,) = note(shelf, A, by="Rivka", columns={"library": "Oxford", "leaf": "0"})
    assert (first.name, first.before, first.text, first.by) == ("library", "", "Oxford", "Rivka"), "leaf was so already"
    (second,) = note(shelf, A, by="David", columns={"library": "Cambridge"})
    assert columns(shelf)[A] == "Cambridge"
    note(shelf, A, by="Rivka", undo=second.number)
    assert columns(shelf)[A] == "Oxford"
    note(shelf, A, by="Rivka", undo=first.number)
    assert columns(shelf)[A] == ""
    assert note(shelf, A, by="Rivka", columns={"library": ""}) == []


def test_it_stands_over_what_a_source_says_and_loses_nothing_of_it(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    (edit,) = note(collection, "images/0.png", by="Rivka", columns={"library": "Cambridge"})
    tell(table, "Paris")
    collection.add(fragments(table))  # indexed again, from a table with another value
    assert columns(collection)["images/0.png"] == "Cambridge"
    assert columns(collection)["images/1.png"] == "Paris"
    (table.parent / "images" / "0.png").write_bytes(slip(7))  # another photograph of it
    assert collection.add(fragments(table)).described == 1
    redescribe(collection, collection.encoder())
    assert columns(collection)["images/0.png"] == "Cambridge"
    tell(table, "London")
    catalogue(collection, table)
    assert columns(collection) == {**dict.fromkeys(columns(collection), "London"), "images/0.png": "Cambridge"}
    note(collection, "images/0.png", by="Rivka", undo=edit.number)
    assert set(columns(collection).values()) == {"London"}, "the newest word of the source, not the one from before"


def test_pieces_keep_their_own(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    one, other = "images/plate.png#1", "images/plate.png#2"
    note(collection, one, by="Rivka", columns={"library": "Cambridge"}, tags=["x"])
    note(collection, "images/plate.png", by="Rivka", text="of both")
    assert [(len(marks(collection, id).tags), len(marks(collection, id).notes)) for id in (one, other)] == [
        (1, 1),
        (0, 1),
    ]
    redescribe(collection, collection.encoder())
    assert [columns(collection)[id] for id in (one, other)] == ["Cambridge", "Oxford"]
    redescribe(collection, collection.encoder(), replace(collection.recipe, pieces="one"))
    assert marks(collection, "images/plate.png").tags == ("x",), "what was said of a piece is about all of it now"
    tell(table, "Paris")
    collection.add(fragments(table))
    assert columns(collection)["images/plate.png"] == "Cambridge"


def pieces_as(collection: Collection, pieces: str) -> None:
    """Describe everything again, with each photograph as `one` piece or split automatically (`auto`)."""
    redescribe(collection, collection.encoder(), replace(collection.recipe, pieces=pieces))  # type: ignore[arg-type]


def test_undo_after_a_split_brings_back_the_source_and_no_earlier_edit(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    pieces_as(collection, "one")
    given = [note(collection, PLATE, by="Rivka", columns={"library": text})[0] for text in ("Camb", "Cambridge")]
    tell(table, "London")
    catalogue(collection, table)
    pieces_as(collection, "auto")
    assert [columns(collection)[id] for id in PIECES] == ["Cambridge", "Cambridge"]
    for edit in reversed(given):
        note(collection, PIECES[0], by="Rivka", undo=edit.number)
    assert [columns(collection)[id] for id in PIECES] == ["London", "London"]


def test_what_is_known_of_one_piece_is_not_told_of_the_other(photographed: tuple[Collection, Path]) -> None:
    collection, _ = photographed
    (edit,) = note(collection, PIECES[0], by="Rivka", columns={"library": "Cambridge"})
    for pieces in ("one", "auto"):
        pieces_as(collection, pieces)
    assert [columns(collection)[id] for id in PIECES] == ["Cambridge", "Oxford"]
    pieces_as(collection, "one")
    note(collection, PLATE, by="Rivka", undo=edit.number)
    assert columns(collection)[PLATE] == "Oxford"


def test_pieces_of_a_changed_photograph_have_what_its_catalogue_said(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    (edit,) = note(collection, "images/0.png", by="Rivka", columns={"library": "Cambridge"})
    (table.parent / "images" / "0.png").write_bytes(plate(5, 6))
    collection.add([replace(one, id=f"images/{one.id}") for one in fragments(table.parent / "images")])
    pieces = ["images/0.png#1", "images/0.png#2"]
    assert [columns(collection)[id] for id in pieces] == ["Cambridge", "Cambridge"]
    note(collection, pieces[0], by="Rivka", undo=edit.number)
    assert [columns(collection)[id] for id in pieces] == ["Oxford", "Oxford"]


def test_a_source_that_comes_to_say_the_same_has_said_it(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    (edit,) = note(collection, "images/0.png", by="Rivka", columns={"library": "Cambridge"})
    tell(table, "Cambridge")
    (table.parent / "images" / "0.png").write_bytes(slip(7))
    collection.add(fragments(table))
    note(collection, "images/0.png", by="Rivka", undo=edit.number)
    assert columns(collection)["images/0.png"] == "Cambridge"


def test_a_merged_fragment_has_what_its_source_says_underneath(
    photographed: tuple[Collection, Path], tmp_path: Path
) -> None:
    collection, _ = photographed
    for text in ("Camb", "Cambridge"):
        note(collection, "images/0.png", by="Rivka", columns={"library": text})
    ours = Collection.create(tmp_path / "ours", encoder=random_encoder(8))
    merge(ours, collection)
    assert columns(ours)["images/0.png"] == "Cambridge"
    for edit in reversed(said_of(ours, "images/0.png")):
        note(ours, "images/0.png", by="Rivka", undo=edit.number)
    assert columns(ours)["images/0.png"] == "Oxford"


def state(table: Path, **libraries: str) -> Path:
    """Write a table with the library of the plate (`whole`) or of its pieces (`first`, `second`)."""
    ids = dict(zip(("whole", "first", "second"), (PLATE, *PIECES), strict=True))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "library", *(["shelfmark"] if "first" in libraries else [])])
        writer.writerows([[ids[which], library, f"{library} 1"] for which, library in libraries.items()])
    return table


def test_what_a_catalogue_says_of_pieces_comes_back_with_them(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed

    def said(ids: list[str]) -> list[tuple[str | None, str | None]]:
        known = {entry.fragment.id: entry.fragment.columns for entry in Collection.open(collection.path).entries()}
        return [(known[id].get("library"), known[id].get("shelfmark")) for id in ids]

    catalogue(collection, state(table, first="Paris", second="London"))
    (edit,) = note(collection, PIECES[1], by="Rivka", columns={"library": "Cambridge"})
    pieces_as(collection, "one")
    assert said([PLATE]) == [("Cambridge", None)], "the pieces disagree, and what she knows of one is about it now"
    note(collection, PLATE, by="Rivka", undo=edit.number)
    pieces_as(collection, "auto")
    assert said(PIECES) == [("Paris", "Paris 1"), ("London", "London 1")]
    pieces_as(collection, "one")
    assert said([PLATE])[0][1] is None
    catalogue(collection, state(table, whole="Rome"))
    pieces_as(collection, "auto")
    assert said(PIECES) == [("Rome", "Paris 1"), ("Rome", "London 1")], "the newer word"
    catalogue(collection, state(table, first="Bonn", second="Kiel"))
    pieces_as(collection, "one")
    assert said([PLATE])[0][0] != "Rome", "nor an older one of the photograph"
    collection.remove([PLATE])
    tell(table, "Oxford")
    collection.add(fragments(table))
    pieces_as(collection, "auto")
    assert said(PIECES) == [("Oxford", None), ("Oxford", None)], "taken out by hand, they come as new"


def test_what_is_known_of_a_photograph_is_known_of_each_piece(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["image", "library"], *zip(PIECES, ["Paris", "London"], strict=True)])
    catalogue(collection, table)
    for library, other in (("London", "Paris"), ("Paris", "London")):
        (edit,) = note(collection, PLATE, by="Rivka", columns={"library": library})
        assert (edit.before, edit.fragment) == (other, PIECES[library == "Paris"])
        assert [columns(collection)[id] for id in PIECES] == [library, library]
        note(collection, PLATE, by="Rivka", undo=edit.number)
        assert [columns(collection)[id] for id in PIECES] == ["Paris", "London"]
    given = note(collection, PLATE, by="Rivka", columns={"library": "Rome"}, tags=["x"])
    own = list(zip(PIECES, ["Paris", "London"], strict=True))
    assert [(one.fragment, one.before) for one in given] == [(PLATE, ""), *own]
    out = CliRunner().invoke(cli, ["note", str(collection.path), PLATE, "--set", "library=Bonn", "--by", "x"]).stdout
    assert all(f"{id}: stored as entry" in out for id in PIECES), "which entry is about which piece"


def test_a_fragment_that_was_taken_out_and_comes_again_has_what_was_said(photographed: tuple[Collection, Path]) -> None:
    collection, table = photographed
    (edit,) = note(collection, "images/0.png", by="Rivka", columns={"library": "Cambridge"})
    note(collection, "images/0.png", by="Rivka", tags=["x"])
    collection.remove(["images/0.png"])
    tell(table, "Paris")
    collection.add(fragments(table))
    assert columns(collection)["images/0.png"] == "Cambridge"
    assert marks(collection, "images/0.png").tags == ("x",)
    note(collection, "images/0.png", by="Rivka", undo=edit.number)
    assert columns(collection)["images/0.png"] == "Paris"


def test_killed_between_the_word_and_the_manifest(shelf: Collection) -> None:
    """The entry is on disk, and the next writer settles it."""
    Annotations.open(shelf.path).give(A, A, by="x", columns={A: {"library": ("", "Oxford")}})
    assert columns(shelf)[A] == ""
    with shelf.writing():
        pass
    assert columns(shelf)[A] == "Oxford"


def test_merging_brings_what_was_said(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "ours", range(2)), stored(tmp_path / "theirs", range(1, 4))
    note(ours, B, by="Rivka", columns={"library": "Oxford"})
    note(theirs, B, by="David", text="known in both", columns={"library": "Paris"})
    (edit,) = note(theirs, "0003.jpg", by="David", columns={"library": "Cambridge"}, tags=[])
    note(theirs, "0003.jpg", by="David", tags=["x"])
    note(theirs, "0003.jpg", by="David", untag=["x"], bookmark=True)
    for _ in range(2):  # the second merge adds nothing
        merge(ours, theirs)
        assert columns(ours) == {A: "", B: "Oxford", "0002.jpg": "", "0003.jpg": "Cambridge"}
        assert [one.text for one in marks(ours, B).notes] == ["known in both"]
        assert marks(ours, "0003.jpg") == Marks(bookmarked=("David",))
        assert len(Annotations.open(ours.path).history()) == 6
    (own,) = [one for one in said_of(ours, "0003.jpg") if one.kind == "column"]
    note(ours, "0003.jpg", by="Rivka", undo=own.number)
    assert columns(ours)["0003.jpg"] == edit.before == ""


def test_merging_where_both_took_the_same_back(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "ours", range(2)), stored(tmp_path / "theirs", range(1))
    note(theirs, A, by="Rivka", tags=["x"])
    merge(ours, theirs)
    for collection, by in ((ours, "David"), (theirs, "Rivka")):
        note(collection, A, by=by, untag=["x"])
    note(theirs, A, by="Rivka", text="said since")
    for _ in range(2):
        merge(ours, theirs)
        said = [(one.kind, one.by) for one in said_of(ours, A)]
        assert said == [("tag", "Rivka"), ("undo", "David"), ("note", "Rivka")]
        assert marks(ours, A).tags == ()


def test_what_was_said_twice_within_a_second_is_merged_as_two(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "ours", range(1)), Annotations.open(stored(tmp_path / "theirs", range(1)).path)
    for change in ({"tags": ["x"]}, {"untag": ["x"]}, {"tags": ["x"]}):
        theirs.give(A, A, by="x", **change)  # type: ignore[arg-type]
    said = [replace(one, at="2026-01-01T00:00:00+00:00") for one in theirs.history()]
    for count in (2, 3, 3):
        Annotations.open(ours.path).take(said[:count])
        assert len(said_of(ours, A)) == count
    assert marks(ours, A).tags == ("x",)


def test_verify_reads_it(shelf: Collection) -> None:
    note(shelf, A, by="x", text="y")
    assert shelf.verify().wrong == []
    (shelf.path / FILE).write_bytes(b"no database at all, but long enough to be read as one" * 40)
    assert [said for said in shelf.verify().wrong if FILE in said]


def test_a_collection_is_written_though_its_notes_cannot_be_read(
    photographed: tuple[Collection, Path], caplog: pytest.LogCaptureFixture
) -> None:
    collection, table = photographed
    (edit,) = note(collection, "images/0.png", by="Rivka", columns={"library": "Cambridge"})
    said = (collection.path / FILE).read_bytes()
    (collection.path / FILE).write_bytes(b"no database" * 2000)
    tell(table, "Paris")
    (table.parent / "images" / "2.png").write_bytes(slip(9))
    assert collection.add([*fragments(table), *fragments(table.parent / "images")[2:3]]).described == 1
    redescribe(collection, collection.encoder())
    catalogue(collection, table)
    collection.remove(["images/1.png"])
    assert columns(collection)["images/0.png"] == "Cambridge", "what stood stands"
    assert "cannot be used" in caplog.text
    with pytest.raises(Damaged):
        note(collection, "images/0.png", by="Rivka", columns={"library": "Rome"})
    (collection.path / FILE).write_bytes(said)
    note(collection, "images/0.png", by="Rivka", undo=edit.number)
    assert columns(collection)["images/0.png"] == "Paris"


def test_the_command(shelf: Collection) -> None:
    def run(*said: str) -> str:
        done = CliRunner().invoke(cli, ["note", str(shelf.path), A, *said])
        assert done.exit_code == 0, done.output
        return done.output

    out = run("--text", "same ruling", "--tag", "to check", "--bookmark", "--set", "library=T=S", "--by", "Rivka")
    assert out.count("stored as entry") == 4
    assert "nothing to change" in run("--tag", "to check", "--by", "Rivka")
    assert "undo 1" in run("--untag", "to check", "--no-bookmark", "--by", "Rivka")
    assert "library: - -> T=S" in run()
    assert [one["kind"] for one in json.loads(run("--json"))] == ["tag", "bookmark", "note", "column", "undo", "undo"]
    note(shelf, A, by="David", tags=["y"])
    (row,) = [
        one for one in json.loads(CliRunner().invoke(cli, ["list", str(shelf.path), "--json"]).stdout) if one["id"] == A
    ]
    assert (row["tags"], row["bookmarked"], row["library"]) == (["y"], [], "T=S")
    assert [(one["text"], one["by"]) for one in row["notes"]] == [("same ruling", "Rivka")]
    assert "#y" in CliRunner().invoke(cli, ["list", str(shelf.path)]).stdout
    for wrong in (["--text", "x"], ["--set", "=x", "--by", "x"]):
        assert CliRunner().invoke(cli, ["note", str(shelf.path), A, *wrong]).exit_code == 2


def test_everything_said_is_exported(shelf: Collection, tmp_path: Path) -> None:
    note(shelf, A, by="Rivka", text="=1+1", tags=["x", "y"], bookmark=True)
    for what, wanted in (("notes", 4), ("fragments", 4)):
        out = tmp_path / f"{what}.csv"
        assert CliRunner().invoke(cli, ["export", str(shelf.path), "--what", what, "--out", str(out)]).exit_code == 0
        rows = list(csv.DictReader(out.read_text(encoding="utf-8-sig").splitlines()))
        assert len(rows) == wanted
        if what == "fragments":
            assert (rows[0]["tags"], rows[0]["bookmarked"]) == ("x; y", "Rivka")
            assert rows[0]["notes"] == "Rivka: =1+1"
        else:
            assert "'=1+1" in [row["text"] for row in rows], "a spreadsheet runs nothing"


def test_a_copy_of_the_folder_has_it(shelf: Collection, tmp_path: Path) -> None:
    note(shelf, A, by="x", tags=["t"])
    shutil.copytree(shelf.path, tmp_path / "copy")
    copy = Collection.open(tmp_path / "copy")
    assert marks(copy, A).tags == ("t",)
    assert isinstance(copy.entries()[0].fragment, Fragment)
