"""The page: lines of text, and the piece torn from it. All lengths are in letter heights."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.scribes.letters import words
from membra.scribes.scribe import Glyph, Hand, Points

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Text:
    """Letters in reading order and their positions."""

    letters: str
    positions: Points  # (n, 2) left of the letter's ink and its roof line
    centres: Points  # (n, 2) middle of the letter's body
    rulings: Numbers  # (m,) roof line of every ruled line
    margin: float | None  # x of the right edge of the column, where text begins; None: outside the piece


@dataclass(frozen=True)
class Piece:
    """Outline of a torn piece, (n, 2), and the outlines of its holes."""

    outline: Points
    holes: tuple[Points, ...]


def line(hand: Hand, alphabet: dict[str, Glyph], text: str, generator: np.random.Generator) -> Points:
    """(n, 2) positions of the letters of ``text`` without its spaces, right to left, ending at x = 0.

    The first letter's right edge is at x = 0; everything else has negative x.
    """
    positions = []
    cursor = 0.0
    jitter = generator.normal(1.0, 0.16, len(text))
    for letter, loose in zip(text, jitter.tolist(), strict=True):
        if letter == " ":
            cursor -= hand.word_gap * loose
            continue
        glyph = alphabet[letter]
        cursor -= glyph.right - glyph.left
        positions.append((cursor, 0.0))
        cursor -= hand.spacing * loose
    return np.array(positions, float).reshape(-1, 2)


def lay_out(
    hand: Hand, alphabet: dict[str, Glyph], width: float, height: float, generator: np.random.Generator
) -> Text:
    """Lay out text around the origin, over more than the area of a piece about ``width`` by ``height``."""
    reach_x, reach_y = 0.85 * width + 2.0, 0.85 * height + 2.0
    # a fragment of the right edge of the column shows the margin; 35 % do
    margin = float(width * generator.uniform(0.25, 0.45)) if generator.random() < 0.35 else None
    right = reach_x if margin is None else margin
    rulings = np.arange(-reach_y, reach_y, hand.line_gap) + generator.uniform(0.0, hand.line_gap)
    if generator.random() < 0.2:
        # the top of the page
        rulings = rulings[rulings > -height * generator.uniform(0.25, 0.4)]
    letters, positions, centres = [], [], []
    for ruling in rulings:
        # no word is shorter than about a letter height, so this always fills the line
        text = " ".join(words(int((right + reach_x) / 1.2) + 2, generator))
        drift = generator.normal(0.0, 0.02) if margin is not None else -generator.uniform(0.0, 2.0)
        spots = line(hand, alphabet, text, generator) + np.array([right + drift, ruling])
        spots = spots[spots[:, 0] > -reach_x]
        text = text.replace(" ", "")[: len(spots)]
        widths = np.array([alphabet[letter].right - alphabet[letter].left for letter in text])
        letters.append(text)
        positions.append(spots)
        centres.append(spots + np.column_stack([widths / 2, np.full(len(widths), 0.5)]))
    return Text("".join(letters), np.concatenate(positions), np.concatenate(centres), rulings, margin)


def tear(text: Text, letters: int, width: float, height: float, generator: np.random.Generator) -> Piece:
    """Return a piece with the proportions ``width`` by ``height``, sized to hold ``letters`` letters."""
    angles = np.linspace(0.0, 2.0 * np.pi, 1440, endpoint=False)
    radii = _radii(angles, width, height, generator)
    at = np.arctan2(text.centres[:, 1], text.centres[:, 0]) % (2.0 * np.pi)
    edge = np.interp(at, angles, radii, period=2.0 * np.pi)
    growth = np.hypot(text.centres[:, 0], text.centres[:, 1]) / edge
    # some letters inside are cut by the edge or a hole and do not count as visible
    wanted = min(len(growth) - 1, int(letters * 1.02 + 0.7 * np.sqrt(letters)))
    radii = radii * np.sort(growth)[wanted] + _teeth(angles, radii, generator)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    holes = []
    for _ in range(int(generator.integers(0, 4))):
        angle = generator.uniform(0.0, 2.0 * np.pi)
        distance = generator.uniform(0.1, 0.95) * np.interp(angle, angles, radii)
        centre = distance * np.array([np.cos(angle), np.sin(angle)])
        holes.append(centre + _hole(generator))
    return Piece(radii[:, None] * directions, tuple(holes))


def _radii(angles: Numbers, width: float, height: float, generator: np.random.Generator) -> Numbers:
    """Return the distance of the edge from the centre: a rounded rectangle with slow bends."""
    square = generator.uniform(2.8, 9.0)
    across, down = np.abs(np.cos(angles) / (width / 2)), np.abs(np.sin(angles) / (height / 2))
    radii = (across**square + down**square) ** (-1.0 / square)
    return np.asarray(radii * _bends(angles, [0.055 / wave**0.7 for wave in range(1, 10)], generator))


def _bends(angles: Numbers, sizes: list[float], generator: np.random.Generator) -> Numbers:
    """Return a factor around 1 at each angle: sine waves of 1, 2, ... periods with the given standard deviations."""
    factor = np.ones(len(angles))
    for wave, size in enumerate(sizes, start=1):
        factor *= 1.0 + generator.normal(0.0, size) * np.sin(wave * angles + generator.uniform(0.0, 6.3))
    return factor


def _teeth(angles: Numbers, radii: Numbers, generator: np.random.Generator) -> Numbers:
    """Return the ragged edge in letter heights: rough in some stretches, clean in others."""
    length = float(radii.mean()) * 2.0 * np.pi
    total = np.zeros(len(angles))
    for step, size in ((1.6, 0.16), (0.6, 0.10), (0.25, 0.08), (0.12, 0.03)):
        knots = max(6, int(length / step))
        at = np.linspace(0.0, 2.0 * np.pi, knots, endpoint=False) + generator.uniform(0.0, 6.3)
        total += np.interp(angles, at, generator.normal(0.0, size, knots), period=2.0 * np.pi)
    rough = 0.5 + 0.5 * np.sin(angles * generator.integers(1, 4) + generator.uniform(0.0, 6.3))
    return total * (0.35 + 0.75 * rough)


def _hole(generator: np.random.Generator) -> Points:
    """Return the outline (n, 2) of a worm hole or worn hole around the origin."""
    angles = np.linspace(0.0, 2.0 * np.pi, 48, endpoint=False)
    radii = np.full(48, generator.uniform(0.14, 0.55))
    radii *= _bends(angles, [0.0, *(0.25 / wave for wave in range(2, 9))], generator)
    long = generator.uniform(1.0, 1.7)
    turn = generator.uniform(0.0, np.pi)
    along = np.column_stack([radii * np.cos(angles) * long, radii * np.sin(angles)])
    return np.asarray(along @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]))
