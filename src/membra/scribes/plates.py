"""Plates: photographs of several torn pieces, each with its own hand, rotation and size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from membra.scribes import ageing, mounts, scene, wear
from membra.scribes.damage import Damage
from membra.scribes.damage import damage as drawn_damage
from membra.scribes.grounds import under
from membra.scribes.packing import Corner, pack, scatter
from membra.scribes.photograph import Camera, develop, photograph
from membra.scribes.scribe import Hand
from membra.scribes.sheet import Sheet, draws, leaf, sheet, visible
from membra.scribes.surfaces import Field, label_card, parchment, ruler_strip

Mask = NDArray[np.bool_]
Window = tuple[slice, slice]


@dataclass(frozen=True)
class PlatePiece:
    """One piece of a plate with its truth, in pixels of the photograph."""

    label: int  # its number in the plate's label map
    hand: int  # index of its scribe; -1 for a chip
    letter_height: float  # pixels
    angle: float  # degrees counter-clockwise from upright of its writing, 0 <= angle < 360; 0 for a chip
    boxes: NDArray[np.int32]  # (n, 4) x, y, width, height of each visible letter
    letters: str  # n characters, in reading order
    points: NDArray[np.int32]  # (m, 4) boxes of the visible vowel points
    chip: bool  # a small piece without writing


@dataclass(frozen=True)
class Plate:
    """One photograph of several pieces with its truth."""

    image: NDArray[np.uint8]  # (height, width, 3) RGB, after the camera and the JPEG
    labels: NDArray[np.int32]  # (height, width) number of the piece a pixel belongs to, 0: none
    pieces: tuple[PlatePiece, ...]  # labels 1, 2, ...: written pieces, then chips
    ink: Mask  # (height, width) True on the visible ink of letters
    surface: Mask  # (height, width) True on visible writing surface
    beside: Mask  # (height, width) True on a ruler, chart or label
    jpeg: bytes  # the encoded photograph; image is its decoding


@dataclass(frozen=True)
class _Placed:
    """A drawn piece and its position."""

    sheet: Sheet
    window: Window
    scale: float
    angle: float
    hand: int
    seed: int
    damage: Damage | None


def plate(
    hands: Sequence[Hand],
    camera: Camera,
    *,
    pieces: int,
    seed: int,
    letters: tuple[int, int] = (8, 45),
    damaged: bool = False,
    any_turn: bool = True,
    touching: float = 0.3,
    chips: int = 0,
    ruler: bool = False,
    card: bool = False,
) -> Plate:
    """Draw a plate of ``pieces`` written pieces, by ``hands`` in turn.

    Each has a number of letters between the two of ``letters``, a letter height within a third of the camera's, and,
    with ``any_turn``, any rotation. A share ``touching`` of them touches a neighbour; no two overlap. ``chips`` are
    small pieces without writing; those that do not fit are left out. A ``ruler`` lies below the pieces, a ``card``
    with a number beside them. The ground is the camera's background.
    """
    if pieces < 1 or not hands:
        raise ValueError("a plate needs at least one piece and one hand")
    generator = np.random.default_rng((206, seed))
    scale = camera.letter_height
    taken = drawn_damage(seed) if damaged else Damage()
    taken = Damage(light=taken.light, grain=taken.grain, capture=taken.capture)
    seeds = generator.integers(2**31, size=pieces).tolist()
    drawn = [
        _drawn(hands[number % len(hands)], number % len(hands), camera, letters, taken, damaged, any_turn, one)
        for number, one in enumerate(seeds)
    ]
    loose = [_chip(scale, generator) for _ in range(chips)]
    shape, corners = pack([one.sheet.mask for one in drawn], scale, touching, generator)
    strip = ruler_strip(shape[1], scale, generator) if ruler else None
    label = label_card(scale, generator) if card else None
    labels, placed, chips_at, beside_at = _arranged(shape, drawn, corners, loose, strip, label, scale, generator)

    background = "black" if taken.capture == "infrared" else camera.background
    picture = under(background, labels > 0, scale, generator)
    picture, strips = _mounts(picture, placed)
    for one in placed:
        picture[one.window] = _laid(picture[one.window], one)
    for (mask, colour), window in zip(loose, chips_at, strict=False):
        picture[window] = scene.laid(colour, mask, picture[window])
    surface, through = labels > 0, np.ones(labels.shape, np.float32)
    for window, tape, own_scale in strips:
        picture[window] = mounts.lay(picture[window] * (1.0 - mounts.edges(tape, own_scale))[..., None], tape)
        surface[window] &= ~mounts.hidden(tape)
        through[window] *= 1.0 - tape.cover
    beside = np.zeros(labels.shape, bool)
    for own, (row, column) in zip([own for own in (strip, label) if own is not None], beside_at, strict=False):
        beside |= scene.set_down(picture, scene.Strip(own, row, column))
    picture = ageing.shown(picture, taken, seed)
    if taken.capture != "colour":
        camera = replace(camera, tint=(1.0, 1.0, 1.0))
    jpeg = photograph(camera, picture, generator)

    surface &= ~beside
    ink = np.zeros(labels.shape, bool)
    truths = [_truth(one, number, labels, surface, through, ink) for number, one in enumerate(placed, start=1)]
    none = np.zeros((0, 4), np.int32)
    for number in range(len(chips_at)):
        truths.append(PlatePiece(pieces + number + 1, -1, 0.0, 0.0, none, "", none, chip=True))
    return Plate(develop(jpeg), labels, tuple(truths), ink, surface, beside, jpeg)


def _arranged(
    shape: tuple[int, int],
    drawn: list[_Placed],
    corners: list[Corner],
    loose: list[tuple[Mask, Field]],
    strip: Field | None,
    label: Field | None,
    scale: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int32], list[_Placed], list[Window], list[Corner]]:
    """Return the label map, the placed pieces, the windows of the chips, and the corners of ruler and label."""
    beside_at: list[Corner] = []
    if strip is not None:
        # the pieces keep their border; the ruler gets additional rows
        beside_at.append((shape[0] + 8, 0))
        shape = (shape[0] + 8 + strip.shape[0], shape[1])
    labels = np.zeros(shape, np.int32)
    placed = []
    for number, (one, corner) in enumerate(zip(drawn, corners, strict=True), start=1):
        window = _window(corner, one.sheet.mask)
        labels[window][one.sheet.mask] = number
        placed.append(replace(one, window=window))
    taken = labels > 0
    for row, _ in beside_at:
        taken[row:] = True
    if label is not None:
        whole = np.ones(label.shape[:2], bool)
        found = scatter([whole], taken, scale, generator)
        beside_at += found
        for corner in found:
            taken[_window(corner, whole)] = True
    chips_at = []
    for number, ((mask, _), corner) in enumerate(
        zip(loose, scatter([mask for mask, _ in loose], taken, scale, generator), strict=False), start=1
    ):
        window = _window(corner, mask)
        labels[window][mask] = len(drawn) + number
        chips_at.append(window)
    return labels, placed, chips_at, beside_at


def _drawn(
    hand: Hand,
    index: int,
    camera: Camera,
    letters: tuple[int, int],
    taken: Damage,
    damaged: bool,
    any_turn: bool,
    seed: int,
) -> _Placed:
    """Draw one piece, without a position."""
    draw = draws(seed)
    generator = np.random.default_rng((207, seed))
    scale = camera.letter_height * float(np.exp(generator.uniform(np.log(0.75), np.log(1.33))))
    angle = float(generator.uniform(0.0, 360.0)) if any_turn else camera.turn + float(generator.normal(0.0, 2.0))
    # light, grain and capture are applied to the whole picture, but the ink depends on the capture
    own = replace(drawn_damage(seed), light=0.0, grain=0.0, capture=taken.capture) if damaged else None
    torn = leaf(hand, int(generator.integers(letters[0], letters[1] + 1)), draw)
    view = scene.view(torn.piece.outline, scale, angle, draw.camera)
    one = sheet(hand, torn, view, angle, own, seed, draw)
    return _Placed(one, (slice(0), slice(0)), scale, angle % 360.0, index, seed, own)


def _chip(scale: float, generator: np.random.Generator) -> tuple[Mask, Field]:
    """Draw a chip of parchment; return its mask (height, width) and its colours (height, width, 3)."""
    outline = wear.blob(generator.uniform(0.25, 0.9) * scale, 0.5, generator)
    outline = outline * (generator.uniform(0.6, 1.6), 1.0)
    border = 3.0
    outline = outline - outline.min(axis=0) + border
    columns, rows = np.ceil(outline.max(axis=0) + border).astype(int).tolist()
    mask = wear.filled((rows, columns), outline)
    return mask, parchment(mask, scale, generator)


def _mounts(picture: Field, placed: list[_Placed]) -> tuple[Field, list[tuple[Window, mounts.Layer, float]]]:
    """Add tissue and tape to the ground under the pieces; return it and the strips over them."""
    strips = []
    for one in placed:
        if one.damage is None:
            continue
        mounting = ageing.mounted(picture[one.window], one.sheet.mask, one.damage, one.scale, one.seed)
        picture[one.window] = mounting.below
        strips += [(one.window, tape, one.scale) for tape in mounting.over]
    return picture, strips


def _laid(below: Field, one: _Placed) -> Field:
    """Put a piece on its part of the picture (height, width, 3)."""
    picture = scene.laid(one.sheet.colour, one.sheet.mask, below)
    if one.damage is None or one.damage.edge_shadow <= 0.0:
        return picture
    generator = ageing.generator_of("edge_shadow", one.seed)
    dark = wear.edge_shadow(one.sheet.mask, one.scale, generator, one.damage.edge_shadow)
    return np.asarray(picture * (1.0 - dark)[..., None], np.float32)


def _truth(one: _Placed, label: int, labels: NDArray[np.int32], surface: Mask, through: Field, ink: Mask) -> PlatePiece:
    """Return the truth of one piece; adds its visible ink to ``ink``."""
    own = (labels[one.window] == label) & surface[one.window]
    veil = None if one.damage is None and float(through[one.window].min()) == 1.0 else 1.0 - through[one.window]
    seen = visible(one.sheet, own, veil)
    ink[one.window] |= seen.ink
    corner = np.array([one.window[1].start, one.window[0].start, 0, 0], np.int32)
    return PlatePiece(
        label, one.hand, one.scale, one.angle, seen.boxes + corner, seen.letters, seen.points + corner, chip=False
    )


def _window(corner: tuple[int, int], mask: Mask) -> Window:
    """Return the window of a piece's picture with its upper left corner at ``corner`` (row, column)."""
    return slice(corner[0], corner[0] + mask.shape[0]), slice(corner[1], corner[1] + mask.shape[1])
