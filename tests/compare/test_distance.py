"""Tests of the formulas on bags small enough to compute by hand, and of bags that cannot be compared."""

import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from membra.compare import distance
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
    assert hungarian(A, one) == 0  # one prototype matches exactly; the other stays unassigned
    assert transport(A, one) == pytest.approx(0.1 * 4)


def test_a_word_without_mass_moves_nothing() -> None:
    assert transport(Bag([[0.0], [9.0]], [1.0, 0.0]), Bag([[1.0]], [1.0])) == pytest.approx(1.0)


def test_bags_of_different_encoders_cannot_be_compared() -> None:
    with pytest.raises(MembraError, match="2 and 1 dimensions"):
        chamfer(A, Bag([[1.0]], [1.0]))


def test_without_pot_transport_is_an_error_that_names_it() -> None:
    """In a subprocess in which the import is blocked, as if POT were not installed."""
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


@given(
    st.integers(1, 70), st.integers(1, 70), st.sampled_from([1, 2, 7, 16, 128]), st.integers(-6, 6), st.integers(0, 99)
)
def test_native_costs_are_those_of_scipy_to_the_last_bit(words: int, others: int, d: int, size: int, seed: int) -> None:
    if distance.native is None:
        pytest.skip("installed without a compiler")
    draw = np.random.default_rng(seed)
    a, b = (Bag(10.0**size * draw.standard_normal((count, d)), np.ones(count)) for count in (words, others))
    expected = cdist(a.prototypes.astype(np.float64), b.prototypes.astype(np.float64))
    if platform.machine() == "x86_64":
        assert np.array_equal(distance.costs(a, b), expected)
    else:  # on other machines SciPy's own sums may be fused
        np.testing.assert_allclose(distance.costs(a, b), expected, rtol=1e-13)


def test_without_a_compiler_the_distances_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    a, b = (Bag(draw.standard_normal((count, 16)), np.ones(count)) for count in (9, 14))
    found = distance.chamfer(a, b), distance.hungarian(a, b)
    monkeypatch.setattr(distance, "native", None)
    assert (distance.chamfer(a, b), distance.hungarian(a, b)) == pytest.approx(found, rel=1e-14)


def test_a_wrong_call_of_the_native_kernel_is_refused() -> None:
    if distance.native is None:
        pytest.skip("installed without a compiler")
    words = np.zeros((3, 4), dtype=np.float32)
    for d, shape in ((4, (3, 2)), (0, (3, 3)), (5, (3, 3)), (-4, (3, 3))):
        with pytest.raises(ValueError, match="do not fit together"):
            distance.native.squares(words, words, d, np.zeros(shape))
