"""Train the eye: draw a bank of samples on all cores, then train for a few minutes on one GPU."""

import functools
import math
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from membra.progress import log
from membra.train.eye_material import UNKNOWN, read_material
from membra.train.eye_network import EyeNetwork
from membra.train.eye_sheet import SIDE, take_apart
from membra.train.eye_world import Sample, World

SOURCES = ("hebrew", "latin", "hands", "drawn", "dibco", "phibd", "bickley", "dss", "verso", "plates")
STRIDE = 16  # px to a cell of the fields


@dataclass(frozen=True)
class EyeSettings:
    """Settings of the eye's training."""

    steps: int = 9000
    batch: int = 64  # samples
    side: int = 256  # px of the crop of a sample
    rate: float = 2.5e-3  # AdamW's highest learning rate, in one cycle
    decay: float = 1e-3  # AdamW's weight decay
    surface: float = 0.5  # weight of the surface loss relative to the ink's
    turn: float = 0.3  # weight of the angle loss
    height: float = 0.15  # weight of the letter height loss
    grey: float = 0.45  # share of samples without colour
    negative: float = 0.06  # share of samples that are inverted
    seed: int = 0


@dataclass(frozen=True)
class Bank:
    """Samples as arrays, one row each."""

    pictures: NDArray[np.uint8]  # (n, SIDE, SIDE, 3)
    masks: NDArray[np.uint8]  # (n, 2, SIDE, SIDE) ink and surface
    facts: NDArray[np.float32]  # (n, 2) angle in radians and log2 of the letter height over 24 px; nan: unknown
    sources: NDArray[np.bool_]  # (n, len(SOURCES)) the data sets that each was composed from


def draw_bank(material: Path, count: int, workers: int, first: int = 0) -> Bank:
    """Draw `count` samples of the world of `material` in `workers` processes, numbered from `first`."""
    with TemporaryDirectory(prefix="membra-eye-") as folder:
        shapes = {"pictures": (count, SIDE, SIDE, 3), "masks": (count, 2, SIDE, SIDE)}
        for name, shape in shapes.items():
            np.lib.format.open_memmap(Path(folder) / f"{name}.npy", "w+", np.uint8, shape).flush()
        parts = [range(start, min(start + 250, count)) for start in range(0, count, 250)]
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (material,)) as pool:
            rows = list(pool.map(functools.partial(_draw, folder, first), parts))
        pictures, masks = (np.load(Path(folder) / f"{name}.npy") for name in shapes)
    facts, sources = (np.concatenate([row[part] for row in rows]) for part in range(2))
    return Bank(pictures, masks, facts.astype(np.float32), sources.astype(bool))


_world: World | None = None  # of a worker process


def _begin(material: Path) -> None:
    global _world
    cv2.setNumThreads(1)
    _world = World([take_apart(item) for item in read_material(material)])


def _draw(folder: str, first: int, part: range) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Draw samples into the files of `folder`; return their facts and sources."""
    assert _world is not None
    pictures, masks = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r+") for name in ("pictures", "masks"))
    facts, sources = [], []
    for row in part:
        one: Sample = _world.sample(first + row)
        pictures[row], masks[row, 0], masks[row, 1] = one.picture, one.ink, one.surface
        facts.append((one.angle, math.log2(one.height / 24) if one.height == one.height else math.nan))
        sources.append([name in one.sources for name in SOURCES])
    return np.array(facts), np.array(sources, bool)


def train_eye(
    bank: Bank,
    settings: EyeSettings,
    *,
    without: Sequence[str] = (),
    device: str = "cuda",
) -> dict[str, NDArray[np.float32]]:
    """Return the weights of an eye trained on no sample that has a part from the sources `without`."""
    torch.manual_seed(settings.seed)
    draw = torch.Generator(device=device).manual_seed(settings.seed)
    barred = bank.sources[:, [SOURCES.index(name) for name in without]].any(axis=1)
    rows = np.flatnonzero(~barred)
    pictures, masks, facts = (
        torch.from_numpy(array[rows]).to(device) for array in (bank.pictures, bank.masks, bank.facts)
    )
    network = EyeNetwork().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(network.parameters(), settings.rate, weight_decay=settings.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=settings.steps)
    began, total = time.monotonic(), torch.zeros(4, device=device)
    for step in range(settings.steps):
        x, ink, surface, angle, height = _batch(pictures, masks, facts, settings, draw)
        with torch.autocast(device, torch.bfloat16):
            maps, fields = network(x.contiguous(memory_format=torch.channels_last))
        losses = _losses(maps.float(), fields.float(), ink, surface, angle, height)
        weights = (1.0, settings.surface, settings.turn, settings.height)
        loss = torch.stack([weight * part for weight, part in zip(weights, losses, strict=True)]).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        total += torch.stack(losses).detach()
        if (step + 1) % 500 == 0:
            said = " ".join(f"{value:.4f}" for value in (total / 500).tolist())
            spent = time.monotonic() - began
            log.info("without %s: step %d, %.0f s: %s", ",".join(without) or "nothing", step + 1, spent, said)
            total.zero_()
    network.eval()
    # Contiguous, because training stores them channels last and weight files store bytes in memory order.
    state = network.state_dict()
    return {name: value.detach().float().cpu().contiguous().numpy() for name, value in state.items() if value.ndim}


def _batch(
    pictures: Tensor, masks: Tensor, facts: Tensor, settings: EyeSettings, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Photographs (n, 3, s, s) in 0..1, ink and surface (n, 1, s, s), angle and height (n,), all cropped, rotated."""
    device, count, side = draw.device, settings.batch, settings.side
    rows = torch.randint(len(pictures), (count,), generator=draw, device=device)
    # drawn on the CPU: reading a number from the GPU waits for all queued work
    top, left = torch.randint(SIDE - side + 1, (2,)).tolist()
    cut = (slice(None), slice(None), slice(top, top + side), slice(left, left + side))
    x = pictures[rows].permute(0, 3, 1, 2)[cut].float() / 255
    y = masks[rows][cut].float()
    angle, height = facts[rows].unbind(dim=1)
    # each quarter of the batch rotated by another multiple of 90 degrees, counter-clockwise as angles are counted
    parts = [torch.rot90(torch.cat([x, y], 1)[turn::4], turn, (2, 3)) for turn in range(4)]
    angle = torch.cat([angle[turn::4] + turn * math.pi / 2 for turn in range(4)])
    height = torch.cat([height[turn::4] for turn in range(4)])
    both = torch.cat(parts)
    return _photographed(both[:, :3], settings, draw), both[:, 3:4], both[:, 4:5], angle, height


def _photographed(x: Tensor, settings: EyeSettings, draw: torch.Generator) -> Tensor:
    """Augment photographs as if by another camera: light, contrast, colour, grain, blur, negative."""
    device, count = draw.device, len(x)

    def uniform(low: float, high: float, channels: int = 1) -> Tensor:
        return torch.rand(count, channels, 1, 1, generator=draw, device=device) * (high - low) + low

    grey = (0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]).expand_as(x)
    x = torch.where(uniform(0, 1) < settings.grey, grey, x * uniform(0.85, 1.15, 3))
    x = x.clamp(min=1e-4) ** torch.exp(uniform(-0.5, 0.5))
    slope = torch.rand(count, 1, 3, 3, generator=draw, device=device) - 0.5
    light = functional.interpolate(slope, size=x.shape[-2:], mode="bicubic", align_corners=False)
    x = x * (1 + uniform(0, 0.8) * light) * uniform(0.35, 1.15) + uniform(-0.05, 0.2) * (uniform(0, 1) < 0.5)
    x = torch.where(uniform(0, 1) < settings.negative, 1 - x, x)
    parts = list(x.chunk(4))
    soft = functional.avg_pool2d(functional.pad(parts[1], (1,) * 4, "replicate"), 3, 1)
    parts[1] = functional.avg_pool2d(functional.pad(soft, (1,) * 4, "replicate"), 3, 1)
    share = float(torch.rand(1)) * 0.5 + 0.45
    small = functional.interpolate(parts[2], scale_factor=share, mode="area")
    parts[2] = functional.interpolate(small, size=x.shape[-2:], mode="bilinear", align_corners=False)
    sharp = functional.avg_pool2d(functional.pad(parts[3], (1,) * 4, "replicate"), 3, 1)
    parts[3] = parts[3] + float(torch.rand(1)) * (parts[3] - sharp)
    x = torch.cat(parts)
    grain = torch.randn(count, 1, *x.shape[-2:], generator=draw, device=device)
    coarse = functional.avg_pool2d(functional.pad(grain, (1,) * 4, "replicate"), 3, 1) * 3
    grain = torch.where(uniform(0, 1) < 0.4, coarse, grain)
    return (x + grain * uniform(0, 0.05) * (uniform(0, 1) < 0.7)).clamp(0, 1)


def _losses(maps: Tensor, fields: Tensor, ink: Tensor, surface: Tensor, angle: Tensor, height: Tensor) -> list[Tensor]:
    """Return the losses of ink (cross-entropy plus Dice), surface, angle and height; unknown pixels are ignored."""
    inked, sheet = maps[:, :1], maps[:, 1:]
    known, truth = (ink != UNKNOWN).float(), (ink == 255).float()
    likely = torch.sigmoid(inked) * known
    # missed ink costs more than false ink, since false ink is removed later by its shape
    more = torch.tensor(1.5, device=ink.device)
    cross = (
        functional.binary_cross_entropy_with_logits(inked, truth, reduction="none", pos_weight=more) * known
    ).mean()
    dice = 1 - (2 * (likely * truth).sum() + 1) / (likely.sum() + truth.sum() + 1)
    certain = (surface != UNKNOWN).float()
    beside = functional.binary_cross_entropy_with_logits(sheet, (surface == 255).float(), reduction="none")
    # angle and height count where the cell or a neighbour has ink
    cells = functional.max_pool2d(functional.avg_pool2d(truth, STRIDE), 3, 1, 1) > 0.02
    angle, height = (value[:, None, None, None].expand_as(cells) for value in (angle, height))
    turned, sized = cells & ~angle.isnan(), cells & ~height.isnan()
    target = torch.cat([angle.cos(), angle.sin()], dim=1).nan_to_num()
    turn = ((fields[:, :2] - target).square().sum(dim=1, keepdim=True) * turned).sum() / turned.sum().clamp(min=1)
    size = functional.smooth_l1_loss(fields[:, 2:], height.nan_to_num(), reduction="none", beta=0.2)
    return [cross + dice, (beside * certain).mean(), turn, (size * sized).sum() / sized.sum().clamp(min=1)]
