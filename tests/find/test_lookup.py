"""A query names a fragment by id, by the path of its image in any spelling, or by shelfmark."""

import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from membra import scribes
from membra.errors import Invalid, MembraError
from membra.find.lookup import entry_of
from membra.find.search import search
from membra.sources.fragment import fragments
from membra.store.collection import Collection


@pytest.fixture
def own(collection: Collection, drawn: Path, tmp_path: Path) -> Collection:
    """The drawn collection, with `..` in the paths of its images."""
    own = Collection.open(shutil.copytree(collection.path, tmp_path / "own"))
    added = own.add(fragments(drawn.parent / ".." / drawn.parent.name / drawn.name))
    assert (added.unchanged, added.described) == (12, 0)
    assert all(".." in str(entry.fragment.path) for entry in own.entries())
    return own


def test_an_image_is_its_fragment_by_any_path(own: Collection, drawn: Path, tmp_path: Path) -> None:
    twin = own.entries()[4].fragment
    (tmp_path / "link.jpg").symlink_to(drawn.parent / twin.id)
    expected = search(own, twin.id, exclude_same="join").hits
    for path in (
        drawn.parent / twin.id,
        drawn.parent / "." / ".." / drawn.parent.name / twin.id,
        tmp_path / "link.jpg",
    ):
        assert twin.id not in {hit.id for hit in search(own, path).hits}
        assert search(own, path, exclude_same="join").hits == expected
    shutil.copy(twin.path, tmp_path / "copy.jpg")
    assert search(own, tmp_path / "copy.jpg").hits[0].id == twin.id


def test_a_query_that_is_not_utf8_is_rejected(own: Collection, tmp_path: Path) -> None:
    name = os.fsdecode(b"foto\xe9.jpg")
    shutil.copy(own.entries()[4].fragment.path, tmp_path / name)
    for query in (name, tmp_path / name):
        with pytest.raises(Invalid, match=r"foto\?\.jpg: its name is not UTF-8; rename the file"):
            search(own, query)


def test_a_query_from_a_folder_that_is_not_utf8(
    own: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"M\xfcnchen")
    folder.mkdir()
    twin = own.entries()[4].fragment
    shutil.copy(twin.path, folder / "copy.jpg")
    monkeypatch.chdir(folder)
    assert search(own, "copy.jpg").hits[0].id == twin.id
    with own.reading() as state:
        known = entry_of(state.database, twin.id)
        assert known is not None
        assert known.fragment.id == twin.id
        assert entry_of(state.database, "nothing.jpg") is None


def test_a_column_that_nothing_has_is_reported_for_an_image_from_outside_too(own: Collection, tmp_path: Path) -> None:
    outside = tmp_path / "outside.png"
    Image.fromarray(scribes.fragment(scribes.hand(1), scribes.camera(1), letters=30, seed=2).image).save(outside)
    assert search(own, outside, exclude_same="join").hits
    with pytest.raises(MembraError, match="no fragment has a column `nosuch`"):
        search(own, outside, exclude_same="nosuch")


def test_an_image_without_writing_is_named(own: Collection, tmp_path: Path) -> None:
    Image.new("RGB", (300, 300), "white").save(tmp_path / "blank.png")
    with pytest.raises(MembraError, match=r"blank\.png: no "):
        search(own, tmp_path / "blank.png")
