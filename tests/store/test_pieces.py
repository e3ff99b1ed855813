"""Photographs with several pieces in a collection: stored, recognised, replaced, removed, searched and adapted."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from factories import LEGIBILITIES, describe_plates, plate, random_encoder, see_plates, slip
from membra.cli import cli
from membra.describe import recipe as recipes
from membra.describe import workers
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description, describe_photograph
from membra.describe.workers import Workers
from membra.errors import MembraError
from membra.find.search import search
from membra.judge.evaluate import evaluate
from membra.judge.joins import read_joins
from membra.sources.fragment import Fragment, fragments
from membra.store import collection as collecting
from membra.store import manifest
from membra.store import writer as writing
from membra.store.collection import Collection
from membra.store.index import index
from membra.store.redescribe import photographs, redescribe
from membra.store.verdicts import Verdicts
from membra.train.training_glyphs import cut_letters


@pytest.fixture(autouse=True)
def _eye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "see", see_plates)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A plate with three pieces and a chip, between two photographs of one piece each."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.png").write_bytes(slip(7))
    (folder / "plate.png").write_bytes(plate(1, 2, None, 3))
    (folder / "z.png").write_bytes(slip(8))
    return folder


@pytest.fixture
def own(source: Path, encoder: Encoder) -> Collection:
    collection, added = index(fragments(source), source.parent / "C", recipe=MEMBRA, encoder=encoder)
    assert (added.described, added.blank, added.readable, added.refused) == (5, 1, 3, [])
    return collection


def ids(collection: Collection) -> list[str]:
    return [entry.fragment.id for entry in collection.entries()]


PIECES = ["plate.png#1", "plate.png#2", "plate.png#3"]


def test_pieces_are_stored_as_they_are_described(own: Collection, source: Path, encoder: Encoder) -> None:
    assert ids(own) == ["a.png", *PIECES, "z.png"]
    entries, descriptions = Collection.open(own.path).described()
    image = Fragment("plate.png", source / "plate.png")
    for (fragment, expected), entry, found in zip(
        describe_photograph(image, encoder, MEMBRA).pieces, entries[1:4], descriptions[1:4], strict=True
    ):
        assert entry.fragment == Fragment(fragment.id, fragment.path.absolute(), fragment.columns, piece=fragment.piece)
        assert isinstance(expected, Description)
        np.testing.assert_array_equal(found.boxes, expected.boxes)
        np.testing.assert_array_equal(found.outline, expected.outline)
        seen = (entry.note, entry.angle, entry.letter_height, entry.legibility)
        assert seen == (expected.note, expected.angle, expected.letter_height, expected.legibility)
    assert "photograph" not in entries[0].fragment.columns
    assert own.verify().wrong == []


def test_what_is_known_is_not_described_again(own: Collection, source: Path) -> None:
    again = own.add(fragments(source))
    assert (again.described, again.unchanged) == (0, 5)
    own.remove(["plate.png#2"])
    assert own.add(fragments(source)).described == 0  # removed by hand, it stays removed
    assert ids(own) == ["a.png", "plate.png#1", "plate.png#3", "z.png"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [(plate(4, 5), ["plate.png#1", "plate.png#2"]), (slip(4), ["plate.png"]), (b"no image", ["plate.png"])],
    ids=["fewer pieces", "one piece", "no image"],
)
def test_a_changed_photograph_replaces_all_its_pieces(
    own: Collection, source: Path, content: bytes, expected: list[str]
) -> None:
    before = (source / "plate.png").read_bytes()
    verdicts = Verdicts.open(own.path)
    verdicts.give("plate.png#3", "a.png", "join", by="Rivka")
    (source / "plate.png").write_bytes(content)
    own.add(fragments(source))
    assert ids(own) == ["a.png", "z.png", *expected]
    assert own.verify().wrong == []
    (source / "plate.png").write_bytes(before)  # and back
    assert own.add(fragments(source)).described == 3
    assert ids(own) == ["a.png", "z.png", *PIECES]
    assert [verdict.a for verdict in verdicts.standing()] == ["a.png"]  # by id, whatever happened in between
    assert own.verify().wrong == []


def test_all_pieces_of_a_photograph_are_stored_in_one_transaction(
    own: Collection, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few fragments a shard has, and wherever writing stops."""
    monkeypatch.setattr(collecting, "BATCH", 1)
    (source / "plate.png").write_bytes(plate(4, 5))
    (source / "a.png").write_bytes(slip(9))
    states: list[list[str]] = []
    own.add(fragments(source), progress=lambda *_: states.append(ids(Collection.open(own.path))))
    assert states == [[*PIECES, "z.png", "a.png"], ["z.png", "a.png", "plate.png#1", "plate.png#2"]]
    (source / "plate.png").write_bytes(plate(6, 7, 8))
    before = own.entries()
    with monkeypatch.context() as stopped:
        stopped.setattr(writing, "_drop_empty", lambda _: 1 / 0)  # the old rows are removed, the new ones inserted
        with pytest.raises(ZeroDivisionError):
            own.add(fragments(source))
    assert own.entries() == before
    assert own.verify().wrong == []
    own.add(fragments(source))
    assert ids(own) == ["z.png", "a.png", *PIECES]


def test_other_columns_and_places_reach_every_piece(own: Collection, source: Path, tmp_path: Path) -> None:
    moved = Path(shutil.move(source, tmp_path / "moved"))
    (moved / "table.csv").write_text("image,shelfmark\nplate.png,T-S 1\na.png,T-S 2\n")
    assert own.add(fragments(moved / "table.csv")).unchanged == 4
    entries = {entry.fragment.id: entry.fragment for entry in own.entries()}
    for name in PIECES:
        assert entries[name].columns == {"shelfmark": "T-S 1", "photograph": "plate.png"}
        assert entries[name].path == moved / "plate.png"
    own.add(fragments(moved))  # a folder gives no columns for its images
    assert own.entries()[1].fragment.columns["shelfmark"] == "T-S 1"
    assert own.entries()[0].fragment.columns == {"shelfmark": "T-S 2"}


def test_removing_a_piece_or_the_whole_photograph(own: Collection) -> None:
    assert own.remove(["plate.png#2"]) == 1
    assert ids(own) == ["a.png", "plate.png#1", "plate.png#3", "z.png"]
    with pytest.raises(MembraError, match=r"plate\.png#2 is not in"):
        own.remove(["a.png", "plate.png#2"])
    assert own.remove(["plate.png"]) == 2
    assert ids(own) == ["a.png", "z.png"]
    own.compact()
    assert own.verify().wrong == []


def test_a_file_named_like_a_piece_cannot_come_in(own: Collection, source: Path) -> None:
    shutil.copy(source / "a.png", source / "plate.png#1")
    added = own.add([Fragment("plate.png#1", source / "plate.png#1")])
    assert added.refused == [("plate.png#1", "its name ends like the id of a piece; rename the file")]
    assert ids(own) == ["a.png", *PIECES, "z.png"]


def test_describing_anew_keeps_numbers_and_what_was_taken_out(own: Collection, source: Path) -> None:
    own.remove(["plate.png#1"])
    before = {entry.fragment.id: entry.number for entry in own.entries()}
    redescribe(own, random_encoder(seed=9))
    assert {entry.fragment.id: entry.number for entry in own.entries()} == before
    (source / "plate.png").write_bytes(plate(1, 2, 3, 4))  # another image with other pieces
    redescribe(own, random_encoder(seed=10))
    after = {entry.fragment.id: entry.number for entry in own.entries()}
    assert list(after) == ["a.png", "plate.png#2", "plate.png#3", "z.png", "plate.png#1", "plate.png#4"]
    assert all(after[name] == number for name, number in before.items())
    (source / "plate.png").write_bytes(slip(5))
    redescribe(own, random_encoder(seed=11))
    assert ids(own) == ["a.png", "z.png", "plate.png"]
    assert own.entries()[-1].fragment.columns == {}
    assert own.verify().wrong == []


def test_worker_processes_describe_the_same_pieces(
    own: Collection, source: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_describe", describe_plates)
    collection, added = index(fragments(source), tmp_path / "W", recipe=MEMBRA, encoder=encoder, workers=2)
    assert (added.described, added.blank) == (5, 1)
    assert ids(collection) == ids(own)
    for one, other in zip(collection.described()[1], own.described()[1], strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)


def test_as_one_fragment_each(source: Path, encoder: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "one"
    collection, added = index(fragments(source), path, encoder=encoder, pieces="one")
    assert (added.described, added.blank, ids(collection)) == (3, 0, ["a.png", "plate.png", "z.png"])
    assert Collection.open(path).recipe.pieces == "one"
    assert index(fragments(source), path, recipe=MEMBRA)[1].unchanged == 3  # the collection's own setting
    with pytest.raises(MembraError, match="was made with --pieces one; leave --pieces out"):
        index(fragments(source), path, pieces="auto")


def test_asking_with_a_piece(own: Collection, source: Path) -> None:
    ranking = search(own, "plate.png#1", method="bob-chamfer")
    assert (ranking.query, ranking.piece) == ("plate.png#1", 1)
    assert {hit.id for hit in ranking.hits} == {"a.png", "plate.png#2", "plate.png#3", "z.png"}
    hit = next(hit for hit in ranking.hits if hit.id == "plate.png#3")
    assert (hit.photograph, hit.piece, hit.angle, hit.legibility) == ("plate.png", 3, 135.0, LEGIBILITIES[3])
    for query in ("plate.png", str(source / "plate.png")):  # the most legible piece
        best = search(own, query, method="bob-chamfer")
        assert best.piece == 2
        assert best.hits == search(own, "plate.png#2", method="bob-chamfer").hits
    assert search(own, f"{source / 'plate.png'}#3", method="bob-chamfer").hits == (
        search(own, "plate.png#3", method="bob-chamfer").hits
    )
    assert search(own, "a.png").piece == 0


def test_asking_with_a_piece_of_an_image_from_outside(own: Collection, tmp_path: Path) -> None:
    outside = tmp_path / "outside.png"
    outside.write_bytes(plate(3, 1, 2))
    for query, piece, twin in ((str(outside), 2, "#1"), (f"{outside}#1", 1, "#3"), (f"{outside}#3", 3, "#2")):
        ranking = search(own, query, method="bob-chamfer")
        assert ranking.piece == piece
        assert ranking.hits[0].id == f"plate.png{twin}"
        assert ranking.hits[0].distance == pytest.approx(0, abs=1e-5)
    with pytest.raises(MembraError, match="no piece 4"):
        search(own, f"{outside}#4")
    with pytest.raises(MembraError, match="neither a fragment"):
        search(own, f"{tmp_path / 'nothing.png'}#1")


def test_pieces_of_the_same_photograph_can_be_left_out(own: Collection) -> None:
    left = search(own, "plate.png#1", exclude_same="photograph")
    assert {hit.id for hit in left.hits} == {"a.png", "z.png"}
    alone = search(own, "a.png", exclude_same="photograph")  # has no such column, and excludes nothing
    assert len(alone.hits) == 4


def test_a_piece_has_its_own_row_of_the_joins_or_its_photographs(own: Collection, tmp_path: Path) -> None:
    table = tmp_path / "joins.csv"
    table.write_text("image,join\nplate.png,x\nplate.png#2,y\na.png,y\nz.png,x\n")
    known = read_joins(table, ids(own))
    assert {id: row["join"] for id, row in known.items()} == {
        "a.png": "y",
        "plate.png#1": "x",
        "plate.png#2": "y",
        "plate.png#3": "x",
        "z.png": "x",
    }
    scores = evaluate(own, table, methods=["bob-chamfer"])
    assert scores["queries"] == 5
    assert evaluate(own, table, methods=["bob-chamfer"], exclude_same="photograph")["queries"] == 5
    table.write_text("image,join\nelsewhere/plate.png#1,x\nelsewhere/plate.png,y\n")  # by their names
    assert {id: row["join"] for id, row in read_joins(table, ids(own)).items()} == {
        "plate.png#1": "x",
        "plate.png#2": "y",
        "plate.png#3": "y",
    }
    assert evaluate(own, table, methods=["bob-chamfer"])["queries"] == 2
    with pytest.raises(MembraError, match="no fragment has a mate"):
        evaluate(own, table, methods=["bob-chamfer"], exclude_same="photograph")
    before = read_joins(table, ["plate.png"], unseen=True)  # in training: the pieces are detected later
    assert {id: row["join"] for id, row in before.items()} == {"plate.png": "y", "plate.png#1": "x"}
    assert list(read_joins(table, ["plate.png"])) == ["plate.png"]


def test_letters_are_cut_by_the_piece(source: Path, own: Collection) -> None:
    patches, owners, pieces, refused = cut_letters(fragments(source), MEMBRA, Workers(1), most=5)
    assert [piece.id for piece in pieces] == ids(own)
    assert (np.bincount(owners).tolist(), len(patches), refused) == ([5] * 5, 25, [])
    assert [image.id for image in photographs(own.entries())] == ["a.png", "plate.png", "z.png"]
    assert photographs(own.entries())[1].columns == {}


def test_adapting_describes_the_same_pieces(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    from membra.train.adapt import adapt, train_on
    from membra.train.identity import IdentitySettings

    brief = IdentitySettings(epochs=0.1, min_letters=96, batch=24)
    collection, _ = index(fragments(source), tmp_path / "R", recipe=MEMBRA)
    collection.remove(["plate.png#2"])
    before = collection.entries()
    adapt(collection, settings=brief, device="cpu")
    assert [(e.number, e.fragment, e.angle, e.legibility) for e in collection.entries()] == [
        (e.number, e.fragment, e.angle, e.legibility) for e in before
    ]
    assert collection.verify().wrong == []
    letters, _ = train_on(
        fragments(source), MEMBRA, {"plate.png": "x", "plate.png#3": "y"}, tmp_path / "e.onnx", brief, device="cpu"
    )
    assert 30 <= letters <= 48


def test_the_command_line(source: Path, encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "e.onnx").write_bytes(encoder.onnx)
    into = str(tmp_path / "D")

    def run(*arguments: str) -> tuple[str, str]:
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.exception
        return done.stdout, done.stderr

    collection, _ = run("index", str(source), "--into", into, "--encoder", str(tmp_path / "e.onnx"), "--workers", "1")
    assert "5 described (5 with few letters" in collection
    assert "0 known already, 0 refused, 1 pieces without writing left out" in collection
    found, reported = run("search", into, "plate.png", "--json")
    assert json.loads(found)["piece"] == 2
    assert "plate.png shows several pieces; the search used the most legible, #2" in reported
    assert run("search", into, "plate.png#1", "--json")[1] == ""
    listed = json.loads(run("list", into, "--json")[0])
    assert [row["photograph"] for row in listed] == ["a.png", *["plate.png"] * 3, "z.png"]
    assert [row["piece"] for row in listed] == [0, 1, 2, 3, 0]
    assert [row["angle"] for row in listed[1:4]] == [0.0, 45.0, 135.0]
    run("export", into, "--what", "fragments", "--out", str(tmp_path / "f.json"))
    rows = json.loads((tmp_path / "f.json").read_text())["rows"]
    assert [row["legibility"] for row in rows[1:4]] == [0.6, 0.9, 0.7]
    assert rows[1]["photograph"] == "plate.png"
    assert "plate.png#2" in run("list", into)[0]
    assert "3 removed" in run("remove", into, "plate.png")[0]
    one, _ = run("index", str(source), "--into", f"{into}1", "--encoder", str(tmp_path / "e.onnx"), "--pieces", "one")
    assert "3 described" in one


def test_a_photograph_at_a_path_is_found_without_reading_all(own: Collection) -> None:
    with manifest.connect(own.path) as database:
        plan = database.execute("EXPLAIN QUERY PLAN SELECT * FROM fragments WHERE photograph = 'x'").fetchall()
    assert "fragments_by_photograph" in plan[0][3]
