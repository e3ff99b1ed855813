"""Train the paper's autoencoder. Needs torch: install it with the extra `[train]`."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save

from membra.describe.graph import autoencoder_graph
from membra.errors import Invalid, Unsupported
from membra.files import atomic_write
from membra.progress import Progress, log
from membra.train.networks import Autoencoder, reconstruction_loss, sparsity_loss
from membra.train.training_settings import DEVICE
from membra.train.training_settings import TrainSettings as TrainSettings


def train_autoencoder(
    patches: NDArray[np.uint8],
    out: Path,
    settings: TrainSettings,
    *,
    device: str = DEVICE,
    progress: Progress | None = None,
) -> list[float]:
    """Fit the sparse autoencoder to `patches` (n, 64, 64); write `out` (ONNX) and its `.safetensors` twin.

    Returns the reconstruction loss after each epoch of this call; `progress` counts epochs.

    The whole state is saved beside `out` after each epoch. A killed run that is restarted with the same patches and
    settings continues from there and reaches the same weights.
    """
    torch.manual_seed(settings.seed)
    where = pick_device(device)
    # Channels last: 10 % faster on a CPU, with the same results.
    network = Autoencoder(settings.dimension).to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.rate)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    work = _digest(patches, settings)
    state = _resume(checkpoint, work, network, optimizer)
    patches_on_device = torch.from_numpy(patches).to(where)
    losses = []
    while state["epoch"] < settings.epochs and state["stale"] < settings.patience:
        loss = _epoch(network, optimizer, patches_on_device, int(state["epoch"]), settings)
        better = loss < state["best"] * (1 - settings.min_gain)
        state = {
            "epoch": state["epoch"] + 1,
            "best": loss if better else state["best"],
            "stale": 0 if better else state["stale"] + 1,
        }
        _keep(checkpoint, work, network, optimizer, state)
        losses.append(loss)
        log.info("epoch %d of %d at most: reconstruction loss %.5f", state["epoch"], settings.epochs, loss)
        if progress:
            progress(int(state["epoch"]), settings.epochs)
    weights = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in network.state_dict().items()}
    atomic_write(out.with_suffix(".safetensors"), save({k: torch.from_numpy(v) for k, v in weights.items()}))
    atomic_write(out, autoencoder_graph(weights))
    checkpoint.unlink(missing_ok=True)
    return losses


def reconstruct(weights: Path, patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Reconstruct patches (n, 64, 64) with the autoencoder in a `.safetensors` file: (n, 64, 64), ink 255."""
    tensors = load_file(weights)
    if "decoder_net.0.weight" not in tensors:
        raise Invalid(
            "{file} contains no decoder, so letters cannot be reconstructed; train with `membra train`", file=weights
        )
    network = Autoencoder(len(tensors["encoder_net.7.bias"]))
    network.load_state_dict(tensors)
    with torch.no_grad():
        _, found = network(torch.from_numpy(patches).unsqueeze(1).float() / 255)
    return np.asarray((found[:, 0] * 255).round().to(torch.uint8).numpy())


def pick_device(device: str) -> torch.device:
    """Return the torch device: `auto` is a GPU if there is one; `cuda` without a GPU raises `Unsupported`."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise Unsupported("--device cuda: torch finds no GPU on this machine; use --device cpu or auto")
    return torch.device(device)


def _epoch(
    network: Autoencoder,
    optimizer: torch.optim.Optimizer,
    patches: torch.Tensor,
    epoch: int,
    settings: TrainSettings,
) -> float:
    """Run one pass over all patches (n, 64, 64) and return the mean reconstruction loss per pixel."""
    network.train()
    total = 0.0
    for batch in _batches(patches, epoch, settings):
        embeddings, reconstructions = network(batch)
        reconstruction = reconstruction_loss(batch, reconstructions)
        loss = reconstruction + settings.sparsity * sparsity_loss(embeddings)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += float(reconstruction.detach()) * len(batch)
    return total / len(patches)


def _batches(patches: torch.Tensor, epoch: int, settings: TrainSettings) -> Iterator[torch.Tensor]:
    # The order depends only on seed and epoch, so that a resumed run sees the same batches as an uninterrupted one.
    order = np.random.default_rng((settings.seed, epoch)).permutation(len(patches))
    for start in range(0, len(patches), settings.batch):
        chosen = torch.from_numpy(order[start : start + settings.batch]).to(patches.device)
        yield patches[chosen].unsqueeze(1).float() / 255


def _digest(patches: NDArray[np.uint8], settings: TrainSettings) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(patches).tobytes())
    digest.update(json.dumps(asdict(settings), sort_keys=True).encode())
    return digest.hexdigest()


def _keep(
    path: Path, work: str, network: Autoencoder, optimizer: torch.optim.Optimizer, state: dict[str, float]
) -> None:
    tensors = {f"network.{name}": tensor.contiguous().cpu() for name, tensor in network.state_dict().items()}
    for index, moments in optimizer.state_dict()["state"].items():
        moments = {name: torch.as_tensor(value).contiguous().cpu() for name, value in moments.items()}
        tensors |= {f"adam.{index}.{name}": value for name, value in moments.items()}
    tensors |= {f"state.{name}": torch.tensor(value, dtype=torch.float64) for name, value in state.items()}
    atomic_write(path, save(tensors, metadata={"work": work}))


def _resume(path: Path, work: str, network: Autoencoder, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Load the state saved at `path` if it has the same patches and settings; otherwise return the initial state."""
    fresh: dict[str, float] = {"epoch": 0, "best": float("inf"), "stale": 0}
    if not path.exists() or _work_of(path) != work:
        return fresh
    tensors = load_file(path)
    network.load_state_dict({k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")})
    whole = optimizer.state_dict()
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, index, moment = name.split(".")
            whole["state"].setdefault(int(index), {})[moment] = tensor
    optimizer.load_state_dict(whole)
    return {name: float(tensors[f"state.{name}"]) for name in fresh}


def _work_of(path: Path) -> str:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get("work"))
    except (SafetensorError, OSError):
        return ""
