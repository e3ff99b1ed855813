"""Augment glyph patches with the variation of camera, pen and damage, but not with that between scribes.

An encoder of hands must not learn cameras: without augmentation it tells fragments apart by their blur.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from membra.train.training_settings import AugmentSettings as AugmentSettings


def augment(patches: Tensor, settings: AugmentSettings, draw: torch.Generator) -> Tensor:
    """Return augmented copies of patches (n, 1, 64, 64) in 0..1. `draw` is on the patches' device."""
    patches = _warp(patches, settings, draw)
    patches = _stroke(patches, settings, draw)
    groups = patches.chunk(settings.groups)
    chances = _uniform(4 * len(groups), 0, 1, draw).view(-1, 4).tolist()  # one call, since `tolist` waits for the GPU
    patches = torch.cat([_camera(group, settings, chance) for group, chance in zip(groups, chances, strict=True)])
    return _hole(patches, settings, draw)


def _uniform(count: int, low: float, high: float, draw: torch.Generator) -> Tensor:
    return torch.rand(count, generator=draw, device=draw.device) * (high - low) + low


def _warp(patches: Tensor, settings: AugmentSettings, draw: torch.Generator) -> Tensor:
    """Rotate, shear, scale and shift each patch independently."""
    count = len(patches)
    turn = _uniform(count, -settings.turn, settings.turn, draw)
    shear = _uniform(count, -settings.shear, settings.shear, draw)
    wide, high = (1 / _uniform(count, 1 - settings.scale, 1 + settings.scale, draw) for _ in range(2))
    across, down = (_uniform(count, -2 * settings.shift, 2 * settings.shift, draw) for _ in range(2))
    rows = torch.stack(
        [wide * turn.cos(), -high * (turn + shear).sin(), across, wide * turn.sin(), high * (turn + shear).cos(), down]
    )
    grid = functional.affine_grid(
        rows.T.reshape(count, 2, 3).to(patches.dtype), list(patches.shape), align_corners=False
    )
    return functional.grid_sample(patches, grid, align_corners=False)


def _stroke(patches: Tensor, settings: AugmentSettings, draw: torch.Generator) -> Tensor:
    """Thin the strokes of some patches and thicken those of others."""
    choice = _uniform(len(patches), 0, 1, draw).view(-1, 1, 1, 1)
    thicker = functional.max_pool2d(patches, 3, stride=1, padding=1)
    thinner = -functional.max_pool2d(-patches, 3, stride=1, padding=1)
    patches = torch.where(choice < settings.thinner, thinner, patches)
    return torch.where(choice > 1 - settings.thicker, thicker, patches)


def _camera(patches: Tensor, settings: AugmentSettings, chance: Sequence[float]) -> Tensor:
    """Simulate one camera for a group: reduce its resolution and possibly threshold it again."""
    if chance[0] > settings.camera:
        return patches
    side = round(settings.coarsest + chance[1] * (settings.finest - settings.coarsest))
    small = functional.interpolate(patches, size=(side, side), mode="area")
    blurred = functional.interpolate(small, size=patches.shape[-2:], mode="bilinear", align_corners=False)
    if chance[2] > settings.sharpen:
        return blurred
    return torch.sigmoid((blurred - (0.35 + 0.3 * chance[3])) * 12)


def _hole(patches: Tensor, settings: AugmentSettings, draw: torch.Generator) -> Tensor:
    """Erase the ink in a random square of some patches."""
    count, side = len(patches), patches.shape[-1]
    top, left = (
        _uniform(count, -settings.hole_side / 2, side - settings.hole_side / 2, draw).view(-1, 1) for _ in range(2)
    )
    position = torch.arange(side, device=draw.device).view(1, -1)
    rows = (position >= top) & (position < top + settings.hole_side)
    columns = (position >= left) & (position < left + settings.hole_side)
    lost = rows.unsqueeze(2) & columns.unsqueeze(1)  # (n, side, side)
    lost &= (_uniform(count, 0, 1, draw) < settings.hole).view(-1, 1, 1)
    return patches.masked_fill(lost.unsqueeze(1), 0.0)
