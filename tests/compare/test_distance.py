"""The formulas on bags small enough to work out by hand, and what cannot be compared."""

import subprocess
import sys

import pytest

from membra.compare.distance import chamfer, hungarian, transport
from membra.describe.bag import Bag
from membra.errors import MembraError

A = Bag([[0.0, 0.0], [4.0, 0.0]], [0.9, 0.1])
B = Bag([[0.0, 3.0], [4.0, 3.0]], [0.1, 0.9])


def test_by_hand() -> None:
    assert chamfer(A, B) == pytest.approx(3.0)
    assert hungarian(A, B) == pytest.approx(3.0)
    assert transport(A, B) == pytest.approx(0.1 * 3 + 0.8 * 5 + 0.1 * 3)


def test_unequal_sizes() -> None:
    one = Bag([[0.0, 0.0]], [1.0])
    assert chamfer(A, one) == pytest.approx(((0 + 4) / 2 + 0) / 2)
    assert hungarian(A, one) == 0  # the one word finds its own; the other stays without
    assert transport(A, one) == pytest.approx(0.1 * 4)


def test_a_word_without_mass_moves_nothing() -> None:
    assert transport(Bag([[0.0], [9.0]], [1.0, 0.0]), Bag([[1.0]], [1.0])) == pytest.approx(1.0)


def test_bags_of_different_encoders_cannot_be_compared() -> None:
    with pytest.raises(MembraError, match="2 and 1 dimensions"):
        chamfer(A, Bag([[1.0]], [1.0]))


def test_without_pot_transport_is_an_error_that_names_it() -> None:
    """In a process of its own, where the import is blocked as if POT were not installed."""
    code = """
import sys
sys.modules["ot"] = None
from membra import Bag, MembraError, chamfer, transport
a, b = Bag([[0.0]], [1.0]), Bag([[2.0]], [1.0])
assert chamfer(a, b) == 2.0
try:
    transport(a, b)
except MembraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install POT" in done.stdout
