"""Collections return what was stored, describe nothing twice, and report damage and foreign files."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from factories import random_encoder
from membra.describe import workers
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, describe
from membra.errors import MembraError
from membra.find.search import search
from membra.sources.fragment import Fragment, fragments
from membra.store import open_files
from membra.store.collection import Collection
from membra.store.index import index
from membra.store.redescribe import redescribe
from membra.store.shard import Shard, open_shard
from membra.store.tensors import FileRecord


@pytest.fixture
def own(collection: Collection, tmp_path: Path) -> Collection:
    """A copy that a test may change."""
    shutil.copytree(collection.path, tmp_path / "own")
    return Collection.open(tmp_path / "own")


def test_what_was_described_comes_back(collection: Collection, drawn: Path, encoder: Encoder) -> None:
    entries, found = Collection.open(collection.path).described()
    assert [entry.fragment.id for entry in entries] == [fragment.id for fragment in fragments(drawn)]
    expected = describe(entries[3].fragment, encoder, MEMBRA)
    np.testing.assert_array_equal(found[3].boxes, expected.boxes)
    np.testing.assert_array_equal(found[3].embeddings, expected.embeddings)
    np.testing.assert_array_equal(found[3].bag.prototypes, expected.bag.prototypes)
    np.testing.assert_array_equal(found[3].bag.members, expected.bag.members)
    assert found[3].bag.error == expected.bag.error
    assert entries[3].fragment.columns["join"].startswith("m")


def test_adding_again_describes_nothing(own: Collection, drawn: Path) -> None:
    added = own.add(fragments(drawn))
    assert (added.described, added.unchanged) == (0, 12)


@pytest.fixture
def three(drawn: Path, tmp_path: Path) -> Path:
    """A folder with three of the drawn images, which a test may change."""
    source = tmp_path / "three"
    source.mkdir()
    for name in ("0000.jpg", "0001.jpg", "0002.jpg"):
        shutil.copy(drawn.parent / "images" / name, source)
    return source


def test_a_changed_image_is_described_again(three: Path, tmp_path: Path, encoder: Encoder) -> None:
    own, _ = index(fragments(three), tmp_path / "C", recipe=MEMBRA, encoder=encoder)
    (three / "0000.jpg").write_bytes((three / "0001.jpg").read_bytes())
    added = own.add(fragments(three))
    assert (added.described, added.unchanged, len(own.entries())) == (1, 2, 3)
    entries, found = own.described()
    first, second = ([e.fragment.id for e in entries].index(name) for name in ("0000.jpg", "0001.jpg"))
    np.testing.assert_array_equal(found[first].embeddings, found[second].embeddings)


def test_an_image_of_the_same_name_elsewhere_is_not_taken_for_a_change(
    three: Path, tmp_path: Path, encoder: Encoder
) -> None:
    own, _ = index(fragments(three), tmp_path / "C", recipe=MEMBRA, encoder=encoder)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(three / "0001.jpg", other / "0000.jpg")
    added = own.add(fragments(other))
    assert added.described == 0
    assert "another image of this name" in added.refused[0][1]
    shutil.rmtree(three)  # the folder was moved: the same bytes elsewhere are the same fragment
    shutil.copy(other / "0000.jpg", other / "0001.jpg")
    assert own.add([f for f in fragments(other) if f.id == "0001.jpg"]).unchanged == 1


def test_a_description_stays_while_its_image_is_missing(three: Path, tmp_path: Path, encoder: Encoder) -> None:
    """A drive is not there, or a IIIF server does not answer after its images were deleted."""
    own, _ = index(fragments(three), tmp_path / "C", recipe=MEMBRA, encoder=encoder)
    before, images = own.entries(), fragments(three)
    for name in ("0000.jpg", "0001.jpg"):
        (three / name).rename(tmp_path / name)
    missing = [replace(images[0], refused="the server is away"), *images[1:]]
    added = own.add([*missing, Fragment("new.jpg", three / "new.jpg")])
    assert (added.described, added.unchanged) == (0, 1)
    assert dict(added.refused) == {
        "0000.jpg": "the server is away; the earlier description is kept",
        "0001.jpg": "the file cannot be read; the earlier description is kept",
        "new.jpg": "new.jpg: the file is gone",
    }
    assert own.entries()[:3] == before
    assert own.add([Fragment("new.jpg", three / "new.jpg")]).refused == [("new.jpg", "new.jpg: the file is gone")]
    for name in ("0000.jpg", "0001.jpg"):
        (tmp_path / name).rename(three / name)
    assert own.add(images).unchanged == 3


def test_in_two_parts_or_at_once_gives_the_same_rankings(
    collection: Collection, drawn: Path, tmp_path: Path, encoder: Encoder
) -> None:
    whole = fragments(drawn)
    parts, _ = index(whole[:5], tmp_path / "parts", recipe=MEMBRA, encoder=encoder)
    parts.add(whole[5:])
    parts.remove([whole[2].id])
    parts.add([whole[2]])
    expected = {hit.id: hit.distance for hit in search(collection, whole[0].id).hits}
    found = search(parts, whole[0].id).hits
    assert {hit.id: hit.distance for hit in found} == pytest.approx(expected, abs=1e-6)


def _die(fragment: object, **_: object) -> None:
    os._exit(9)


def test_a_worker_that_dies_is_reported(
    drawn: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_describe", _die)
    with pytest.raises(MembraError, match="a worker process died"):
        index(fragments(drawn), tmp_path / "D", recipe=MEMBRA, encoder=encoder, workers=2)


def test_worker_processes_describe_the_same(
    collection: Collection, drawn: Path, tmp_path: Path, encoder: Encoder
) -> None:
    own, added = index(fragments(drawn), tmp_path / "C", recipe=MEMBRA, encoder=encoder, workers=2)
    assert added.described == 12
    for a, b in zip(own.described()[1], collection.described()[1], strict=True):
        np.testing.assert_allclose(a.bag.prototypes, b.bag.prototypes, atol=1e-5)


def test_unreadable_images_are_listed_and_the_rest_goes_on(drawn: Path, tmp_path: Path, encoder: Encoder) -> None:
    source = tmp_path / "source"
    shutil.copytree(drawn.parent / "images", source)
    (source / "0000.jpg").write_bytes(b"\xff\xd8 torn off")
    own, added = index(fragments(source), tmp_path / "C", recipe=MEMBRA, encoder=encoder)
    assert (added.described, [id for id, _ in added.refused]) == (11, ["0000.jpg"])
    entry = own.entries()[0]
    assert (entry.fragment.id, entry.glyphs) == ("0000.jpg", 0)
    assert "not a readable image" in entry.refused
    with pytest.raises(MembraError, match=r"0000\.jpg is in the collection but was not described"):
        search(own, "0000.jpg")
    again = own.add(fragments(source))
    assert (again.unchanged, len(again.refused)) == (11, 1)  # tried again, and reported again


def test_when_nothing_can_be_read_nothing_is_left(tmp_path: Path, encoder: Encoder) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.jpg").write_text("no")
    with pytest.raises(MembraError, match="none of the 1 images could be read"):
        index(fragments(source), tmp_path / "C", recipe=MEMBRA, encoder=encoder)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_what_is_no_collection(tmp_path: Path) -> None:
    (tmp_path / "manifest.sqlite").write_text("not a database, but long enough to be read as one" * 9)
    for path, said in ((tmp_path / "nothing", "is not a collection"), (tmp_path, "cannot be used")):
        with pytest.raises(MembraError, match=said):
            Collection.open(path)


def test_a_damaged_or_lost_shard_is_reported(own: Collection) -> None:
    shard = next((own.path / "shards").iterdir())
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(MembraError, match="damaged"):
        Collection.open(own.path).described()
    shard.unlink()
    with pytest.raises(MembraError, match="lacks the shard"):
        Collection.open(own.path)


def test_a_strange_encoder_in_the_folder_is_reported(own: Collection) -> None:
    next(own.path.glob("encoder-*.onnx")).write_bytes(random_encoder(seed=3).onnx)
    with pytest.raises(MembraError, match="not the encoder of this collection"):
        own.encoder()


def test_removing_what_is_not_there_removes_nothing(own: Collection) -> None:
    first = own.entries()[0].fragment.id
    with pytest.raises(MembraError, match=r"nowhere\.jpg is not in"):
        own.remove([first, "nowhere.jpg"])
    assert len(own.entries()) == 12


def test_a_reader_that_meets_a_replacement_reads_again(
    own: Collection, drawn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard vanishes while it is read because its fragments have just been merged into another."""
    read = open_shard
    failures: list[FileRecord] = []

    def interrupted(folder: Path, record: FileRecord) -> Shard:
        if not failures:
            failures.append(record)
            own.remove([own.entries()[0].fragment.id])
            own.compact()  # the manifest changes during the read
        return read(folder, record)

    reader = Collection.open(own.path)
    monkeypatch.setattr(open_files, "open_shard", interrupted)
    assert len(reader.described()[1]) == 11
    assert failures


def test_a_collection_adapted_meanwhile_is_reported(own: Collection) -> None:
    reader = Collection.open(own.path)
    redescribe(own, random_encoder(seed=9))
    for work in (reader.described, lambda: reader.remove([]), lambda: reader.description("images/0000.jpg")):
        with pytest.raises(MembraError, match="adapted since it was opened"):
            work()
    assert len(Collection.open(own.path).described()[1]) == 12


def test_one_description_without_the_rest(own: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, found = own.described()
    collection = Collection.open(own.path)
    monkeypatch.setattr(Collection, "described", None)
    one = collection.description(entries[4].fragment.id)
    np.testing.assert_array_equal(one.embeddings, found[4].embeddings)
    assert one.note == found[4].note
    with pytest.raises(MembraError, match="nowhere is not in"):
        collection.description("nowhere")


def test_an_empty_collection_answers(drawn: Path, encoder: Encoder, tmp_path: Path) -> None:
    own = Collection.create(tmp_path / "C", encoder=encoder)
    assert own.described() == ([], [])
    image = fragments(drawn)[0].path
    for method in ("fused", "bob-local", "bob-transport", "pool-mean-cosine"):
        assert search(own, image, method=method).hits == []
    assert own.compact() == (0, 0)
    assert own.verify().wrong == []


def test_what_a_killed_creation_left_is_cleared_away(encoder: Encoder, tmp_path: Path) -> None:
    left = tmp_path / ".C.abc.unfinished"
    left.mkdir()
    (left / "writer.lock").touch()
    (tmp_path / ".C.old").mkdir()
    (tmp_path / ".C.old" / "writer.lock").touch()  # another file of the user
    Collection.create(tmp_path / "C", encoder=encoder)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".C.old", "C"]
