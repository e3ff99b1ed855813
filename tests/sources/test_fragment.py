"""Tests of sources: folders and CSV files become records, or an error of one line."""

from pathlib import Path

import pytest
from PIL import Image

from membra.errors import MembraError
from membra.sources.fragment import fragments, fragments_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jpg", "a/אב.png", "a/.hidden.png", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.new("L", (4, 4)).save(path, "PNG") if path.suffix != ".txt" else path.write_text("x")
    return tmp_path


def test_a_folder_gives_every_image_below_it_sorted(folder: Path) -> None:
    assert [fragment.id for fragment in fragments(folder)] == ["a/אב.png", "b.jpg"]


def test_a_csv_keeps_its_columns_and_looks_beside_itself_and_in_images(folder: Path) -> None:
    (folder / "images").mkdir()
    (folder / "b.jpg").rename(folder / "images" / "b.jpg")
    table = folder / "table.csv"
    table.write_text("﻿image,join,shelfmark\nb.jpg,m1,T-S 8C1.3\na/אב.png,m1,\n", encoding="utf-8")
    first, second = fragments(table)
    assert (first.id, first.path, first.columns) == (
        "b.jpg",
        folder / "images" / "b.jpg",
        {"join": "m1", "shelfmark": "T-S 8C1.3"},
    )
    assert second.path == folder / "a" / "אב.png"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name,join\nb.jpg,1\n", "no column `image`"),
        ("", "no column `image`"),
        ("image\nmissing.jpg\ngone.jpg\n", "names 'missing.jpg' and 1 more"),
        ("image\n", "names no image"),
        ("image\nb.jpg\nb.jpg\n", "names 'b.jpg' twice"),
    ],
)
def test_a_bad_csv_is_one_line_that_says_what_to_do(folder: Path, content: str, said: str) -> None:
    table = folder / "table.csv"
    table.write_text(content)
    with pytest.raises(MembraError, match=said) as error:
        fragments(table)
    assert "\n" not in str(error.value)


def test_other_bad_sources(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin1.csv").write_bytes("image\nfür.jpg\n".encode("latin-1"))
    for source, said in (
        (tmp_path / "empty", "contains no images"),
        (tmp_path / "nowhere", "does not exist"),
        (folder / "notes.txt", "neither a folder nor a table"),
        (tmp_path / "latin1.csv", "names 'für.jpg'"),
    ):
        with pytest.raises(MembraError, match=said):
            fragments(source)


def test_two_sources_may_not_hide_each_other(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Image.new("L", (4, 4)).save(other / "b.jpg")
    with pytest.raises(MembraError, match="would both get the id b"):
        fragments_of([folder, other])
