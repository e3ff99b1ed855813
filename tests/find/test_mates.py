"""In a large collection, whose references are a sample, pairs have the same probability as if all were references."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hands import name, store_hands
from membra.compare.local_scaling import NEIGHBOURS, local_scale
from membra.find.inbox import inbox
from membra.find.mates import Side, pairs_of
from membra.find.neighbours import neighbours
from membra.find.search import search
from membra.store.collection import Collection
from membra.store.scales import KEPT, last_known


def side(distances: list[float], own: float | None, met: bool) -> Side:
    """Make the side of a fragment with these distances to its references; `own` is the other's, included if `met`."""
    known = sorted([*distances, own] if met and own is not None else distances)[:KEPT]
    near = np.array([known + [np.inf] * (KEPT - len(known))])
    return Side(local_scale(near[:, :NEIGHBOURS]), near, np.array([met]))


@given(st.lists(st.floats(0.1, 10), max_size=20), st.floats(0.01, 12))
def test_as_if_the_other_were_a_reference(distances: list[float], own: float) -> None:
    plain = np.array([own])
    near = sorted([*distances, own])[:KEPT]
    scale, far = side(distances, own, met=False).with_other(plain)
    assert scale[0] == pytest.approx(local_scale(np.array([near[:NEIGHBOURS]]))[0])
    assert far[0] == pytest.approx(near[-1])
    stays = side(distances, own, met=True)
    scale, far = stays.with_other(plain)
    assert (scale[0], far[0]) == (stays.scales[0], last_known(stays.near.astype(np.float64))[0])


def test_a_reference_and_one_that_is_none_have_met_each_other() -> None:
    """b is a reference of its mate a, but a is no reference of b: their local scales differ like those of strangers."""
    far = np.linspace(1.0, 1.2, KEPT).tolist()
    one, other = side(far, 0.6, met=True), side(far, 0.6, met=False)
    found = pairs_of(0.6 / np.sqrt(one.scales * other.scales), one, other, np.ones((1, 2)), 9000)
    assert abs(np.log(one.scales[0] / other.scales[0])) > 0.1
    assert found.scales[0, 0] == pytest.approx(found.scales[0, 1])
    assert found.far[0, 0] == pytest.approx(found.far[0, 1])
    assert found.distances[0] * np.sqrt(found.scales.prod()) == pytest.approx(0.6)


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """Sixty fragments of twenty hands; a third of the fragments are references."""
    for module in ("store.open_files", "store.writer", "find.mates"):
        monkeypatch.setattr(f"membra.{module}.REFERENCES", 20)
    return store_hands(tmp_path / "C")


def test_search_and_inbox_say_the_same_of_a_pair_either_way(sampled: Collection) -> None:
    with sampled.reading() as state:
        assert len(state.scales().references) == 20
    neighbours(sampled, top=59)
    found = {(pair.a, pair.b): pair.probability for pair in inbox(sampled, top=2000)}
    for one in range(0, 60, 7):
        for hit in search(sampled, name(one), top=59).hits:
            ends = min(name(one), hit.id), max(name(one), hit.id)
            (back,) = (other for other in search(sampled, hit.id, top=59).hits if other.id == name(one))
            assert hit.probability == pytest.approx(back.probability, rel=1e-6)
            if ends in found and found[ends] > 1e-3:  # further pairs between two groups raise its probability
                assert found[ends] >= (hit.probability or 0) * (1 - 1e-6)


def test_mates_are_as_likely_as_where_all_are_references(sampled: Collection, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("store.open_files", "store.writer", "find.mates"):
            patch.setattr(f"membra.{module}.REFERENCES", 2000)
        whole = store_hands(tmp_path / "whole")
        truth = {name(one): search(whole, name(one), top=2).hits for one in range(60)}
    gaps = []
    for one in range(60):
        hits = {hit.id: hit.probability for hit in search(sampled, name(one), top=10).hits}
        gaps += [(hits.get(hit.id) or 0.0) - (hit.probability or 0.0) for hit in truth[name(one)]]
    assert min(gaps) > -0.1
