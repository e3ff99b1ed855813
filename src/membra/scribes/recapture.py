"""Turn a real photograph of writing into a synthetic second capture, with more damage and another camera.

An encoder must ignore what happens to a sheet after it was written: wear, tears, tape, rotation, camera. This module
simulates that on real writing and so gives two captures of one hand, of which only the first was ever taken.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes import ageing, grounds, mounts, wear
from membra.scribes.damage import damage
from membra.scribes.scene import laid
from membra.scribes.surfaces import Field, noise

Picture = NDArray[np.uint8]


class Recapture(NamedTuple):
    """A synthetic second photograph of the same writing."""

    picture: Picture  # (h, w, 3) RGB
    turn: float  # degrees counter-clockwise by which the writing was rotated
    scale: float  # px of the new photograph per px of the old


def recaptured(picture: Picture, height: float, seed: int) -> Recapture:
    """Wear, tear, mount, rotate and photograph a picture (h, w, 3) of dark writing again, drawn from `seed`.

    `height` is the letter height in px. The piece keeps all that is not torn, worn or covered; a ground surrounds it.
    """
    generator = np.random.default_rng((206, seed))
    harm = damage(seed)
    bare, share = _apart(picture, height)
    turn = float(generator.normal(0.0, 4.0) if generator.random() < 0.5 else generator.uniform(-180.0, 180.0))
    rows, columns = share.shape[:2]
    # room for the piece at any rotation
    side = int(np.hypot(rows, columns) + 2 * height)
    above, left = (side - rows) // 2, (side - columns) // 2
    around = (above, side - rows - above, left, side - columns - left)
    bare = np.asarray(cv2.copyMakeBorder(bare, *around, cv2.BORDER_REPLICATE), np.float32)
    share = np.asarray(cv2.copyMakeBorder(share, *around, cv2.BORDER_CONSTANT, value=(0, 0, 0)), np.float32)
    mask = np.zeros((side, side), bool)
    mask[above : above + rows, left : left + columns] = _outline((rows, columns), height, generator)
    mask = ageing.torn(mask, harm, height, seed)
    kept = ageing.ink_left(harm, (side, side), height, seed)
    sheet = ageing.aged(bare, share.mean(axis=2), harm, height, 0.0, seed)
    sheet, _ = ageing.worn(sheet * (1 - share * kept[..., None]), harm, height, seed)
    names = list(grounds.TEXTURED)
    table = grounds.ground(names[int(generator.integers(len(names)))], (side, side), height, generator)
    if generator.random() < 0.6:  # most lie on a plain ground
        table = np.full_like(table, generator.choice([0.05, 0.5, 0.95])) * (1 + np.float32(0.02) * table)
    below, over = ageing.mounted(table, mask, harm, height, seed)
    scene = laid(sheet, mask, below)
    if harm.edge_shadow > 0.0:
        scene = scene * (1 - np.float32(0.9) * wear.edge_shadow(mask, height, generator, harm.edge_shadow))[..., None]
    for strip in over:
        scene = mounts.lay(scene, strip)
    scene = ageing.shown(np.asarray(scene, np.float32), harm, seed)
    scale = float(np.exp(generator.uniform(np.log(16.0), np.log(44.0))) / height)
    return Recapture(_developed(scene, turn, scale, generator), turn, scale)


def _apart(picture: Picture, height: float) -> tuple[Field, Field]:
    """Return the sheet without its writing and the share of light that the writing absorbs, both (h, w, 3), 0 to 1."""
    light = picture.astype(np.float32) / np.float32(255)
    wide = 2 * round(0.3 * height) + 1  # wider than a stroke
    shape = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (wide, wide))
    bare = cv2.GaussianBlur(cv2.morphologyEx(light, cv2.MORPH_CLOSE, shape), (0, 0), 0.15 * height)
    share = np.clip(1 - light / np.maximum(bare, 1e-3), 0, 1)
    return np.asarray(np.maximum(bare, light), np.float32), np.asarray(share, np.float32)


def _outline(shape: tuple[int, int], height: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return (h, w) True on a piece with torn edges that fills most of the rectangle."""
    rows, columns = (np.minimum(np.arange(size), np.arange(size)[::-1]).astype(np.float32) for size in shape)
    inside = np.minimum(rows[:, None], columns)
    ragged = np.float32(0.35 * height) * noise(shape, 2.5 * height, generator)
    ragged += np.float32(0.06 * height) * noise(shape, max(1.5, 0.2 * height), generator)
    return np.asarray(inside + ragged > 0.2 * height)


def _developed(scene: Field, turn: float, scale: float, generator: np.random.Generator) -> Picture:
    """Rotate and scale the scene (s, s, 3), add blur and sensor noise, and pass half of the scenes through JPEG."""
    side = round(len(scene) * scale)
    matrix = np.asarray(cv2.getRotationMatrix2D((len(scene) / 2, len(scene) / 2), turn, scale), float)
    matrix[:, 2] += (side - len(scene)) / 2
    # smoothed before it is shrunk, since a warp samples single pixels
    soft = cv2.GaussianBlur(scene, (0, 0), 0.4 / scale) if scale < 1 else scene
    taken = cv2.warpAffine(soft, matrix, (side, side), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    if generator.random() < 0.5:
        taken = cv2.GaussianBlur(taken, (0, 0), generator.uniform(0.4, 1.2))
    taken = taken + generator.normal(0.0, generator.uniform(0.002, 0.02), (side, side, 1))
    levels = np.clip(np.rint(taken * 255), 0, 255).astype(np.uint8)
    if generator.random() < 0.5:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(generator.integers(55, 92))]
        levels = np.asarray(cv2.imdecode(cv2.imencode(".jpg", levels, quality)[1], cv2.IMREAD_COLOR), np.uint8)
    return levels
