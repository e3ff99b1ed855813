"""One written piece before it is put on a ground, and the visible part of its writing."""

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes import ageing, film, scene
from membra.scribes.damage import Damage
from membra.scribes.page import Piece, Text, lay_out, tear
from membra.scribes.pen import Swept, ink, write
from membra.scribes.points import pointed
from membra.scribes.scribe import Glyph, Hand, Points, glyphs
from membra.scribes.surfaces import Field, parchment

Mask = NDArray[np.bool_]

# Share of a letter's outline that must lie on the fragment for it to count as visible. A letter cut any deeper seldom
# shows enough to tell the letter, let alone the scribe.
VISIBLE = 0.9
# Share of a letter's ink that must be left after fading, abrasion and cracks.
MIN_INK = 0.5
# Degrees of rotation up to which a piece counts as upright; a camera's rotation is less.
FEW = 15.0


class Draws(NamedTuple):
    """A random generator for each part, so that a change to one part leaves the others unchanged."""

    text: np.random.Generator
    tear: np.random.Generator
    pen: np.random.Generator
    ink: np.random.Generator
    sheet: np.random.Generator
    table: np.random.Generator
    camera: np.random.Generator


def draws(seed: int) -> Draws:
    """Return the generators of one fragment."""
    return Draws(*(np.random.default_rng((202, seed, part)) for part in range(7)))


class Leaf(NamedTuple):
    """A torn piece of a page and the writing on it, in letter heights."""

    alphabet: dict[str, Glyph]
    text: Text
    piece: Piece
    swept: Swept


@dataclass(frozen=True)
class Sheet:
    """The appearance of a piece, in pixels of its view."""

    colour: Field  # (height, width, 3) the written sheet; undefined beyond the piece
    mask: Mask  # (height, width) True on the piece
    ink: Mask  # (height, width) True on the original ink of letters, also beyond the piece
    contrast: Field  # (height, width) share by which the ink changes the sheet's brightness; 0 in deep cracks
    outline: tuple[Points, Points, NDArray[np.int64]]  # edges of the strokes, (n, 2) each, and their letters
    hairline: float  # thickness of the nib's edge, pixels
    letters: str  # all letters near the piece
    points: NDArray[np.int32]  # (n, 4) boxes of all vowel points near the piece


class Seen(NamedTuple):
    """The visible part of the writing."""

    boxes: NDArray[np.int32]  # (n, 4) x, y, width, height of the visible ink of each visible letter
    letters: str
    ink: Mask  # (height, width) True on visible ink of letters
    points: NDArray[np.int32]  # (m, 4) boxes of the visible vowel points


def leaf(hand: Hand, letters: int, draws: Draws) -> Leaf:
    """Draw a torn piece of a page by ``hand`` with about ``letters`` visible letters."""
    alphabet = glyphs(hand)
    # a letter takes its width, its space, its share of a word gap, and the height of a line
    room = float(np.mean([glyph.right - glyph.left for glyph in alphabet.values()]))
    area = letters * (room + hand.spacing + hand.word_gap / 4) * hand.line_gap
    aspect = float(np.exp(draws.tear.uniform(np.log(0.5), np.log(1.9))))
    width, height = float(np.sqrt(area * aspect)), float(np.sqrt(area / aspect))
    text = lay_out(hand, alphabet, width, height, draws.text)
    piece = tear(text, letters, width, height, draws.tear)
    text = _on(piece, text)
    return Leaf(alphabet, text, piece, write(hand, alphabet, text.letters, text.positions, draws.pen))


def sheet(
    hand: Hand, leaf: Leaf, view: scene.View, angle: float, damage: Damage | None, seed: int, draws: Draws
) -> Sheet:
    """Draw the piece in ``view``, which rotates it by ``angle`` degrees counter-clockwise."""
    scale = float(np.sqrt(np.linalg.det(view.matrix)))
    mask = scene.covered(view, leaf.piece)
    if damage is not None:
        mask = ageing.torn(mask, damage, scale, seed)
    upper, lower = scene.place(view, leaf.swept.upper), scene.place(view, leaf.swept.lower)
    cover = ink(upper, lower, leaf.swept.joined, hand.hairline * scale, view.shape)
    bare = parchment(mask, scale, draws.sheet)
    bare = scene.ruled(view, bare, leaf.text, draws.sheet)
    strength = scene.strength(leaf.swept, (upper + lower) / 2, view.shape, scale, draws.ink)
    drawn, colour, points = cover, hand.ink, np.zeros((0, 4), np.int32)
    # show-through is too faint for a few degrees to matter
    behind = None if abs((angle + 180.0) % 360.0 - 180.0) < FEW else ageing.mirrored(cover, angle, 0.0)
    if damage is not None:
        bare = ageing.aged(bare, cover, damage, scale, angle, seed)
        bare = scene.drawn_ruling(view, bare, leaf.text, ageing.generator_of("ruling", seed), damage.ruling)
        if damage.points > 0.0:
            signs = pointed(view, leaf.alphabet, leaf.text, ageing.generator_of("points", seed), damage.points)
            drawn, points = np.maximum(cover, signs.cover), signs.boxes
        strength = strength * ageing.ink_left(damage, view.shape, scale, seed)
        level = float(film.brightness(bare, damage.capture)[mask].mean()) if mask.any() else 1.0
        colour = film.ink_colour(colour, damage.capture, level, ageing.generator_of("capture", seed))
    written = scene.inked(bare, drawn, strength, colour, scale, draws.ink, behind)
    capture = "colour" if damage is None else damage.capture
    before, after = (film.brightness(one, capture) for one in (bare, written))
    contrast = np.abs(before - after) / np.maximum(before, np.float32(0.02))
    if damage is not None:
        written, cracked = ageing.worn(written, damage, scale, seed)
        contrast[cracked] = 0.0
    outline = (upper, lower, leaf.swept.letter)
    return Sheet(written, mask, cover > 0.5, contrast, outline, hand.hairline * scale, leaf.text.letters, points)


def visible(one: Sheet, surface: Mask, veil: Field | None = None) -> Seen:
    """Return the visible writing on ``surface`` (height, width), the piece without its hidden parts.

    ``veil`` (height, width) is the opacity, 0 to 1, of translucent layers on it. None: the piece is undamaged, and
    letters are judged by their outlines alone.
    """
    clear = surface & (one.contrast * (1.0 if veil is None else 1.0 - veil) > ageing.MIN_CONTRAST)
    boxes, numbers = _boxes(one.outline, one.hairline, surface)
    if veil is not None:
        boxes, numbers = _legible(one, boxes, numbers, clear)
    letters = "".join(one.letters[number] for number in numbers)
    return Seen(boxes, letters, one.ink & clear, _with_ink(one.points, clear))


def _on(piece: Piece, text: Text) -> Text:
    """Return only the letters that can be on the piece, to save the time of drawing the others."""
    low, high = piece.outline.min(axis=0) - 1.0, piece.outline.max(axis=0) + 1.0
    near = np.flatnonzero(((text.centres > low) & (text.centres < high)).all(axis=1))
    letters = "".join(text.letters[number] for number in near)
    return Text(letters, text.positions[near], text.centres[near], text.rulings, text.margin)


def _boxes(
    outline: tuple[Points, Points, NDArray[np.int64]], hairline: float, mask: Mask
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ink bounds (n, 4) of the letters on ``mask``, and the numbers (n,) of these letters."""
    upper, lower, letter = outline
    points, owner = np.concatenate([upper, lower]), np.concatenate([letter, letter])
    column, row = np.floor(points).astype(int).T
    inside = (column >= 0) & (row >= 0) & (column < mask.shape[1]) & (row < mask.shape[0])
    inside[inside] = mask[row[inside], column[inside]]
    count = int(letter.max(initial=-1)) + 1
    share = np.bincount(owner, inside, count) / np.maximum(1, np.bincount(owner, minlength=count))
    seen = np.flatnonzero(share >= VISIBLE)
    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    np.minimum.at(low, owner[inside], points[inside])
    np.maximum.at(high, owner[inside], points[inside])
    # the ink reaches half a hairline further than the nib's ends; boxes are clipped to the picture
    low = np.maximum(np.floor(low[seen] - hairline / 2), 0.0)
    high = np.minimum(np.ceil(high[seen] + hairline / 2), mask.shape[::-1])
    return np.concatenate([low, high - low], axis=1).astype(np.int32), seen


def _legible(
    one: Sheet, boxes: NDArray[np.int32], numbers: NDArray[np.int64], clear: Mask
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return bounds and numbers of the letters with enough ``clear`` ink left; the bounds are those of that ink."""
    owner = _owners(one)
    kept, bounds = [], []
    for (x, y, width, height), number in zip(boxes.tolist(), numbers.tolist(), strict=True):
        at = (slice(y, y + height), slice(x, x + width))
        own = (owner[at] == number + 1) & one.ink[at]
        left = own & clear[at]
        if left.sum() < MIN_INK * max(1, int(own.sum())):
            continue
        rows, columns = np.flatnonzero(left.any(axis=1)), np.flatnonzero(left.any(axis=0))
        kept.append(number)
        bounds.append((x + columns[0], y + rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1))
    return np.array(bounds, np.int32).reshape(-1, 4), np.array(kept, np.int64)


def _owners(one: Sheet) -> NDArray[np.uint16]:
    """Return (height, width) the number of the letter whose ink covers a pixel, plus one; 0: none."""
    upper, lower, letter = one.outline
    owner = np.zeros(one.mask.shape, np.uint16)
    first, second = (np.rint((edge - 0.5) * 16.0).astype(np.int32) for edge in (upper, lower))
    for at in np.flatnonzero(letter[1:] == letter[:-1]).tolist():
        quad = np.stack([first[at], first[at + 1], second[at + 1], second[at]])
        cv2.fillConvexPoly(owner, quad, int(letter[at]) + 1, cv2.LINE_8, 4)
    size = max(1, round(one.hairline)) | 1
    return np.asarray(cv2.dilate(owner, np.ones((size, size), np.uint8)), np.uint16)


def _with_ink(boxes: NDArray[np.int32], clear: Mask) -> NDArray[np.int32]:
    """Return the boxes (n, 4) of vowel points with enough ``clear`` ink; a bar of two strokes has the least."""
    kept = [box for box in boxes.tolist() if clear[box[1] : box[1] + box[3], box[0] : box[0] + box[2]].mean() > 0.2]
    return np.array(kept, np.int32).reshape(-1, 4)
