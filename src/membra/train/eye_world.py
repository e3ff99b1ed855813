"""The eye's training samples: real ink composed on real and drawn surfaces, with damage and surroundings.

A sample is composed like a photograph: a sheet, its ink, its wear, the torn outline, the ground with mounts on it. The
truth is therefore known for every pixel: ink or only similar to it, writing surface or beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes import grounds, mounts, wear
from membra.scribes.surfaces import noise, parchment, ruler_strip
from membra.train.eye_material import UNKNOWN, Picture
from membra.train.eye_sheet import SIDE, Sheet, view_of, warped, warped_mask

FAINT = 0.12  # share of the light that a stroke must absorb to count as ink; below it ink is indiscernible

Field = NDArray[np.float32]


@dataclass(frozen=True)
class Sample:
    """One training picture, SIDE x SIDE, with its truth."""

    picture: Picture  # (SIDE, SIDE, 3) RGB
    ink: Picture  # (SIDE, SIDE) 0, 255 or UNKNOWN
    surface: Picture  # (SIDE, SIDE) 0, 255 or UNKNOWN
    angle: float  # radians by which the writing is rotated counter-clockwise; nan: unknown
    height: float  # letter height in px; nan: unknown
    sources: frozenset[str]  # the data sets that it was composed from


class World:
    """Draws samples from sheets of the material and from sheets drawn on the fly."""

    def __init__(self, sheets: Sequence[Sheet]) -> None:
        self.sheets = list(sheets)
        by_source: dict[str, list[Sheet]] = {}
        for sheet in self.sheets:
            by_source.setdefault(sheet.source, []).append(sheet)
        self.pages = [by_source[name] for name in ("hebrew", "latin", "hands", "drawn") if name in by_source]
        self.damaged = {
            name: by_source[name] for name in ("dibco", "phibd", "bickley", "dss", "verso") if name in by_source
        }
        self.plates = [sheet for name in ("dss", "verso", "plates") for sheet in by_source.get(name, [])]

    def sample(self, seed: int) -> Sample:
        """Return sample number `seed`; it is always the same."""
        generator = np.random.default_rng((501, seed))
        height = _letter_height(generator)
        turn = generator.normal(0.0, 6.0) if generator.random() < 0.4 else generator.uniform(-180.0, 180.0)
        kind = generator.choice(["damaged", "page", "laid", "plate", "blank"], p=[0.22, 0.18, 0.28, 0.17, 0.15])
        if kind == "damaged":
            return self._damaged(height, turn, generator)
        if kind == "page":
            written = self._page(generator)
            return self._scene(kind, written, written, height, turn, generator)
        written = self._page(generator)
        paper = self._paper(kind, generator)
        return self._scene(kind, written, paper, height, turn, generator)

    def _damaged(self, height: float, turn: float, generator: np.random.Generator) -> Sample:
        """Return a real damaged page with its hand-drawn ink mask, on a plain ground beyond its edges."""
        names = list(self.damaged)
        sheets = self.damaged[names[int(generator.integers(len(names)))]]
        sheet = sheets[int(generator.integers(len(sheets)))]
        view = view_of(sheet, height, turn, generator)
        there = warped(np.full(sheet.ink.shape, 255, np.uint8), view, nearest=True) > 0
        picture = warped(sheet.picture, view)
        picture[~there] = (generator.uniform(0, 255, 3) * generator.random()).astype(np.uint8)
        ink = np.where(there, warped_mask(sheet.ink, view), 0).astype(np.uint8)
        surface = np.where(there, warped_mask(sheet.surface, view), 0).astype(np.uint8)
        angle = np.deg2rad(turn) if sheet.upright else np.nan
        known = height if (sheet.ink == 255).any() else np.nan
        return Sample(
            _developed(picture.astype(np.float32) / np.float32(255), generator),
            ink,
            surface,
            angle,
            known,
            frozenset({sheet.source}),
        )

    def _page(self, generator: np.random.Generator) -> Sheet:
        group = self.pages[int(generator.integers(len(self.pages)))]
        return group[int(generator.integers(len(group)))]

    def _paper(self, kind: str, generator: np.random.Generator) -> Sheet | None:
        """Return the sheet to write on, or None if one is to be drawn."""
        chance = generator.random()
        if kind == "plate" or (kind == "blank" and chance < 0.5):
            return self.plates[int(generator.integers(len(self.plates)))] if self.plates else None
        return None if chance < 0.3 else self._page(generator)

    def _scene(
        self, kind: str, written: Sheet, paper: Sheet | None, height: float, turn: float, generator: np.random.Generator
    ) -> Sample:
        shape = (SIDE, SIDE)
        view = view_of(written, height, turn, generator)
        sources = {written.source} | ({paper.source} if paper else set())
        known = np.full(shape, 255, np.uint8)
        if paper is None:
            sheet = np.clip(parchment(np.ones(shape, bool), height, generator), 0, 1)
        elif paper is written and kind == "page":
            sheet = warped(paper.picture, view).astype(np.float32) / np.float32(255)
        else:
            beside = view_of(
                paper, height * float(np.exp(generator.normal(0, 0.25))), generator.uniform(-180, 180), generator
            )
            sheet = warped(paper.paper, beside, reflect=True).astype(np.float32) / np.float32(255)
            if paper.source in ("dss", "verso", "plates"):
                known = warped_mask(paper.surface, beside, reflect=True)
        ink, cover = np.zeros(shape, np.uint8), np.zeros(shape, np.float32)
        sheet = _worn(sheet, height, turn, generator)
        if kind == "page":
            ink = warped_mask(written.ink, view)
        elif kind != "blank":
            tone = _ink_tone(generator)
            ink, cover = _ink(written, view, height, 1 - float(tone.mean()), generator)
            if generator.random() < 0.35:
                full = float(cover.max(initial=0))
                sheet = self._shining_through(sheet, written, view, height, full, sources, generator)
            on = cv2.erode((known == 255).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
            ink, cover = np.where(on, ink, 0).astype(np.uint8), cover * on
            colour = (sheet[on].mean(axis=0) if on.any() else np.ones(3)) * tone
            sheet = sheet * (1 - cover[..., None]) + colour.astype(np.float32) * cover[..., None]
        there = np.ones(shape, bool)
        if kind == "page":
            there = warped(np.full(written.ink.shape, 255, np.uint8), view, nearest=True) > 0
        if generator.random() < 0.04:
            sheet = mounts.lay(sheet, mounts.stamp(shape, height, generator, generator.uniform(0.3, 1)))
        picture, surface = self._surrounded(sheet, there, known, height, sources, generator)
        hidden = surface == 0
        ink = np.where(hidden, 0, ink).astype(np.uint8)
        angle = np.deg2rad(turn) if kind != "blank" and written.upright else np.nan
        return Sample(
            _developed(picture, generator),
            ink,
            surface,
            angle,
            height if kind != "blank" else np.nan,
            frozenset(sources),
        )

    def _shining_through(
        self,
        sheet: Field,
        written: Sheet,
        view: NDArray[np.float64],
        height: float,
        full: float,
        sources: set[str],
        generator: np.random.Generator,
    ) -> Field:
        """Add the writing of the other side: mirrored, blurred, and paler than the ink of this side."""
        behind = written if generator.random() < 0.5 else self._page(generator)
        sources.add(behind.source)
        other = warped(behind.depth, view)[:, ::-1].astype(np.float32) / np.float32(255)
        shine = cv2.GaussianBlur(other, (0, 0), generator.uniform(0.015, 0.12) * height)
        return np.asarray(sheet * (1 - np.float32(full * generator.uniform(0.08, 0.6)) * shine)[..., None], np.float32)

    def _surrounded(
        self,
        sheet: Field,
        there: NDArray[np.bool_],
        known: Picture,
        height: float,
        sources: set[str],
        generator: np.random.Generator,
    ) -> tuple[Field, Picture]:
        """Tear the sheet and put it on a ground with mounts; return the picture and its surface mask."""
        shape = (SIDE, SIDE)
        mask = there.copy()
        real_plate = bool((known == 0).any())
        if generator.random() < (0.2 if real_plate else 0.6):
            mask &= _torn(height, generator)
        if generator.random() < 0.3:
            mask &= ~wear.holes(shape, height, generator, generator.uniform(0.2, 1))
        surface = np.where(mask, known, 0).astype(np.uint8)
        if mask.all() and generator.random() < 0.6:
            return sheet, surface
        below = self._ground(height, sources, generator)
        if generator.random() < 0.45 and mask.any():
            below = mounts.lay(below, mounts.tissue(mask, height, generator, generator.uniform(0.2, 1)))
        share = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), generator.uniform(0.4, 0.9))[..., None]
        if generator.random() < 0.35:  # the torn edge shows the sheet's pale inside
            rim = cv2.GaussianBlur((~mask).astype(np.float32), (0, 0), generator.uniform(0.03, 0.08) * height) * mask
            sheet = np.clip(sheet * (1 + np.float32(generator.uniform(0.2, 0.8)) * rim[..., None]), 0, 1)
        picture = below * (1 - share) + sheet * share
        if generator.random() < 0.7:
            shadow = wear.edge_shadow(mask, height, generator, generator.uniform(0.2, 1))
            picture = picture * (1 - np.float32(0.9) * shadow)[..., None]
        while generator.random() < 0.38 and mask.any():
            strip = mounts.tape(
                mask, height, generator, generator.uniform(0.2, 1), crossing=bool(generator.random() < 0.15)
            )
            picture = mounts.lay(picture, strip)
            surface = np.where(strip.area & (strip.cover > 0.35), 0, surface).astype(np.uint8)
            surface = np.where(strip.area & (strip.cover <= 0.35) & (surface == 255), UNKNOWN, surface).astype(np.uint8)
        if generator.random() < 0.1:
            picture, card = _with_card(picture, height, generator)
            surface = np.where(card, 0, surface).astype(np.uint8)
        return picture, surface

    def _ground(self, height: float, sources: set[str], generator: np.random.Generator) -> Field:
        shape = (SIDE, SIDE)
        chance = generator.random()
        if chance < 0.35:
            names = list(grounds.TEXTURED)
            return grounds.ground(names[int(generator.integers(len(names)))], shape, height, generator)
        if chance < 0.45:
            paper = self._page(generator)
            sources.add(paper.source)
            return warped(paper.paper, view_of(paper, height, 0.0, generator), reflect=True).astype(
                np.float32
            ) / np.float32(255)
        tone = generator.uniform(0, 1, 3)
        level = generator.choice([0.06, 0.95, 0.5, float(generator.random())])
        tone = level + (tone - tone.mean()) * generator.choice([0.0, 0.05, 0.6])
        grain = np.float32(generator.uniform(0, 0.03)) * noise(shape, max(1.5, 0.1 * height), generator)
        slow = np.float32(generator.uniform(0, 0.06)) * noise(shape, 6 * height, generator)
        return np.asarray(np.clip(tone * (1 + (grain + slow)[..., None]), 0, 1), np.float32)


def _letter_height(generator: np.random.Generator) -> float:
    low, high = (14.0, 36.0) if generator.random() < 0.6 else (7.0, 90.0)
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def _ink(
    written: Sheet, view: NDArray[np.float64], height: float, dark: float, generator: np.random.Generator
) -> tuple[Picture, Field]:
    """Return the ink mask and the share of ink that is left, 0 to 1, after fading, abrasion and flaking.

    `dark` is the share of the light that full ink absorbs.
    """
    shape = (SIDE, SIDE)
    letters, deep = written.ink, written.depth
    if generator.random() < 0.25:  # a thin pen
        kernel = np.ones((3, 3), np.uint8)
        thin = np.where(letters == UNKNOWN, UNKNOWN, cv2.erode(letters, kernel))
        letters, deep = thin.astype(np.uint8), np.asarray(cv2.erode(deep, kernel), np.uint8)
    mask = warped_mask(letters, view)
    depth = warped(deep, view).astype(np.float32) / np.float32(255)
    if generator.random() < 0.3:  # flat ink, as on film
        depth = cv2.GaussianBlur((mask == 255).astype(np.float32), (0, 0), 0.6)
    full = float(generator.uniform(0.3, 1.0)) if generator.random() < 0.6 else float(generator.uniform(0.8, 1.0))
    cover = depth * np.float32(full)
    if generator.random() < 0.4:
        cover = cover * (1 - wear.fading(shape, height, generator, generator.uniform(0.2, 1)))
    if generator.random() < 0.3:
        cover = cover * (1 - wear.abrasion(shape, height, generator, generator.uniform(0.1, 0.8)))
    if generator.random() < 0.1:
        cover = np.where(wear.flaking(shape, height, generator, generator.uniform(0.2, 0.8)), 0, cover)
    if generator.random() < 0.3:  # only a few lines or words
        some = noise(shape, generator.uniform(2, 6) * height, generator) > generator.uniform(-0.7, 1.0)
        cover = cover * cv2.GaussianBlur(some.astype(np.float32), (0, 0), 0.5)
    local = cv2.blur(cover, (5, 5))
    # UNKNOWN where the stroke is nearly gone; no ink where it is gone
    ink = np.where(mask == 255, np.where(cover * dark >= FAINT, 255, np.where(local * dark >= 0.04, UNKNOWN, 0)), 0)
    return np.where(mask == UNKNOWN, UNKNOWN, ink).astype(np.uint8), cover.astype(np.float32)


def _ink_tone(generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the share of the sheet's light that full ink leaves, for red, green and blue."""
    dark = generator.uniform(0.02, 0.45)
    if generator.random() < 0.12:  # red, blue or green
        tone = np.full(3, dark)
        tone[int(generator.integers(3))] = generator.uniform(0.5, 0.9)
        return tone
    return dark * np.array([1 + 0.5 * generator.random(), 1.0, 1 - 0.4 * generator.random()])


def _worn(sheet: Field, height: float, turn: float, generator: np.random.Generator) -> Field:
    """Add wear to a sheet; each kind is drawn with its own probability."""
    shape = (SIDE, SIDE)

    def chance(share: float) -> bool:
        return bool(generator.random() < share)

    def strength() -> float:
        return float(generator.uniform(0.15, 1.0))

    light = np.ones(shape, np.float32)
    if chance(0.3):
        light *= 1 + np.float32(generator.uniform(0.15, 0.5)) * wear.creases(shape, height, generator, strength())
    if chance(0.2):
        turned = turn + (0.0 if chance(0.7) else 90.0)
        light *= 1 + np.float32(generator.uniform(0.2, 0.6)) * wear.fibres(shape, height, generator, strength(), turned)
    if chance(0.3):
        light *= 1 - np.float32(generator.uniform(0.2, 0.8)) * wear.stains(shape, height, generator, strength())
    if chance(0.15):
        light *= 1 - np.float32(generator.uniform(0.3, 0.9)) * wear.mould(shape, height, generator, strength())
    if chance(0.4):
        light *= 1 - np.float32(generator.uniform(0.4, 1.0)) * wear.cracks(shape, height, generator, strength())
    if chance(0.15):
        light *= 1 - np.float32(generator.uniform(0.1, 0.6)) * _rulings(height, turn, generator)
    return np.asarray(np.clip(sheet * light[..., None], 0, 1), np.float32)


def _rulings(height: float, turn: float, generator: np.random.Generator) -> Field:
    """Return (SIDE, SIDE) thin lines along the writing, 0 to 1."""
    angle = np.deg2rad(turn)
    rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    down = columns * np.float32(np.sin(angle)) + rows * np.float32(np.cos(angle))
    down += np.float32(0.05 * height) * noise((SIDE, SIDE), 5 * height, generator)
    pitch = np.float32(generator.uniform(1.6, 3.0) * height)
    away = np.abs((down + generator.uniform(0, 1) * pitch) % pitch - pitch / 2)
    return np.asarray(np.exp(-((away / np.float32(generator.uniform(0.5, 1.2))) ** 2)), np.float32)


def _torn(height: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return (SIDE, SIDE) True on one piece or two, with a torn edge through the sample."""
    shape = (SIDE, SIDE)
    rows, columns = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j].astype(np.float32)
    angle = generator.uniform(0, 2 * np.pi)
    field = np.cos(angle) * columns + np.sin(angle) * rows if generator.random() < 0.5 else -np.hypot(rows, columns)
    field = np.asarray(field, np.float32) * np.float32(generator.uniform(0.5, 1.5))
    field += np.float32(0.35) * noise(shape, generator.uniform(2, 8) * height, generator)
    field += np.float32(0.04 * height / 24) * noise(shape, 0.6 * height, generator)
    field += np.float32(0.02 * height / 24) * noise(shape, max(1.5, 0.15 * height), generator)
    return np.asarray(field > np.quantile(field, generator.uniform(0.1, 0.75)))


def _with_card(picture: Field, height: float, generator: np.random.Generator) -> tuple[Field, NDArray[np.bool_]]:
    """Put a ruler, a chart or a printed label on the picture; return the picture and the label's mask."""
    strip = ruler_strip(int(generator.integers(150, SIDE)), float(np.clip(height, 10, 40)), generator)
    if generator.random() < 0.4:
        level = float(generator.choice([0.95, 0.1]))
        strip = np.full((int(2.2 * height) + 8, int(generator.integers(100, 260)), 3), level, np.float32)
        grey = np.full(strip.shape[:2], int(255 * level), np.uint8)
        text = "".join(generator.choice(list("PMSRVfT-.0123456789 "), 14))
        place = (4, int(0.7 * strip.shape[0]))
        cv2.putText(
            grey, text, place, int(generator.integers(0, 5)), height / 26, int(255 * (1 - level)), 2, cv2.LINE_AA
        )
        strip = np.repeat(grey[..., None], 3, axis=2).astype(np.float32) / np.float32(255)
    strip = np.ascontiguousarray(np.rot90(strip, int(generator.integers(4))))[:SIDE, :SIDE]
    rows, columns = strip.shape[:2]
    top, left = (int(generator.integers(0, SIDE - side + 1)) for side in (rows, columns))
    if generator.random() < 0.7:  # at an edge, where photographers put them
        top, left = (0 if generator.random() < 0.5 else SIDE - rows, left) if columns > rows else (top, SIDE - columns)
    card = np.zeros((SIDE, SIDE), bool)
    card[top : top + rows, left : left + columns] = True
    picture = picture.copy()
    picture[top : top + rows, left : left + columns] = strip
    return picture, card


def _developed(picture: Field, generator: np.random.Generator) -> Picture:
    """Convert to uint8; 35 % of the samples pass through JPEG compression."""
    levels = np.clip(np.rint(picture * 255), 0, 255).astype(np.uint8)
    if generator.random() < 0.35:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(generator.integers(45, 92))]
        levels = np.asarray(cv2.imdecode(cv2.imencode(".jpg", levels, quality)[1], cv2.IMREAD_COLOR), np.uint8)
    return levels
