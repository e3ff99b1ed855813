"""Photographs with typical additions of libraries, composed from drawn fragments with known truth."""

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from membra import scribes

Picture = NDArray[np.uint8]
Mask = NDArray[np.bool_]
WOOD, LINEN, GREEN_CLOTH = (120, 78, 46), (172, 168, 150), (58, 96, 74)  # RGB of tables with a texture


def drawn(seed: int, background: str = "grey", letters: int = 60, ruler: bool = False) -> scribes.Drawn:
    """Draw a fragment on a table of a given colour."""
    camera = replace(scribes.camera(seed), background=background)
    return scribes.fragment(scribes.hand(seed), camera, letters=letters, seed=seed, ruler=ruler)


def on_texture(one: scribes.Drawn, colour: tuple[int, int, int], seed: int = 0) -> Picture:
    """Put the fragment on a textured table, like wood or cloth."""
    draw = np.random.default_rng(seed)
    rows, columns = one.mask.shape
    along = cv2.resize(draw.normal(0, 1, (rows, 4)).astype(np.float32), (columns, rows), interpolation=cv2.INTER_CUBIC)
    threads = cv2.GaussianBlur(draw.normal(0, 1, (rows, columns)).astype(np.float32), (0, 0), 1.2)
    shade = 1.0 + 0.05 * cv2.GaussianBlur(along, (0, 0), 2.0) + 0.12 * threads
    table = np.clip(np.array(colour, np.float32) * shade[..., None], 0, 255)
    return _laid(one.image, one.mask, table)


def beside(first: scribes.Drawn, second: scribes.Drawn) -> tuple[Picture, Mask]:
    """Put two pieces on one table; return the picture and the mask of both pieces."""
    rows = max(first.image.shape[0], second.image.shape[0])
    rim = np.concatenate([first.image[:6].reshape(-1, 3), first.image[-6:].reshape(-1, 3)])
    pictures, masks = [], []
    for one in (first, second):
        own = np.concatenate([one.image[:6].reshape(-1, 3), one.image[-6:].reshape(-1, 3)])
        shift = np.median(rim, axis=0) - np.median(own, axis=0)
        image = np.where(one.mask[..., None], one.image, np.clip(one.image + shift, 0, 255)).astype(np.uint8)
        below = rows - image.shape[0]
        pictures.append(cv2.copyMakeBorder(image, 0, below, 0, 0, cv2.BORDER_REPLICATE))
        masks.append(np.pad(one.mask, ((0, below), (0, 0))))
    return np.hstack(pictures), np.hstack(masks)


def with_tape(one: scribes.Drawn, seed: int = 0) -> tuple[Picture, Mask]:
    """Add a strip of paper tape from the picture's upper edge onto the fragment; return the strip's mask as well."""
    draw = np.random.default_rng(seed)
    rows, columns = one.mask.shape
    top = int(np.flatnonzero(one.mask.any(axis=1))[0])
    middle = int(np.median(np.flatnonzero(one.mask[top + rows // 20])))
    strip = np.zeros((rows, columns), bool)
    strip[: top + rows // 25, max(0, middle - columns // 20) : middle + columns // 20] = True
    table, sheet = np.median(one.image[~one.mask], axis=0), np.median(one.image[one.mask], axis=0)
    fibres = cv2.GaussianBlur(draw.normal(0, 1, (rows, columns)).astype(np.float32), (0, 0), 1.0)
    tape = np.clip((0.6 * table + 0.4 * sheet) * (1.0 + 0.1 * fibres[..., None]), 0, 255)
    return np.where(strip[..., None], tape, one.image).astype(np.uint8), strip & ~one.mask


def with_label(one: scribes.Drawn) -> tuple[Picture, Mask]:
    """Add a printed card below the fragment; return the card's mask as well."""
    rows, columns = one.mask.shape
    image = cv2.copyMakeBorder(one.image, 0, 90, 0, 0, cv2.BORDER_REPLICATE)
    card = np.zeros(image.shape[:2], bool)
    card[rows + 10 : rows + 75, 20 : 20 + min(columns - 40, 260)] = True
    image[card] = (244, 243, 240)
    cv2.putText(image, "MS 1094 f.5r", (32, rows + 52), cv2.FONT_HERSHEY_SIMPLEX, 1.0, (20, 20, 20), 2, cv2.LINE_AA)
    return np.asarray(image, np.uint8), card


def with_chart(one: scribes.Drawn) -> tuple[Picture, Mask]:
    """Add a colour chart below the fragment: known colours on a black card; return the card's mask as well."""
    rows, columns = one.mask.shape
    image = cv2.copyMakeBorder(one.image, 0, 100, 0, 0, cv2.BORDER_REPLICATE)
    card = np.zeros(image.shape[:2], bool)
    card[rows + 10 : rows + 85, 15 : columns - 15] = True
    image[card] = (28, 28, 30)
    colours = (
        (235, 235, 232),
        (150, 150, 150),
        (60, 60, 60),
        (178, 45, 50),
        (225, 195, 40),
        (70, 140, 75),
        (40, 90, 150),
    )
    for number, left in enumerate(range(22, columns - 70, 56)):
        image[rows + 18 : rows + 77, left : left + 48] = colours[number % len(colours)]
    return np.asarray(image, np.uint8), card


def light_on_dark(one: scribes.Drawn) -> Picture:
    """Invert the fragment: light writing on a dark sheet."""
    return _laid(255 - one.image, one.mask, one.image.astype(np.float32))


INSIDE = 0.8  # share of a box that counts as inside: at an oblique tear a corner of a whole letter's box is outside


def inside(boxes: NDArray[np.int32], mask: Mask) -> NDArray[np.float64]:
    """Return (n,) the share of each box that is on `mask`."""
    return np.array([mask[y : y + high, x : x + wide].mean() for x, y, wide, high in boxes.tolist()])


def found(boxes: NDArray[np.int32], truth: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return (n,) whether each true box overlaps a found one with an IoU of at least 0.5."""
    if len(boxes) == 0:
        return np.zeros(len(truth), bool)
    a, b = boxes[:, None].astype(float), truth[None].astype(float)
    low = np.maximum(a[..., :2], b[..., :2])
    high = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    union = a[..., 2:].prod(axis=2) + b[..., 2:].prod(axis=2) - common
    return np.asarray((common / union >= 0.5).any(axis=0))


def _laid(sheet: Picture, mask: Mask, table: NDArray[np.float32]) -> Picture:
    share = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 0.7)[..., None]
    return np.clip(sheet * share + table * (1 - share), 0, 255).astype(np.uint8)
