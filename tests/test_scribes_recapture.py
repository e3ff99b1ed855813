"""Photographs worn and captured again: the same hand in another capture."""

import numpy as np
import pytest

from membra import scribes
from membra.describe.recipe import MEMBRA
from membra.scribes.recapture import recaptured
from membra.see.eye import ready_eye
from membra.see.read import read_pieces


@pytest.fixture(scope="module")
def drawn() -> scribes.Drawn:
    return scribes.fragment(scribes.hand(5), scribes.camera(1), letters=60, seed=2)


def test_the_same_seed_gives_the_same_photograph(drawn: scribes.Drawn) -> None:
    one, other, third = (recaptured(drawn.image, 30.0, seed) for seed in (4, 4, 5))
    assert np.array_equal(one.picture, other.picture)
    assert (one.turn, one.scale) == (other.turn, other.scale)
    assert one.picture.shape != third.picture.shape or not np.array_equal(one.picture, third.picture)


def test_it_says_how_it_was_turned_and_scaled(drawn: scribes.Drawn) -> None:
    """Most of ten captures are read with the rotation and letter height that they were given."""
    before = read_pieces(drawn.image, ready_eye(), MEMBRA.reading, MEMBRA.letters, "one")[0]
    right = 0
    for seed in range(10):
        again = recaptured(drawn.image, before.letter_height, seed)
        seen = read_pieces(again.picture, ready_eye(), MEMBRA.reading, MEMBRA.letters, "one")[0]
        if seen.angle is not None:
            off = (seen.angle - again.turn - (before.angle or 0) + 180) % 360 - 180
            height = seen.letter_height / (before.letter_height * again.scale)
            right += abs(off) < 15 and 0.7 < height < 1.4
    assert right >= 7
