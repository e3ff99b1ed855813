"""Tests that a rotated copy of a photograph is the same fragment: drawn ones at random angles, with both networks."""

from dataclasses import replace

import numpy as np
import pytest

from membra import scribes
from membra.compare.methods import distances
from membra.describe.bag import in_company, make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description
from membra.see.eye import READY, ready_eye
from membra.see.read import read_pieces
from membra.see.reading import Reading
from turning import Image, turned

HANDS = 8
NO_BOXES = np.zeros((0, 4), np.int32)


def read(image: Image) -> Reading:
    """Return the most legible piece."""
    pieces = read_pieces(image, ready_eye(), MEMBRA.reading, MEMBRA.letters)
    return max(pieces, key=lambda piece: (piece.legibility, len(piece.glyphs)))


def described(readings: list[Reading]) -> list[Description]:
    encoder = Encoder.ready()
    embeddings = [in_company(encoder.encode(one.glyphs.patches), MEMBRA.bag) for one in readings]
    return [
        Description(one.glyphs.boxes, own, make_bag(own, MEMBRA.bag))
        for one, own in zip(readings, embeddings, strict=True)
    ]


@pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")
def test_turned_copies_find_themselves_and_their_mates() -> None:
    """Draw two leaves of each hand, damaged, with letters of 22 to 60 px; also a rotated copy of the first."""
    draw = np.random.default_rng(17)
    upright: list[Reading] = []
    copies: list[Reading] = []
    angles = (np.arange(HANDS) * 360 / HANDS + draw.uniform(0, 360 / HANDS, HANDS)).tolist()  # all around
    for number, angle in enumerate(angles):
        camera = replace(scribes.camera(number), letter_height=float(draw.uniform(22, 60)))
        for leaf in range(2):
            seed = 2 * number + leaf
            damage = scribes.damage(seed) if number % 2 else None
            one = scribes.fragment(scribes.hand(number), camera, letters=70, seed=seed, turn=0.0, damage=damage)
            upright.append(read(one.image))
            if leaf == 0:
                copies.append(read(turned(one.image, NO_BOXES, angle)[0]))
    own = upright[::2]
    off = [
        180.0 if copy.angle is None or one.angle is None else abs((copy.angle - one.angle - angle + 180) % 360 - 180)
        for one, copy, angle in zip(own, copies, angles, strict=True)
    ]
    assert sum(degrees < 3 for degrees in off) >= HANDS - 1, off
    sizes = np.array([copy.letter_height / one.letter_height for one, copy in zip(own, copies, strict=True)])
    assert (np.abs(np.log(sizes)) < 0.1).sum() >= HANDS - 1, sizes
    gallery, queries = described(upright), described(copies)
    among = distances(queries, gallery, MEMBRA.method, same=[None] * HANDS)
    assert (among.argmin(axis=1) == 2 * np.arange(HANDS)).all(), "itself"
    assert mates(among) >= mates(distances(gallery[::2], gallery, MEMBRA.method, same=list(range(0, 2 * HANDS, 2)))) - 1


def mates(matrix: np.ndarray) -> int:
    """Count the queries, each the first leaf of its hand, whose nearest other fragment is the second leaf."""
    others = matrix.copy()
    others[np.arange(HANDS), 2 * np.arange(HANDS)] = np.inf
    return int((others.argmin(axis=1) == 2 * np.arange(HANDS) + 1).sum())
