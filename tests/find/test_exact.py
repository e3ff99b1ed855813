"""Search over mapped shards gives the plain ranking, whatever was added, removed and merged before."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from factories import description, stored
from membra.compare.distance import chamfer
from membra.compare.methods import MAPPED, distances
from membra.find import pruned
from membra.find.exact import Query, nearest_rows
from membra.find.search import search, search_many
from membra.store import rows
from membra.store import writer as writing
from membra.store.collection import Collection

SEEDS = range(60)
GONE = (3, 17, 18, 40)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """60 fragments added in parts, four of them removed; a copy of one of them under another name."""
    collection = stored(tmp_path_factory.mktemp("grown") / "C", SEEDS[:23])
    collection.remove([f"{seed:04d}.jpg" for seed in GONE[:2]])
    collection = stored(collection.path, SEEDS[23:])
    collection.remove([f"{seed:04d}.jpg" for seed in GONE[2:]])
    return collection


def plainly(collection: Collection, query: int, method: str) -> list[tuple[str, float]]:
    entries, descriptions = collection.described()
    own = [entry.fragment.id for entry in entries].index(f"{query:04d}.jpg")
    row = distances([descriptions[own]], descriptions, method, same=[own])[0]
    ids = [entry.fragment.id for entry in entries]
    return [(ids[index], row[index]) for index in np.argsort(row, kind="stable").tolist() if index != own]


@pytest.mark.parametrize("method", MAPPED)
def test_the_plain_ranking(grown: Collection, method: str) -> None:
    for query in (0, 29, 59):
        expected = plainly(grown, query, method)
        for top in (1, 7, 100):
            found = search(grown, f"{query:04d}.jpg", method=method, top=top)
            assert [hit.id for hit in found.hits] == [id for id, _ in expected[:top]]
            np.testing.assert_allclose([hit.distance for hit in found.hits], [d for _, d in expected[:top]], rtol=2e-6)


@pytest.mark.parametrize("method", ["bob-chamfer", "bob-local", "fused"])
def test_a_processor_without_products_of_bytes_finds_the_same(
    grown: Collection, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [search(grown, "0029.jpg", method=method, top=30, shortlist=how).hits for how in ("off", "12")]
    for module in (pruned, rows):
        monkeypatch.setattr(module, "int8_supported", lambda: False)
    assert [search(grown, "0029.jpg", method=method, top=30, shortlist=how).hits for how in ("off", "12")] == looks


def test_chamfer_is_the_plain_formula_to_the_last_digits(grown: Collection) -> None:
    own = grown.description("0000.jpg").bag
    for hit in search(grown, "0000.jpg", method="bob-chamfer").hits:
        assert hit.distance == pytest.approx(chamfer(own, grown.description(hit.id).bag), rel=1e-12)


@pytest.mark.parametrize("method", ["fused", "bob-transport", "pool-mean-cosine"])
def test_several_queries_at_once(grown: Collection, method: str) -> None:
    names = ["0005.jpg", "0044.jpg", "0008.jpg"]
    assert search_many(grown, names, method=method, top=5) == [search(grown, n, method=method, top=5) for n in names]


def test_a_query_from_outside_by_fused(grown: Collection) -> None:
    """Its local scale is computed from the references: here, all fragments."""
    _, descriptions = grown.described()
    outside = description(77)
    expected = distances([outside], descriptions, "fused", same=[None])[0]
    with grown.reading() as state:
        query = Query(outside.bag, outside.embeddings.mean(axis=0))
        found = nearest_rows(state.rows, [query], "fused", 10, scales=state.scales())[0]
        rows = state.rows.rows_of(np.sort(state.rows.numbers[state.rows.alive]))
    assert [rows.tolist().index(index) for index in found.indices] == np.argsort(expected)[:10].tolist()
    np.testing.assert_allclose(found.distances, np.sort(expected)[:10], rtol=2e-6)


def test_few_are_solved_and_that_is_said(tmp_path: Path) -> None:
    collection = stored(tmp_path / "C", range(200), 100)
    found = search(collection, "0000.jpg", method="bob-chamfer", top=5)
    assert found.solved is not None
    assert 5 <= found.solved <= 60
    assert search(collection, "0000.jpg", method="pool-mean-l2").solved is None


def test_merging_and_compacting_change_no_ranking(grown: Collection, tmp_path: Path) -> None:
    before = {method: search(grown, "0029.jpg", method=method, top=60) for method in MAPPED}
    shards, after = grown.compact()
    assert (shards > 1, after) == (True, 1)
    with grown.reading() as state:
        assert state.rows.alive.all()
    assert {method: search(grown, "0029.jpg", method=method, top=60) for method in MAPPED} == before
    assert grown.verify().wrong == []


def test_small_shards_are_merged_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 fragments, added two at a time, do not make 50 files, and large files are not rewritten."""
    monkeypatch.setattr(writing, "LARGE", 60_000)
    collection = stored(tmp_path / "C", range(100), 2)
    files = [path.stat().st_size for path in (collection.path / "shards").iterdir()]
    assert len(files) < 15
    assert max(files) < 120_000
    assert collection.verify().wrong == []
    assert len(collection.described()[1]) == 100


def test_a_column_that_all_share(grown: Collection) -> None:
    hits = search(grown, "0029.jpg", exclude_same="leaf", top=100).hits
    assert "0028.jpg" not in {hit.id for hit in hits}
    assert len(hits) == 60 - 4 - 2


def test_a_shard_that_is_cut_while_it_is_mapped_is_reported_by_the_next_search(tmp_path: Path) -> None:
    """Reading a mapped page that no longer exists ends the process, so the test runs it in another one."""
    collection = stored(tmp_path / "C", range(40))
    program = (
        "import sys; from pathlib import Path; from membra.errors import MembraError\n"
        "from membra.store.collection import Collection; from membra.find.search import search\n"
        "collection = Collection.open(sys.argv[1]); search(collection, '0000.jpg')\n"
        "for shard in (collection.path / 'shards').iterdir(): shard.open('r+b').truncate(4096)\n"
        "try: search(collection, '0000.jpg')\n"
        "except MembraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, collection.path], capture_output=True, text=True, check=True)
    assert "4096 bytes instead of" in done.stdout
