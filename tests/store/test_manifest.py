"""A manifest of an older format reads as if migrated, and equals a new one after migration."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from factories import stored
from membra.errors import Refused
from membra.messages import Message
from membra.sources.fragment import Fragment
from membra.store import manifest
from membra.store.batch import write_batch
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
    collection = Collection.open(old)
    for entry in collection.entries():
        assert (entry.fragment.piece, entry.fragment.photograph) == (0, entry.fragment.id)
        assert (entry.angle, entry.letter_height, entry.legibility, entry.doubtful) == (None, 0.0, 1.0, False)
    entries, descriptions = collection.described()
    assert len(entries) == len(descriptions) == 6
    assert descriptions[0].outline.shape == collection.description(entries[0].fragment.id).outline.shape == (0, 2)
    assert format_of(old) == before != str(manifest.FORMAT)


def test_the_first_change_migrates_it(old: Path) -> None:
    """Whichever version created it, its schema is afterwards that of a new collection, with its content unchanged."""
    before = Collection.open(old).entries()
    collection = stored(old, [9])
    assert format_of(old) == str(manifest.FORMAT)
    entries = collection.entries()
    assert entries[:-1] == before
    assert entries[-1].angle == 274.5
    assert collection.verify().wrong == []
    with manifest.connect(old) as database:
        assert manifest.numbers_of(database, ["0000.jpg"]) == {entries[0].number}  # found by its photograph
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
    collection = stored(tmp_path / "C", range(8))
    entries, descriptions = Collection.open(collection.path).described()
    for seed, (entry, one) in enumerate(zip(entries, descriptions, strict=True)):
        assert entry.angle == one.angle == (None if seed % 4 == 3 else 30.5 * seed)
        assert entry.letter_height == one.letter_height == 20.0 + seed
        assert entry.legibility == one.legibility == 1.0 - seed % 5 / 10
        np.testing.assert_array_equal(one.outline, [[0, 0], [900, 5], [905, 900 + seed]])
        np.testing.assert_array_equal(collection.description(entry.fragment.id).outline, one.outline)


def refused(path: Path, fragment: Fragment, reason: Refused) -> Collection:
    """Add one more fragment, which is rejected, to the collection."""
    collection = stored(path, [1])
    with collection.writing() as writer:
        writer.store(write_batch(path, [(fragment, "", reason)]))
    return Collection.open(path)


def test_a_reason_comes_back_with_what_it_was_made_of(tmp_path: Path) -> None:
    why = Refused("{file}: not a readable image ({why})", file="x.jpg", why=Message("unknown format"))
    collection = refused(tmp_path / "C", Fragment("x.jpg", tmp_path / "x.jpg"), why)
    kept = collection.entries()[-1].refused
    assert kept == "x.jpg: not a readable image (unknown format)"
    assert isinstance(kept, Message)
    assert kept.values == {"file": "x.jpg", "why": "unknown format"}
    assert isinstance(kept.values["why"], Message)
    with pytest.raises(Refused, match="was not described: x") as error:
        collection.description("x.jpg")
    assert error.value.values["why"] == kept
    with closing(sqlite3.connect(collection.path / manifest.FILE)) as database:
        assert database.execute("SELECT refused FROM fragments WHERE id = 'x.jpg'").fetchone() == (str(kept),)


def test_a_reason_without_what_it_was_made_of_stays_as_it_is(tmp_path: Path) -> None:
    """As in a collection older than the table `reasons`; the next change creates it."""
    why = Refused("{file}: the file is gone", file="x.jpg")
    collection = refused(tmp_path / "C", Fragment("x.jpg", tmp_path / "x.jpg"), why)
    with closing(sqlite3.connect(collection.path / manifest.FILE)) as database, database:
        database.execute("DROP TABLE reasons")
    assert collection.entries()[-1].refused == "x.jpg: the file is gone"
    assert not isinstance(collection.entries()[-1].refused, Message)
    assert collection.verify().wrong == []
    with collection.writing() as writer:
        writer.store(write_batch(collection.path, [(Fragment("x.jpg", tmp_path / "x.jpg"), "", why)]))
    assert isinstance(collection.entries()[-1].refused, Message)


@pytest.mark.parametrize("kept", ["", "{", "7", '{"message": "something else", "values": {}}'])
def test_what_does_not_give_the_sentence_is_not_believed(tmp_path: Path, kept: str) -> None:
    collection = refused(tmp_path / "C", Fragment("x.jpg", tmp_path / "x.jpg"), Refused("{file}: gone", file="x.jpg"))
    with manifest.connect(collection.path, write=True) as database:
        database.execute("UPDATE reasons SET message = ?", (kept,))
    assert collection.entries()[-1].refused == "x.jpg: gone"
    assert not isinstance(collection.entries()[-1].refused, Message)


def test_what_is_kept_while_all_is_described_anew_keeps_its_reasons(tmp_path: Path) -> None:
    collection = stored(tmp_path / "C", [1])
    fragment, why = Fragment("0001.jpg", tmp_path / "0001.jpg"), Refused("{file}: the file is gone", file="0001.jpg")
    with collection.writing() as writer:
        writer.keep(write_batch(collection.path, [(fragment, "", why)]), collection.recipe)
        writer.replace(writer.kept(collection.recipe, [(fragment, "")]), collection.recipe)
    (entry,) = collection.entries()
    assert isinstance(entry.refused, Message)
    assert entry.refused.values == {"file": "0001.jpg"}
