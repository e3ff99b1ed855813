"""Pruned search gives the plain ranking, rank by rank, and solves few pairs if bounds are informative."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from membra.compare.bounds import bags_below, int8_supported, with_int8
from membra.compare.distance import chamfer, hungarian, transport
from membra.compare.kernels import pack
from membra.describe.bag import Bag
from membra.errors import MembraError
from membra.find import pruned
from membra.find.pruned import MEASURES, capacity_bounds, lower_bounds, nearest

PLAIN = {"chamfer": chamfer, "hungarian": hungarian, "transport": transport}


def draw(rng: np.random.Generator, words: int, d: int) -> Bag:
    weights = rng.uniform(0, 1, words)
    weights[rng.uniform(size=words) < 0.2] = 0
    weights[0] += 0.5
    return Bag(rng.normal(0, 1, (words, d)), weights)


def families(rng: np.random.Generator, d: int, count: int, most: int = 9) -> list[Bag]:
    """Make bags in families, like the fragments of manuscripts, of unequal sizes, some of them copies."""
    heads = [draw(rng, int(words), d) for words in rng.integers(1, most, 1 + count // 5)]
    bags = []
    for index in range(count):
        head = heads[index % len(heads)]
        step = rng.choice([0.0, 0.05, 0.3])
        weights = head.weights * (rng.uniform(0.5, 1.5, len(head)) if step else 1)
        bags.append(Bag(head.prototypes + rng.normal(0, 1, head.prototypes.shape) * step, weights))
    return bags


def plainly(
    query: Bag, bags: list[Bag], measure: str, top: int, among: NDArray[np.bool_] | None = None
) -> tuple[list[int], list[float]]:
    ranked = sorted(
        (PLAIN[measure](query, bag), index) for index, bag in enumerate(bags) if among is None or among[index]
    )[:top]
    return [index for _, index in ranked], [distance for distance, _ in ranked]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("top", [1, 10, 500])
def test_the_plain_ranking(measure: str, dtype: str, top: int) -> None:
    rng = np.random.default_rng(top)
    bags = families(rng, 8, 90)
    packed = pack(bags, dtype)
    for query in (bags[0], bags[41], draw(rng, 1, 8), draw(rng, 12, 8)):
        found = nearest(query, bags, packed, measure, top)
        assert (found.indices, found.distances) == plainly(query, bags, measure, top)
        assert min(top, 90) <= found.solved <= 90


@pytest.mark.parametrize("measure", MEASURES)
def test_ties_go_to_the_earlier_index(measure: str) -> None:
    rng = np.random.default_rng(1)
    bag, other = draw(rng, 4, 6), draw(rng, 4, 6)
    bags = [other, bag, other, bag, other, bag, other]
    assert nearest(bag, bags, pack(bags), measure, 5).indices == [1, 3, 5, 0, 2]


@pytest.mark.parametrize("measure", MEASURES)
def test_only_among_those_asked_for(measure: str) -> None:
    rng = np.random.default_rng(2)
    bags = families(rng, 6, 40)
    among = np.arange(40) % 3 != 0
    found = nearest(bags[0], bags, pack(bags), measure, 7, among=among)
    assert (found.indices, found.distances) == plainly(bags[0], bags, measure, 7, among)
    assert nearest(bags[0], bags, pack(bags), measure, 7, among=np.zeros(40, dtype=bool)).indices == []


@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-3, 1.0])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_where_the_int8_look_says_nothing_the_ranking_is_the_plain_one_all_the_same(
    spread: float, shift: float
) -> None:
    """More bags than are tightened first, nearer to each other than int8 resolves, or all far from the origin."""
    rng = np.random.default_rng(7)
    heads = [rng.normal(shift, 1, (5, 12)) for _ in range(3)]
    bags = [Bag(heads[index % 3] + spread * rng.normal(0, 1, (5, 12)), np.ones(5)) for index in range(1700)]
    bags[900] = Bag(100 * heads[0], np.ones(5))  # one of another size
    packed = with_int8(pack(bags, "float16"), bags)
    for index in (0, 900, 1699):
        found = nearest(bags[index], bags, packed, "chamfer", 20)
        assert (found.indices, found.distances) == plainly(bags[index], bags, "chamfer", 20)


@pytest.mark.skipif(not int8_supported(), reason="this processor multiplies no bytes")
def test_of_strangers_few_are_looked_at_closely_and_hardly_any_solved_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    bags = [Bag(rng.normal(0, 1, (20, 128)), np.ones(20)) for _ in range(3000)]
    looked: list[int] = []

    def counted(query: Bag, some: list[Bag]) -> NDArray[np.float32]:
        looked.append(len(some))
        return bags_below(query, some)

    monkeypatch.setattr(pruned, "bags_below", counted)
    found = nearest(bags[5], bags, with_int8(pack(bags, "float16"), bags), "chamfer", 20)
    assert found.indices[0] == 5
    assert found.solved <= 22
    assert sum(looked) < 1200


@pytest.mark.parametrize("measure", MEASURES)
def test_few_pairs_are_solved(measure: str) -> None:
    rng = np.random.default_rng(3)
    bags = families(rng, 32, 400, most=20)
    packed = pack(bags)
    solved = [nearest(bags[index], bags, packed, measure, 5).solved for index in range(10)]
    assert np.mean(solved) <= 40  # a tenth


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_bounds_are_bounds(words: int, others: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    query, bags = draw(rng, words, d), [draw(rng, others, d) for _ in range(4)]
    for measure, solve in PLAIN.items():
        exact = np.array([solve(query, bag) for bag in bags])
        assert (lower_bounds([query], pack(bags), measure)[0] <= exact).all()
        assert (lower_bounds([query], with_int8(pack(bags), bags), measure)[0] <= exact).all()
        assert (lower_bounds([query], pack(bags, "float16"), measure)[0] <= exact).all()
    simple = lower_bounds([query], pack(bags), "transport")[0]
    closer = capacity_bounds(query, bags)
    exact = np.array([transport(query, bag) for bag in bags])
    assert (closer <= exact).all()
    assert (closer >= simple * (1 - 1e-6)).all()


def test_capacity_bound_by_hand() -> None:
    # Both prototypes of the query are nearest to 0, which has only half the mass: the far one must go to 10.
    query, bag = Bag([[0.0], [1.0]], [0.5, 0.5]), Bag([[0.0], [10.0]], [0.25, 0.75])
    expected = 0.25 * 10 + 0.25 * 1 + 0.25 * 9  # each prototype alone fills the near one with a quarter
    np.testing.assert_allclose(capacity_bounds(query, [bag]), max(expected, 0.25 * 0 + 0.5 * 9 + 0.25 * 10), rtol=1e-6)


def test_what_does_not_fit_is_said() -> None:
    bags = [Bag([[0.0]], [1])]
    with pytest.raises(MembraError, match="no distance `euclid`"):
        nearest(bags[0], bags, pack(bags), "euclid", 1)
    with pytest.raises(MembraError, match="pack the same"):
        nearest(bags[0], bags * 2, pack(bags), "chamfer", 1)
