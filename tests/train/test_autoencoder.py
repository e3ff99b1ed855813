"""Training: the loss decreases, the same seed gives the same bytes, and a kill costs at most one epoch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, pick
from membra.errors import MembraError
from membra.progress import Progress
from membra.sources.fragment import fragments

torch = pytest.importorskip("torch", reason="torch is in the extra [train]")

from membra.train.autoencoder import TrainSettings, pick_device, train_autoencoder  # noqa: E402
from membra.train.networks import reconstruction_loss, sparsity_loss  # noqa: E402

SETTINGS = TrainSettings(dimension=8, epochs=3, batch=16)


@pytest.fixture(scope="module")
def patches(drawn: Path) -> np.ndarray:
    return np.concatenate([pick(fragment, MEMBRA)[1].glyphs.patches[:20] for fragment in fragments(drawn)])


def test_loss_falls_and_both_files_are_written(patches: np.ndarray, tmp_path: Path) -> None:
    out, done = tmp_path / "e.onnx", []
    losses = train_autoencoder(patches, out, SETTINGS, progress=lambda *epochs: done.append(epochs))
    assert len(losses) == 3
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert losses[-1] < 0.8 * losses[0]
    assert Encoder.open(out).digest == Encoder.open(out.with_suffix(".safetensors")).digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.onnx", "e.safetensors"]


def test_the_same_seed_the_same_bytes_another_seed_others(patches: np.ndarray, tmp_path: Path) -> None:
    short = replace(SETTINGS, epochs=1)
    first, second = (trained(patches, tmp_path / name, short) for name in ("a.onnx", "b.onnx"))
    assert first == second
    assert trained(patches, tmp_path / "c.onnx", replace(short, seed=7)) != first


def trained(patches: np.ndarray, out: Path, settings: TrainSettings, progress: Progress | None = None) -> bytes:
    train_autoencoder(patches, out, settings, progress=progress)
    return out.read_bytes()


class Killed(Exception):
    """Simulates a kill: no code below catches it."""


def test_killed_after_an_epoch_it_goes_on_to_the_same_weights(patches: np.ndarray, tmp_path: Path) -> None:
    undisturbed = trained(patches, tmp_path / "whole.onnx", SETTINGS)
    epochs: list[int] = []

    def kill_at_two(epoch: int, most: int) -> None:
        epochs.append(epoch)
        if epochs == [1, 2]:
            raise Killed

    with pytest.raises(Killed):
        train_autoencoder(patches, tmp_path / "cut.onnx", SETTINGS, progress=kill_at_two)
    assert not (tmp_path / "cut.onnx").exists()
    resumed = trained(patches, tmp_path / "cut.onnx", SETTINGS, kill_at_two)
    assert epochs == [1, 2, 3]
    assert resumed == undisturbed


def test_a_checkpoint_of_other_work_is_not_taken(patches: np.ndarray, tmp_path: Path) -> None:
    epochs: list[int] = []

    def kill_at_once(epoch: int, most: int) -> None:
        epochs.append(epoch)
        if len(epochs) == 1:
            raise Killed

    with pytest.raises(Killed):
        train_autoencoder(patches, tmp_path / "e.onnx", SETTINGS, progress=kill_at_once)
    train_autoencoder(patches, tmp_path / "e.onnx", replace(SETTINGS, epochs=1, rate=1e-4), progress=kill_at_once)
    assert epochs == [1, 1]


def test_it_stops_early_when_nothing_is_gained(patches: np.ndarray, tmp_path: Path) -> None:
    epochs: list[int] = []
    stuck = replace(SETTINGS, epochs=50, rate=0.0, patience=2)
    train_autoencoder(patches, tmp_path / "e.onnx", stuck, progress=lambda *done: epochs.append(done[0]))
    assert epochs == [1, 2, 3]


def test_losses_by_hand() -> None:
    patches, reconstructions = torch.zeros(2, 1, 2, 2), torch.full((2, 1, 2, 2), 0.5)
    assert float(reconstruction_loss(patches, reconstructions)) == pytest.approx(0.25)
    assert float(sparsity_loss(torch.tensor([[1.0, -2.0], [0.0, 3.0]]))) == pytest.approx(3.0)


def test_a_gpu_that_is_not_there() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(MembraError, match="no GPU"):
        pick_device("cuda")
