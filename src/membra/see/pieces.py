"""Segments the pieces on a background, and chooses the one that is the fragment."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.sight import Field, Mask, Sight, apart, eroded, sample


@dataclass(frozen=True)
class Piece:
    """One connected piece, and the features by which parchment is recognised."""

    mask: Mask  # (rows, columns), holes filled
    area: int  # px
    colour: Field  # (3,) CIE Lab, median of the surface
    written: float  # share of pixels that are strokes
    straight: float  # share of its minimum-area rectangle that it fills: 1 for rulers, charts, labels
    ruled: float  # share of its outline along that rectangle's sides: torn edges are rarely there
    long: float  # longer over shorter side of that rectangle
    uneven: float  # CIE Lab units, spread of its colours (0.1 to 0.9 quantile): charts have many colours

    @property
    def made(self) -> bool:
        """Whether it looks manufactured: straight, and long or of several colours."""
        return max(self.straight - 0.4, self.ruled) > 0.5 and (self.long > 2.5 or self.uneven > 22)


def choose(foreground: Mask, sight: Sight, background: Field, least: float, alike: float, share: float) -> Mask | None:
    """Return the mask of the fragment among the pieces of `foreground` (rows, columns); None without any piece."""
    pieces = _pieces(foreground, sight, least)
    if not pieces:
        return None
    best = max(pieces, key=_worth)
    chosen = _one_material(best.mask, sight, background)
    # Measure its colour again: tape or backing paper may have been most of it.
    surface = chosen & ~sight.written
    colour = np.asarray(np.median(sample(sight.lab[surface if surface.any() else chosen]), axis=0), np.float32)
    for piece in pieces:
        near = float(np.linalg.norm(piece.colour - colour)) <= alike
        if piece is not best and near and piece.area >= share * chosen.sum() and _belongs(piece, best):
            chosen = chosen | _one_material(piece.mask, sight, background)
    return chosen


def _belongs(piece: Piece, best: Piece) -> bool:
    """Return whether a second piece can be parchment if `best` is: not manufactured, no label, no chart, written on."""
    label = piece.ruled > 0.5 and best.ruled < 0.5
    chart = piece.uneven > max(22.0, 1.5 * best.uneven)
    return not (piece.made or label or chart) and piece.written > 0.2 * best.written


def _worth(piece: Piece) -> float:
    """Score a piece as the fragment: by area and writing, a tenth of that if it looks manufactured."""
    return piece.area * (0.15 + min(piece.written, 0.15)) * (0.1 if piece.made else 1.0)


def _pieces(foreground: Mask, sight: Sight, least: float) -> list[Piece]:
    opened = cv2.morphologyEx(foreground.astype(np.uint8), cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(opened, connectivity=4)
    pieces = []
    for number in range(1, count):
        if stats[number, cv2.CC_STAT_AREA] < least * foreground.size:
            continue
        part = (labels == number).astype(np.uint8)
        outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        filled = cv2.drawContours(np.zeros_like(part), outlines, -1, 1, cv2.FILLED)
        outline = max(outlines, key=len)
        rectangle = cv2.minAreaRect(outline)
        sides = rectangle[1]
        area = int(filled.sum())
        inner = eroded(filled > 0, 7)
        inner = inner if inner.any() else filled > 0
        surface = inner & ~sight.written
        colours = sample(sight.lab[surface if surface.any() else inner])
        spread = np.quantile(colours, 0.9, axis=0) - np.quantile(colours, 0.1, axis=0)
        pieces.append(
            Piece(
                mask=filled > 0,
                area=area,
                colour=np.asarray(np.median(colours, axis=0), np.float32),
                written=float(sight.written[inner].mean()),
                straight=area / max(1.0, (sides[0] + 1) * (sides[1] + 1)),
                ruled=_ruled(outline, rectangle),
                long=(max(sides) + 1) / (min(sides) + 1),
                uneven=float(np.linalg.norm(spread)),
            )
        )
    return pieces


def _ruled(outline: NDArray[np.int32], rectangle: tuple[Any, Any, float]) -> float:
    """Return the share of an outline (n, 1, 2) within 2 px of the sides of a rectangle (centre, sides, degrees)."""
    centre, sides, turn = rectangle
    angle = np.deg2rad(turn)
    turned = (outline[:, 0] - np.array(centre)) @ np.array(
        [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    )
    gap = (np.array(sides) / 2 - np.abs(turned)).min(axis=1)
    return float((gap < 2.0).mean())


def _one_material(chosen: Mask, sight: Sight, background: Field) -> Mask:
    """Remove holes, tape and backing paper: other surfaces, closer to the background and sharply bounded.

    Stains and shadows fade out; tape and holes do not, and carry less writing than the rest. Where more than two
    thirds would be removed, nothing is.
    """
    surface = np.clip(2 * apart(sight.bare, background), 0, 255).astype(np.uint8)
    core = chosen & eroded(chosen, 2 * sight.reach)
    if core.sum() < 200:
        return chosen
    level, _ = cv2.threshold(surface[core], 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    near = chosen & (surface <= level)
    rest = core & ~near
    if not rest.any():
        return chosen
    usual = float(np.median(surface[rest]))
    # The darkest strokes of the rest are its ink; fibres of tape are strokes too, but less dark.
    depth = sight.bare[..., 0] - sight.lab[..., 0]
    inked = depth > 0.6 * float(np.quantile(sample(depth[rest], 20000), 0.99))
    dense = float(inked[rest].mean())
    wide = cv2.morphologyEx(near.astype(np.uint8), cv2.MORPH_OPEN, np.ones((sight.reach, sight.reach), np.uint8))
    count, labels = cv2.connectedComponents(wide)
    left = chosen.copy()
    for number in range(1, count):
        part = labels == number
        other = usual - float(np.median(surface[part])) >= 24
        blank = inked[part & core].sum() <= 0.5 * dense * (part & core).sum()
        if other and blank and _is_sharp(part, chosen, surface):
            left &= ~part
    left = cv2.morphologyEx(left.astype(np.uint8), cv2.MORPH_OPEN, np.ones((sight.reach, sight.reach), np.uint8)) > 0
    return _without_crumbs(left) if left.sum() > 0.33 * chosen.sum() else chosen


def _without_crumbs(mask: Mask) -> Mask:
    """Remove components smaller than a thirtieth of the whole."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    kept = stats[:, cv2.CC_STAT_AREA] >= mask.sum() / 30
    kept[0] = False
    return np.asarray(kept[labels])


def _is_sharp(part: Mask, chosen: Mask, away: NDArray[np.uint8]) -> bool:
    """Return whether `away` rises abruptly where `part` ends and the rest of `chosen` begins."""
    near, far = np.ones((5, 5), np.uint8), np.ones((13, 13), np.uint8)
    inside = part & (cv2.erode(part.astype(np.uint8), near) == 0)
    outside = (cv2.dilate(part.astype(np.uint8), near) > 0) & ~part & chosen
    beyond = (cv2.dilate(part.astype(np.uint8), far) > 0) & ~part & chosen
    if not inside.any() or not outside.any():
        return False
    step = float(np.median(away[outside])) - float(np.median(away[inside]))
    whole = float(np.median(away[beyond])) - float(np.median(away[part]))
    return whole > 0 and step > 0.5 * whole
