"""The damage of a fragment: its kinds and their strengths."""

from dataclasses import dataclass, fields

import numpy as np

from membra.scribes.film import CAPTURES


@dataclass(frozen=True)
class Damage:
    """The strength of each kind of damage, from 0, absent, to 1, the worst of a usable fragment; in letter heights.

    Every kind draws from its own random generator, so that adding one leaves the others unchanged.
    """

    cracks: float = 0.0  # deep ones up to 0.16 wide, and fine ones
    creases: float = 0.0  # folds with lit and shaded sides, wrinkles
    fibres: float = 0.0  # grain of papyrus along and across the writing
    holes: float = 0.0  # of worms and wear, up to 1.5 in radius, beside the few that every piece has
    stains: float = 0.0  # pools and tide lines, brown
    mould: float = 0.0  # colonies of dark spots, from specks to half a letter
    abrasion: float = 0.0  # ink rubbed off in patches
    fading: float = 0.0  # ink lost unevenly, varying slowly over the sheet; at 1 parts of the text are gone
    flaking: float = 0.0  # upper layer of the skin lost, with its ink
    darkening: float = 0.0  # skin darkened to brown or black
    show_through: float = 0.0  # the text of the other side, mirrored; at 1 half as dark as the text
    ruling: float = 0.0  # lines drawn in lead or ink, beside the scratched ruling that every sheet has
    points: float = 0.0  # share of the letters with vowel points or dots, which do not count as letters
    stamp: float = 0.0  # a library's stamp; strength of its ink
    fraying: float = 0.0  # finely ragged edges
    edge_shadow: float = 0.0  # dark rims and shadows of torn edges
    break_through: float = 0.0  # a break from edge to edge, up to 0.3 wide; the piece stays one piece
    tissue: float = 0.0  # Japanese paper under the piece, wider and denser
    tape: float = 0.0  # one to three strips from the piece to the picture's edge, over or under it
    crossing: float = 0.0  # a strip right across the piece, which stays one piece
    light: float = 0.0  # uneven light
    grain: float = 0.0  # film grain
    capture: str = "colour"  # one of film.CAPTURES


KINDS = tuple(field.name for field in fields(Damage) if field.name != "capture")
# These split a piece visually, so few fragments have them.
RARE = ("break_through", "crossing")


def damage(seed: int) -> Damage:
    """Draw damage from ``seed``: each kind in about a third of all fragments, at least two kinds in each."""
    generator = np.random.default_rng((203, seed))
    present = generator.random(len(KINDS)) < [0.08 if kind in RARE else 0.33 for kind in KINDS]
    strengths = generator.uniform(0.15, 1.0, len(KINDS))
    always = generator.choice([number for number, kind in enumerate(KINDS) if kind not in RARE], 2, replace=False)
    present[always] = True
    capture = str(generator.choice(CAPTURES, p=(0.45, 0.2, 0.25, 0.1)))
    found = {kind: float(strengths[number]) for number, kind in enumerate(KINDS) if present[number]}
    return Damage(capture=capture, **found)


def broken_leaf(seed: int) -> Damage:
    """Draw damage that crosses a leaf from edge to edge without splitting it: a break, a strip of tape, or both."""
    generator = np.random.default_rng((205, seed))
    how = generator.choice(("break", "tape", "both"))
    return Damage(
        cracks=float(generator.uniform(0.3, 1.0)),
        fraying=float(generator.uniform(0.0, 0.8)),
        break_through=0.0 if how == "tape" else float(generator.uniform(0.1, 1.0)),
        crossing=0.0 if how == "break" else float(generator.uniform(0.2, 1.0)),
        tissue=float(generator.uniform(0.2, 1.0)) if generator.random() < 0.5 else 0.0,
    )
