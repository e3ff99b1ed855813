"""Apply damage: the effect of each kind on a sheet, its ink, its surroundings and the picture."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes import film, mounts, tears, wear
from membra.scribes.damage import KINDS, Damage
from membra.scribes.surfaces import Field, noise

Mask = NDArray[np.bool_]

# Share by which ink must change the brightness of the sheet to count as visible.
MIN_CONTRAST = 0.10


def generator_of(kind: str, seed: int) -> np.random.Generator:
    """Return the random generator of one kind of damage; "capture" counts as a kind."""
    number = KINDS.index(kind) if kind in KINDS else len(KINDS)
    return np.random.default_rng((204, seed, number))


def torn(mask: Mask, damage: Damage, scale: float, seed: int) -> Mask:
    """Return (height, width) the piece ``mask`` without its holes, nicks and the break through it."""
    if damage.holes > 0.0:
        gone = wear.holes(_shape(mask), scale, generator_of("holes", seed), damage.holes)
        mask = tears.largest(mask & ~gone)
    mask = tears.frayed(mask, scale, generator_of("fraying", seed), damage.fraying)
    if damage.break_through > 0.0:
        mask = mask & ~tears.broken(mask, scale, generator_of("break_through", seed), damage.break_through)
    return mask


def aged(sheet: Field, cover: Field, damage: Damage, scale: float, angle: float, seed: int) -> Field:
    """Age the bare sheet (height, width, 3): its grain, its tone, the writing of the other side.

    ``cover`` (height, width) is the writing; its mirror image shows through; ``angle`` its direction in
    degrees counter-clockwise.
    """
    shape = _shape(cover)
    if damage.darkening > 0.0:
        generator = generator_of("darkening", seed)
        depth = np.clip(0.8 + np.float32(0.25) * noise(shape, 2.0 * scale, generator), 0.2, 1.2)
        depth *= np.float32(damage.darkening)
        sheet = sheet * (1.0 - depth[..., None] * np.array([0.42, 0.55, 0.65], np.float32))
    if damage.fibres > 0.0:
        grain = wear.fibres(shape, scale, generator_of("fibres", seed), damage.fibres, angle)
        sheet = sheet * (1.0 + np.float32(0.35) * grain)[..., None]
    if damage.show_through > 0.0:
        generator = generator_of("show_through", seed)
        behind = mirrored(cover, angle, generator.normal(0.0, 1.0) * scale)
        soft = cv2.GaussianBlur(behind, (0, 0), generator.uniform(0.04, 0.09) * scale)
        patchy = np.clip(0.75 + np.float32(0.3) * noise(shape, 3.0 * scale, generator), 0.0, 1.0)
        taken = soft * patchy * np.float32(0.12 + 0.4 * damage.show_through)
        sheet = sheet * (1.0 - taken[..., None] * np.array([0.85, 0.95, 1.0], np.float32))
    return np.asarray(sheet, np.float32)


def ink_left(damage: Damage, shape: tuple[int, int], scale: float, seed: int) -> Field:
    """Return (height, width) the share of the ink that is left, 0 to 1."""
    left = 1.0 - wear.fading(shape, scale, generator_of("fading", seed), damage.fading)
    left *= 1.0 - wear.abrasion(shape, scale, generator_of("abrasion", seed), damage.abrasion)
    left[wear.flaking(shape, scale, generator_of("flaking", seed), damage.flaking)] = 0.0
    return np.asarray(left, np.float32)


def worn(sheet: Field, damage: Damage, scale: float, seed: int) -> tuple[Field, Mask]:
    """Add marks to the written sheet (height, width, 3); return it and (height, width) where ink is indiscernible."""
    shape = (sheet.shape[0], sheet.shape[1])
    sheet = sheet.copy()
    if damage.flaking > 0.0:
        generator = generator_of("flaking", seed)
        gone = wear.flaking(shape, scale, generator, damage.flaking)
        sheet *= _flaked(gone, scale, generator)[..., None]
    if damage.creases > 0.0:
        relief = wear.creases(shape, scale, generator_of("creases", seed), damage.creases)
        sheet *= (1.0 + np.float32(0.4) * relief)[..., None]
    if damage.stains > 0.0:
        depth = wear.stains(shape, scale, generator_of("stains", seed), damage.stains)
        sheet *= 1.0 - depth[..., None] * np.array([0.30, 0.48, 0.60], np.float32)
    if damage.mould > 0.0:
        generator = generator_of("mould", seed)
        dark = wear.mould(shape, scale, generator, damage.mould)
        tint = np.array([0.72, 0.68, 0.74]) + generator.uniform(-0.08, 0.08, 3)
        sheet *= 1.0 - dark[..., None] * tint.astype(np.float32)
    if damage.stamp > 0.0:
        sheet = mounts.lay(sheet, mounts.stamp(shape, scale, generator_of("stamp", seed), damage.stamp))
    hidden = np.zeros(shape, bool)
    if damage.cracks > 0.0:
        dark = wear.cracks(shape, scale, generator_of("cracks", seed), damage.cracks)
        sheet *= (1.0 - np.float32(0.93) * dark)[..., None]
        # the edge that faces the lamp is bright
        lip = np.clip(np.roll(dark, max(1, round(0.03 * scale)), axis=0) - dark, 0.0, 1.0)
        sheet *= (1.0 + np.float32(0.18) * lip)[..., None]
        hidden = dark > 0.5
    return np.asarray(sheet, np.float32), hidden


class Mounted(NamedTuple):
    """The mounts of a piece."""

    below: Field  # (height, width, 3) the table and the mounts under the piece
    over: tuple[mounts.Layer, ...]  # strips over the piece


def mounted(below: Field, mask: Mask, damage: Damage, scale: float, seed: int) -> Mounted:
    """Add tissue and tape to the table ``below`` (height, width, 3); return it and the strips over the piece."""
    over = []
    if damage.tissue > 0.0:
        below = mounts.lay(below, mounts.tissue(mask, scale, generator_of("tissue", seed), damage.tissue))
    if damage.tape > 0.0:
        generator = generator_of("tape", seed)
        for _ in range(int(generator.integers(1, 4))):
            strip = mounts.tape(mask, scale, generator, damage.tape)
            if generator.random() < 0.6:
                below = mounts.lay(below, strip)
            else:
                over.append(strip)
    if damage.crossing > 0.0:
        over.append(mounts.tape(mask, scale, generator_of("crossing", seed), damage.crossing, crossing=True))
    return Mounted(below, tuple(over))


def shown(picture: Field, damage: Damage, seed: int) -> Field:
    """Light and capture the whole scene (height, width, 3), before the effects of the camera."""
    shape = (picture.shape[0], picture.shape[1])
    if damage.light > 0.0:
        picture = picture * film.light(shape, generator_of("light", seed), damage.light)[..., None]
    picture = film.captured(picture, damage.capture, generator_of("capture", seed))
    if damage.grain > 0.0:
        picture = picture + film.grain(shape, generator_of("grain", seed), damage.grain)[..., None]
    return np.asarray(picture, np.float32)


def mirrored(cover: Field, angle: float, shift: float) -> Field:
    """Return the writing (height, width) seen from behind: mirrored along lines that run at ``angle`` degrees.

    ``shift`` moves it across the lines, pixels.
    """
    along = np.array([np.cos(np.deg2rad(angle)), -np.sin(np.deg2rad(angle))])
    across = np.array([-along[1], along[0]])
    centre = np.array([cover.shape[1] / 2.0, cover.shape[0] / 2.0])
    flip = np.eye(2) - 2.0 * np.outer(along, along)
    matrix = np.column_stack([flip, centre - flip @ centre + shift * across])
    return np.asarray(cv2.warpAffine(cover, matrix, (cover.shape[1], cover.shape[0])), np.float32)


def _flaked(gone: Mask, scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width) the factor on brightness: the layer below, paler or darker, with its edge's shadow."""
    tone = np.float32(generator.choice((0.72, 0.85, 1.12)))
    rough = np.float32(0.05) * noise(_shape(gone), max(1.5, 0.08 * scale), generator)
    deep = cv2.distanceTransform(gone.astype(np.uint8), cv2.DIST_L2, 3)
    rim = np.exp(-deep / np.float32(max(0.8, 0.03 * scale))) * np.float32(generator.uniform(0.2, 0.6))
    return np.asarray(np.where(gone, (tone + rough) * (1.0 - rim), 1.0), np.float32)


def _shape(array: NDArray[np.generic]) -> tuple[int, int]:
    return array.shape[0], array.shape[1]
