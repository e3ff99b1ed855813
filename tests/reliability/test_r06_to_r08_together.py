"""Several steps, several processes: the same distances, one writer, one state."""

import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest

from factories import batches, stored
from lengths import length
from membra.errors import MembraError
from membra.find.search import search
from membra.store import collection as collecting
from membra.store import manifest
from membra.store import writer as writing
from membra.store.batch import write_batch
from membra.store.collection import Collection

PROCESSES = multiprocessing.get_context("forkserver")
SECONDS = length(4.0, 20.0, 60.0)  # that readers and a writer are at work together


def found(collection: Collection, method: str = "fused") -> dict[str, list[tuple[str, float]]]:
    ids = sorted(entry.fragment.id for entry in collection.entries())
    return {id: [(h.id, h.distance) for h in search(collection, id, top=20, method=method).hits] for id in ids[::9]}


def same(a: dict[str, list[tuple[str, float]]], b: dict[str, list[tuple[str, float]]]) -> None:
    assert a.keys() == b.keys()
    for id, hits in a.items():
        assert [name for name, _ in hits] == [name for name, _ in b[id]]
        np.testing.assert_allclose([d for _, d in hits], [d for _, d in b[id]], rtol=1e-6)


@pytest.mark.parametrize("references", [2000, 40], ids=["all are references", "some are"])
@pytest.mark.row(times=8)
def test_r06_in_parts_or_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, references: int) -> None:
    """100 then 100 against 200; then some removed and added again; then more removed than stay.

    Tried: 200 fragments in shards of 20 and of 100, all or 40 of them references of the local scales; 29 removed, added
    again, merged; then 170 removed; each time against a collection made at once

    Seen to fail: references chosen in the order in which fragments came, not by their content: with 40 of them, removed
    and added again, the order of candidates differed
    """
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


def hold(path: Path, locked: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:
    with Collection.open(path).writing():
        locked.set()
        done.wait(30)


@pytest.mark.row(times=10)
def test_r07_a_second_writer_is_told_who_holds_it(tmp_path: Path) -> None:
    """Tried: while a process holds a collection, ten others change it and one reads it; then the holder is killed

    Seen to fail: flock left out of exclusive_lock: the first change by the second writer went through (DID NOT RAISE)
    """
    own, locked, done = stored(tmp_path / "C", range(10)), PROCESSES.Event(), PROCESSES.Event()
    other = PROCESSES.Process(target=hold, args=(own.path, locked, done))
    other.start()
    try:
        assert locked.wait(30)
        for seed in range(10):
            with pytest.raises(MembraError, match=f"process {other.pid}"):
                own.remove([f"{seed:04d}.jpg"])
        assert len(Collection.open(own.path).entries()) == 10  # reading goes on
    finally:
        other.kill()  # which lets go of it
        other.join()
    own.remove(["0000.jpg"])
    assert len(Collection.open(own.path).entries()) == 9


def read_on(path: Path, said: "multiprocessing.connection.Connection") -> None:
    """Search for some seconds, and look at each state from all sides; say how often, or what was wrong."""
    collection, count, start = Collection.open(path), 0, time.monotonic()
    try:
        while time.monotonic() - start < SECONDS or count < 4:
            if count % 5 == 0:
                collection = Collection.open(path)
            with collection.reading() as state:
                alive = np.sort(state.rows.numbers[state.rows.alive])
                listed = [entry.number for entry in manifest.entries(state.database, described=True)]
                assert alive.tolist() == listed, "shards and lines differ"
                assert len(listed) % 5 == 0, "half of a change is seen"
                assert state.scales().numbers.tolist() == listed, "scales of another state"
            hits = search(collection, "0000.jpg", top=1000, method=("fused", "bob-chamfer")[count % 2]).hits
            assert (len(hits) + 1) % 5 == 0, "half of a change is found"
            count += 1
        said.send(count)
    except BaseException as error:
        said.send(f"{type(error).__name__}: {error}")


@pytest.mark.slow
@pytest.mark.row(times=1)
@pytest.mark.long
def test_r08_four_readers_and_a_writer(tmp_path: Path) -> None:
    """Five fragments come or go in each change, and shards are merged in between.

    Tried: four processes open, read and search while one adds, removes, changes and merges, five fragments at a time:
    20 s (4 in `make test`, 60 in full)

    Seen to fail: reading outside a transaction (no BEGIN in manifest.connect): two readers said that shards and lines
    differ, two met a fragment that was gone (KeyError)
    """
    collection = stored(tmp_path / "C", range(10), 5)
    pipes = [PROCESSES.Pipe(duplex=False) for _ in range(4)]
    readers = [PROCESSES.Process(target=read_on, args=(collection.path, there)) for _, there in pipes]
    for reader in readers:
        reader.start()
    changes = 0
    while any(reader.is_alive() for reader in readers):
        first = 100 + 5 * (changes % 20)
        with collection.writing() as writer:
            for batch in batches(tmp_path, range(first, first + 5), 5):
                writer.store(write_batch(collection.path, batch))
        if changes % 3 == 2:
            collection.remove([f"{seed:04d}.jpg" for seed in range(first, first + 5)])
        if changes % 7 == 6:
            collection.compact()
        changes += 1
    answers = [here.recv() for here, _ in pipes]
    assert all(isinstance(answer, int) and answer > 3 for answer in answers), answers
    assert changes > 2
    assert collection.verify().wrong == []
