"""Cuts glyphs from ink: connected components that can be letters, as boxes and 64 x 64 patches."""

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.ink import Ink

PATCH = 64  # px, side of a patch: what the encoders take
ENOUGH = 12  # whole glyphs; a fragment with fewer is described with the glyphs that the tear has cut, too


@dataclass(frozen=True)
class GlyphSettings:
    """Which components count as letters, and how they are fitted into a patch."""

    min_area: int = 300  # px of ink; below it specks and noise
    max_area: int = 3000  # px of ink; above it blots and touching letters
    box_white: float = 0.05  # minimum share of ink in the component's box
    patch_white: float = 0.02  # minimum share of ink in the finished patch
    inside: float = 0.0  # minimum share of the box on the fragment; below it the tear has cut the letter
    speck: float = 0.0  # letter heights; a smaller component that touches the torn edge is its shadow; 0: no limit
    blot: float = 0.0  # multiple of the median stroke width, above which a stroke is a hole or a blot; 0: no limit
    slender: float = 0.0  # height over width, above which it is a crease or a gutter's shadow; 0: no limit
    fit: Literal["fitpad", "stretched", "context"] = "fitpad"  # keep the shape; fill the patch; show neighbours
    longest: int = 60  # px, the longer side of a glyph in the patch (fitpad)
    context: float = 2.0  # side of the window in units of the box's longer side (context)


@dataclass(frozen=True)
class Glyphs:
    """The accepted components of one fragment, in raster order: by the row in which each begins, from the top.

    Attributes
    ----------
    boxes : (n, 4) int32
        x, y, width, height in pixels of the photograph.
    patches : (n, 64, 64) uint8
        Ink is white.
    dropped : dict
        Number of components that each filter removed, by the filter's name.
    turned : bool
        Whether the text lines run from top to bottom, so that the glyphs in the patches lie on their sides.
    """

    boxes: NDArray[np.int32]
    patches: NDArray[np.uint8]
    dropped: dict[str, int]
    turned: bool = False

    def __len__(self) -> int:
        return len(self.boxes)


def cut_glyphs(ink: Ink, settings: GlyphSettings) -> Glyphs:
    """Cut the 8-connected components of `ink` that pass the filters of `settings`."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink.binary, connectivity=8)
    components = np.asarray(stats[1:], np.int32)  # the first is the background
    area = components[:, cv2.CC_STAT_AREA]
    small, large = area < settings.min_area, area > settings.max_area
    dropped = {"too small": int(small.sum()), "too large": int(large.sum())}
    components = components[~small & ~large]
    filters = (
        ("slender", _is_broad, 1),
        ("edge speck", _is_no_speck, 1),
        ("blot", _is_stroke, 1),
        ("cut off", _is_whole, ENOUGH),
    )
    for reason, test, enough in filters:
        good = test(components, ink, settings)
        if good.sum() < enough:  # doubtful glyphs are better than too few
            good = np.ones_like(good)
        dropped[reason] = int((~good).sum())
        components = components[good]
    dropped |= {"sparse box": 0, "sparse patch": 0}
    boxes, patches = [], []
    for x, y, width, height in components[:, :4].tolist():
        if np.count_nonzero(ink.binary[y : y + height, x : x + width]) < settings.box_white * width * height:
            dropped["sparse box"] += 1
            continue
        patch = lay_out(ink.binary, (x, y, width, height), settings)
        if np.count_nonzero(patch) < settings.patch_white * PATCH * PATCH:
            dropped["sparse patch"] += 1
            continue
        boxes.append((x, y, width, height))
        patches.append(patch)
    corners = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    # Round corners, not sizes, so that no box reaches beyond the photograph.
    corners = np.rint(corners / ink.scale).astype(np.int32)
    return Glyphs(
        boxes=np.concatenate(
            [corners[:, :2] + (ink.left, ink.top), np.maximum(corners[:, 2:] - corners[:, :2], 1)], axis=1
        ).astype(np.int32),
        patches=np.array(patches, dtype=np.uint8).reshape(-1, PATCH, PATCH),
        dropped=dropped,
        turned=ink.turned,
    )


def _is_broad(components: NDArray[np.int32], ink: Ink, settings: GlyphSettings) -> NDArray[np.bool_]:
    """Return (n,) whether a component is not too high for its width.

    All are kept on turned text, where a word of touching letters is high and narrow.
    """
    if settings.slender == 0 or ink.turned:
        return np.ones(len(components), bool)
    high, wide = components[:, cv2.CC_STAT_HEIGHT], components[:, cv2.CC_STAT_WIDTH]
    return np.asarray(high <= settings.slender * wide)


def _is_no_speck(components: NDArray[np.int32], ink: Ink, settings: GlyphSettings) -> NDArray[np.bool_]:
    """Return (n,) whether a component is no speck at the fragment's edge, where a jagged tear casts shadows."""
    inside = ink.inside
    sides = components[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]]
    small = np.asarray(sides.max(axis=1) < settings.speck * ink.scale * ink.letter_height)
    if inside is None or inside.all() or not small.any():
        return np.ones(len(components), bool)
    # Ink ends `margin` px from the edge: a component that reaches that line continues beyond it. 1.5: one pixel more,
    # diagonals included.
    depth = cv2.distanceTransform(inside.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5)
    at_edge = (depth <= ink.margin + 1.5) & (ink.binary > 0)
    touches = [at_edge[y : y + high, x : x + wide].any() for x, y, wide, high in components[:, :4].tolist()]
    return np.asarray(~(small & np.array(touches)))


def _is_stroke(components: NDArray[np.int32], ink: Ink, settings: GlyphSettings) -> NDArray[np.bool_]:
    """Return (n,) whether the widest stroke of a component is within `blot` times the median of this fragment."""
    if settings.blot == 0 or len(components) == 0:
        return np.ones(len(components), bool)
    depth = cv2.distanceTransform(ink.binary, cv2.DIST_L2, 3)
    widest = np.array([depth[y : y + high, x : x + wide].max() for x, y, wide, high in components[:, :4].tolist()])
    return np.asarray(widest <= settings.blot * np.median(widest))


def _is_whole(components: NDArray[np.int32], ink: Ink, settings: GlyphSettings) -> NDArray[np.bool_]:
    """Return (n,) whether enough of a component's box lies on the fragment."""
    inside = ink.inside
    if settings.inside == 0 or inside is None or len(components) == 0:
        return np.ones(len(components), bool)
    share = [inside[y : y + high, x : x + wide].mean() for x, y, wide, high in components[:, :4].tolist()]
    return np.asarray(np.array(share) >= settings.inside)


def lay_out(binary: NDArray[np.uint8], box: tuple[int, int, int, int], settings: GlyphSettings) -> NDArray[np.uint8]:
    """Fit one box (x, y, width, height) of `binary` into a (64, 64) patch.

    fitpad: the longer side becomes `longest` (60) px, the shape is kept, the rest is black (as in the paper;
    neighbours that reach into the box stay in it, as in the authors' code). stretched: the box fills the patch.
    context: a square window around the box's centre, neighbours included, fills the patch.
    """
    x, y, width, height = box
    if settings.fit == "stretched":
        return _resized(binary[y : y + height, x : x + width], PATCH, PATCH)
    if settings.fit == "context":
        side = max(1, round(settings.context * max(width, height)))
        top, left = y + height // 2 - side // 2, x + width // 2 - side // 2
        window = np.zeros((side, side), dtype=np.uint8)
        rows = slice(max(top, 0), min(top + side, binary.shape[0]))
        columns = slice(max(left, 0), min(left + side, binary.shape[1]))
        window[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = binary[rows, columns]
        return _resized(window, PATCH, PATCH)
    scale = settings.longest / max(width, height)
    # Truncated, not rounded, as in the authors' code: embeddings differ by 0.2 otherwise.
    inner_width, inner_height = max(1, int(width * scale)), max(1, int(height * scale))
    patch = np.zeros((PATCH, PATCH), dtype=np.uint8)
    top, left = (PATCH - inner_height) // 2, (PATCH - inner_width) // 2
    patch[top : top + inner_height, left : left + inner_width] = _resized(
        binary[y : y + height, x : x + width], inner_width, inner_height
    )
    return patch


def _resized(crop: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.resize(crop, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
