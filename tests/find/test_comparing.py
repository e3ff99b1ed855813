"""Comparison on a device or on a cluster gives the same neighbours as on the local processors."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from factories import stored
from membra.cli import cli
from membra.compare import gpu_blocks
from membra.compare.kernels import chamfer_many, pack
from membra.describe.bag import Bag
from membra.errors import MembraError, Unsupported
from membra.find import neighbours as finding
from membra.find import on_device
from membra.find.cluster_neighbours import comparing_on
from membra.find.comparing import Comparing
from membra.find.neighbours import neighbours
from membra.find.proposals import ProposalSettings, propose
from membra.store import cluster
from membra.store.collection import Collection
from pool import Pool

TOP = 6
DEVICE = partial(on_device.DeviceComparer, device="cpu")


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    collection = stored(tmp_path / "C", range(70))
    collection.remove(["0003.jpg", "0040.jpg"])
    return collection


def nearest(found: finding.Neighbours) -> tuple[list[list[int]], list[list[float]]]:
    return found.lists.which[:, :TOP].tolist(), found.lists.scores()[:, :TOP].tolist()


def without_lists(collection: Collection) -> Collection:
    shutil.rmtree(collection.path / "neighbours")
    return collection


def test_on_a_device(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    expected = nearest(neighbours(collection, top=TOP))
    asked: list[int] = []
    below = gpu_blocks.blocks_below

    def counted(queries: list[Bag], *rest: object) -> object:
        asked.append(len(queries))
        return below(queries, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(on_device, "blocks_below", counted)
    monkeypatch.setattr(gpu_blocks, "_PROTOTYPES", 200)  # several blocks
    monkeypatch.setattr(on_device, "_CELLS", 5 * 68)  # several blocks per piece
    assert nearest(neighbours(without_lists(collection), top=TOP, by=DEVICE)) == expected
    assert sum(asked) >= 68


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bounds_of_a_device_are_bounds(collection: Collection, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    with collection.reading() as state:
        bags = [state.rows.bag(row) for row in np.flatnonzero(state.rows.alive).tolist()]
    parts = [pack(bags[:30], dtype), pack(bags[30:], dtype)]
    monkeypatch.setattr(gpu_blocks, "_PROTOTYPES", 200)
    monkeypatch.setattr(gpu_blocks, "_QUERY_PROTOTYPES", 100)
    on_the_device = gpu_blocks.to_blocks(parts, "cpu")
    assert len(on_the_device.blocks) > 2
    below = np.empty((len(bags), len(bags)), np.float32)
    below[:, on_the_device.rows] = gpu_blocks.blocks_below(bags, on_the_device).numpy()
    truth = chamfer_many(bags, pack(bags)).astype(np.float64)
    assert (below <= truth * (1 + 1e-6) + 1e-6).all()
    apart = truth > 0.1
    assert (below[apart] > 0.99 * truth[apart]).all()


def test_proposals_from_what_a_device_compares(collection: Collection) -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    loose = ProposalSettings(nearness=0.95)
    expected = propose(collection, settings=loose)
    assert expected[1]
    used: list[Comparing] = []

    def by(*arguments: Any) -> Comparing:
        used.append(DEVICE(*arguments))
        return used[-1]

    assert propose(without_lists(collection), settings=loose, by=by) == expected
    assert len(used) == 1


def test_no_device(collection: Collection) -> None:
    torch = pytest.importorskip("torch", reason="torch is in the extra [train]")
    if torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(MembraError, match="torch finds no GPU"):
        neighbours(collection, by=partial(on_device.DeviceComparer, device="cuda"))
    for command in ("neighbours", "propose"):
        shutil.rmtree(collection.path / "neighbours")
        done = CliRunner().invoke(cli, [command, str(collection.path), "--device", "cuda"])
        assert isinstance(done.exception, Unsupported)
        done = CliRunner().invoke(cli, [command, str(collection.path), "--device", "auto"])
        assert done.exit_code == 0, done.output
        done = CliRunner().invoke(cli, [command, str(collection.path), "--device", "cuda", "--cluster", "tcp://x:1"])
        assert done.exit_code == 2
        assert "leave --device out" in done.output


def test_what_is_compared_here_alone(collection: Collection) -> None:
    for command in (["neighbours", "--shortlist", "auto"], ["propose", "--method", "pool-mean-cosine"]):
        for elsewhere in (["--device", "cuda"], ["--cluster", "tcp://x:1"]):
            done = CliRunner().invoke(cli, [*command, str(collection.path), *elsewhere])
            assert done.exit_code == 2
            assert "leave out --device and --cluster" in done.output


def test_without_torch_it_names_the_extra(collection: Collection) -> None:
    program = (
        "import sys; sys.modules['torch'] = None; from membra.cli import main\n"
        "sys.argv = ['membra', 'neighbours', sys.argv[1], '--device', sys.argv[2]]; main()"
    )
    command = [sys.executable, "-c", program, str(collection.path)]
    done = subprocess.run([*command, "cuda"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "membra[train]" in done.stderr
    assert subprocess.run([*command, "auto"], capture_output=True, check=False).returncode == 0


def test_no_room_on_the_device_keeps_what_is_done(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is in the extra [train]")
    monkeypatch.setattr(finding, "_AT_ONCE", 4)
    monkeypatch.setattr(finding, "_KEPT_EVERY", 0.0)
    monkeypatch.setattr(finding, "_WRITING", 0)
    one, room = gpu_blocks._to_block, [2]

    def full(*arguments: object) -> object:
        room[0] -= 1
        if room[0] < 0:
            raise torch.cuda.OutOfMemoryError
        return one(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(gpu_blocks, "_to_block", full)
        with pytest.raises(MembraError, match="the memory of the GPU is full"):
            neighbours(collection, top=TOP, threads=1, by=DEVICE)
    assert 0 < neighbours(collection, top=TOP).compared < 68


@pytest.mark.slow
def test_workers_of_which_one_is_killed(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "_CONNECTING", 60.0)  # workers start slowly on a busy machine
    monkeypatch.setattr(finding, "_AT_ONCE", 2)
    expected = nearest(neighbours(collection, top=TOP, threads=1))
    without_lists(collection)
    pool = Pool(tmp_path)
    try:
        victims = [pool.worker() for _ in range(3)][:1]
        pool.wait_for(3)
        killed_at: list[int] = []

        def kill(done: int, total: int) -> None:
            if victims and done:
                victims[0].kill()
                victims.pop().wait()
                killed_at.append(done)

        with cluster.connected(pool.address) as client:
            by = comparing_on(client, collection)
            found = neighbours(collection, top=TOP, threads=1, by=by, progress=kill)
            assert len(client.nthreads()) == 2
            assert nearest(found) == expected
            assert found.compared == 68
            assert killed_at[0] < 60
            stored(collection.path, [90, 91])
            again = neighbours(collection, top=TOP, threads=1, by=by)
            assert again.compared < 68
        assert nearest(again) == nearest(neighbours(without_lists(collection), top=TOP))
        done = CliRunner().invoke(cli, ["neighbours", str(collection.path), "--cluster", pool.address, "--top", "40"])
        assert done.exit_code == 0, done.output
        assert "the 40 nearest of each of 70 fragments; 70 newly compared" in done.output
    finally:
        pool.stop()
