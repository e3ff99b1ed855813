"""Joining a catalogue to a collection by image or shelfmark; guessed columns are reported and stored."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import membra
from factories import description, random_encoder
from membra.cli import cli
from membra.errors import MembraError, Refused
from membra.show.export import export
from membra.sources.fragment import Fragment
from membra.store.annotations import Annotations
from membra.store.batch import write_batch
from membra.store.collection import Collection
from membra.store.edits import edits_given
from membra.store.manifest import connect
from membra.store.naming import find_id


@pytest.fixture
def own(collection: Collection, tmp_path: Path) -> Collection:
    return Collection.open(shutil.copytree(collection.path, tmp_path / "mine"))


def run(*arguments: str | Path) -> str:
    outcome = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def columns(collection: Collection, id: str) -> dict[str, str]:
    entry = collection.entry(id)
    assert entry
    return dict(entry.fragment.columns)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "katalog.csv"
    lines = [
        "Signatur;Bibliothek;Bild;Notiz",
        "T-S NS 100.1;Cambridge;0000.jpg;x",
        "Or. 5;Oxford;0001.jpg;",
        "Y;Z;no.jpg;",
    ]
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def test_a_table_is_joined_by_image_and_its_columns_are_guessed_shown_and_kept(own: Collection, table: Path) -> None:
    before = columns(own, "images/0000.jpg")
    dry = json.loads(run("catalogue", own.path, table, "--dry-run", "--json"))
    assert (dry["matched"], dry["updated"]) == (2, 0)
    assert columns(own, "images/0000.jpg") == before
    said = run("catalogue", own.path, table)
    assert "Signatur is shelfmark, Bibliothek is library, Bild is image" in said
    assert "no fragment: no.jpg" in said
    assert "3 rows, 2 fragments, 2 with something new; 1 rows match no fragment" in said
    new = {"shelfmark": "T-S NS 100.1", "library": "Cambridge", "Notiz": "x"}
    assert columns(own, "images/0000.jpg") == {**before, **new}
    assert membra.catalogue(own, table).updated == 0
    assert own.mapping()["Signatur"] == "shelfmark"


def test_an_empty_cell_overwrites_nothing(own: Collection, table: Path, tmp_path: Path) -> None:
    run("catalogue", own.path, table)
    later = tmp_path / "later.csv"
    later.write_text("Bild,Bibliothek,Notiz\n0000.jpg,,y\n", encoding="utf-8")
    run("catalogue", own.path, later)
    found = columns(own, "images/0000.jpg")
    assert (found["library"], found["Notiz"]) == ("Cambridge", "y")


def test_what_somebody_says_comes_before_what_is_guessed_and_is_kept(own: Collection, table: Path) -> None:
    found = membra.catalogue(own, table, mapping={"Notiz": "shelfmark", "Signatur": "call"})
    assert found.mapping["Notiz"] == "shelfmark"
    assert columns(own, "images/0000.jpg")["shelfmark"] == "x"
    again = membra.catalogue(own, table)  # with the mapping given before
    assert again.mapping == found.mapping
    with pytest.raises(MembraError, match="no column 'Nichts'"):
        membra.catalogue(own, table, mapping={"Nichts": "shelfmark"})
    assert CliRunner().invoke(cli, ["catalogue", str(own.path), str(table), "--map", "x"]).exit_code == 2


def test_a_row_finds_its_fragments_by_any_spelling_of_the_shelfmark(
    own: Collection, table: Path, tmp_path: Path
) -> None:
    membra.catalogue(own, table)
    later = tmp_path / "later.csv"
    later.write_text("Cote,Écriture\nTS NS 100.01,carrée\nnowhere 3,x\n", encoding="utf-8")
    found = membra.catalogue(own, later)
    assert (found.matched, found.unmatched, found.examples) == (1, 1, ["nowhere 3"])
    assert columns(own, "images/0000.jpg")["script"] == "carrée"


def test_files_that_are_named_like_shelfmarks_find_them(own: Collection, drawn: Path, tmp_path: Path) -> None:
    image = tmp_path / "TS_NS_7_12.jpg"
    shutil.copy(drawn.parent / "images" / "0003.jpg", image)
    alone = Collection.create(tmp_path / "C", encoder=own.encoder())
    alone.add([Fragment(image.name, image)])
    (tmp_path / "t.csv").write_text("shelfmark,library\nT-S NS 7.12,Cambridge\n")
    membra.catalogue(alone, tmp_path / "t.csv")
    assert columns(alone, image.name) == {"shelfmark": "T-S NS 7.12", "library": "Cambridge"}


def test_a_table_that_speaks_of_nothing_here_is_a_sentence(own: Collection, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    for text, said in (("colour,weight\nred,1\n", "neither a column"), ("image\nx.jpg\n", "matches a fragment")):
        table.write_text(text)
        with pytest.raises(MembraError, match=said):
            membra.catalogue(own, table)


def test_fragments_are_called_by_their_shelfmarks(own: Collection, table: Path) -> None:
    membra.catalogue(own, table)
    hits = json.loads(run("search", own.path, "ts ns 100.1", "--json"))["hits"]
    assert {(hit["shelfmark"], hit["library"]) for hit in hits if hit["id"] == "images/0001.jpg"} == {
        ("Or. 5", "Oxford")
    }
    assert membra.search(own, "ts ns 100.1").hits == membra.search(own, "images/0000.jpg").hits
    for said in (
        run("search", own.path, "T-S NS 100.1"),
        run("list", own.path),
        run("explain", own.path, "ts ns 100.1", "or 5"),
        run("inbox", own.path, "--top", "100"),
        run("inbox", own.path, "--top", "100", "--json"),
    ):
        assert "Or. 5" in said
        assert "Oxford" in said
    assert "T-S NS 100.1 (Cambridge) and Or. 5 (Oxford)" in run("explain", own.path, "ts ns 100.1", "or 5")
    for command, columns in (("inbox", ("shelfmark_a", "shelfmark_b")), ("propose", ("shelfmark",))):
        run(command, own.path, *(["--top", "100"] if command == "inbox" else []), "--csv", own.path / "t.csv")
        rows = list(csv.DictReader((own.path / "t.csv").read_text(encoding="utf-8-sig").splitlines()))
        assert "Or. 5" in {row[column] for row in rows for column in columns}, command
    run("decide", own.path, "TS NS 100.1", "Or.5", "join", "--by", "x")
    run("decide", own.path, "TS NS 100.1", "Or.5", "undo", "--by", "x")
    run("decide", own.path, "TS NS 100.1", "Or.5", "join", "--by", "x")
    run("export", own.path, "--out", own.path / "v.csv")
    text = (own.path / "v.csv").read_text(encoding="utf-8-sig")
    assert "T-S NS 100.1,Or. 5,Cambridge,Oxford" in text
    run("export", own.path, "--out", own.path / "d.html", "--pair", "TS NS 100.1", "Or 5")
    assert "T-S NS 100.1" in (own.path / "d.html").read_text(encoding="utf-8")


def test_a_shelfmark_of_several_fragments_is_asked_about(own: Collection) -> None:
    with own.writing() as writer:
        for number, side in enumerate(("recto", "verso")):
            writer.annotate({f"images/000{number}.jpg": {"shelfmark": "Or. 5", "side": side}})
    with pytest.raises(
        MembraError, match=r"shelfmark of 2 fragments; give one of these ids: images/0000.jpg, images/0001.jpg"
    ):
        find_id(own, "Or 5")
    assert find_id(own, "or 5 verso") == "images/0001.jpg"
    assert find_id(own, "nothing") == "nothing"


def shelf(path: Path, **columns: dict[str, str]) -> Collection:
    """Return a collection of images with these columns; the name `vol1_001` stands for `vol1/001.jpg`."""
    collection = Collection.create(path, encoder=random_encoder(8))
    images = [Fragment(f"{name.replace('_', '/')}.jpg", path / name, own) for name, own in columns.items()]
    with collection.writing() as writer:
        writer.store(write_batch(path, [(one, one.id, description(seed)) for seed, one in enumerate(images)]))
    return collection


def test_a_file_name_matches_only_if_it_is_unique_in_the_table_too(tmp_path: Path) -> None:
    own = shelf(tmp_path / "C", vol1_001={}, vol1_002={})
    table = tmp_path / "t.csv"
    rows = ["vol1/001.jpg,one", "vol2/001.jpg,two", "vol3\\001.jpg,three", "a/002.jpg,four", "./a/002.jpg,five"]
    table.write_text("\n".join(["image,note", *rows]) + "\n")
    found = membra.catalogue(own, table)
    assert (found.matched, found.unmatched, found.examples) == (2, 2, ["vol2/001.jpg", "vol3\\001.jpg"])
    assert columns(own, "vol1/001.jpg") == {"note": "one"}
    assert columns(own, "vol1/002.jpg") == {"note": "five"}, "one image, named twice"


@pytest.mark.parametrize(
    ("row", "matched"),
    [
        ({}, "abd"),
        ({"side": "Recto"}, "ad"),
        ({"side": "verso"}, "b"),
        ({"library": "Paris"}, "bd"),
        ({"library": "oxford", "side": "recto"}, "a"),
        ({"library": "Rome", "side": "recto"}, "b"),
    ],
)
def test_a_row_is_of_no_fragment_of_another_side_or_library(tmp_path: Path, row: dict[str, str], matched: str) -> None:
    own = shelf(
        tmp_path / "C",
        a={"shelfmark": "MS 1", "side": "recto", "library": "Oxford"},
        b={"shelfmark": "MS 1"},
        c={"shelfmark": "MS 2", "side": "recto", "library": "Oxford"},
        d={"shelfmark": "MS 1", "side": "recto", "library": "Paris"},
    )
    lines = [["shelfmark", "note", "side", "library"], ["ms 1", "x", row.get("side", ""), row.get("library", "")]]
    lines += [["MS 2", "y", "verso", "Oxford"], ["MS 2", "z", "recto", "Paris"]]  # two that are not here
    (tmp_path / "t.csv").write_text("".join(f"{','.join(line)}\n" for line in lines))
    found = membra.catalogue(own, tmp_path / "t.csv")
    assert "".join(id for id in "abcd" if "note" in columns(own, f"{id}.jpg")) == matched
    assert found.examples == ["MS 2", "MS 2"]
    assert columns(own, "c.jpg") == {"shelfmark": "MS 2", "side": "recto", "library": "Oxford"}


@pytest.fixture
def plate(tmp_path: Path) -> Collection:
    """Three pieces of one photograph, each with its own shelfmark."""
    collection = Collection.create(tmp_path / "plate", encoder=random_encoder())
    pieces = [Fragment(f"pl.jpg#{n}", tmp_path / "pl.jpg", {"shelfmark": f"IAA {n}"}, piece=n) for n in (1, 2, 3)]
    with collection.writing() as writer:
        writer.store(write_batch(collection.path, [(one, "a" * 64, Refused("no writing was found")) for one in pieces]))
    return collection


def test_membras_own_table_of_fragments_gives_each_piece_its_own_values_back(plate: Collection, tmp_path: Path) -> None:
    before = [entry.fragment.columns for entry in plate.entries()]
    export(plate, tmp_path / "f.csv", "fragments")
    found = membra.catalogue(plate, tmp_path / "f.csv")
    assert (found.matched, found.columns) == (3, ["shelfmark"])
    assert [entry.fragment.columns for entry in plate.entries()] == before
    assert [columns["shelfmark"] for columns in before] == ["IAA 1", "IAA 2", "IAA 3"]


def test_an_edit_of_a_piece_counts_more_than_one_of_a_piece_that_is_gone(plate: Collection) -> None:
    annotations = Annotations.open(plate.path)
    for piece, value in (("pl.jpg#1", "own"), ("pl.jpg#9", "of one that is gone")):
        annotations.give("pl.jpg", piece, by="R", columns={piece: {"shelfmark": ("", value)}})
    with connect(plate.path) as database:
        edits = edits_given(plate.path, database)
    assert edits["pl.jpg#1"] == {"shelfmark": "own"}
    assert edits["pl.jpg#2"] == {"shelfmark": "of one that is gone"}
