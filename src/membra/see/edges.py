"""The fragment's edge, exactly: holes cut out, and the shadow that it casts on the table cut off."""

from dataclasses import dataclass

import cv2
import numpy as np

from membra.see.sight import Field, Mask, Sight, apart, disc, sample

COLOURED = 15.0  # CIE Lab chroma from which on a background is told by its hue, whatever its light
DEEP = 15.0  # CIE Lab units by which strokes are darker than the surface around them


@dataclass(frozen=True)
class Ground:
    """One background of the photograph."""

    mask: Mask  # (rows, columns) where it is seen, connected to the rim
    colour: Field  # (rows, columns, 3) CIE Lab that it would have everywhere, as the light falls
    reach: float  # CIE Lab units from that colour that still count as it


def trim(mask: Mask, sight: Sight, grounds: list[Ground]) -> Mask:
    """`mask` (rows, columns) without holes and without shadow."""
    left = mask.copy()
    for ground in grounds:
        left &= ~_holes(left, sight, ground)
    for ground in grounds:
        left &= ~_shadow(left, sight, ground)
    smooth = cv2.morphologyEx(left.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)) > 0
    return smooth if smooth.sum() > 0.5 * mask.sum() else mask


def _holes(mask: Mask, sight: Sight, ground: Ground) -> Mask:
    """Where the background shows through."""
    seen = mask & (apart(sight.lab, ground.colour) < ground.reach)
    middle = ground.colour[tuple(side // 2 for side in mask.shape)]
    strokes = mask & (sight.written | (sight.bare[..., 0] - sight.lab[..., 0] > DEEP))
    if float(np.hypot(middle[1], middle[2])) > COLOURED:
        # A small hole lies all in shadow. On a table with a colour of its own the hue still tells it from ink.
        shaded = mask & _in_shadow(sight.lab, ground, 0.3, 8.0)
        if not _is_ink(shaded, strokes):
            seen |= shaded
    least = 5
    if _is_ink(seen, strokes):
        # Black on black: only what is wider than strokes is a hole. Nine tenths of a stroke's pixels are no deeper
        # in it than 0.45 of its width.
        depth = cv2.distanceTransform(strokes.astype(np.uint8), cv2.DIST_L2, 3)
        width = float(np.quantile(depth[strokes], 0.9)) / 0.45
        least = round(max(9.0, 0.02 * max(mask.shape), 1.5 * width))
    core = cv2.morphologyEx(seen.astype(np.uint8), cv2.MORPH_OPEN, disc(least))
    return np.asarray((cv2.dilate(core, disc(5)) > 0) & mask)


def _is_ink(seen: Mask, strokes: Mask) -> bool:
    """Whether so many strokes are among what looks like a hole that it must be ink."""
    return bool((seen & strokes).sum() > 0.2 * strokes.sum())


def _shadow(mask: Mask, sight: Sight, ground: Ground) -> Mask:
    """Along the edge, what has the background's hue but less light, and is unlike the fragment nearby.

    Without the last condition a grey fragment on a white table would be its own shadow.
    """
    steps = max(5, round(0.03 * max(mask.shape)))
    unlike = apart(sight.lab, _surface(mask, sight, steps))
    like = mask & _in_shadow(sight.lab, ground, 0.4, np.minimum(unlike, 6)) & (unlike > 4)
    # From outside inwards through such pixels only, and never into the light: a shadow is darkest at the edge that
    # casts it. So letters at the edge, as grey as a shadow, are not followed further than into their strokes.
    light = np.ascontiguousarray(sight.lab[..., 0])
    grown = ~mask
    for _ in range(steps):
        beside = cv2.dilate(np.where(grown, light, np.float32(-1)), disc(3))
        grown |= like & (light <= beside + np.float32(0.7))
    return np.asarray(grown & mask)


def _in_shadow(lab: Field, ground: Ground, least: float, tolerance: float | Field) -> Mask:
    """Where the background would look so with `least` to all of its light; `tolerance` in CIE Lab units of hue."""
    share = np.asarray(lab[..., 0] / np.maximum(ground.colour[..., 0], 1.0), np.float32)
    hue = apart(lab[..., 1:], np.asarray(ground.colour[..., 1:] * share[..., None], np.float32))
    return np.asarray((share > least) & (share < 1.0) & (hue < tolerance))


def _surface(mask: Mask, sight: Sight, reach: int) -> Field:
    """The fragment's own colour nearby, (rows, columns, 3): its edge left out, writing closed over."""
    core = cv2.erode(mask.astype(np.uint8), disc(reach))
    core = core if core.any() else mask.astype(np.uint8)
    window = (6 * reach + 1, 6 * reach + 1)
    weight = cv2.blur(core.astype(np.float32), window)
    near = cv2.blur(sight.bare * core[..., None].astype(np.float32), window) / np.maximum(weight, 1e-6)[..., None]
    usual = np.median(sample(sight.bare[core > 0]), axis=0)
    return np.asarray(np.where(weight[..., None] > 1e-3, near, usual), np.float32)
