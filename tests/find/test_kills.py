"""Killed at any moment: the collection is as before or as after, and running again ends where it would have ended."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from made import batches, random_encoder, stored
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA
from membra.files import write_whole
from membra.find.collection import Collection
from membra.find.index import index
from membra.find.search import search
from membra.find.writer import encoder_name, write_batch
from membra.see.fragment import fragments

KILLS = int(os.environ.get("MEMBRA_KILLS", "12"))  # of each kind; MEMBRA_KILLS=100 for the full number
COMMANDS = max(3, KILLS if KILLS >= 100 else KILLS // 4)  # a command takes seconds, storing alone a fraction of one
PROCESSES = multiprocessing.get_context("forkserver")  # these start in a moment, with the modules loaded
PROCESSES.set_forkserver_preload(["made", "membra.find.search"])


def rankings(path: Path) -> dict[str, list[tuple[str, str]]]:
    """The order of all candidates for each fragment by the default method, with distances to five digits."""
    held = Collection.open(path)
    ids = sorted(entry.fragment.id for entry in held.entries())
    found = {id: [(hit.id, f"{hit.distance:.5g}") for hit in search(held, id, top=100).hits] for id in ids}
    return {id: sorted(hits, key=lambda hit: (float(hit[1]), hit[0])) for id, hits in found.items()}


def sound(path: Path) -> None:
    assert Collection.open(path).verify().wrong == []


def fill(path: Path) -> None:
    """Two at a time up to 24, with merging, removing and compacting; goes on where the last one was killed."""
    held = Collection.open(path)
    with held.writing() as writer:
        known = {entry.fragment.id for entry in held.entries()}
        for batch in batches(path.parent, range(24), 2):
            if batch[0][0].id not in known:
                writer.store(write_batch(path, batch))
        if "9999.jpg" in known:
            writer.remove(["9999.jpg"])
        writer.compact()


def replace_all(path: Path) -> None:
    """What `adapt` does when its encoder is trained: new shards and a new encoder, named in one transaction."""
    held, encoder = Collection.open(path), random_encoder(8, seed=1)
    recipe = replace(held.recipe, encoder=encoder.digest)
    with held.writing() as writer:
        write_whole(path / encoder_name(recipe), encoder.onnx)
        made = []
        for old, new in zip(batches(path, range(24), 4), batches(path, range(100, 124), 4), strict=True):
            outcomes = [(*kept[:2], other[2]) for kept, other in zip(old, new, strict=True)]
            made.append(write_batch(path, outcomes))
        writer.replace(made, recipe)
        writer.merge_when_due()


@pytest.mark.slow
def test_kills_while_storing(tmp_path: Path) -> None:
    expected, draw = rankings(stored(tmp_path / "whole", range(24), 2).path), Random(0)
    kills, path = 0, tmp_path / "C"
    while kills < KILLS:
        stored(path, [9999])
        finished = False
        while not finished:
            process = PROCESSES.Process(target=fill, args=(path,))
            process.start()
            process.join(draw.uniform(0, 0.5))
            process.kill()
            process.join()
            finished = process.exitcode == 0
            kills += not finished
            sound(path)
        assert rankings(path) == expected
        assert Collection.open(path).verify().notes == []  # nothing is left behind
        shutil.rmtree(path)


@pytest.mark.slow
def test_kills_while_everything_is_replaced(tmp_path: Path) -> None:
    path, draw, seen = tmp_path / "C", Random(1), set()
    stored(tmp_path / "before", range(24), 2)
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    replace_all(tmp_path / "after")
    states = {name: rankings(tmp_path / name) for name in ("before", "after")}
    assert states["before"] != states["after"]
    for _ in range(KILLS):
        shutil.copytree(tmp_path / "before", path)
        process = PROCESSES.Process(target=replace_all, args=(path,))
        process.start()
        process.join(draw.uniform(0, 0.5))
        process.kill()
        process.join()
        sound(path)
        is_new = Collection.open(path).recipe.encoder == random_encoder(8, seed=1).digest
        seen.add(is_new)
        assert rankings(path) == states["after" if is_new else "before"]
        replace_all(path)
        assert rankings(path) == states["after"]
        assert Collection.open(path).verify().notes == []
        shutil.rmtree(path)
    assert False in seen


INDEX = (
    "import sys; from membra.find import collection; collection.BATCH = 2; from membra.cli import main; "
    "sys.argv[0] = 'membra'; main()"
)
REDESCRIBE = (
    "import sys; from pathlib import Path; from membra.find.collection import Collection; "
    "from membra.describe.encoder import Encoder; from membra.find import collection; collection.BATCH = 2; "
    "Collection.open(sys.argv[1]).redescribe(Encoder.open(Path(sys.argv[2])))"
)


def run_and_kill(code: str, *arguments: object, after: float) -> bool:
    """Run Python code and kill it after so many seconds; whether it had finished."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
            return False
        assert process.returncode == 0
        return True


@pytest.mark.slow
def test_kills_of_index_and_of_describing_anew(drawn: Path, encoder: Encoder, tmp_path: Path) -> None:
    """The commands themselves, as a process of their own, from its first moment to its last."""
    (tmp_path / "e.onnx").write_bytes(encoder.onnx)
    (tmp_path / "f.onnx").write_bytes(random_encoder(seed=1).onnx)
    start = time.perf_counter()
    arguments = ("index", drawn, "--encoder", tmp_path / "e.onnx", "--workers", "1", "--into")
    assert run_and_kill(INDEX, *arguments, tmp_path / "whole", after=600)
    lasts, draw = time.perf_counter() - start, Random(2)
    expected = rankings(tmp_path / "whole")
    path, kills = tmp_path / "C", 0
    while kills < COMMANDS:
        if run_and_kill(INDEX, *arguments, path, after=draw.uniform(0, lasts)):
            assert rankings(path) == expected
            shutil.rmtree(path)
        else:
            kills += 1
            if path.exists():
                sound(path)
    assert run_and_kill(INDEX, *arguments, path, after=600)
    assert rankings(path) == expected
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []

    made, _ = index(fragments(drawn), tmp_path / "new", recipe=MEMBRA, encoder=random_encoder(seed=1))
    after = rankings(made.path)
    kills = 0
    while kills < COMMANDS:
        kills += not run_and_kill(REDESCRIBE, path, tmp_path / "f.onnx", after=draw.uniform(0, lasts))
        sound(path)
        is_new = Collection.open(path).recipe.encoder == made.recipe.encoder  # perhaps killed in its last moment
        assert rankings(path) == (after if is_new else expected)
        if is_new:
            shutil.rmtree(path)
            shutil.copytree(tmp_path / "whole", path)
    assert run_and_kill(REDESCRIBE, path, tmp_path / "f.onnx", after=600)
    assert rankings(path) == after
    assert Collection.open(path).verify().notes == []
