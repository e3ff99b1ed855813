"""Draw words and fragments of a hand, with their truth."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from membra.scribes import ageing, mounts, scene, wear
from membra.scribes.damage import Damage
from membra.scribes.grounds import under
from membra.scribes.letters import ALPHABET
from membra.scribes.page import line
from membra.scribes.pen import ink, write
from membra.scribes.photograph import Camera, develop, photograph
from membra.scribes.scribe import Hand, glyphs
from membra.scribes.sheet import Sheet, draws, sheet, visible
from membra.scribes.sheet import leaf as torn_leaf
from membra.scribes.surfaces import Field, ruler_strip


@dataclass(frozen=True)
class Drawn:
    """A drawn fragment with its truth, all in pixels of the photograph."""

    image: NDArray[np.uint8]  # (height, width, 3) RGB, after the camera and the JPEG
    mask: NDArray[np.bool_]  # (height, width) True on the fragment
    boxes: NDArray[np.int32]  # (n, 4) x, y, width, height of the visible ink of each visible letter
    letters: str  # n characters, in reading order
    join: str  # the manuscript
    leaf: str  # its leaf
    jpeg: bytes  # the encoded photograph; image is its decoding
    ruler: NDArray[np.bool_]  # (height, width) True on a ruler or colour chart; all False without one
    angle: float  # degrees counter-clockwise from upright of the writing, 0 <= angle < 360
    ink: NDArray[np.bool_]  # (height, width) True on the visible ink of letters, also of those cut by the edge
    surface: NDArray[np.bool_]  # (height, width) True on visible writing surface: no tape, no tissue
    points: NDArray[np.int32]  # (m, 4) boxes of the visible vowel points, which do not count as letters


def fragment(
    hand: Hand,
    camera: Camera,
    *,
    letters: int,
    seed: int,
    join: str = "",
    leaf: str = "",
    ruler: bool = False,
    damage: Damage | None = None,
    turn: float | None = None,
) -> Drawn:
    """Draw a torn piece of a page by ``hand`` with about ``letters`` visible letters, photographed by ``camera``.

    ``turn`` is the angle of the writing in degrees counter-clockwise; None: the few degrees of the camera. Letters that
    ``damage`` hides or wears off do not count as visible.
    """
    draw = draws(seed)
    torn = torn_leaf(hand, letters, draw)
    scale = camera.letter_height
    of_camera = camera.turn + float(draw.camera.normal(0.0, 0.5))
    angle = of_camera if turn is None else turn
    view = scene.view(torn.piece.outline, scale, angle, draw.camera)
    strip = None
    if ruler:
        view, strip = scene.make_room(view, ruler_strip(max(view.shape), scale, draw.table), draw.table)
    one = sheet(hand, torn, view, angle, damage, seed, draw)
    background = camera.background
    if damage is not None and damage.capture == "infrared":
        background = "black"
    below = under(background, one.mask, scale, draw.table)
    if damage is None:
        picture, surface, veil = scene.laid(one.colour, one.mask, below), one.mask, None
    else:
        picture, surface, veil = mounted(one, below, damage, scale, seed)
    beside = np.zeros(one.mask.shape, bool)
    if strip is not None:
        beside = scene.set_down(picture, strip)
    if damage is not None:
        picture = ageing.shown(picture, damage, seed)
        if damage.capture != "colour":
            camera = replace(camera, tint=(1.0, 1.0, 1.0))
    jpeg = photograph(camera, picture, draw.camera)
    seen = visible(one, surface, veil)
    return Drawn(
        image=develop(jpeg),
        mask=one.mask,
        boxes=seen.boxes,
        letters=seen.letters,
        join=join,
        leaf=leaf,
        jpeg=jpeg,
        ruler=beside,
        angle=angle % 360.0,
        ink=seen.ink,
        surface=surface,
        points=seen.points,
    )


def word(hand: Hand, text: str, *, height: int = 40, seed: int = 0) -> NDArray[np.uint8]:
    """Draw letters of one hand in one line, right to left, dark on white, (rows, columns) grey.

    ``height`` is the letter height in pixels; the picture also has room for lamed and the long finals.
    """
    unknown = set(text) - set(ALPHABET) - {" "}
    if unknown or not text.strip():
        raise ValueError(f"only Hebrew letters and spaces can be written, not {text!r}")
    generator = np.random.default_rng((201, seed))
    alphabet = glyphs(hand)
    positions = line(hand, alphabet, text, generator)
    swept = write(hand, alphabet, text.replace(" ", ""), positions, generator)
    edges = np.concatenate([swept.upper, swept.lower])
    left, right = edges[:, 0].min() - 0.25, edges[:, 0].max() + 0.25
    top = -hand.ascender - 0.25
    shape = (round((1.25 + hand.descender - top) * height), round((right - left) * height))
    upper, lower = ((edge - (left, top)) * height for edge in (swept.upper, swept.lower))
    cover = ink(upper, lower, swept.joined, hand.hairline * height, shape)
    return np.asarray(np.rint(255.0 - 235.0 * cover), np.uint8)


def mounted(
    one: Sheet, below: Field, damage: Damage, scale: float, seed: int
) -> tuple[Field, NDArray[np.bool_], NDArray[np.float32]]:
    """Put the piece on its table with its mounts.

    Returns the scene (height, width, 3), the surface that is not hidden (height, width), and the cover (height, width)
    of the translucent mounts on it.
    """
    mounting = ageing.mounted(below, one.mask, damage, scale, seed)
    picture = scene.laid(one.colour, one.mask, mounting.below)
    if damage.edge_shadow > 0.0:
        dark = wear.edge_shadow(one.mask, scale, ageing.generator_of("edge_shadow", seed), damage.edge_shadow)
        picture = picture * (1.0 - dark)[..., None]
    surface, through = one.mask, np.ones(one.mask.shape, np.float32)
    for strip in mounting.over:
        picture = mounts.lay(picture * (1.0 - mounts.edges(strip, scale))[..., None], strip)
        surface = surface & ~mounts.hidden(strip)
        through *= 1.0 - strip.cover
    return picture, surface, 1.0 - through
