"""Joins files and protocols, on a collection with a fragment that could not be described."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import stored
from membra.compare import local_scaling
from membra.compare.methods import METHODS, distances
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA
from membra.errors import MembraError, NotEnough
from membra.judge.evaluate import ask, evaluate, outcomes
from membra.judge.joins import read_joins
from membra.judge.metrics import score
from membra.show.report import write_report
from membra.sources.fragment import fragments
from membra.store import collection as collecting
from membra.store.collection import Collection
from membra.store.index import index


@pytest.fixture(scope="module")
def torn(drawn: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Path]:
    """Six fragments, one of them not an image, and their joins file."""
    folder = tmp_path_factory.mktemp("torn")
    rows = drawn.read_text().splitlines()
    by_join = sorted(rows[1:], key=lambda row: row.split(",")[1])[:6]
    (folder / "images").mkdir()
    for row in by_join:
        shutil.copy(drawn.parent / row.split(",")[0], folder / "images")
    (folder / by_join[0].split(",")[0]).write_bytes(b"torn")
    table = folder / "joins.csv"
    table.write_text("\n".join([rows[0], *by_join]) + "\n")
    collection, _ = index(fragments(folder / "images"), folder / "C", recipe=MEMBRA, encoder=encoder)
    return collection, table


def test_undescribed_fragments_are_misses_unless_the_papers_way_is_asked_for(torn: tuple[Collection, Path]) -> None:
    collection, joins = torn
    counted = evaluate(collection, joins, methods=["bob-chamfer"])
    left_out = evaluate(collection, joins, methods=["bob-chamfer"], protocol="paper")
    assert (counted["fragments"], counted["described"], len(counted["excluded"])) == (6, 5, 1)
    assert counted["excluded"][0]["reason"]
    assert counted["queries"] == left_out["queries"] + 1
    assert counted["methods"]["bob-chamfer"]["map"] < left_out["methods"]["bob-chamfer"]["map"]


def test_images_are_matched_by_path_or_by_unique_name(tmp_path: Path) -> None:
    table = tmp_path / "joins.csv"
    table.write_text("image,join\na/1.jpg,x\n2.jpg,y\nelsewhere/3.jpg,z\ndouble.jpg,w\nblank.jpg,\n")
    ids = ["a/1.jpg", "b/2.jpg", "3.jpg", "c/double.jpg", "d/double.jpg", "blank.jpg"]
    assert {id: row["join"] for id, row in read_joins(table, ids).items()} == {
        "a/1.jpg": "x",
        "b/2.jpg": "y",
        "3.jpg": "z",
    }


def test_nothing_matches(tmp_path: Path) -> None:
    table = tmp_path / "joins.csv"
    table.write_text("image,join\nq.jpg,x\n")
    with pytest.raises(MembraError, match=r"matches no fragment of the collection \(it names q\.jpg"):
        read_joins(table, ["1.jpg"])


def test_all_methods_by_one_word(collection: Collection, drawn: Path) -> None:
    scores = evaluate(collection, drawn, methods=["all"])
    assert len(scores["methods"]) >= 16
    assert all(0 < row["mrr"] <= 1 for row in scores["methods"].values())


@pytest.mark.parametrize("references", [2000, 20])
@pytest.mark.parametrize("exclude_same", [None, "leaf"])
def test_blocks_give_the_numbers_of_the_whole_matrix(
    tmp_path: Path, references: int, exclude_same: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all fragments and with a sample as references, with fragments that the joins file does not name."""
    collection = stored(tmp_path / "C", range(50))
    collection.remove(["0004.jpg", "0031.jpg"])
    monkeypatch.setattr(collecting, "REFERENCES", references)
    monkeypatch.setattr(local_scaling, "_AT_ONCE", 7)
    monkeypatch.setattr(local_scaling, "_NUMBERS", 1)
    table = tmp_path / "joins.csv"
    rows = [f"{seed:04d}.jpg,{seed % 6},{seed // 12}" for seed in range(0, 50) if seed % 5]
    table.write_text("\n".join(["image,join,leaf", *rows]))
    entries, found = collection.described()
    known = read_joins(table, [entry.fragment.id for entry in entries])
    labelled = [index for index, entry in enumerate(entries) if entry.fragment.id in known]
    matrix = distances(found, found, "bob-local", same=range(len(found)), references=collection.references(entries))
    question = ask([entries[index].fragment.id for index in labelled], [], known, exclude_same)
    expected = score(outcomes(question, matrix[np.ix_(labelled, labelled)]))
    assert evaluate(collection, table, exclude_same=exclude_same)["methods"]["default"] == expected


def test_what_may_not_answer_is_the_same_for_one_and_for_all(tmp_path: Path) -> None:
    known = {f"{n}.jpg": {"join": str(n % 2), "leaf": ["", "a", "b"][n % 3]} for n in range(7)}
    question = ask(list(known)[:5], list(known)[5:], known, "leaf")
    values = np.array(question.apart)
    expected = np.eye(7, dtype=bool) | ((values[:, None] == values) & (values != "")[:, None])
    assert np.array_equal(question.barred, expected)
    joins = np.array(question.joins)
    for row in range(7):
        assert np.array_equal(question.mates(row), (joins == joins[row]) & ~expected[row])


def test_a_report_leaves_out_pieces_of_the_same_photograph_too(
    collection: Collection, drawn: Path, tmp_path: Path
) -> None:
    """A column that no joins file has: it comes from the collection, for the scores and the report."""
    scores = evaluate(collection, drawn, exclude_same="photograph")
    assert write_report(tmp_path, collection, drawn, scores, exclude_same="photograph").is_file()


@pytest.mark.parametrize("method", ["bob-local", "bob-chamfer"])
def test_fragments_without_a_known_join_are_strangers_if_wanted(
    collection: Collection, tmp_path: Path, method: str
) -> None:
    """False joins, so that mates can be missed; the other fragments have no join."""
    entries, found = collection.described()
    ids = [entry.fragment.id for entry in entries]
    table = tmp_path / "joins.csv"
    table.write_text(
        "\n".join(["image,join", *(f"{id},{join}" for id, join in zip(ids, "xyzxyz", strict=False))]) + "\n"
    )
    few, many = (evaluate(collection, table, methods=[method], gallery=one) for one in ("labelled", "all"))
    assert (few["gallery"], many["gallery"]) == ("labelled", "all")
    assert (few["queries"], many["queries"]) == (6, 6)
    alone = {id: {"join": id} for id in ids[6:]}
    question = ask(ids, [], read_joins(table, ids) | alone, None)
    matrix = distances(found, found, method, same=range(len(found)))
    assert many["methods"][method]["map"] == pytest.approx(score(outcomes(question, matrix))["map"])
    assert many["methods"][method]["map"] < few["methods"][method]["map"]


def hands_and_joins(folder: Path) -> tuple[Collection, Path, Path]:
    """Thirty of forty fragments with a hand and a join each, in two files that name the columns differently."""
    collection = stored(folder / "C", range(40))
    rows = [f"{seed:04d}.jpg,{seed % 3},{seed // 2}" for seed in range(30)]
    (folder / "hands.csv").write_text("\n".join(["image,hand,join", *rows]))
    (folder / "plain.csv").write_text("\n".join(["image,join,leaf", *rows]))
    return collection, folder / "hands.csv", folder / "plain.csv"


@pytest.mark.parametrize("gallery", ["labelled", "all"])
@pytest.mark.parametrize("method", ["bob-local", "bob-chamfer"])
def test_the_column_join_can_be_left_out_where_another_is_the_label(tmp_path: Path, gallery: str, method: str) -> None:
    collection, hands, plain = hands_and_joins(tmp_path)
    options: dict[str, Any] = {"methods": [method], "gallery": gallery}
    found = evaluate(collection, hands, column="hand", exclude_same="join", **options)
    assert found == evaluate(collection, plain, exclude_same="leaf", **options)
    assert found["queries"] == 30
    known = read_joins(hands, ["0004.jpg"], column="hand")
    assert known == {"0004.jpg": {"image": "0004.jpg", "hand": "1", "join": "2"}}


@pytest.mark.parametrize("gallery", ["labelled", "all"])
@pytest.mark.parametrize("column", ["hand", "join"])
def test_who_leaves_out_the_label_itself_has_no_mates(tmp_path: Path, gallery: str, column: str) -> None:
    collection, hands, _ = hands_and_joins(tmp_path)
    with pytest.raises(NotEnough, match="no fragment has a mate"):
        evaluate(collection, hands, column=column, exclude_same=column, gallery=gallery)


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> tuple[Collection, Path]:
    """Two fragments of one join, neither of them an image."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "images").mkdir()
    for name in "ab":
        (folder / "images" / f"{name}.jpg").write_bytes(name.encode())
    (folder / "joins.csv").write_text("image,join\na.jpg,x\nb.jpg,x\n")
    collection = Collection.create(folder / "C", encoder=encoder, recipe=MEMBRA)
    collection.add(fragments(folder / "images"))
    return collection, folder / "joins.csv"


@pytest.mark.parametrize("method", ["default", *(method.name for method in METHODS), "sift-mean"])
def test_nothing_is_described(nothing: tuple[Collection, Path], method: str) -> None:
    collection, joins = nothing
    for gallery in ("labelled", "all"):
        with pytest.raises(NotEnough, match=r"^no fragment could be described$"):
            evaluate(collection, joins, methods=[method], gallery=gallery)


def test_nothing_that_the_file_names_is_described(collection: Collection, tmp_path: Path) -> None:
    """They are misses: the other fragments are described, but are no queries."""
    mine = Collection.open(shutil.copytree(collection.path, tmp_path / "C"))
    (tmp_path / "more").mkdir()
    for name in "ab":
        (tmp_path / "more" / f"{name}.jpg").write_bytes(name.encode())
    mine.add(fragments(tmp_path / "more"))
    table = tmp_path / "joins.csv"
    table.write_text("image,join\na.jpg,x\nb.jpg,x\n")
    scores = evaluate(mine, table, methods=["bob-local", "two-stage", "bow-raw-l2", "pool-max-l2"])
    assert (scores["described"], scores["queries"]) == (12, 2)
    assert {row["map"] for row in scores["methods"].values()} == {0.0}
    page = write_report(tmp_path / "page", mine, table, scores)
    assert "Not described: 2." in page.read_text()
