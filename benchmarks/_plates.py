"""Drawn plates of several pieces, and single leaves that look like several pieces, each defined by its seed."""

from dataclasses import replace

import numpy as np

from membra.scribes import Drawn, Plate, broken_leaf, camera, damage, fragment, hand, plate
from membra.scribes.grounds import TEXTURED
from membra.scribes.photograph import BACKGROUNDS

HANDS = 6  # at most, on one plate


def background(seed: int) -> str:
    """Return the background: plain in two of three photographs, in the third wood, cloth, felt or card."""
    plain, textured = list(BACKGROUNDS), list(TEXTURED)
    return plain[seed % len(plain)] if seed % 3 else textured[seed // 3 % len(textured)]


def drawn_plate(seed: int) -> Plate:
    """Draw 2 to 20 torn pieces, most rotated at random, some touching, often damaged, with chips, rulers and labels."""
    draw = np.random.default_rng((208, seed))
    seen_by = replace(camera(seed), background=background(seed), letter_height=float(draw.uniform(20, 45)))
    pieces = int(draw.integers(2, 21))
    return plate(
        [hand(HANDS * seed + number) for number in range(min(pieces, HANDS))],
        seen_by,
        pieces=pieces,
        seed=seed,
        damaged=bool(draw.random() < 0.6),
        any_turn=bool(draw.random() < 0.75),
        touching=float(draw.choice((0.0, 0.3, 0.6))),
        chips=int(draw.integers(0, 5)),
        ruler=bool(draw.random() < 0.4),
        card=bool(draw.random() < 0.4),
    )


def drawn_leaf(seed: int) -> Drawn:
    """Draw one leaf, rotated at random: every second broken or taped from edge to edge, others with random damage."""
    draw = np.random.default_rng((209, seed))
    return fragment(
        hand(seed),
        replace(camera(seed), background=background(seed)),
        letters=int(draw.integers(15, 160)),
        seed=seed,
        damage=broken_leaf(seed) if seed % 2 else damage(seed),
        turn=float(draw.uniform(0, 360)),
        ruler=bool(draw.random() < 0.3),
    )
