"""The fragment's edge, exactly: holes cut out, and the shadow that it casts on the table cut off."""

from dataclasses import dataclass

import cv2
import numpy as np

from membra.see.pieces import Field, Mask

DARK = 30.0  # CIE Lab lightness below which ink cannot be told from the background by its colour


@dataclass(frozen=True)
class Ground:
    """One background of the photograph."""

    mask: Mask  # (rows, columns) where it is seen, connected to the rim
    colour: Field  # (rows, columns, 3) CIE Lab that it would have everywhere, as the light falls
    reach: float  # CIE Lab units from that colour that still count as it


def trim(mask: Mask, lab: Field, grounds: list[Ground]) -> Mask:
    """`mask` (rows, columns) without holes and without shadow; `lab` (rows, columns, 3) is the photograph."""
    left = mask.copy()
    for ground in grounds:
        left &= ~_holes(left, lab, ground)
    for ground in grounds:
        left &= ~_shadow(left, lab, ground)
    smooth = cv2.morphologyEx(left.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)) > 0
    return smooth if smooth.sum() > 0.5 * mask.sum() else mask


def _holes(mask: Mask, lab: Field, ground: Ground) -> Mask:
    """Where the background shows through."""
    seen = mask & (np.linalg.norm(lab - ground.colour, axis=2) < ground.reach)
    dark = float(np.median(ground.colour[..., 0])) < DARK
    # Ink can be as dark as a dark table; only what is wider than strokes is then a hole.
    least = max(9, round(0.02 * max(mask.shape)) | 1) if dark else 5
    core = cv2.morphologyEx(seen.astype(np.uint8), cv2.MORPH_OPEN, _disc(least))
    return np.asarray((cv2.dilate(core, _disc(5)) > 0) & mask)


def _shadow(mask: Mask, lab: Field, ground: Ground) -> Mask:
    """Along the edge, what has the background's hue but less light, and is unlike the fragment nearby.

    Without the last condition a grey fragment on a white table would be its own shadow.
    """
    steps = max(5, round(0.03 * max(mask.shape)))
    base = np.maximum(ground.colour[..., 0], 1.0)
    share = lab[..., 0] / base
    hue = np.linalg.norm(lab[..., 1:] - ground.colour[..., 1:] * share[..., None], axis=2)
    unlike = np.linalg.norm(lab - _surface(mask, lab, steps), axis=2)
    like = mask & (share > 0.4) & (share < 1.0) & (hue < 6) & (hue < unlike) & (unlike > 4)
    # From outside inwards through such pixels only, and never into the light: a shadow is darkest at the edge that
    # casts it. So letters at the edge, as grey as a shadow, are not followed further than into their strokes.
    light = np.ascontiguousarray(lab[..., 0])
    grown = ~mask
    for _ in range(steps):
        beside = cv2.dilate(np.where(grown, light, np.float32(-1)), _disc(3))
        grown |= like & (light <= beside + np.float32(0.7))
    return np.asarray(grown & mask)


def _surface(mask: Mask, lab: Field, reach: int) -> Field:
    """The fragment's own colour nearby, (rows, columns, 3): its edge left out, writing closed over."""
    core = cv2.erode(mask.astype(np.uint8), _disc(reach))
    core = core if core.any() else mask.astype(np.uint8)
    bare = lab.copy()
    bare[..., 0] = cv2.morphologyEx(lab[..., 0], cv2.MORPH_CLOSE, _disc(reach))
    window = (6 * reach + 1, 6 * reach + 1)
    weight = cv2.blur(core.astype(np.float32), window)
    near = cv2.blur(bare * core[..., None].astype(np.float32), window) / np.maximum(weight, 1e-6)[..., None]
    usual = np.median(bare[core > 0], axis=0)
    return np.asarray(np.where(weight[..., None] > 1e-3, near, usual), np.float32)


def _disc(side: int) -> np.ndarray:
    return cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side | 1, side | 1))
