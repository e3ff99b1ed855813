"""In a large collection, whose references are a sample, pairs have the same probability as if all were references."""

from dataclasses import replace
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
from membra.find.probability import Pairs, probabilities
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
    none, unmet, met = np.array([0]), side(distances, own, met=False), side(distances, own, met=True)
    scale, far = unmet.with_other(plain)
    assert scale[0] == pytest.approx(local_scale(np.array([near[:NEIGHBOURS]]))[0])
    assert far[0] == pytest.approx(near[-1])
    scale, far = met.with_other(plain)
    assert (scale[0], far[0]) == (met.scales[0], last_known(met.near.astype(np.float64))[0])
    for one in (unmet, met):  # where there are no copies, those of the rest are the same
        assert one.without_copies(plain, none, none)[0] == pytest.approx(one.with_other(plain)[0][0])


def test_a_reference_and_one_that_is_none_have_met_each_other() -> None:
    """b is a reference of its mate a, but a is no reference of b: their local scales differ like those of strangers."""
    far = np.linspace(1.0, 1.2, KEPT).tolist()
    one, other = side(far, 0.6, met=True), side(far, 0.6, met=False)
    found = pairs_of(0.6 / np.sqrt(one.scales * other.scales), one, other, np.ones((1, 2)), 9000)
    assert abs(np.log(one.scales[0] / other.scales[0])) > 0.1
    assert found.scales[0, 0] == pytest.approx(found.scales[0, 1])
    assert found.far[0, 0] == pytest.approx(found.far[0, 1])
    assert found.distances[0] * np.sqrt(found.scales.prod()) == pytest.approx(0.6)


def test_second_photographs_change_nothing_between_mates() -> None:
    """a and b are mates at 0.75; a second photograph of a, at 0.5 from it, is among the nearest of both."""
    strangers = np.linspace(1.0, 1.2, KEPT).tolist()
    alone = pairs_with(strangers, 0.75, [], [])
    with_copy = pairs_with(strangers, 0.75, [0.5], [0.76])
    assert probabilities(with_copy)[0] == pytest.approx(probabilities(alone)[0], abs=0.01)
    two_copies = pairs_with(strangers, 0.75, [0.5, 0.52], [0.74, 0.77])
    assert probabilities(two_copies)[0] == pytest.approx(probabilities(alone)[0], abs=0.01)
    assert probabilities(alone)[0] > 0.9
    uncorrected = replace(with_copy, scales=np.array([[np.mean([0.5, 0.75, 1.0]), np.mean([0.75, 0.76, 1.0])]]))
    assert probabilities(uncorrected)[0] < probabilities(alone)[0] - 0.3  # it is the correction that does it


def test_a_nearer_mate_is_no_copy() -> None:
    """Mates that differ by as much as mates do stay references of each other."""
    strangers = np.linspace(1.0, 1.2, KEPT).tolist()
    found = pairs_with(strangers, 0.75, [0.68], [0.75])
    assert found.scales[0].tolist() == pytest.approx([np.mean([0.68, 0.75, 1.0]), np.mean([0.75, 0.75, 1.0])])


def test_two_photographs_of_one_piece_are_likely_with_a_third() -> None:
    strangers = np.linspace(1.0, 1.2, KEPT).tolist()
    assert probabilities(pairs_with(strangers, 0.5, [0.5], [0.5]))[0] > 0.9


def pairs_with(strangers: list[float], own: float, near_one: list[float], near_other: list[float]) -> Pairs:
    """A pair of fragments of forty letters at the distance `own`, with these references beside the same strangers."""
    one, other = (side(sorted([*near, *strangers])[:KEPT], own, met=True) for near in (near_one, near_other))
    return pairs_of(own / np.sqrt(one.scales * other.scales), one, other, np.full((1, 2), 40.0), 200)


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
