"""Damage and other formats: told on opening and by `verify`, never a wrong ranking; stored collections still open."""

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from made import stored
from membra.cli import cli
from membra.errors import MembraError
from membra.find import collection as collecting
from membra.find.collection import Collection
from membra.find.search import search

FORMATS = Path(__file__).parent / "formats"
METHODS = ("fused", "bob-transport", "pool-mean-l2", "pool-max-l2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("whole") / "C", range(20), 7).path


def rankings(path: Path) -> list[object]:
    held = Collection.open(path)
    return [search(held, "0003.jpg", method=method) for method in METHODS]


def broken(path: Path, trials: int, *, cut: bool) -> Iterator[None]:
    """One of the shards with a byte flipped or cut off somewhere, so many times; then whole again."""
    draw = random.Random(7)
    shards = sorted((path / "shards").iterdir())
    for _ in range(trials):
        shard = draw.choice(shards)
        content = shard.read_bytes()
        place = draw.randrange(len(content))
        changed = content[:place] if cut else bytearray(content)
        if isinstance(changed, bytearray):
            changed[place] ^= 1 << draw.randrange(8)
        shard.unlink()
        shard.write_bytes(changed)
        yield
        shard.unlink()
        shard.write_bytes(content)


@pytest.mark.parametrize(("cut", "trials"), [(True, 50), (False, 200)], ids=["truncated", "a byte flipped"])
def test_damage_is_told_on_opening_and_by_verify(whole: Path, tmp_path: Path, cut: bool, trials: int) -> None:
    path = tmp_path / "C"
    shutil.copytree(whole, path)
    held = Collection.open(path)
    for _ in broken(path, trials, cut=cut):
        with pytest.raises(MembraError, match="is damaged"):
            Collection.open(path)
        assert len(held.verify().wrong) == 1
    assert held.verify().wrong == []


@pytest.mark.parametrize(("cut", "trials"), [(True, 20), (False, 60)], ids=["truncated", "a byte flipped"])
def test_in_a_large_collection_it_is_told_when_it_matters(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool, trials: int
) -> None:
    """Opened without reading it all, and searched: an error, or the ranking of the sound collection."""
    path, expected, told = tmp_path / "C", None, 0
    shutil.copytree(whole, path)
    monkeypatch.setattr(collecting, "_CHECKED_AT_OPEN", 0)
    expected = rankings(path)
    for _ in broken(path, trials, cut=cut):
        try:
            assert rankings(path) == expected
        except MembraError as error:
            told += "is damaged" in str(error)
    assert told > trials / 2
    assert rankings(path) == expected


def test_damage_under_an_open_collection_is_told(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "C"
    shutil.copytree(whole, path)
    held = Collection.open(path)
    search(held, "0003.jpg")
    for _ in broken(path, 5, cut=True):
        with pytest.raises(MembraError, match="is damaged"):
            search(held, "0003.jpg")


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


def test_damaged_scales_are_measured_again(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "C"
    shutil.copytree(whole, path)
    expected = rankings(path)
    next(path.glob("scales-*")).write_bytes(b"damaged")
    found = Collection.open(path).verify()
    assert found.wrong == []
    assert "damaged or lost" in found.notes[0]
    assert rankings(path) == expected
    stored(path, [30])
    assert Collection.open(path).verify().notes == []


@pytest.mark.parametrize("version", ["1", "3", "99"])
def test_another_format_is_refused_with_what_to_do(whole: Path, tmp_path: Path, version: str) -> None:
    shutil.copytree(whole, tmp_path / "C")
    with sqlite3.connect(tmp_path / "C" / "manifest.sqlite") as database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'format'", (version,))
    for work in ("verify", "compact", "list"):
        done = CliRunner().invoke(cli, [work, str(tmp_path / "C")])
        assert isinstance(done.exception, MembraError)
        assert f"has format {version}, and this membra reads 2; index the images again" in str(done.exception)


@pytest.mark.parametrize("version", ["2"])
def test_stored_collections_of_every_format_open(version: str, tmp_path: Path) -> None:
    """Made by `tests/find/formats/make.py` when that format was new."""
    shutil.copytree(FORMATS / version, tmp_path / "C")
    held = Collection.open(tmp_path / "C")
    found = held.verify()
    assert (found.wrong, found.notes, found.fragments) == ([], [], 6)
    for method, expected in json.loads((FORMATS / version / "expected.json").read_text()).items():
        hits = search(held, "0000.jpg", method=method).hits
        assert [hit.id for hit in hits] == [id for id, _ in expected]
        assert [hit.distance for hit in hits] == pytest.approx([distance for _, distance in expected], abs=1e-5)
    stored(held.path, [9])
    held.compact()
    assert held.verify().wrong == []
