"""Tests of partial transport against values computed by hand and a linear programme, and of the whole mass."""

import numpy as np
import pytest
from scipy.optimize import linprog

from membra.compare.distance import costs, transport
from membra.compare.partial import partial_transport
from membra.describe.bag import Bag


def bags(seed: int) -> tuple[Bag, Bag]:
    draw = np.random.default_rng(seed)
    return Bag(draw.normal(size=(5, 3)), draw.random(5)), Bag(draw.normal(size=(4, 3)), draw.random(4))


@pytest.mark.parametrize("seed", range(5))
def test_as_a_linear_programme(seed: int) -> None:
    a, b = bags(seed)
    cost = costs(a, b)
    rows = np.kron(np.eye(5), np.ones(4))
    columns = np.kron(np.ones(5), np.eye(4))
    solved = linprog(
        cost.reshape(-1),
        A_ub=np.concatenate([rows, columns]),
        b_ub=np.concatenate([a.weights, b.weights]),
        A_eq=np.ones((1, 20)),
        b_eq=[0.6],
    )
    assert partial_transport(a, b, 0.6) == pytest.approx(solved.fun / 0.6, abs=1e-9)


def test_all_of_the_mass_is_transport() -> None:
    a, b = bags(9)
    assert partial_transport(a, b, 1.0) == pytest.approx(transport(a, b))


def test_what_one_side_lacks_costs_nothing() -> None:
    whole = Bag([[0.0], [1.0], [50.0]], [0.4, 0.4, 0.2])
    torn = Bag([[0.0], [1.0]], [0.5, 0.5])
    assert partial_transport(whole, torn) == pytest.approx(0.0)
    assert transport(whole, torn) > 5
