"""Several processes, several steps, twice the same: one consistent state, the same distances, the same bytes."""

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest

from made import batches, stored
from membra.find import collection as collecting
from membra.find import manifest
from membra.find import writer as writing
from membra.find.collection import Collection
from membra.find.search import search
from membra.find.writer import write_batch

PROCESSES = multiprocessing.get_context("forkserver")
SECONDS = float(os.environ.get("MEMBRA_SECONDS", "5"))  # that readers and a writer are at work together; 60 in full


def found(collection: Collection, method: str = "fused") -> dict[str, list[tuple[str, float]]]:
    ids = sorted(entry.fragment.id for entry in collection.entries())
    return {id: [(h.id, h.distance) for h in search(collection, id, top=20, method=method).hits] for id in ids[::9]}


def same(a: dict[str, list[tuple[str, float]]], b: dict[str, list[tuple[str, float]]]) -> None:
    assert a.keys() == b.keys()
    for id, hits in a.items():
        assert [name for name, _ in hits] == [name for name, _ in b[id]]
        np.testing.assert_allclose([d for _, d in hits], [d for _, d in b[id]], rtol=1e-6)


@pytest.mark.parametrize("references", [2000, 40], ids=["all are references", "some are"])
def test_in_parts_or_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, references: int) -> None:
    """100 then 100 against 200; then some removed and added again; then more removed than stay."""
    for module in (collecting, writing):
        monkeypatch.setattr(module, "REFERENCES", references)
    at_once = stored(tmp_path / "A", range(200), 100)
    parts = stored(stored(tmp_path / "B", range(100), 20).path, range(100, 200), 20)
    same(found(parts), found(at_once))
    some = [f"{seed:04d}.jpg" for seed in range(0, 200, 7)]
    parts.remove(some)
    same(found(parts), found(stored(tmp_path / "C", [s for s in range(200) if s % 7], 100)))
    parts = stored(parts.path, range(0, 200, 7), 10)
    parts.compact()
    same(found(parts), found(at_once))
    parts.remove([f"{seed:04d}.jpg" for seed in range(30, 200)])
    same(found(parts), found(stored(tmp_path / "D", range(30), 30)))


def read_on(path: Path, said: "multiprocessing.connection.Connection") -> None:
    """Search for some seconds, and look at each state from all sides; say how often, or what was wrong."""
    held, count, start = Collection.open(path), 0, time.monotonic()
    try:
        while time.monotonic() - start < SECONDS:
            if count % 5 == 0:
                held = Collection.open(path)
            with held.reading() as state:
                alive = np.sort(state.rows.numbers[state.rows.alive])
                listed = [entry.number for entry in manifest.entries(state.database, described=True)]
                assert alive.tolist() == listed, "shards and lines differ"
                assert len(listed) % 5 == 0, "half of a change is seen"
                assert state.scales().numbers.tolist() == listed, "scales of another state"
            hits = search(held, "0000.jpg", top=1000, method=("fused", "bob-chamfer")[count % 2]).hits
            assert (len(hits) + 1) % 5 == 0, "half of a change is found"
            count += 1
        said.send(count)
    except BaseException as error:
        said.send(f"{type(error).__name__}: {error}")


@pytest.mark.slow
def test_four_readers_and_a_writer(tmp_path: Path) -> None:
    """Five fragments come or go in each change, and shards are merged in between."""
    made = stored(tmp_path / "C", range(10), 5)
    pipes = [PROCESSES.Pipe(duplex=False) for _ in range(4)]
    readers = [PROCESSES.Process(target=read_on, args=(made.path, there)) for _, there in pipes]
    for reader in readers:
        reader.start()
    changes = 0
    while any(reader.is_alive() for reader in readers):
        first = 100 + 5 * (changes % 20)
        with made.writing() as writer:
            for batch in batches(tmp_path, range(first, first + 5), 5):
                writer.store(write_batch(made.path, batch))
        if changes % 3 == 2:
            made.remove([f"{seed:04d}.jpg" for seed in range(first, first + 5)])
        if changes % 7 == 6:
            made.compact()
        changes += 1
    answers = [here.recv() for here, _ in pipes]
    assert changes > 5
    assert all(isinstance(answer, int) and answer > 3 for answer in answers), answers
    assert made.verify().wrong == []


def test_twice_the_same_bytes(tmp_path: Path) -> None:
    made = [stored(tmp_path / name / "C", range(30), 7) for name in ("a", "b")]
    names = [sorted(file.relative_to(one.path).as_posix() for file in one.path.rglob("*.[so][an]*")) for one in made]
    assert names[0] == names[1]
    assert len(names[0]) == 5 + 1 + 1  # shards, scales, encoder
    for name in names[0]:
        assert (made[0].path / name).read_bytes() == (made[1].path / name).read_bytes()
    lines = []
    for one in made:
        with manifest.connect(one.path) as database:
            question = "SELECT number, id, sha256, columns, refused, note, glyphs, shard, place FROM fragments"
            lines.append([database.execute(question).fetchall(), manifest.read_meta(database)])
    assert lines[0] == lines[1]


def grow(path: Path, said: "multiprocessing.connection.Connection") -> None:
    """Store 1,500 fragments and say how much memory of its own the process had after 500 and at the end."""
    own = []
    held = Collection.open(path)
    with held.writing() as writer:
        for batch in batches(path.parent, range(1500), 50):
            writer.store(write_batch(path, batch))
            status = Path("/proc/self/status").read_text()
            own.append(int(status.split("RssAnon:")[1].split()[0]) / 1000)
    said.send(own)


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    stored(tmp_path / "C", [])
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=grow, args=(tmp_path / "C", there))
    process.start()
    own = here.recv()
    process.join()
    assert max(own[10:]) - own[9] < 30, own  # MB
