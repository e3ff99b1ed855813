"""Words and fragments drawn from a hand, with the truth about them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.scribes import scene
from membra.scribes.letters import ALPHABET
from membra.scribes.page import Piece, Text, lay_out, line, tear
from membra.scribes.pen import ink, write
from membra.scribes.photograph import Camera, develop, photograph
from membra.scribes.scribe import Hand, Points, glyphs
from membra.scribes.surfaces import parchment, ruler_strip, table

# Share of a letter's outline that must lie on the fragment for it to count as visible. What is left of
# letters cut any deeper is seldom enough to tell the letter, let alone the scribe.
VISIBLE = 0.9


@dataclass(frozen=True)
class Drawn:
    """One drawn fragment and the truth about it, all in pixels of the photograph."""

    image: NDArray[np.uint8]  # (height, width, 3) RGB, after the camera and the JPEG
    mask: NDArray[np.bool_]  # (height, width) True on the fragment
    boxes: NDArray[np.int32]  # (n, 4) x, y, width, height of the visible ink of each visible letter
    letters: str  # n characters, in reading order
    join: str  # the manuscript
    leaf: str  # its leaf
    jpeg: bytes  # the encoded photograph, of which image is the decoding
    ruler: NDArray[np.bool_]  # (height, width) True on a ruler or colour chart; nowhere when there is none


def fragment(
    hand: Hand,
    camera: Camera,
    *,
    letters: int,
    seed: int,
    join: str = "",
    leaf: str = "",
    ruler: bool = False,
) -> Drawn:
    """A torn piece of a page by ``hand`` with about ``letters`` visible letters, seen by ``camera``."""
    # a generator for each part of the work, so that a change to one of them leaves the others as they were
    for_text, for_tear, for_pen, for_ink, for_sheet, for_table, for_camera = (
        np.random.default_rng((202, seed, part)) for part in range(7)
    )
    alphabet = glyphs(hand)
    # each letter takes its own width, its space, its share of a gap between words, and a line
    room = float(np.mean([glyph.right - glyph.left for glyph in alphabet.values()]))
    area = letters * (room + hand.spacing + hand.word_gap / 4) * hand.line_gap
    aspect = float(np.exp(for_tear.uniform(np.log(0.5), np.log(1.9))))
    width, height = float(np.sqrt(area * aspect)), float(np.sqrt(area / aspect))
    text = lay_out(hand, alphabet, width, height, for_text)
    piece = tear(text, letters, width, height, for_tear)
    text = _on(piece, text)
    swept = write(hand, alphabet, text.letters, text.places, for_pen)

    scale = camera.letter_height
    view = scene.view(piece.outline, scale, camera.turn + float(for_camera.normal(0.0, 0.5)), for_camera)
    strip = None
    if ruler:
        view, strip = scene.make_room(view, ruler_strip(max(view.shape), scale, for_table), for_table)
    mask = scene.covered(view, piece)
    upper, lower = scene.place(view, swept.upper), scene.place(view, swept.lower)
    cover = ink(upper, lower, swept.joined, hand.hairline * scale, view.shape)
    sheet = parchment(mask, scale, for_sheet)
    sheet = scene.ruled(view, sheet, text, for_sheet)
    strength = scene.strength(swept, (upper + lower) / 2, view.shape, scale, for_ink)
    sheet = scene.inked(sheet, cover, strength, hand.ink, scale, for_ink)
    picture = scene.laid(sheet, mask, table(camera.background, mask, scale, for_table))
    beside = np.zeros(mask.shape, bool)
    if strip is not None:
        beside = scene.set_down(picture, strip)
    jpeg = photograph(camera, picture, for_camera)
    boxes, seen = _boxes(upper, lower, swept.letter, hand.hairline * scale, mask)
    visible = "".join(text.letters[number] for number in seen)
    return Drawn(develop(jpeg), mask, boxes, visible, join, leaf, jpeg, beside)


def word(hand: Hand, text: str, *, height: int = 40, seed: int = 0) -> NDArray[np.uint8]:
    """Letters of one hand in one line, right to left, dark on white, (rows, columns) grey.

    ``height`` is the letter height in pixels; the picture also has room for lamed and the long finals.
    """
    unknown = set(text) - set(ALPHABET) - {" "}
    if unknown or not text.strip():
        raise ValueError(f"only Hebrew letters and spaces can be written, not {text!r}")
    generator = np.random.default_rng((201, seed))
    alphabet = glyphs(hand)
    places = line(hand, alphabet, text, generator)
    swept = write(hand, alphabet, text.replace(" ", ""), places, generator)
    edges = np.concatenate([swept.upper, swept.lower])
    left, right = edges[:, 0].min() - 0.25, edges[:, 0].max() + 0.25
    top = -hand.ascender - 0.25
    shape = (round((1.25 + hand.descender - top) * height), round((right - left) * height))
    upper, lower = ((edge - (left, top)) * height for edge in (swept.upper, swept.lower))
    cover = ink(upper, lower, swept.joined, hand.hairline * height, shape)
    return np.asarray(np.rint(255.0 - 235.0 * cover), np.uint8)


def _on(piece: Piece, text: Text) -> Text:
    """Only the letters that can be on the piece, so that no time is spent on drawing the others."""
    low, high = piece.outline.min(axis=0) - 1.0, piece.outline.max(axis=0) + 1.0
    near = np.flatnonzero(((text.centres > low) & (text.centres < high)).all(axis=1))
    letters = "".join(text.letters[number] for number in near)
    return Text(letters, text.places[near], text.centres[near], text.rulings, text.margin)


def _boxes(
    upper: Points, lower: Points, letter: NDArray[np.int64], hairline: float, mask: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Bounds of the ink of the visible letters, (n, 4), and the numbers of these letters, (n,)."""
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
    # the ink reaches half a hairline further than the nib's ends; boxes stop at the edge of the picture
    low = np.maximum(np.floor(low[seen] - hairline / 2), 0.0)
    high = np.minimum(np.ceil(high[seen] + hairline / 2), mask.shape[::-1])
    return np.concatenate([low, high - low], axis=1).astype(np.int32), seen
