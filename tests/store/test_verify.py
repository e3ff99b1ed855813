"""`verify` accepts sound collections, and reports each inconsistency with its remedy."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from factories import stored
from membra.cli import cli
from membra.find.search import search
from membra.store.collection import Collection
from membra.store.placements import Lies, Placements
from membra.store.verdicts import Verdicts


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("whole") / "C", range(20), 7).path


def test_verify_as_a_command(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "C"
    shutil.copytree(whole, path)
    done = CliRunner().invoke(cli, ["verify", str(path)])
    assert (done.exit_code, done.stdout) == (0, f"{path}: 20 fragments in 3 shards, all sound\n")
    (path / "shards" / "left.safetensors").write_bytes(b"by a writer that was killed")
    done = CliRunner().invoke(cli, ["verify", str(path)])
    assert done.exit_code == 0
    assert "note: shards/left.safetensors: left by" in done.stderr
    assert CliRunner().invoke(cli, ["compact", str(path)]).stdout == f"{path}: 3 shards before, 1 now\n"
    assert CliRunner().invoke(cli, ["verify", str(path)]).stderr == "checking ...\n"


def wrong(path: Path) -> str:
    (said,) = Collection(path, Collection.open(path).recipe).verify().wrong
    return said


def test_verify_tells_what_does_not_fit(whole: Path, tmp_path: Path) -> None:
    for number, (change, said) in enumerate(
        [
            ("UPDATE fragments SET place = 5 WHERE id = '0003.jpg'", "not the one that the manifest names"),
            ("UPDATE fragments SET glyphs = 1000 WHERE id = '0003.jpg'", "not the one that the manifest names"),
            ("UPDATE shards SET numbers = zeroblob(4) WHERE rowid = 1", "the manifest knows 1"),
        ]
    ):
        path = tmp_path / str(number)
        shutil.copytree(whole, path)
        with sqlite3.connect(path / "manifest.sqlite") as database:
            database.execute(change)
        assert any(said in one for one in Collection.open(path).verify().wrong)
    path = tmp_path / "encoder"
    shutil.copytree(whole, path)
    next(path.glob("encoder-*")).write_bytes(b"another")
    assert "encoder" in wrong(path)


def test_verify_reads_what_people_entered(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "C"
    shutil.copytree(whole, path)
    a, b, lies = "0001.jpg", "0002.jpg", Lies(0, 0)
    Verdicts.open(path).give(a, b, "join", by="Rivka", note="one hand " * 1000)
    Placements.open(path).place(a, b, lies, lies, unit="mm", by="Rivka")
    assert Collection.open(path).verify().wrong == []
    for name in ("verdicts.sqlite", "placements.sqlite"):
        content = (path / name).read_bytes()
        for damaged in (b"no database at all, but long enough to be read as one" * 40, content[: len(content) // 2]):
            (path / name).write_bytes(damaged)
            assert name in wrong(path)
        (path / name).write_bytes(content)
    with sqlite3.connect(path / "placements.sqlite") as database:
        database.execute("ALTER TABLE placements DROP COLUMN unit")
    assert "placements.sqlite" in wrong(path)


def test_damaged_scales_are_measured_again(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "C"
    shutil.copytree(whole, path)
    expected = search(Collection.open(path), "0003.jpg")
    next(path.glob("scales-*")).write_bytes(b"damaged")
    found = Collection.open(path).verify()
    assert found.wrong == []
    assert "damaged or lost" in found.notes[0]
    assert search(Collection.open(path), "0003.jpg") == expected
    stored(path, [30])
    assert Collection.open(path).verify().notes == []
