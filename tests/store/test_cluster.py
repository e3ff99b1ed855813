"""A real Dask cluster of local processes gives the same collection and the same rankings as one process."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import factories
from membra import scribes
from membra.compare.methods import MAPPED
from membra.describe import recipe as recipes
from membra.describe.encoder import Encoder
from membra.errors import MembraError
from membra.find.cluster_search import search_on
from membra.find.search import search
from membra.sources.fragment import fragments
from membra.store import cluster
from membra.store.cluster import add_on, connected
from membra.store.collection import Collection
from membra.store.index import index
from pool import Pool

pytest.importorskip("distributed")

COUNT = 30


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A scheduler and two workers."""
    started = Pool(tmp_path_factory.mktemp("crew"))
    try:
        for _ in range(2):
            started.worker()
        started.wait_for(2)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scribes.collection(
        tmp_path_factory.mktemp("images"), manuscripts=6, fragments=COUNT, letters=(40, 80), seed=3
    )


@pytest.fixture(scope="module")
def local(table: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The same fragments, described on one machine."""
    collection = Collection.create(tmp_path_factory.mktemp("local") / "collection", encoder=encoder)
    collection.add(fragments(table))
    return collection


def test_a_scheduler_without_workers_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(tmp_path)
    monkeypatch.setattr(cluster, "_CONNECTING", 2.0)
    try:
        with pytest.raises(MembraError, match="has no workers; start some with `dask worker"), connected(pool.address):
            pass
    finally:
        pool.stop()


@pytest.fixture(scope="module")
def spread(
    pool: Pool, table: Path, local: Collection, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory
) -> Collection:
    """The fragments described by two workers."""
    collection = Collection.create(tmp_path_factory.mktemp("spread") / "collection", encoder=encoder)
    with connected(pool.address) as client:
        added = add_on(client, collection, fragments(table))
    assert (added.described, added.refused, added.unchanged) == (COUNT, [], 0)
    return collection


def test_rankings_are_those_of_one_machine(spread: Collection, local: Collection) -> None:
    for entry in local.entries():
        assert search(spread, entry.fragment.id).hits == search(local, entry.fragment.id).hits


@pytest.mark.parametrize("method", MAPPED)
def test_a_search_on_the_cluster_is_the_local_one(pool: Pool, spread: Collection, method: str) -> None:
    query = spread.entries()[7].fragment.id
    with connected(pool.address) as client:
        for options in ({"top": 5}, {"exclude_same": "join"}):
            ours = search(spread, query, method=method, **options)
            theirs = search_on(client, spread, query, method=method, **options)
            assert theirs.hits
            assert [(hit.id, hit.image) for hit in theirs.hits] == [(hit.id, hit.image) for hit in ours.hits]
            assert [hit.distance for hit in theirs.hits] == pytest.approx([hit.distance for hit in ours.hits], rel=1e-9)


def test_an_image_from_outside_is_searched_for_too(pool: Pool, spread: Collection, tmp_path: Path) -> None:
    image = tmp_path / "another name.jpg"
    shutil.copy(spread.entries()[4].fragment.path, image)
    with connected(pool.address) as client:
        theirs = search_on(client, spread, image).hits
    ours = search(spread, image).hits
    assert theirs[0].id == spread.entries()[4].fragment.id
    assert [hit.id for hit in theirs] == [hit.id for hit in ours]
    assert [hit.distance for hit in theirs] == pytest.approx([hit.distance for hit in ours], rel=1e-5, abs=1e-6)


def test_the_second_run_does_only_the_rest(pool: Pool, spread: Collection, table: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(spread.path, tmp_path / "collection")
    collection = Collection.open(copied)
    known = fragments(table)
    collection.remove([known[3].id, known[20].id])
    with connected(pool.address) as client:
        added = add_on(client, collection, known)
        assert (added.described, added.unchanged) == (2, COUNT - 2)
        assert add_on(client, collection, known).described == 0
        with pytest.raises(MembraError, match="leave --cluster out"):
            search_on(client, collection, known[0].id, method="bow-raw-chi2")
        with pytest.raises(MembraError, match="neither a fragment of"):
            search_on(client, collection, "nobody.jpg")


def test_what_cannot_be_read_is_refused_and_the_rest_goes_on(
    pool: Pool, table: Path, encoder: Encoder, tmp_path: Path
) -> None:
    shutil.copy(fragments(table)[0].path, tmp_path / "good.jpg")
    (tmp_path / "bad.jpg").write_text("no image")
    collection = Collection.create(tmp_path / "collection", encoder=encoder)
    with connected(pool.address) as client:
        added = add_on(client, collection, fragments(tmp_path))
    assert (added.described, added.readable) == (1, 1)
    assert [id for id, _ in added.refused] == ["bad.jpg"]


def test_pieces_are_those_of_one_machine(
    pool: Pool, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plates of three pieces and a chip, and single ones, described there and here; then changed, and again there."""
    monkeypatch.setattr(recipes, "see", factories.see_plates)
    source = tmp_path / "source"
    source.mkdir()
    for number in range(4):
        (source / f"plate{number}.png").write_bytes(factories.plate(number, None, number + 1, number + 2))
        (source / f"slip{number}.png").write_bytes(factories.slip(number))
    here, there = (Collection.create(tmp_path / name, encoder=encoder) for name in ("here", "there"))
    expected = here.add(fragments(source))
    tests = str(Path(factories.__file__).parent)
    seeing = f"import sys; sys.path.append({tests!r}); import factories; factories.recipes.see = factories."
    with connected(pool.address) as client:
        client.run(exec, f"{seeing}see_plates")
        try:
            assert add_on(client, there, fragments(source)) == expected
            assert there.entries() == here.entries()
            assert (expected.described, expected.blank, expected.readable) == (16, 4, 8)
            asked = search_on(client, there, "plate0.png", method="bob-chamfer")
            assert (asked.piece, len(asked.hits)) == (3, 15)
            left = search_on(client, there, "plate0.png#1", method="bob-chamfer", exclude_same="photograph")
            assert [hit.id for hit in left.hits if hit.photograph == "plate0.png"] == []
            (source / "plate1.png").write_bytes(factories.slip(9))
            (source / "slip1.png").write_bytes(factories.plate(7, 8))
            changed = add_on(client, there, fragments(source))
            assert (changed.described, changed.unchanged) == (3, 12)
            shown = [entry.fragment.id for entry in there.entries()][-3:]
            assert shown == ["plate1.png", "slip1.png#1", "slip1.png#2"]
            assert there.verify().wrong == []
        finally:
            client.run(exec, f"{seeing}_see")


def test_an_older_revision_is_described_anew_there(
    pool: Pool, spread: Collection, local: Collection, table: Path, tmp_path: Path
) -> None:
    old = factories.aged(Collection.open(shutil.copytree(spread.path, tmp_path / "collection")))
    with connected(pool.address) as client, pytest.raises(MembraError, match="describe it again first"):
        add_on(client, old, fragments(table))
    renewed, added = index(fragments(table), old.path, redescribe=True, cluster=pool.address)
    assert (added.described, added.unchanged, renewed.recipe) == (0, COUNT, local.recipe)
    assert [(e.number, e.fragment.id) for e in renewed.entries()] == [(e.number, e.fragment.id) for e in old.entries()]
    assert renewed.verify().wrong == renewed.verify().notes == []
    for entry in local.entries()[:3]:
        assert search(renewed, entry.fragment.id).hits == search(local, entry.fragment.id).hits


def test_workers_that_do_not_see_the_collection_are_reported(
    pool: Pool, table: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Collection.create(tmp_path / "collection", encoder=encoder)
    monkeypatch.chdir(tmp_path)
    here = Collection.open(Path("/proc/self/cwd/collection"))  # a path that resolves differently in another process
    with (
        connected(pool.address) as client,
        pytest.raises(MembraError, match="cannot read or write"),
    ):
        add_on(client, here, fragments(table))
    assert here.entries() == []


def test_workers_that_do_not_see_the_images_are_reported(
    pool: Pool, table: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.create(tmp_path / "collection", encoder=encoder)
    shutil.copy(fragments(table)[0].path, tmp_path / "leaf.jpg")
    monkeypatch.chdir(tmp_path)
    with connected(pool.address) as client, pytest.raises(MembraError, match="put the images on storage"):
        add_on(client, collection, fragments(Path("/proc/self/cwd/")))
    assert collection.entries() == []  # images that only a worker cannot see are not rejected


def test_the_command_line_indexes_and_searches_on_a_cluster(pool: Pool, spread: Collection, table: Path) -> None:
    """With relative paths, which mean something else in the workers' working directory."""
    folder = table.parent

    def membra(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from membra.cli import main; main()", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    for image in fragments(table)[:3]:
        (folder / "few").mkdir(exist_ok=True)
        shutil.copy(image.path, folder / "few")
    done = membra("index", "few", "--into", "mine", "--cluster", pool.address)
    assert (done.returncode, done.stdout) == (0, "mine: 3 described, 0 known already, 0 refused\n")
    query = fragments(table)[0].path.name
    ours, theirs = (membra("search", "mine", query, "--json", *more) for more in ([], ["--cluster", pool.address]))
    assert [h["id"] for h in json.loads(theirs.stdout)["hits"]] == [h["id"] for h in json.loads(ours.stdout)["hits"]]
    assert len(json.loads(theirs.stdout)["hits"]) == 2
    lost = membra("search", "mine", query, "--cluster", "no address")
    assert (lost.returncode, lost.stdout) == (1, "")
    assert lost.stderr.startswith("error: no scheduler answers at no address")
    assert lost.stderr.count("\n") == 1
    assert "has no shortlist" in membra("search", "mine", query, "--cluster", "x", "--shortlist", "2").stderr
    assert membra("index", "few", "--into", "new", "--cluster", "no address").returncode == 1
    assert not (folder / "new").exists()


def test_no_scheduler_and_no_dask_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECTING", 0.5)
    for address in ("tcp://127.0.0.1:9", "no address"):
        with pytest.raises(MembraError, match="no scheduler answers at"), connected(address):
            pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MembraError, match=r"pip install 'membra\[cluster\]'"), connected("tcp://127.0.0.1:9"):
        pass


def test_a_scheduler_that_goes_away_is_reported_in_one_line(
    table: Path,
    encoder: Encoder,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "_CONNECTING", 60.0)  # workers start slowly on a busy machine
    pool = Pool(tmp_path)
    pool.worker()
    collection = Collection.create(tmp_path / "collection", encoder=encoder)
    try:
        with pytest.raises(MembraError, match="was lost; stored results are kept"), connected(pool.address) as client:
            add_on(client, collection, fragments(table)[:8], lambda done, total: pool.processes[0].kill())
    finally:
        pool.stop()
    assert 0 < len(collection.entries()) < 8
    assert capfd.readouterr().err == ""


def test_another_version_of_membra_is_refused(pool: Pool, spread: Collection, tmp_path: Path) -> None:
    """The last test: the worker with another version stays."""
    strange = tmp_path / "membra-0.0.0.dist-info"
    strange.mkdir()
    (strange / "METADATA").write_text("Metadata-Version: 2.1\nName: membra\nVersion: 0.0.0\n")
    with connected(pool.address) as client:
        before = len(client.nthreads())
        pool.worker(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        client.wait_for_workers(before + 1, timeout=60)
    with pytest.raises(MembraError, match=r"has membra 0\.0\.0, but this machine has"), connected(pool.address):
        pass
