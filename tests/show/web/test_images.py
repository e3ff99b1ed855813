"""Pictures: tiles form the photograph as displayed, quickly, and files that are no images are rejected."""

import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from membra.errors import Refused
from membra.show.web.images import SMALL, TILE, Pictures, cache_folder
from membra.sources.photograph import read_photograph


@pytest.fixture
def pictures(tmp_path: Path) -> Pictures:
    return Pictures(tmp_path / "cache")


def photograph(path: Path, width: int, height: int, turn: int = 1) -> Path:
    """Write a smooth picture without repetition."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    exif = Image.Exif()
    exif[0x0112] = turn
    image = Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))
    options: dict[str, Any] = {"quality": 95} if path.suffix == ".jpg" else {}
    image.save(path, exif=exif, **options)
    return path


def put_together(pictures: Pictures, path: Path, level: int) -> NDArray[np.float64]:
    """Return the whole photograph at one level from its tiles."""
    rows = []
    for y in range(100):
        tiles = []
        for x in range(100):
            content = pictures.tile(path, level, x, y)
            if content is None:
                break
            tiles.append(np.asarray(Image.open(BytesIO(content)), float))
        if not tiles:
            break
        rows.append(np.concatenate(tiles, axis=1))
    return np.concatenate(rows)


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5, 6, 7, 8])
def test_tiles_are_the_photograph_as_displayed(pictures: Pictures, tmp_path: Path, turn: int) -> None:
    path = photograph(tmp_path / "one.jpg", 1300, 700, turn)
    expected = read_photograph(path).astype(float)
    size = pictures.size(path)
    assert (size.height, size.width) == expected.shape[:2]
    whole = put_together(pictures, path, size.most)
    assert whole.shape == expected.shape
    assert np.abs(whole - expected).mean() < 3
    least = put_together(pictures, path, size.least)
    assert max(least.shape[:2]) <= TILE
    thumbnail = np.asarray(Image.open(BytesIO(pictures.small(path))), float)
    assert max(thumbnail.shape[:2]) == SMALL
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        assert np.abs(thumbnail[corner] - expected[corner]).max() < 12


@pytest.mark.parametrize("side", [1, 7, TILE, TILE + 1, 2 * TILE])
def test_every_level_is_half_of_the_next(pictures: Pictures, tmp_path: Path, side: int) -> None:
    path = photograph(tmp_path / "one.png", side, max(1, side // 2))
    size = pictures.size(path)
    for level in range(size.least, size.most + 1):
        factor = 2 ** (size.most - level)
        picture = put_together(pictures, path, level)
        assert picture.shape[:2] == (-(-size.height // factor), -(-size.width // factor))
    assert pictures.tile(path, size.most + 1, 0, 0) is None
    assert pictures.tile(path, size.least - 1, 0, 0) is None
    assert pictures.tile(path, size.most, -1, 0) is None
    assert pictures.tile(path, size.most, 10**9, 0) is None


@pytest.mark.alone
def test_a_large_photograph_shows_within_seconds_and_then_at_once(pictures: Pictures, tmp_path: Path) -> None:
    path = photograph(tmp_path / "large.jpg", 7000, 5000)
    size = pictures.size(path)
    start = time.perf_counter()
    assert pictures.tile(path, size.least, 0, 0)
    assert pictures.small(path)
    first = time.perf_counter() - start
    start = time.perf_counter()
    assert pictures.tile(path, size.least, 0, 0)
    assert pictures.tile(path, size.most, 3, 3)  # the photograph is still decoded
    assert time.perf_counter() - start < 0.5
    assert first < 10


def test_a_photograph_that_changes_gets_new_pictures(pictures: Pictures, tmp_path: Path) -> None:
    path = photograph(tmp_path / "one.jpg", 600, 400)
    before = pictures.small(path)
    photograph(path, 400, 600)
    assert pictures.small(path) != before
    assert pictures.size(path).height == 600


def test_what_is_no_image_is_refused_and_what_is_gone_too(pictures: Pictures, tmp_path: Path) -> None:
    path = tmp_path / "one.jpg"
    path.write_text("no image")
    for ask in (pictures.size, pictures.small, pictures.whole):
        with pytest.raises(Refused, match="not a readable image"):
            ask(path)
    path.unlink()
    with pytest.raises(Refused, match="gone"):
        pictures.small(path)


def test_a_cache_that_cannot_be_written_costs_only_time(pictures: Pictures, tmp_path: Path) -> None:
    import shutil

    path = photograph(tmp_path / "one.jpg", 600, 400)
    shutil.rmtree(pictures.cache)
    pictures.cache.write_text("a file where a folder should be")
    assert pictures.small(path) == pictures.small(path)


def test_the_oldest_pictures_are_cleared_away(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    paths = [photograph(tmp_path / f"{number}.jpg", 600, 400 + number) for number in range(4)]
    for path in paths:
        pictures.small(path)
    folders = sorted(pictures.cache.glob("*/*"), key=lambda folder: folder.stat().st_mtime_ns)
    os.utime(folders[2], (1, 1))
    kept = sum(file.stat().st_size for folder in folders if folder != folders[2] for file in folder.iterdir())
    monkeypatch.setattr("membra.show.web.images._KEPT_BYTES", kept)
    pictures.tidy()
    assert [folder.exists() for folder in folders] == [True, True, False, True]


def test_the_cache_is_the_users_or_a_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own" / "membra"
    (tmp_path / "file").write_text("where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_folder() == Path(tempfile.gettempdir()) / "membra"
