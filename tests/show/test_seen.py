"""`membra see`: one line of JSON per image, a picture and a file beside it, and errors of unreadable images."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from membra.cli import cli
from membra.describe.recipe import MEMBRA
from membra.errors import MembraError
from membra.see.reading import Reading
from membra.show import seen as seeing
from membra.show.overlay import numbered
from membra.show.seen import Seen, file_names, images_of, see_photograph, write_seen
from membra.sources.fragment import Fragment
from readings import glyphs_of, square, written_page
from scenes import found

KEYS = {"image", "angle", "letter_height", "legibility", "note", "letters", "pieces", "blank"}
OF_A_PIECE = {"piece", "outline", "angle", "letter_height", "legibility", "note", "letters", "lines"}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["see", *map(str, arguments)])


def lines(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    Image.fromarray(written_page()[0]).save(tmp_path / "page.png")
    return tmp_path / "page.png"


def plate() -> list[Reading]:
    """Two written pieces, the second more legible, and one without writing between them."""
    first = Reading(glyphs_of(np.array([(1, 2, 3, 4)], np.int32)), square(0, 0, 40), 12.346, 9.0, 0.25)
    blank = Reading(glyphs_of(np.zeros((0, 4), np.int32)), square(50, 0, 40), None, 0.0, 0.0)
    second = Reading(glyphs_of(np.array([(5, 6, 7, 8), (9, 9, 9, 9)], np.int32)), square(100, 0, 40), None, 8.0, 0.75)
    line = np.array([(0.04, 1, 2, 3)], np.float32)
    return [first, blank, replace(second, lines=line)]


def test_one_line_of_json_an_image(drawn: Path) -> None:
    folder = drawn.parent / "images"
    result = run(folder / "0000.jpg", folder / "0001.jpg", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = lines(result)
    assert set(first) == set(second) == KEYS
    assert first["image"] == str(folder / "0000.jpg")
    truth = json.loads((drawn.parent / "truth.json").read_text(encoding="utf-8"))["images/0000.jpg"]
    assert isinstance(first["letters"], list)
    boxes = np.array(first["letters"], np.int32)
    assert found(boxes, np.array(truth["boxes"], np.int32)).mean() > 0.9
    assert len(boxes) < 1.5 * len(truth["boxes"]), "letters that the tear has cut, and parts of letters, are the rest"
    assert all(len(box) == 4 and min(box[2:]) > 0 for box in first["letters"])
    assert run(folder / "0000.jpg").stdout == run(folder / "0000.jpg", "--json").stdout  # the default without --out


def test_a_plate_is_reported_as_a_whole_and_piece_by_piece() -> None:
    reported = Seen(Path("plate.jpg"), numbered(plate(), ["doubtful", "", "few letters"])).summary()
    assert set(reported) == KEYS
    assert reported["letters"] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 9, 9]]
    assert (reported["angle"], reported["letter_height"], reported["legibility"], reported["note"]) == (
        None,
        8.0,
        0.75,
        "few letters",
    )
    assert reported["blank"] == 1
    one, two = reported["pieces"]
    assert set(one) == set(two) == OF_A_PIECE
    assert (one["piece"], one["angle"], one["note"]) == (1, 12.35, "doubtful")
    assert (two["piece"], two["angle"], two["lines"]) == (2, None, [[0.0, 1.0, 2.0, 3.0]])
    assert one["outline"] == square(0, 0, 40).tolist()
    json.dumps(reported)


def test_a_photograph_without_writing_is_reported_too() -> None:
    reported = Seen(Path("blank.jpg"), numbered(plate()[1:2], ["doubtful"])).summary()
    assert (reported["letters"], len(reported["pieces"]), reported["note"], reported["blank"]) == ([], 1, "doubtful", 0)


def test_pictures_with_json_beside_them(page: Path, tmp_path: Path) -> None:
    result = run(page, "--out", tmp_path / "seen" / "deep")
    assert result.exit_code == 0, result.exception
    assert "page.png" in result.stdout
    with Image.open(tmp_path / "seen" / "deep" / "page.png") as picture:
        assert picture.format == "PNG"
        assert max(picture.size) >= 1000
    reported = json.loads((tmp_path / "seen" / "deep" / "page.json").read_text(encoding="utf-8"))
    assert reported == lines(run(page, "--json"))[0]
    both = run(page, "--out", tmp_path / "seen" / "deep", "--json")
    assert lines(both) == [reported]


def test_a_large_picture_is_a_jpeg(tmp_path: Path) -> None:
    Image.new("RGB", (3000, 2200), "white").save(tmp_path / "large.png")
    path = write_seen(
        see_photograph(Fragment("large.png", tmp_path / "large.png"), MEMBRA), tmp_path, PurePosixPath("x/y")
    )
    assert path == tmp_path / "x" / "y.jpg"
    with Image.open(path) as picture:
        assert picture.format == "JPEG"


def test_what_cannot_be_read_is_reported_and_the_rest_goes_on(page: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_text("no image")
    result = run(tmp_path, "--json")
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if "..." not in line] == [
        "broken.jpg: not a readable image (unknown format); save it as JPEG, PNG or TIFF"
    ]
    broken, fine = lines(result)
    assert set(broken) == KEYS | {"error"}
    assert set(fine) == KEYS
    assert run(tmp_path, "--out", tmp_path / "seen").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == ["page.json", "page.png"]


def test_only_where_nothing_can_be_read_it_fails(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_text("no image")
    command = [sys.executable, "-c", "from membra.cli import main; main()", "see"]
    for arguments, said in (([tmp_path / "a.jpg"], "error: a.jpg: not a readable"), ([tmp_path], "error: none of 2")):
        done = subprocess.run(
            [*command, *map(str, arguments), "--json"], capture_output=True, text=True, env=os.environ, check=False
        )
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(said)
        assert all(json.loads(line)["error"] for line in done.stdout.splitlines())
    for wrong, said in ((tmp_path / "none.jpg", "does not exist"), (tmp_path / "none", "does not exist")):
        assert said in str(run(wrong).exception)


def test_sources_are_files_folders_and_tables(drawn: Path) -> None:
    one = drawn.parent / "images" / "0003.jpg"
    found = images_of((str(one), str(drawn)))
    assert [image.id for image in found[:2]] == ["0003.jpg", "images/0000.jpg"]
    assert len(found) == 13


def test_every_image_has_names_of_its_own_within_the_folder() -> None:
    ids = ["a.jpg", "a.png", "b.jpg", "../../etc/x.jpg", "/y.jpg", "s/a.jpg", "b.jpg"]
    names = [str(name) for name in file_names([Fragment(id, Path(id)) for id in ids])]
    assert names == ["a.jpg", "a.png", "b.jpg", "etc/x", "y", "s/a", "b.jpg-2"]


def test_a_photograph_is_never_written_over(page: Path) -> None:
    before = page.read_bytes()
    result = run(page, "--out", page.parent)
    assert isinstance(result.exception, MembraError)
    assert "contains the photographs" in str(result.exception)
    assert page.read_bytes() == before
    assert isinstance(run(page, "--out", page).exception, MembraError)


def test_the_note_is_that_of_the_description(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = written_page()[1]
    monkeypatch.setattr(
        seeing, "_readings", lambda fragment, recipe: [replace(few, glyphs=glyphs_of(np.ones((3, 4), np.int32)))]
    )
    assert see_photograph(Fragment("page.png", page), MEMBRA).best.note == "few letters"
