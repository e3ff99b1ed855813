"""A scribe's hand: the traits that are constant over a manuscript, and the letters that follow from them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from membra.scribes.letters import ALPHABET, ASCENDER, DESCENDER, SKELETONS, Stroke

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Hand:
    """Traits of one scribe. Lengths are in letter heights (roof to base line of a letter such as mem)."""

    nib: float  # width of the pen's edge; sets the weight of the script
    nib_angle: float  # degrees between the edge and the line of writing; steep makes heavy roofs, thin legs
    hairline: float  # thickness of the edge, hence of the thinnest stroke
    slant: float  # rightward shift of the roof per height; 0 is upright
    width: float  # widening of every letter; 1 is as in the skeletons
    roundness: float  # 0 to 0.35, share of a segment cut off at a corner; large is cursive
    bow: float  # sag of straight strokes as a share of their length
    roof_tilt: float  # rise of roofs towards the right as a share of their length
    serif: float  # rise of the tick that begins a roof
    head: float  # length of the tick to the left that begins an arm
    foot: float  # length of the tick to the left that ends a leg
    taper: float  # share of the pen's width lost towards the end of a leg
    ascender: float  # rise of lamed above the roof line
    descender: float  # fall of the long finals and of qof below the base line
    spacing: float  # clear space between letters of a word
    word_gap: float  # further space between words
    line_gap: float  # distance of base lines
    ink: tuple[float, float, float]  # red, green, blue of the full ink, 0 to 1, before the camera's tint
    habits: int  # seed of the letter forms and of their lasting deformations, so that a hand is one small record
    habit_size: float  # standard deviation of a point's lasting deformation, which distinguishes scribes
    wander: float  # standard deviation of a point between instances, which obscures it


class PenStroke(NamedTuple):
    """A stroke of one scribe: control points (k, 2) in letter heights, and its kind."""

    kind: str
    points: Points


class Glyph(NamedTuple):
    """A letter of one scribe, before the variation of instances."""

    strokes: tuple[PenStroke, ...]
    left: float  # leftmost ink between roof and base line, letter heights
    right: float  # rightmost ink there; both are used in layout


def hand(seed: int) -> Hand:
    """Draw a scribe from ``seed``."""
    generator = np.random.default_rng((101, seed))

    def between(low: float, high: float) -> float:
        return float(generator.uniform(low, high))

    brown = between(0.0, 1.0)
    depth = between(0.10, 0.19)
    return Hand(
        nib=between(0.19, 0.28),
        nib_angle=between(46.0, 72.0),
        hairline=between(0.045, 0.065),
        slant=between(-0.10, 0.10),
        width=between(0.92, 1.18),
        roundness=between(0.10, 0.34),
        bow=between(-0.04, 0.06),
        roof_tilt=between(-0.05, 0.07),
        serif=max(0.0, between(-0.06, 0.13)),
        head=between(0.03, 0.13),
        foot=max(0.0, between(-0.10, 0.10)),
        taper=between(0.0, 0.30),
        ascender=between(0.50, 0.72),
        descender=between(0.36, 0.56),
        spacing=between(0.11, 0.17),
        word_gap=between(0.30, 0.50),
        line_gap=between(1.80, 2.20),
        ink=(depth * (1.0 + 0.5 * brown), depth, depth * (1.0 - 0.35 * brown)),
        habits=int(generator.integers(2**31)),
        habit_size=between(0.042, 0.056),
        wander=between(0.012, 0.020),
    )


def glyphs(hand: Hand) -> dict[str, Glyph]:
    """Return the 27 letters of one scribe."""
    return {letter: _glyph(hand, number, letter) for number, letter in enumerate(ALPHABET)}


def half_nib(hand: Hand) -> NDArray[np.float64]:
    """Return (2,) the vector from the nib's centre to its upper end, in letter heights; the edge leans like a slash."""
    angle = np.deg2rad(hand.nib_angle)
    # ink drawing adds the hairline around the edge, so the edge itself is shorter by it
    return (hand.nib - hand.hairline) / 2 * np.array([np.cos(angle), -np.sin(angle)])


def bent(count: int, generator: np.random.Generator) -> Points:
    """Return (count, 2) a smooth random displacement of a stroke's points, of the order of 1.

    A stroke swings about its beginning, where it usually joins another, and bends; independent displacements would
    make every leg a zigzag.
    """
    along = np.linspace(0.0, 1.0, count)[:, None]
    shift, swing, bend = generator.normal(0.0, 1.0, (3, 1, 2)) * np.array([[[0.5]], [[1.1]], [[1.0]]])
    return np.asarray(
        shift + swing * along + bend * 4.0 * along * (1.0 - along) + generator.normal(0.0, 0.25, (count, 2))
    )


def _glyph(hand: Hand, number: int, letter: str) -> Glyph:
    # one generator per letter: a change to one letter's strokes leaves the hand's other letters unchanged
    generator = np.random.default_rng((102, hand.habits, number))
    forms = SKELETONS[letter]
    form = forms[int(generator.integers(len(forms)))]
    stretch = np.exp(generator.normal(0.0, 0.06))
    waves = [generator.normal(0.0, size, (4, 2)) for size in (0.7, 2.4)]
    phases = generator.uniform(0.0, 2.0 * np.pi, 4)
    strokes = []
    for stroke in form:
        points = _subdivide(_in_style(hand, stroke), hand.bow)
        # the roof and base line are shared by all letters, so deformation is mostly along the line of writing
        moved = 0.8 * _warped(points, waves[0], waves[1], phases) + 0.5 * bent(len(points), generator)
        points = points + moved * hand.habit_size * (1.2, 0.7)
        strokes.append(PenStroke(stroke.kind, _proportioned(hand, points * (stretch, 1.0))))
    body = np.concatenate([stroke.points for stroke in strokes])
    body = body[(body[:, 1] > -0.15) & (body[:, 1] < 1.15)]
    reach = abs(half_nib(hand)[0]) + hand.hairline / 2
    return Glyph(tuple(strokes), float(body[:, 0].min() - reach), float(body[:, 0].max() + reach))


def _warped(points: Points, sizes: Points, frequencies: Points, phases: Points) -> Points:
    """Return (n, 2) a displacement, of the order of 1, that warps the plane, so that strokes that meet still meet."""
    return np.asarray(np.sin(points @ frequencies.T + phases) @ sizes)


def _in_style(hand: Hand, stroke: Stroke) -> Points:
    """Return control points with the ticks of this scribe."""
    points = np.array(stroke.points, float)
    if stroke.kind == "roof":
        points[:, 1] -= hand.roof_tilt * (points[:, 0] - 0.3) * (points[:, 1] < 0.2)
        if hand.serif > 0.02:
            points = np.vstack([points[0] + (-0.02, -hand.serif), points])
    elif stroke.kind == "arm":
        points = np.vstack([points[0] + (-hand.head, 0.01), points])
    elif stroke.kind == "leg" and hand.foot > 0.02:
        points = np.vstack([points, points[-1] + (-hand.foot, 0.0)])
    return points


def _subdivide(points: Points, bow: float) -> Points:
    """Add a point in the middle of every long segment, displaced by ``bow``, so that it can bend."""
    along = np.diff(points, axis=0)
    length = np.hypot(along[:, 0], along[:, 1])
    middle = (points[:-1] + points[1:]) / 2 + bow * along[:, ::-1] * (-1.0, 1.0)
    at = np.flatnonzero(length > 0.3)
    return np.insert(points, at + 1, middle[at], axis=0)


def _proportioned(hand: Hand, points: Points) -> Points:
    """Convert skeleton units to letter heights, so that the ink, not the nib's path, spans 0 to 1."""
    x, y = points[:, 0], points[:, 1]
    above, below = np.minimum(y, 0.0), np.maximum(y - 1.0, 0.0)
    half = abs(half_nib(hand)[1]) + hand.hairline / 2
    height = (
        half
        + np.clip(y, 0.0, 1.0) * (1.0 - 2.0 * half)
        + above * hand.ascender / -ASCENDER
        + below * hand.descender / (DESCENDER - 1.0)
    )
    return np.column_stack([x * hand.width + hand.slant * (1.0 - height), height])
