"""Cached codebooks and histograms are fitted once, and never used for other fragments or when damaged."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from membra.cli import cli
from membra.compare.methods import METHODS, distances
from membra.find.search import search
from membra.sources.fragment import Fragment
from membra.store.cache import keep_arrays
from membra.store.collection import Collection

BY_WORDS = [method.name for method in METHODS if method.codebook]


@pytest.fixture
def own(collection: Collection, tmp_path: Path) -> Collection:
    """A writable copy without codebooks."""
    shutil.copytree(collection.path, tmp_path / "own", ignore=shutil.ignore_patterns("codebook-*"))
    return Collection.open(tmp_path / "own")


def codebooks(collection: Collection) -> dict[str, tuple[int, int]]:
    """Identify the codebook files; fitting one replaces its file."""
    found = {file.name: file.stat() for file in collection.path.glob("codebook-*")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def first(collection: Collection) -> str:
    return collection.entries()[0].fragment.id


@pytest.mark.parametrize("method", BY_WORDS)
def test_kept_words_rank_as_freshly_fitted_ones(method: str, collection: Collection) -> None:
    """Bit for bit: with a codebook fitted now, with one that this search fits or finds, and with a cached one."""
    entries, found = collection.described()
    fresh = distances(found[2:3], found, method, same=[2])[0]
    expected = {entry.fragment.id: fresh[index] for index, entry in enumerate(entries) if index != 2}
    for _ in range(2):
        hits = search(collection, entries[2].fragment.id, method=method).hits
        assert {hit.id: hit.distance for hit in hits} == expected


def test_a_second_search_fits_nothing(own: Collection) -> None:
    assert codebooks(own) == {}
    before = search(own, first(own), method="two-stage")
    kept = codebooks(own)
    assert list(kept) == ["codebook-centroids.safetensors"]
    assert search(own, first(own), method="two-stage") == before
    search(own, own.entries()[3].fragment.path, method="bow-centroids-chi2")
    assert codebooks(own) == kept
    search(own, first(own), method="bow-raw-l2")
    assert sorted(codebooks(own)) == ["codebook-centroids.safetensors", "codebook-raw.safetensors"]


def test_what_is_kept_is_what_ranks(own: Collection) -> None:
    """Two fragments whose histograms are swapped in the file, with a valid checksum, swap ranks."""
    before = search(own, first(own), method="bow-raw-l2").hits
    file = own.path / "codebook-raw.safetensors"
    arrays = load_file(file)
    del arrays["check"]
    arrays["histograms"] = arrays["histograms"][[0, 2, 1, *range(3, 12)]]
    keep_arrays(file, arrays)
    names = [entry.fragment.id for entry in own.entries()]
    swapped = {names[1]: names[2], names[2]: names[1]}
    after = {hit.id: hit.distance for hit in search(own, first(own), method="bow-raw-l2").hits}
    assert after == {swapped.get(hit.id, hit.id): hit.distance for hit in before}


def test_of_a_collection_that_changed_it_is_fitted_anew(own: Collection, tmp_path: Path) -> None:
    search(own, first(own), method="bow-centroids-l2")
    kept = own.path / "codebook-centroids.safetensors"
    stale = kept.read_bytes()
    more = shutil.copy(own.entries()[5].fragment.path, tmp_path / "more.jpg")
    with Path(more).open("ab") as file:
        file.write(b"\0")  # another digest, the same picture
    own.add([Fragment("more.jpg", Path(more))])
    assert not kept.exists()
    kept.write_bytes(stale)  # as of a search that began before the change and ended after it
    assert any("codebook-centroids.safetensors is of other fragments" in note for note in own.verify().notes)
    ids = [hit.id for hit in search(own, first(own), method="bow-centroids-l2").hits]
    assert "more.jpg" in ids
    assert kept.read_bytes() != stale
    assert own.verify().notes == []
    own.remove(["more.jpg"])
    assert not kept.exists()
    search(own, first(own), method="bow-centroids-l2")
    assert kept.read_bytes() == stale  # the same fragments again: the same bytes


@pytest.mark.parametrize("offset", [20, -1, None])
def test_damage_is_found_and_it_is_fitted_anew(offset: int | None, own: Collection) -> None:
    before = search(own, first(own), method="bow-raw-cosine")
    file = own.path / "codebook-raw.safetensors"
    sound = bytearray(file.read_bytes())
    wrong = sound[:] if offset is None else sound
    if offset is None:
        del wrong[len(wrong) // 2 :]
    else:
        wrong[offset] ^= 1
    file.write_bytes(wrong)
    done = CliRunner().invoke(cli, ["verify", str(own.path)])
    assert done.exit_code == 0
    assert "note: codebook-raw.safetensors is damaged; the next search that counts words makes it anew" in done.stderr
    assert search(own, first(own), method="bow-raw-cosine") == before
    assert own.verify().notes == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_where_nothing_can_be_written_it_is_fitted_each_time(own: Collection) -> None:
    own.path.chmod(0o555)
    try:
        found = search(own, first(own), method="two-stage")
        assert codebooks(own) == {}
    finally:
        own.path.chmod(0o755)
    assert search(own, first(own), method="two-stage") == found


def test_a_full_disk_costs_nothing_but_time(own: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("membra.files.os.fsync", full)
        found = search(own, first(own), method="two-stage")
    assert [file.name for file in own.path.glob("*codebook*")] == []
    assert search(own, first(own), method="two-stage") == found


def test_histograms_are_of_the_fragments_in_their_order(own: Collection) -> None:
    search(own, first(own), method="bow-raw-l2")
    arrays = load_file(own.path / "codebook-raw.safetensors")
    _, found = own.described()
    assert arrays["codebook"].shape == (100, found[0].embeddings.shape[1])
    assert arrays["histograms"].shape == (12, 100)
    counted = (arrays["histograms"] / arrays["idf"]).sum(axis=1)
    np.testing.assert_allclose(counted, np.ones(len(found)))


def test_what_a_killed_search_left_is_cleared_away(own: Collection) -> None:
    """Half of a file under its temporary name, as a killed `atomic_write` leaves it."""
    search(own, first(own), method="bow-raw-l2")
    half = own.path / ".codebook-centroids.safetensors.killed.part"
    half.write_bytes((own.path / "codebook-raw.safetensors").read_bytes()[:1000])
    assert any(half.name in note for note in own.verify().notes)
    own.compact()
    assert not half.exists()
    assert "codebook-raw.safetensors" in codebooks(own)  # it is still of these fragments
