"""Writes that fail: a clear error, the collection as before or as after, and nothing lost that was there."""

import errno
import multiprocessing
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factories import random_encoder, slip, stored
from membra.describe.recipe import MEMBRA
from membra.errors import MembraError
from membra.find.search import search
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.index import index
from membra.store.redescribe import redescribe


def add(path: Path) -> None:
    stored(path, range(10, 14), 4)


def remove(path: Path) -> None:
    Collection.open(path).remove(["0001.jpg", "0004.jpg"])


def compact(path: Path) -> None:
    Collection.open(path).compact()


def create(path: Path) -> None:
    Collection.create(path.with_name("another"), encoder=random_encoder(8))


WORK = (add, remove, compact, create)
PROCESSES = multiprocessing.get_context("forkserver")


def ranking(path: Path) -> list[tuple[str, float]]:
    collection = Collection.open(path)
    return [(hit.id, round(hit.distance, 6)) for hit in search(collection, "0000.jpg", top=100).hits]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    collection = stored(tmp_path / "before", range(10), 3)
    collection.remove(["0007.jpg"])
    return collection.path


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
@pytest.mark.row(times=124)
def test_r04_each_write_fsync_and_rename_fails_once(
    work: Callable[[Path], None], before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call that writes fails, then the second, and so on until the work gets through.

    Tried: adding, removing, merging and creating, with the first write, fsync or rename failing, then the second, and
    so on until the work gets through

    Seen to fail: atomic_write going on after an error: the manifest named a file that was not there ('has lost the
    shard')
    """
    path, failures, got_through = tmp_path / "C", 0, False
    shutil.copytree(before, path)
    work(path)
    states = ranking(before), ranking(path)
    while not got_through:
        for made in (path, tmp_path / "another"):
            shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(before, path)
        with monkeypatch.context() as patch:
            let_fail(patch, failures + 1)
            try:
                work(path)
                got_through = True
            except OSError as error:  # of which the command line makes one line
                failures += error.errno == errno.ENOSPC
        assert Collection.open(path).verify().wrong == []
        assert ranking(path) in states
        if (tmp_path / "another").exists():
            assert Collection.open(tmp_path / "another").entries() == []
        assert list(tmp_path.glob(".*")) == []
    assert failures >= 3
    assert ranking(path) == states[1]


def let_fail(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let the call with this number fail, of all that write, flush or rename."""
    left = [number]

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        return call

    for name in ("write", "fsync", "replace"):
        patch.setattr(os, name, failing(getattr(os, name)))


def limited(path: Path, work: Callable[[Path], None], size: int, said: "multiprocessing.connection.Connection") -> None:
    """Work where no file may grow beyond `size` bytes; say what a user would read."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a full disk: an error, not a signal
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        work(path)
        said.send("")
    except (MembraError, OSError) as error:
        said.send(str(error))


@pytest.mark.slow
@pytest.mark.row(times=75)
def test_r03_the_disk_is_full(before: Path, tmp_path: Path) -> None:
    """Tried: adding, removing and merging where no file may grow beyond 0 to 96 KB, in steps of 4 KB: the kernel
    refuses the write, SQLite's own included

    Seen to fail: errors of SQLite swallowed by manifest.connect: adding failed and 'did not say that it failed'
    """
    old = ranking(before)
    for work in (add, remove, compact):
        path, reported = tmp_path / work.__name__, list[str]()
        shutil.copytree(before, path)
        work(path)
        new = ranking(path)
        for size in range(0, 100_000, 4_000):
            shutil.rmtree(path)
            shutil.copytree(before, path)
            here, there = PROCESSES.Pipe(duplex=False)
            process = PROCESSES.Process(target=limited, args=(path, work, size, there))
            process.start()
            there.close()
            reported.append(here.recv())
            process.join()
            assert Collection.open(path).verify().wrong == []
            assert ranking(path) in (old, new)
            assert (ranking(path) == new) or reported[-1], "it did not say that it failed"
        assert len(reported) == 25
        assert reported[-1] == ""  # with room enough it is done
        assert all(said == "" or "large" in said or "free disk space" in said for said in reported), reported
        assert any("the manifest of" in said for said in reported), reported  # SQLite could not write


@pytest.mark.row(times=1)
def test_r04_a_failed_change_of_all_descriptions_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last file that is written, that of the local scales, cannot be.

    Tried: describing all anew, with the last file that is renamed failing

    Seen to fail: no tidying after an error in Collection.writing: the new encoder and two new files were left in the
    folder
    """
    source, path, real = tmp_path / "source", tmp_path / "C", os.replace
    source.mkdir()
    for seed in range(4):
        (source / f"{seed}.png").write_bytes(slip(seed))
    collection, _ = index(fragments(source), path, recipe=MEMBRA, encoder=random_encoder(8))

    def failing(source: Any, target: Any) -> None:
        if "scales-" in str(target):
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    def files() -> list[str]:
        return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if "sqlite-" not in file.name)

    before, recipe = files(), collection.recipe
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(OSError, match="Input/output"):
            redescribe(collection, random_encoder(8, seed=5))
    assert files() == before
    assert collection.recipe == recipe
    found = Collection.open(path).verify()
    assert (found.wrong, found.notes) == ([], [])
