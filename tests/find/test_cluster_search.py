"""Search on a real Dask cluster of a collection that is being merged into, and by shelfmarks and paths."""

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from factories import stored
from membra.compare.methods import MAPPED
from membra.find.cluster_search import search_on
from membra.find.search import Ranking, search
from membra.store import merge as merging
from membra.store.cluster import Client, connected
from membra.store.collection import Collection
from membra.store.merge import merge
from pool import Pool

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of two workers."""
    pool = Pool(tmp_path_factory.mktemp("pool"))
    try:
        for _ in range(2):
            pool.worker()
        pool.wait_for(2)
        with connected(pool.address) as client:
            yield client
    finally:
        pool.stop()


class KilledError(Exception):
    """The end of a merge."""


def killed_merge(into: Collection, source: Collection) -> Collection:
    """Merge, and end after the first shard."""

    def killed(done: int, total: int) -> None:
        assert done < total
        raise KilledError

    with pytest.raises(KilledError):
        merge(into, source, progress=killed)
    return Collection.open(into.path)


@pytest.mark.parametrize("before", [0, 12])
def test_after_a_killed_merge_it_is_the_local_search(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(merging, "_AT_ONCE", 10)
    merged = killed_merge(stored(tmp_path / "into", range(before)), stored(tmp_path / "source", range(12, 40)))
    ids = [entry.fragment.id for entry in merged.entries()]
    assert len(ids) == before + 10
    for query, method in product((ids[0], ids[-1]), MAPPED):
        check(search_on(client, merged, query, method=method), search(merged, query, method=method), len(ids) - 1)


def test_an_image_from_outside_after_a_killed_merge(
    client: Client, collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_AT_ONCE", 3)
    ids = [entry.fragment.id for entry in collection.entries()]
    into, source = (Collection.open(shutil.copytree(collection.path, tmp_path / name)) for name in ("into", "source"))
    into.remove(ids[6:])
    source.remove(ids[:6])
    shutil.copy(collection.entries()[7].fragment.path, tmp_path / "outside.jpg")
    merged = killed_merge(into, source)
    outside = tmp_path / "outside.jpg"
    check(search_on(client, merged, outside), search(merged, outside), 9)


def check(theirs: Ranking, ours: Ranking, count: int) -> None:
    assert len(theirs.hits) == min(20, count)
    assert [hit.id for hit in theirs.hits] == [hit.id for hit in ours.hits]
    assert [hit.distance for hit in theirs.hits] == pytest.approx(
        [hit.distance for hit in ours.hits], rel=1e-5, abs=1e-6
    )


def test_shelfmarks_and_paths_name_fragments(client: Client, tmp_path: Path) -> None:
    mine = stored(tmp_path / "mine", range(12))
    with mine.writing() as writer:
        writer.annotate({"0003.jpg": {"shelfmark": "T-S NS 100.1"}})
    expected = search(mine, "0003.jpg").hits
    for query in ("TS NS 100.1", tmp_path / "0003.jpg"):
        assert [hit.id for hit in search_on(client, mine, query).hits] == [hit.id for hit in expected]


def test_an_image_from_outside_in_a_collection_without_fragments(
    client: Client, collection: Collection, tmp_path: Path
) -> None:
    none = Collection.open(shutil.copytree(collection.path, tmp_path / "none"))
    ids = [entry.fragment.id for entry in none.entries()]
    none.remove(ids)
    assert search_on(client, none, collection.entries()[0].fragment.path).hits == []
