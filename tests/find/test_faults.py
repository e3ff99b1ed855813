"""Writes that fail: a clear error, the collection as before or as after, and nothing lost that was there."""

import errno
import multiprocessing
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made import random_encoder, stored
from membra.errors import MembraError
from membra.find.collection import Collection
from membra.find.search import search


def add(path: Path) -> None:
    stored(path, range(10, 14), 4)


def remove(path: Path) -> None:
    Collection.open(path).remove(["0001.jpg", "0004.jpg"])


def compact(path: Path) -> None:
    Collection.open(path).compact()


def create(path: Path) -> None:
    Collection.create(path.with_name("another"), encoder=random_encoder(8))


WORK = (add, remove, compact, create)


def ranking(path: Path) -> list[tuple[str, float]]:
    held = Collection.open(path)
    return [(hit.id, round(hit.distance, 6)) for hit in search(held, "0000.jpg", top=100).hits]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    made = stored(tmp_path / "before", range(10), 3)
    made.remove(["0007.jpg"])
    return made.path


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_each_write_fsync_and_rename_fails_once(
    work: Callable[[Path], None], before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call that writes fails, then the second, and so on until the work gets through."""
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


def _limited(path: Path, size: int, said: "multiprocessing.connection.Connection") -> None:
    """Add where no file may be longer than `size`; say what went wrong."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        add(path)
        said.send("")
    except (MembraError, OSError) as error:
        said.send(f"{type(error).__name__}: {error}")


@pytest.mark.slow
def test_the_disk_is_full(before: Path, tmp_path: Path) -> None:
    """No file may grow beyond so many bytes: SQLite's own writes fail too, each in its turn."""
    context, told = multiprocessing.get_context("forkserver"), set()
    old = ranking(before)
    for size in (2_000, 33_000, 41_000, 50_000, 60_000, 75_000, 100_000, 1_000_000):
        path = tmp_path / str(size)
        shutil.copytree(before, path)
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_limited, args=(path, size, there))
        process.start()
        there.close()
        told.add(here.recv())
        process.join()
        assert process.exitcode == 0
        assert Collection.open(path).verify().wrong == []
        found = Collection.open(path).entries()
        assert len(found) in (9, 13)
        if len(found) == 9:
            assert ranking(path) == old
    assert "" in told  # with room enough it is done
    assert any("MembraError: the manifest of" in said for said in told), told  # SQLite could not write


def test_a_failed_change_of_all_descriptions_leaves_no_files(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last file that is written, that of the local scales, cannot be."""
    path, real = tmp_path / "C", os.replace
    shutil.copytree(collection.path, path)

    def failing(source: Any, target: Any) -> None:
        if "scales-" in str(target):
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    def files() -> list[str]:
        return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if "sqlite-" not in file.name)

    before, held = files(), Collection.open(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(OSError, match="Input/output"):
            held.redescribe(random_encoder(seed=5))
    assert files() == before
    assert held.recipe == collection.recipe
    assert Collection.open(path).verify() == collection.verify()
