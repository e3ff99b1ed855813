"""The manifest: an older format reads as if it had been migrated, and migrated it is what a new one would be."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from made import stored
from membra.store import manifest
from membra.store.collection import Collection

FORMATS = Path(__file__).parent / "formats"
OLDER = [version for version in manifest.READS if version != str(manifest.FORMAT)]


def format_of(path: Path) -> str:
    with manifest.connect(path) as database:
        return manifest.read_meta(database)["format"]


@pytest.fixture(params=OLDER)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(FORMATS / request.param, tmp_path / "C"))


def test_an_older_format_is_read_with_defaults_and_stays_as_it_is(old: Path) -> None:
    before = format_of(old)
    held = Collection.open(old)
    for entry in held.entries():
        assert (entry.fragment.piece, entry.fragment.photograph) == (0, entry.fragment.id)
        assert (entry.angle, entry.letter_height, entry.legibility, entry.doubtful) == (None, 0.0, 1.0, False)
    entries, descriptions = held.described()
    assert len(entries) == len(descriptions) == 6
    assert descriptions[0].outline.shape == held.description(entries[0].fragment.id).outline.shape == (0, 2)
    assert format_of(old) == before != str(manifest.FORMAT)


def test_the_first_change_migrates_it(old: Path) -> None:
    """Whatever it was made by, it is afterwards what a new collection is, with what was there untouched."""
    before = Collection.open(old).entries()
    held = stored(old, [9])
    assert format_of(old) == str(manifest.FORMAT)
    entries = held.entries()
    assert entries[:-1] == before
    assert entries[-1].angle == 274.5
    assert held.verify().wrong == []
    with manifest.connect(old) as database:
        assert manifest.numbers_of(database, ["0000.jpg"]) == {entries[0].number}  # known by its photograph
    fresh = stored(old.with_name("fresh"), [9])
    for table in ("meta", "shards", "fragments"):
        shapes = []
        for path in (old, fresh.path):
            with closing(sqlite3.connect(path / manifest.FILE)) as database:
                columns = database.execute(f"PRAGMA table_info({table})").fetchall()
                indices = {row[1] for row in database.execute(f"PRAGMA index_list({table})")}
            shapes.append((columns, indices))
        assert shapes[0] == shapes[1], table


def test_what_was_seen_comes_back(tmp_path: Path) -> None:
    held = stored(tmp_path / "C", range(8))
    entries, descriptions = Collection.open(held.path).described()
    for seed, (entry, one) in enumerate(zip(entries, descriptions, strict=True)):
        assert entry.angle == one.angle == (None if seed % 4 == 3 else 30.5 * seed)
        assert entry.letter_height == one.letter_height == 20.0 + seed
        assert entry.legibility == one.legibility == 1.0 - seed % 5 / 10
        np.testing.assert_array_equal(one.outline, [[0, 0], [900, 5], [905, 900 + seed]])
        np.testing.assert_array_equal(held.description(entry.fragment.id).outline, one.outline)
