"""Train the orientation network (`see/orientation.py`) on windows of ink rotated over the full circle."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from membra.describe.graph import Shapes, Weights, model_of
from membra.progress import log
from membra.see.orientation import DIRECTIONS, SIDE
from membra.train.eye_graph import folded
from membra.train.eye_network import convolution

WIDTHS = (32, 64, 96, 128, 160)  # channels of the convolutions, at a half, a quarter (two), an eighth (two) of a window


@dataclass(frozen=True)
class OrientationSettings:
    """Settings of the orientation network's training."""

    steps: int = 4000
    batch: int = 256  # windows
    rate: float = 4e-3  # AdamW's highest learning rate, in one cycle
    decay: float = 1e-2  # AdamW's weight decay
    scale: float = 0.3  # range of the log of the random scale, for errors of the measured letter height
    shift: float = 0.075  # of half of a window
    covered: float = 0.15  # share of windows with a square erased
    blank: float = 0.15  # ratio of windows without writing to windows with writing
    sharp: float = 6.0  # concentration of the target over the directions: about one step of 15 degrees to each side
    seed: int = 0


class OrientationNetwork(nn.Module):
    """Maps windows (n, 1, SIDE, SIDE) in 0..1 to logits (n, DIRECTIONS) of the rotation of their ink."""

    def __init__(self) -> None:
        super().__init__()
        first, second, third, fourth, fifth = WIDTHS
        self.layers = nn.ModuleList(
            [
                convolution(1, first, size=5, stride=2),
                convolution(first, second, stride=2),
                convolution(second, third),
                convolution(third, fourth),
                convolution(fourth, fifth),
            ]
        )
        self.told = nn.Linear(fifth * (SIDE // 8) ** 2, DIRECTIONS)
        self.dropout = nn.Dropout(0.3)

    def forward(self, windows: Tensor) -> Tensor:
        flow = windows
        for number, layer in enumerate(self.layers):
            flow = functional.relu(layer(flow))
            if number == _POOLED:
                flow = functional.max_pool2d(flow, 2)
        return torch.as_tensor(self.told(self.dropout(flow.flatten(1))))


_POOLED = 2  # the layer after which 2 x 2 max pooling halves the size


def train_orientation(
    windows: Sequence[NDArray[np.uint8]],
    settings: OrientationSettings,
    blank: NDArray[np.uint8] | None = None,
    device: str = "cpu",
) -> dict[str, NDArray[np.float32]]:
    """Train on sets of windows (n, SIDE, SIDE) of upright ink, sampled equally often; return the weights.

    `blank` (n, SIDE, SIDE) are windows of cracks, grain and the like; their target is uniform over the directions.
    """
    torch.manual_seed(settings.seed)
    draw = torch.Generator().manual_seed(settings.seed)
    sets = [torch.from_numpy(some) for some in windows]
    nothing = torch.from_numpy(blank) if blank is not None and len(blank) else None
    network = OrientationNetwork().to(device)
    optimiser = torch.optim.AdamW(network.parameters(), settings.rate, weight_decay=settings.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=settings.steps)
    around = torch.arange(DIRECTIONS, device=device) * (2 * math.pi / DIRECTIONS)
    total = 0.0
    for step in range(settings.steps):
        some = [one[torch.randint(len(one), (settings.batch // len(sets),), generator=draw)] for one in sets]
        written = sum(map(len, some))
        if nothing is not None:
            some.append(nothing[torch.randint(len(nothing), (round(settings.blank * written),), generator=draw)])
        x, angle = _turned(torch.cat(some).to(device), settings, draw)
        truth = torch.softmax(settings.sharp * torch.cos(angle[:, None] - around), dim=1)
        truth[written:] = 1 / DIRECTIONS
        loss = -(truth * torch.log_softmax(network(x), dim=1)).sum(dim=1).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        total += float(loss.detach())
        if (step + 1) % 500 == 0:
            log.info("step %d of %d: %.3f", step + 1, settings.steps, total / 500)
            total = 0.0
    network.eval()
    return {name: value.cpu().numpy() for name, value in network.state_dict().items() if value.ndim}


def _turned(some: Tensor, settings: OrientationSettings, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rotate windows counter-clockwise by random angles, scale, shift and partly erase them; return windows, angles."""
    count = len(some)

    def within(reach: float) -> Tensor:
        return ((torch.rand(count, generator=draw) * 2 - 1) * reach).to(some.device)

    angle, larger = within(math.pi), torch.exp(within(settings.scale))
    across, up = torch.cos(angle) * larger, torch.sin(angle) * larger
    matrix = torch.stack(
        [
            torch.stack([across, -up, within(settings.shift)], 1),
            torch.stack([up, across, within(settings.shift)], 1),
        ],
        1,
    )
    places = functional.affine_grid(matrix, [count, 1, SIDE, SIDE], align_corners=False)
    x = functional.grid_sample(some[:, None].float() / 255, places, align_corners=False)
    middle = (SIDE - 1) / 2
    apart = torch.arange(SIDE, device=some.device) - middle
    x = x * (torch.hypot(apart, apart[:, None]) <= SIDE / 2)
    covered = (torch.rand(count, generator=draw) < settings.covered).to(some.device)
    top, left = (int(torch.randint(SIDE - 10, (1,), generator=draw)) for _ in range(2))
    x[covered, :, top : top + 10, left : left + 10] = 0
    return x, angle


def orientation_graph(weights: Weights) -> bytes:
    """Return ONNX bytes: `windows` (n, 1, SIDE, SIDE) -> `directions` (n, DIRECTIONS), log probabilities.

    Weights are stored in half precision, which does not change the network's vote.
    """
    from onnx import TensorProto, helper

    nodes, kept, flow = [], {"told.weight": weights["told.weight"], "told.bias": weights["told.bias"]}, "windows"
    for number in range(len(WIDTHS)):
        name = f"layers.{number}"
        kept[f"{name}.weight"], kept[f"{name}.bias"] = folded(weights, name)
        size = kept[f"{name}.weight"].shape[2]
        how: dict[str, Any] = {
            "kernel_shape": [size] * 2,
            "strides": [2 if number < 2 else 1] * 2,
            "pads": [size // 2] * 4,
        }
        nodes += [
            helper.make_node("Conv", [flow, f"{name}.weight", f"{name}.bias"], [name], **how),
            helper.make_node("Relu", [name], [f"{name}.relu"]),
        ]
        flow = f"{name}.relu"
        if number == _POOLED:
            nodes.append(helper.make_node("MaxPool", [flow], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]))
            flow = "pooled"
    nodes += [
        helper.make_node("Flatten", [flow], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "told.weight", "told.bias"], ["logits"], transB=1),
        helper.make_node("LogSoftmax", ["logits"], ["directions"], axis=1),
    ]
    halves = {f"{name}.half": array.astype(np.float16) for name, array in kept.items()}
    nodes = [helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT) for name in kept] + nodes
    gives: Shapes = {"directions": ["letters", DIRECTIONS]}
    return model_of("membra orientation", nodes, halves.items(), {"windows": ["letters", 1, SIDE, SIDE]}, gives)
