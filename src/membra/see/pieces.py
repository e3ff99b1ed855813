"""The pieces that lie on a background, and which of them is the fragment."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Piece:
    """One connected piece and what speaks for and against its being parchment."""

    mask: Mask  # (rows, columns), holes filled
    area: int  # px
    colour: Field  # (3,) CIE Lab, its commonest material
    written: float  # share of strokes
    straight: float  # share of its smallest rectangle that it fills: 1 for rulers, charts, labels
    long: float  # longer by shorter side of that rectangle
    uneven: float  # CIE Lab units, how far its large areas differ: charts have many colours

    @property
    def made(self) -> bool:
        """Made by a machine: long and straight, or straight and of several colours."""
        return self.straight > 0.9 and (self.long > 3.5 or self.uneven > 22)


def choose(
    foreground: Mask, lab: Field, written: Mask, background: Field, least: float, alike: float, share: float
) -> Mask | None:
    """The fragment among the pieces of `foreground` (rows, columns); None where there is no piece."""
    pieces = _pieces(foreground, lab, written, least)
    if not pieces:
        return None
    best = max(pieces, key=_worth)
    kept = [
        piece
        for piece in pieces
        if piece is best
        or (
            piece.area >= share * best.area
            and float(np.linalg.norm(piece.colour - best.colour)) <= alike
            and (not piece.made)
            and not (piece.straight > 0.93 and best.straight < 0.88)
            and piece.written > 0.2 * best.written
        )
    ]
    chosen = np.any([piece.mask for piece in kept], axis=0)
    return _one_material(chosen, lab, written, background)


def solid(mask: Mask, reach: int) -> Mask:
    """`mask` with gaps narrower than twice `reach` px closed; the frame's edge counts as outside."""
    if reach < 1:
        return mask
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    padded = cv2.copyMakeBorder(mask.astype(np.uint8), reach, reach, reach, reach, cv2.BORDER_REPLICATE)
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, kernel)
    return np.asarray(closed[reach:-reach, reach:-reach] > 0)


def _worth(piece: Piece) -> float:
    """How much of a fragment a piece is: its size and its writing, less if it was made by a machine."""
    return piece.area * (0.15 + min(piece.written, 0.15)) * (0.1 if piece.made else 1.0)


def _pieces(foreground: Mask, lab: Field, written: Mask, least: float) -> list[Piece]:
    opened = cv2.morphologyEx(foreground.astype(np.uint8), cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(opened, connectivity=4)
    smooth = np.stack([cv2.medianBlur(np.ascontiguousarray(lab[..., channel]), 5) for channel in range(3)], axis=2)
    pieces = []
    for number in range(1, count):
        if stats[number, cv2.CC_STAT_AREA] < least * foreground.size:
            continue
        part = (labels == number).astype(np.uint8)
        outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        filled = cv2.drawContours(np.zeros_like(part), outlines, -1, 1, cv2.FILLED)
        _, sides, _ = cv2.minAreaRect(np.concatenate(outlines))
        area = int(filled.sum())
        inner = cv2.erode(filled, np.ones((7, 7), np.uint8)) > 0
        inner = inner if inner.any() else filled > 0
        surface = inner & ~written
        colours = smooth[surface if surface.any() else inner]
        spread = np.quantile(colours, 0.9, axis=0) - np.quantile(colours, 0.1, axis=0)
        pieces.append(
            Piece(
                mask=filled > 0,
                area=area,
                colour=np.asarray(np.median(colours, axis=0), np.float32),
                written=float(written[inner].mean()),
                straight=area / max(1.0, (sides[0] + 1) * (sides[1] + 1)),
                long=(max(sides) + 1) / (min(sides) + 1),
                uneven=float(np.linalg.norm(spread)),
            )
        )
    return pieces


def _one_material(chosen: Mask, lab: Field, written: Mask, background: Field) -> Mask:
    """Without holes, tape and backing paper: other surfaces, nearer to the background and sharply bounded.

    Stains and shadows shade off, tape and holes do not; nor are they written on as the rest is. At most half is
    taken away: the rest is the fragment.
    """
    reach = max(4, round(0.014 * max(chosen.shape)))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    # Closed, writing is gone: strokes are narrower than tape, and the lighter surface shows between them.
    bare = lab - background
    bare[..., 0] = cv2.morphologyEx(lab[..., 0], cv2.MORPH_CLOSE, kernel) - background[0]
    surface = np.clip(2 * np.linalg.norm(bare, axis=2), 0, 255).astype(np.uint8)
    core = chosen & (cv2.erode(chosen.astype(np.uint8), kernel) > 0)
    if core.sum() < 200:
        return chosen
    level, _ = cv2.threshold(surface[core], 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    near = chosen & (surface <= level)
    usual = float(np.median(surface[core & ~near])) if (core & ~near).any() else 0.0
    dense = float(written[core].mean())
    wide = cv2.morphologyEx(near.astype(np.uint8), cv2.MORPH_OPEN, np.ones((reach, reach), np.uint8))
    count, labels = cv2.connectedComponents(wide)
    left = chosen.copy()
    for number in range(1, count):
        part = labels == number
        other = usual - float(np.median(surface[part])) >= 24
        blank = written[part & core].sum() <= 0.5 * dense * (part & core).sum()
        if other and blank and _is_sharp(part, chosen, surface):
            left &= ~part
    left = cv2.morphologyEx(left.astype(np.uint8), cv2.MORPH_OPEN, np.ones((reach, reach), np.uint8)) > 0
    return _without_crumbs(left) if left.sum() > 0.5 * chosen.sum() else chosen


def _without_crumbs(mask: Mask) -> Mask:
    """Only parts of at least a thirtieth of the whole."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    kept = stats[:, cv2.CC_STAT_AREA] >= mask.sum() / 30
    kept[0] = False
    return np.asarray(kept[labels])


def _is_sharp(part: Mask, chosen: Mask, away: NDArray[np.uint8]) -> bool:
    """Whether `away` rises at once where `part` ends and the rest of `chosen` begins."""
    near, far = np.ones((5, 5), np.uint8), np.ones((13, 13), np.uint8)
    inside = part & (cv2.erode(part.astype(np.uint8), near) == 0)
    outside = (cv2.dilate(part.astype(np.uint8), near) > 0) & ~part & chosen
    beyond = (cv2.dilate(part.astype(np.uint8), far) > 0) & ~part & chosen
    if not inside.any() or not outside.any():
        return False
    step = float(np.median(away[outside])) - float(np.median(away[inside]))
    whole = float(np.median(away[beyond])) - float(np.median(away[part]))
    return whole > 0 and step > 0.5 * whole
