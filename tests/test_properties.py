"""Properties of the distances for all bags. Each test fails when its formula is broken as its docstring says."""

from collections.abc import Callable

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from membra.compare.distance import chamfer, hungarian, transport
from membra.describe.bag import Bag, BagSettings, make_bag

Measure = Callable[[Bag, Bag], float]
MEASURES: list[Measure] = [chamfer, hungarian, transport]
COORDINATES = st.floats(-100, 100, width=32)
SIZES = st.integers(1, 7)


@st.composite
def bag(draw: st.DrawFn, *, words: st.SearchStrategy[int] = SIZES, dimension: int = 3, uniform: bool = False) -> Bag:
    count = draw(words)
    prototypes = draw(arrays(np.float32, (count, dimension), elements=COORDINATES))
    masses = np.ones(count) if uniform else draw(arrays(np.float64, count, elements=st.floats(0.01, 10)))
    return Bag(prototypes, masses)


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.__name__)
@given(data=st.data())
def test_symmetry(measure: Measure, data: st.DataObject) -> None:
    """Fails when one of Chamfer's two directions is dropped."""
    a, b = data.draw(bag()), data.draw(bag())
    assert measure(a, b) == near(measure(b, a))


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.__name__)
@given(a=bag())
def test_identity(measure: Measure, a: Bag) -> None:
    """Fails when the cost is anything but a distance, e.g. squared and shifted."""
    assert measure(a, a) == near(0)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.__name__)
@given(data=st.data())
def test_order_of_words_does_not_matter(measure: Measure, data: st.DataObject) -> None:
    """Fails when weights are taken in another order than prototypes."""
    a, b = data.draw(bag()), data.draw(bag())
    order = data.draw(st.permutations(range(len(a))))
    assert measure(Bag(a.prototypes[order], a.weights[order]), b) == near(measure(a, b))


@given(data=st.data())
def test_chamfer_at_most_hungarian_which_is_transport_of_uniform_masses(data: st.DataObject) -> None:
    """Fails when Chamfer sums instead of averaging, or Hungarian assigns greedily."""
    size = st.just(data.draw(st.integers(1, 7)))
    a, b = data.draw(bag(words=size, uniform=True)), data.draw(bag(words=size, uniform=True))
    assert chamfer(a, b) <= hungarian(a, b) + 1e-6
    assert hungarian(a, b) == near(transport(a, b))


@given(data=st.data())
def test_triangle_inequality_of_hungarian(data: st.DataObject) -> None:
    """Fails when costs are squared."""
    size = st.just(data.draw(st.integers(1, 6)))
    a, b, c = (data.draw(bag(words=size)) for _ in range(3))
    assert hungarian(a, c) <= hungarian(a, b) + hungarian(b, c) + 1e-5


@given(data=st.data())
def test_triangle_inequality_of_transport(data: st.DataObject) -> None:
    a, b, c = (data.draw(bag()) for _ in range(3))
    assert transport(a, c) <= transport(a, b) + transport(b, c) + 1e-5


def full_transport(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Return W1 between all embeddings, each with the same mass."""
    costs = cdist(a.astype(np.float64), b.astype(np.float64))
    return float(ot.emd2(np.full(len(a), 1 / len(a)), np.full(len(b), 1 / len(b)), costs))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), words=st.integers(1, 5))
def test_the_papers_proposition(data: st.DataObject, words: int) -> None:
    """|W1(full) - W1(bags)| <= eps_I + eps_J. Fails when the error omits members or the masses are uniform."""
    clouds = [
        data.draw(arrays(np.float32, (data.draw(st.integers(2, 14)), 2), elements=st.floats(-8, 8, width=16)))
        for _ in range(2)
    ]
    a, b = (make_bag(cloud, BagSettings(words=words, restarts=1)) for cloud in clouds)
    gap = abs(full_transport(*clouds) - transport(a, b))
    assert gap <= a.error + b.error + 1e-5


@given(a=bag(), b=bag())
def test_distances_are_finite_and_not_negative(a: Bag, b: Bag) -> None:
    for measure in MEASURES:
        assert 0 <= measure(a, b) < np.inf
