"""The paper's bound holds on any embeddings, tightens with K, and violations are detected."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membra.describe.bag import Bag, BagSettings, make_bag
from membra.judge.bound import BoundCheck, check_bound, transport_components


@given(seed=st.integers(0, 10_000), words=st.integers(1, 12), sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)))
@settings(max_examples=25, deadline=None)
def test_it_holds(seed: int, words: int, sizes: tuple[int, int]) -> None:
    draw = np.random.default_rng(seed)
    a, b = (draw.normal(draw.normal(), draw.uniform(0.1, 5), (size, 6)).astype(np.float32) for size in sizes)
    bags = [make_bag(embeddings, BagSettings(words=words, restarts=1)) for embeddings in (a, b)]
    assert not check_bound(transport_components(a, b), *bags).violated


def test_as_many_words_as_components_leaves_nothing_over() -> None:
    draw = np.random.default_rng(0)
    a, b = (draw.normal(size=(12, 3)).astype(np.float32) for _ in range(2))
    check = check_bound(transport_components(a, b), *(make_bag(one, BagSettings(words=12)) for one in (a, b)))
    assert check.allowed == 0
    assert check.deviation == pytest.approx(0, abs=1e-6)
    assert (check.used, check.violated) == (0.0, False)


def test_more_words_tighten_it() -> None:
    draw = np.random.default_rng(3)
    a, b = (draw.normal(size=(80, 8)).astype(np.float32) for _ in range(2))
    full = transport_components(a, b)
    allowed = [
        check_bound(full, *(make_bag(embeddings, BagSettings(words=words)) for embeddings in (a, b))).allowed
        for words in (2, 8, 32)
    ]
    assert allowed[0] > allowed[1] > allowed[2] > 0


def test_a_violation_is_seen() -> None:
    assert BoundCheck(components=3.0, bags=1.0, allowed=1.5).violated
    assert not BoundCheck(components=3.0, bags=1.0, allowed=2.0).violated
    assert BoundCheck(components=3.0, bags=1.0, allowed=4.0).used == 0.5
    wrong = Bag([[0.0]], [1.0], error=0.0)  # an error that is not that of its components
    assert check_bound(5.0, wrong, wrong).violated


def test_transport_of_components_by_hand() -> None:
    a, b = np.array([[0.0], [1.0]], np.float32), np.array([[1.0], [2.0], [3.0]], np.float32)
    # half at 0 and at 1 against a third at 1, 2 and 3: the means differ by 1.5 and nothing moves back
    assert transport_components(a, b) == pytest.approx(1.5)
