"""Train the identity encoder: predict from one letter which manuscript, or only which fragment, it was cut from.

No labels are needed: each fragment is a class. Fragments of one hand are then confused with each other, which is the
aim: the features that they share are those by which joins are found.
Needs only torch and NumPy, so that it also runs where the rest of membra is not installed.
"""

import functools
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from membra.errors import Invalid
from membra.progress import Progress
from membra.train.augment import augment
from membra.train.networks import Identity
from membra.train.training_settings import IdentitySettings as IdentitySettings

Weights = Mapping[str, NDArray[np.float32]]


# For the shipped encoder: manuscripts as classes, from random weights. Larger batches, which a GPU can hold. The number
# of letters is where manuscripts outside the training set stop gaining (docs/encoder.md); 37 s on one H200.
READY = IdentitySettings(
    epochs=0.0, min_letters=4_800_000, batch=1024, rate=4e-3, margin=0.15, shared=0.0, held_out=0.0
)


def train_identity(
    patches: NDArray[np.uint8],
    classes: NDArray[np.int64],
    settings: IdentitySettings,
    *,
    start: Weights | None = None,
    often: NDArray[np.float64] | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Train an encoder that tells the `classes` (n,) of `patches` (n, 64, 64) apart; return its weights.

    `start` are initial weights; each class centre then starts at the mean of its letters, so that little is forgotten.
    `often` (c,) is the sampling weight of each class, in the classes' order. Default: equal, so that a full page does
    not outweigh a scrap.
    """
    torch.manual_seed(settings.seed)
    draw = torch.Generator(device=device).manual_seed(settings.seed)
    network = Identity(settings.dimension, settings.channels if start is None else _channels(start))
    if start is not None:
        # Not strict: an ONNX file has no `num_batches_tracked`, and nothing depends on it.
        state = {name: torch.from_numpy(np.array(value)) for name, value in start.items()}
        missing, strange = network.load_state_dict(state, strict=False)
        if strange or any(not name.endswith("num_batches_tracked") for name in missing):
            raise Invalid("not the weights of an identity encoder; make one with `membra train --network identity`")
    network.centre.zero_()  # training is uncentred; the centre is computed afterwards
    network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    letters = torch.from_numpy(patches).to(device)
    _, compact = np.unique(classes, return_inverse=True)
    owner = torch.from_numpy(compact.reshape(-1)).to(device)
    seen, unseen = _split(compact.reshape(-1), settings)
    data = _Data(letters, owner, torch.from_numpy(seen).to(device), torch.from_numpy(unseen).to(device))
    drawn = np.ones(data.classes()) if often is None else often
    _fit(network, data, settings, torch.from_numpy(drawn).to(device), draw, start is not None, progress)
    network.centre.copy_(_class_means(network, data).mean(dim=0))
    learnt = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in network.state_dict().items()}
    return _mixed(learnt, start, settings.kept) if start is not None and settings.kept else learnt


def _mixed(learnt: Weights, before: Weights, kept: float) -> dict[str, NDArray[np.float32]]:
    """Interpolate the weights: `kept` of those before plus 1 - `kept` of those learnt."""
    return {
        name: np.asarray(kept * before[name] + (1 - kept) * value, np.float32) if name in before else value
        for name, value in learnt.items()
    }


def _channels(weights: Weights) -> list[int]:
    """Return the channels of the four blocks; raise `Invalid` if these are not weights of an identity encoder."""
    names = [f"blocks.{block}.second.0.weight" for block in range(4)]
    if any(name not in weights for name in names):
        raise Invalid("not the weights of an identity encoder; make one with `membra train --network identity`")
    return [len(weights[name]) for name in names]


def warm_up(device: torch.device, settings: IdentitySettings) -> None:
    """On a GPU, train one step on blank patches: the first step takes seconds, which can overlap with other work."""
    if device.type == "cuda":
        blank = np.zeros((3, 64, 64), dtype=np.uint8)
        brief = replace(settings, epochs=0.0, min_letters=settings.batch)
        train_identity(blank, np.arange(3), brief, device=device)


@dataclass(frozen=True)
class _Data:
    """All letters (n, 64, 64), the class of each (n,), and the indices of the training and held-out letters."""

    patches: Tensor
    owner: Tensor
    seen: Tensor
    unseen: Tensor

    def classes(self) -> int:
        return int(self.owner.max()) + 1


def _fit(
    network: Identity,
    data: _Data,
    settings: IdentitySettings,
    often: Tensor,
    draw: torch.Generator,
    warm: bool,
    progress: Progress | None,
) -> None:
    """Train `network` in place and keep the weights of the check with the lowest held-out loss."""
    centres = nn.Parameter(_first_centres(network, data, settings, warm))
    total = max(round(settings.epochs * len(data.seen)), settings.min_letters)
    steps = max(1, total // settings.batch)
    on_gpu = centres.device.type == "cuda"
    optimizer = torch.optim.AdamW(
        [*network.parameters(), centres],
        lr=settings.rate,
        weight_decay=settings.decay,
        foreach=not on_gpu,
        fused=on_gpu,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.rate, total_steps=steps + 1, pct_start=0.25)
    order, first, count = _by_class(data)
    targets = torch.eye(data.classes(), device=data.owner.device)
    share_at = {round(steps * part) for part in np.arange(settings.share_from, 1.0, settings.share_every)}
    check_at = {round(steps * part) for part in np.linspace(settings.stop_from, 1, settings.checks)}
    best, best_loss, harder = deepcopy(network.state_dict()), float("inf"), 0
    network.train()
    for step in range(1, steps + 1):
        if settings.shared and step in share_at:
            targets = _shared_targets(network, data, settings)
        chosen = torch.multinomial(often, settings.batch, replacement=True, generator=draw)
        within = (torch.rand(settings.batch, generator=draw, device=draw.device) * count[chosen]).long()
        letters = data.patches[order[first[chosen] + within]].unsqueeze(1).float() / 255
        letters = augment(letters, settings.augment, draw)
        if on_gpu and step == 1:
            _capture_cuda_graph(network, letters)
        loss = _loss(_embed(network, letters), centres, targets[chosen], settings)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if progress:
            progress(step * settings.batch, steps * settings.batch)
        if step in check_at and len(data.unseen):
            found = _held_out_loss(network, data, centres, settings)
            harder = harder + 1 if found > best_loss else 0
            if found <= best_loss:
                best, best_loss = deepcopy(network.state_dict()), found
            if harder >= settings.patience:
                break
    if on_gpu:
        del network.forward  # frees the CUDA graph, which forms a reference cycle with the network and holds GPU memory
    if len(data.unseen):
        network.load_state_dict(best)


def _loss(embeddings: Tensor, centres: Tensor, targets: Tensor, settings: IdentitySettings) -> Tensor:
    """Return the cross entropy of a softmax over cosines with class centres (c, d), against targets (n, c)."""
    cosines = embeddings @ functional.normalize(centres, dim=1).T
    spread = targets * (1 - settings.smoothing) + settings.smoothing / targets.shape[1]
    behind = settings.sharpness * (cosines - settings.margin * targets)
    return -(spread * functional.log_softmax(behind, dim=1)).sum(dim=1).mean()


def _embed(network: Identity, letters: Tensor) -> Tensor:
    """Return embeddings (n, d) of letters (n, 1, 64, 64) in 0..1; in bfloat16 where the device is faster with it."""
    letters = letters.contiguous(memory_format=torch.channels_last)
    kind = letters.device.type
    with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda" or _has_bfloat16()):
        found = network(letters)
    return found.float()  # type: ignore[no-any-return]


def _capture_cuda_graph(network: Identity, letters: Tensor) -> None:
    """Capture the forward and backward pass of `network` as a CUDA graph for training; the batch size is then fixed.

    The kernels are so small that launching them one by one takes more than twice as long as the graph.
    """
    letters = letters.contiguous(memory_format=torch.channels_last)
    # The graph uses a stream of its own, for which torch would otherwise warn in every training.
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        torch.cuda.make_graphed_callables(network, (letters,))  # in place


@functools.cache
def _has_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 in hardware; emulated, they are slower than float32."""
    asks = (getattr(torch.cpu, f"_is_{kind}_supported", None) for kind in ("avx512_bf16", "amx_tile"))
    return any(ask is not None and ask() for ask in asks)


@torch.no_grad()
def _embed_all(network: Identity, patches: Tensor) -> Tensor:
    """Return embeddings (n, d) of patches (n, 64, 64), without augmentation and in evaluation mode."""
    network.eval()
    parts = [_embed(network, patches[i : i + 1024].unsqueeze(1).float() / 255) for i in range(0, len(patches), 1024)]
    network.train()
    return torch.cat(parts)


def _first_centres(network: Identity, data: _Data, settings: IdentitySettings, warm: bool) -> Tensor:
    """Return the initial centres (c, d): the class means if the network has initial weights, else random ones."""
    if not warm:
        return torch.randn(data.classes(), settings.dimension, device=data.owner.device) * 0.1
    return functional.normalize(_class_means(network, data), dim=1)


def _class_means(network: Identity, data: _Data) -> Tensor:
    """Return (c, d), the mean embedding of each class's training letters."""
    owner = data.owner[data.seen]
    sums = torch.zeros(data.classes(), network.out.out_features, device=owner.device)
    sums.index_add_(0, owner, _embed_all(network, data.patches[data.seen]))
    return sums / torch.bincount(owner, minlength=data.classes()).clamp(min=1).unsqueeze(1)


def _shared_targets(network: Identity, data: _Data, settings: IdentitySettings) -> Tensor:
    """Return targets (c, c) that give a share of each fragment to its mutual neighbours: likely joins stay together.

    Two fragments are mutual neighbours if each is among the nearest of the other, by the cosine distance of centred
    means corrected for hubs (local scaling).
    """
    means = _class_means(network, data)
    means = functional.normalize(means - means.mean(dim=0), dim=1)
    distance = (1 - means @ means.T).clamp(min=1e-6).fill_diagonal_(float("inf"))
    near = distance.topk(min(10, len(means) - 1), largest=False).values.mean(dim=1)
    distance = distance / (near.unsqueeze(1) * near.unsqueeze(0)).sqrt()
    listed = torch.zeros_like(distance, dtype=torch.bool)
    listed.scatter_(1, distance.topk(min(settings.neighbours, len(means) - 1), largest=False).indices, True)
    firm = (listed & listed.T).float()
    count = firm.sum(dim=1, keepdim=True)
    own = torch.eye(len(means), device=means.device) * (1 - settings.shared * (count > 0).float())
    return own + settings.shared * firm / count.clamp(min=1)


@torch.no_grad()
def _held_out_loss(network: Identity, data: _Data, centres: Tensor, settings: IdentitySettings) -> float:
    embeddings = _embed_all(network, data.patches[data.unseen])
    targets = functional.one_hot(data.owner[data.unseen], data.classes()).float()
    return float(_loss(embeddings, centres, targets, settings))


def _split(classes: NDArray[np.int64], settings: IdentitySettings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of training and held-out letters; classes of fewer than ten letters hold none out."""
    draw = np.random.default_rng(settings.seed)
    out = np.zeros(len(classes), dtype=bool)
    for each in np.unique(classes):
        own = np.flatnonzero(classes == each)
        if len(own) >= 10:
            out[draw.choice(own, round(settings.held_out * len(own)), replace=False)] = True
    return np.flatnonzero(~out), np.flatnonzero(out)


def _by_class(data: _Data) -> tuple[Tensor, Tensor, Tensor]:
    """Return the training letters sorted by class, the start of each class, and its size."""
    owner = data.owner[data.seen]
    order = data.seen[torch.argsort(owner, stable=True)]
    count = torch.bincount(owner, minlength=data.classes())
    return order, torch.cumsum(count, 0) - count, count
