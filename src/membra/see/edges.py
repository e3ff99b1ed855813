"""Refines the foreground mask of a fragment: removes holes, and the shadow that it casts on the table."""

from dataclasses import dataclass

import cv2
import numpy as np

from membra.see.sight import Field, Mask, Sight, apart, disc, sample

COLOURED = 15.0  # CIE Lab chroma from which a background is recognised by its hue, whatever its lightness
DEEP = 15.0  # CIE Lab units by which strokes are darker than the surface around them


@dataclass(frozen=True)
class Ground:
    """One background colour of the photograph."""

    mask: Mask  # (rows, columns) background pixels, connected to the rim
    colour: Field  # (rows, columns, 3) CIE Lab, the background colour extrapolated to every pixel
    reach: float  # CIE Lab units, the distance from `colour` within which a pixel counts as background


def trim(mask: Mask, sight: Sight, grounds: list[Ground]) -> Mask:
    """Remove holes and shadow from the foreground `mask` (rows, columns)."""
    left = mask.copy()
    for ground in grounds:
        left &= ~_holes(left, sight, ground)
    for ground in grounds:
        left &= ~_shadow(left, sight, ground)
    smooth = cv2.morphologyEx(left.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)) > 0
    return smooth if smooth.sum() > 0.5 * mask.sum() else mask


def _holes(mask: Mask, sight: Sight, ground: Ground) -> Mask:
    """Return the pixels of `mask` where the background shows through a hole."""
    seen = mask & (apart(sight.lab, ground.colour) < ground.reach)
    middle = ground.colour[tuple(side // 2 for side in mask.shape)]
    strokes = mask & (sight.written | (sight.bare[..., 0] - sight.lab[..., 0] > DEEP))
    if float(np.hypot(middle[1], middle[2])) > COLOURED:
        # A small hole lies wholly in shadow. On a coloured table, hue still separates it from ink.
        shaded = mask & _in_shadow(sight.lab, ground, 0.3, 8.0)
        if not _is_ink(shaded, strokes):
            seen |= shaded
    least = 5
    if _is_ink(seen, strokes):
        # Black ink on a black table: only regions wider than strokes are holes. Nine tenths of a stroke's pixels are
        # at most 0.45 of its width from its edge.
        depth = cv2.distanceTransform(strokes.astype(np.uint8), cv2.DIST_L2, 3)
        width = float(np.quantile(depth[strokes], 0.9)) / 0.45
        least = round(max(9.0, 0.02 * max(mask.shape), 1.5 * width))
    core = cv2.morphologyEx(seen.astype(np.uint8), cv2.MORPH_OPEN, disc(least))
    return np.asarray((cv2.dilate(core, disc(5)) > 0) & mask)


def _is_ink(seen: Mask, strokes: Mask) -> bool:
    """Return whether `seen` covers more than a fifth of the strokes, so that it must be ink and not a hole."""
    return bool((seen & strokes).sum() > 0.2 * strokes.sum())


def _shadow(mask: Mask, sight: Sight, ground: Ground) -> Mask:
    """Return the shadow along the edge: the background's hue, darker, and unlike the fragment nearby.

    Without the last condition a grey fragment on a white table would count as shadow.
    """
    steps = max(5, round(0.03 * max(mask.shape)))
    unlike = apart(sight.lab, _surface(mask, sight, steps))
    like = mask & _in_shadow(sight.lab, ground, 0.4, np.minimum(unlike, 6)) & (unlike > 4)
    # Grow from outside inwards through such pixels only, and never towards lighter ones: a shadow is darkest at the
    # edge that casts it. So growth enters the grey strokes of letters at the edge, and does not go beyond them.
    light = np.ascontiguousarray(sight.lab[..., 0])
    grown = ~mask
    for _ in range(steps):
        beside = cv2.dilate(np.where(grown, light, np.float32(-1)), disc(3))
        grown |= like & (light <= beside + np.float32(0.7))
    return np.asarray(grown & mask)


def _in_shadow(lab: Field, ground: Ground, least: float, tolerance: float | Field) -> Mask:
    """Return the pixels that match the background at `least` to 1 of its lightness.

    `tolerance` is the accepted difference in a* and b*, in CIE Lab units.
    """
    share = np.asarray(lab[..., 0] / np.maximum(ground.colour[..., 0], 1.0), np.float32)
    hue = apart(lab[..., 1:], np.asarray(ground.colour[..., 1:] * share[..., None], np.float32))
    return np.asarray((share > least) & (share < 1.0) & (hue < tolerance))


def _surface(mask: Mask, sight: Sight, reach: int) -> Field:
    """Return the local surface colour of the fragment (rows, columns, 3), without its edge and its writing."""
    core = cv2.erode(mask.astype(np.uint8), disc(reach))
    core = core if core.any() else mask.astype(np.uint8)
    window = (6 * reach + 1, 6 * reach + 1)
    weight = cv2.blur(core.astype(np.float32), window)
    near = cv2.blur(sight.bare * core[..., None].astype(np.float32), window) / np.maximum(weight, 1e-6)[..., None]
    usual = np.median(sample(sight.bare[core > 0]), axis=0)
    return np.asarray(np.where(weight[..., None] > 1e-3, near, usual), np.float32)
