"""Sheets for the eye's training samples: an item of the material separated into ink and paper, and its warps."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.train.eye_material import LETTER, UNKNOWN, Item, Picture

SIDE = 288  # px of a sample; training takes a slightly smaller random crop of it


@dataclass(frozen=True)
class Sheet:
    """One item of the material, separated into ink and paper."""

    picture: Picture  # (h, w, 3) unchanged
    paper: Picture  # (h, w, 3) with its ink painted over
    depth: Picture  # (h, w) share of the light that its ink absorbs, 255 for all of it
    ink: Picture  # (h, w) 0, 255 or UNKNOWN
    surface: Picture  # (h, w) 0, 255 or UNKNOWN
    source: str
    upright: bool


def take_apart(item: Item) -> Sheet:
    """Separate an item into ink and paper."""
    ink = item.ink
    surface = item.surface
    if (surface == UNKNOWN).all():
        surface = _by_light(item.picture)
    # possible ink is painted over too, so that no ink remains in the paper
    doubt = _strokes(item.picture) if (ink == UNKNOWN).all() else ink > 0
    paper = _painted_over(item.picture, cv2.dilate(doubt.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0)
    light, bare = (cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32) for picture in (item.picture, paper))
    near = cv2.dilate((ink == 255).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    taken = np.clip(1 - light / np.maximum(bare, 1), 0, 1) * near
    full = float(np.quantile(taken[ink == 255], 0.8)) if (ink == 255).any() else 1.0
    depth = np.clip(taken / max(full, 0.05), 0, 1) * 255
    return Sheet(item.picture, paper, depth.astype(np.uint8), ink, surface, item.source, item.upright)


def view_of(sheet: Sheet, height: float, turn: float, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the (2, 3) affine matrix from sheet to sample: random centre, rotated, letters `height` px high."""
    zoom = height / LETTER
    rows, columns = sheet.ink.shape
    # half a sample away from the sheet's edges, if the sheet is large enough
    reach = min(0.5, 0.5 * SIDE / zoom / max(rows, columns))
    centre = np.array([columns, rows]) * generator.uniform(reach, 1 - reach, 2)
    angle = np.deg2rad(turn)
    matrix = zoom * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.column_stack([matrix, SIDE / 2 - matrix @ centre])


def warped(picture: Picture, view: NDArray[np.float64], *, reflect: bool = False, nearest: bool = False) -> Picture:
    zoom = float(np.hypot(view[0, 0], view[0, 1]))
    if zoom < 0.7 and not nearest:  # averaged first, since a warp samples single pixels
        size = max(1, round(picture.shape[1] * zoom)), max(1, round(picture.shape[0] * zoom))
        factor = np.array([size[0] / picture.shape[1], size[1] / picture.shape[0]])
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
        view = np.column_stack([view[:, :2] / factor, view[:, 2]])
    border = cv2.BORDER_REFLECT_101 if reflect else cv2.BORDER_CONSTANT
    how = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR if zoom < 1.2 else cv2.INTER_CUBIC
    return np.asarray(cv2.warpAffine(picture, view, (SIDE, SIDE), flags=how, borderMode=border), np.uint8)


def warped_mask(mask: Picture, view: NDArray[np.float64], *, reflect: bool = False) -> Picture:
    """Warp a mask of 0, 255 and UNKNOWN to the sample; outside the sheet it is 0, or reflected."""
    yes = warped(np.where(mask == 255, 255, 0).astype(np.uint8), view, reflect=reflect)
    doubt = warped(np.where(mask == UNKNOWN, 255, 0).astype(np.uint8), view, reflect=reflect)
    return np.where(yes > 127, 255, np.where(doubt > 100, UNKNOWN, 0)).astype(np.uint8)


def _painted_over(picture: Picture, ink: NDArray[np.bool_]) -> Picture:
    """Fill the ink of a picture from its surroundings, at several radii, and add grain from elsewhere on it."""
    values, open_ = picture.astype(np.float32), (~ink).astype(np.float32)
    filled, weight = np.zeros_like(values), np.zeros(ink.shape, np.float32)
    known = np.dstack([values * open_[..., None], open_])
    size = (ink.shape[1], ink.shape[0])
    for reach, part in ((3.0, 1), (8.0, 2), (24.0, 4), (64.0, 8)):  # large radii on a coarser grid, for speed
        coarse = cv2.resize(known, (max(1, size[0] // part), max(1, size[1] // part)), interpolation=cv2.INTER_AREA)
        blurred = cv2.resize(cv2.GaussianBlur(coarse, (0, 0), reach / part), size, interpolation=cv2.INTER_LINEAR)
        near = blurred[..., 3]
        mean = blurred[..., :3] / np.maximum(near, 1e-4)[..., None]
        share = np.clip(near * 2, 0, 1) * (1 - weight)
        filled += mean * share[..., None]
        weight += share
    filled /= np.maximum(weight, 1e-4)[..., None]
    grain = values - cv2.GaussianBlur(values, (0, 0), 2.0)
    shifted = np.roll(grain, (17, 29), axis=(0, 1)) * np.roll(open_, (17, 29), axis=(0, 1))[..., None]
    soft = cv2.GaussianBlur(ink.astype(np.float32), (0, 0), 1.0)[..., None]
    return np.clip(values * (1 - soft) + (filled + shifted) * soft, 0, 255).astype(np.uint8)


def _strokes(picture: Picture) -> NDArray[np.bool_]:
    """Return the mask (h, w) of thin dark structures: ink, cracks and the like."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    closed = cv2.morphologyEx(grey, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (15, 15)))
    return np.asarray(closed.astype(int) - grey > 28)


def _by_light(picture: Picture) -> Picture:
    """Return the surface of a piece on black with tape: of three brightness levels, the lightest is surface."""
    grey = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (0, 0), 4.0)
    low, _ = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    above = grey[grey > low]
    high = cv2.threshold(above.reshape(-1, 1), 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)[0] if above.size else low
    bright = cv2.erode((grey > high).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    return np.where(bright, 255, np.where(grey > 0.6 * low, UNKNOWN, 0)).astype(np.uint8)
