"""Compute the probability that candidates are mates of a query: reads the features for `probability.py`.

The probability was fitted on small collections with one photograph of each piece. Two things differ in real ones, and
are corrected for each pair (i, j), so that its local scales are what they would be in such a collection:

* Of a large collection the references of the local scales are a sample. If i is a reference and j is not, i is among
  the nearest references of j, and j not among those of i. So the distance of the pair is put among the nearest of the
  side that lacks it.
* A second photograph of i is among the nearest references of i and of each mate of i. Local scales of mates then differ
  as those of strangers do. So copies of either side are left out of the references of both: of i those nearer to it
  than `COPY` of its sixteenth nearest, and nearer than j; of j as many of those that are as far from it as i is
  (docs/decisions/second-photographs.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.local_scaling import CHAMFER, NEIGHBOURS, REFERENCES, local_scale
from membra.find.exact import Query, nearest_rows
from membra.find.probability import Pairs, probabilities
from membra.store.collection import Collection, State
from membra.store.manifest import Entry
from membra.store.rows import Rows, RowSubset
from membra.store.scales import KEPT, Scales, last_known

COPY = 0.6  # of the distance to the sixteenth nearest: nearer references show the same piece
NEARER = 0.9  # of the distance of a pair: nearer references can be copies of one of its sides
ALIKE = 0.1  # difference of logarithms up to which a copy is as far from a mate as the piece itself

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def likely_mates(
    state: State, query: Query, letters: int, entries: Sequence[Entry], distances: Sequence[float]
) -> list[float | None]:
    """Return P(same manuscript) of a query with this number of letters and each of `entries`, at these distances by
    the default method; None for doubtful fragments."""
    if not entries:
        return []
    scales = state.scales()
    numbers = np.array([entry.number for entry in entries], dtype=np.int32)
    scale, near = _scale_of(state.rows, query, scales)
    ones, at = np.ones(len(numbers)), np.searchsorted(scales.numbers, numbers)
    own = Side(scale * ones, np.broadcast_to(near, (len(numbers), len(near))), np.isin(numbers, scales.references))
    by_query = np.full(len(numbers), query.number is not None and bool(np.isin(query.number, scales.references)))
    others = Side(scales.scales[CHAMFER, at], scales.near[CHAMFER, at], by_query)
    counts = np.column_stack([letters * ones, [entry.glyphs for entry in entries]])
    found = probabilities(pairs_of(np.asarray(distances, np.float64), own, others, counts, fragments_in(scales)))
    return [None if entry.doubtful else chance for entry, chance in zip(entries, found.tolist(), strict=True)]


def stored_scales(collection: Collection) -> Scales:
    """Return the local scales of a collection's current state."""
    with collection.reading() as state:
        return state.scales()


def fragments_in(scales: Scales) -> float:
    """Return the number of fragments: of references if these are all fragments that are not doubtful, else of all."""
    return float(len(scales.references) if len(scales.references) < REFERENCES else len(scales.numbers))


@dataclass(frozen=True)
class Side:
    """One side of pairs (m,): its local scale by Chamfer, the distances (m, 16) to its nearest references, ascending
    and infinite beyond the known ones, and whether the other side is one of its references."""

    scales: Floats
    near: NDArray[np.floating[Any]]
    met: NDArray[np.bool_]

    def with_other(self, distances: Floats) -> tuple[Floats, Floats]:
        """Return the local scales (m,) and the distances to the sixteenth nearest (m,), with the other sides, at these
        plain distances, among the references."""
        last = last_known(self.near.astype(np.float64))
        if self.met.all():  # every fragment of a small collection
            return self.scales, last
        nearest = np.column_stack([self.near[:, :NEIGHBOURS], distances]).astype(np.float64)
        count = np.isfinite(self.near).sum(axis=1)
        before = np.where(count == KEPT, self.near[:, -2], np.where(count > 0, last, 0.0))
        far = np.where(count == KEPT, np.minimum(last, np.maximum(before, distances)), np.maximum(before, distances))
        return np.where(self.met, self.scales, local_scale(nearest)), np.where(self.met, last, far)

    def without_copies(self, distances: Floats, own: Counts, others: Counts) -> Floats:
        """Return the local scales (m,) as `with_other` does, but without `own` (m,) copies of this side and `others`
        (m,) copies of the other side among the references."""
        near = np.column_stack([self.near, np.where(self.met, np.inf, distances)]).astype(np.float64)
        near.sort(axis=1)
        of_own = np.arange(near.shape[1]) < own[:, None]
        apart = np.abs(np.log(np.maximum(near, 1e-9) / np.maximum(distances, 1e-9)[:, None]))
        as_far = (apart < ALIKE) & ~of_own
        rank = np.cumsum(as_far, axis=1)  # the first of them stands for the other side, and stays
        left_out = of_own | (as_far & (rank > 1) & (rank <= 1 + others[:, None]))
        return np.where(self.met & ~left_out.any(axis=1), self.scales, local_scale(np.where(left_out, np.inf, near)))

    def of(self, some: NDArray[np.bool_]) -> "Side":
        """Return this side of some of the pairs (m,)."""
        return Side(self.scales[some], self.near[some], self.met[some])


def pairs_of(distances: Floats, one: Side, other: Side, letters: Floats, fragments: float) -> Pairs:
    """Return the features of pairs at `distances` (m,) by the default method, as they would be if all fragments were
    references and each piece had one photograph."""
    plain = distances * np.sqrt(one.scales * other.scales)
    sides = [side.with_other(plain) for side in (one, other)]
    scales, far = (np.column_stack([side[part] for side in sides]) for part in (0, 1))
    first, second = (count_copies(side.near, far[:, at], plain) for at, side in enumerate((one, other)))
    some = (first > 0) | (second > 0)  # few pairs: the rest needs no look at all references
    if some.any():
        for at, (side, own, others) in enumerate(((one, first, second), (other, second, first))):
            scales[some, at] = side.of(some).without_copies(plain[some], own[some], others[some])
    return Pairs(plain / np.sqrt(scales[:, 0] * scales[:, 1]), scales, far, letters, fragments)


def count_copies(near: NDArray[np.floating[Any]], far: Floats, distances: Floats) -> Counts:
    """Return how many of the nearest references (m, n) are photographs of the same piece, where the other side of the
    pair, at `distances` (m,), is not one itself; `far` (m,) is the distance of the sixteenth nearest.

    >>> count_copies(np.array([[0.4, 0.7, 1.0], [0.7, 0.7, 1.0]]), np.array([1.0, 1.0]), np.array([0.7, 0.7])).tolist()
    [1, 0]
    """
    return np.asarray((near < np.minimum(COPY * far, NEARER * distances)[:, None]).sum(axis=1), np.int64)


def _scale_of(rows: Rows, query: Query, scales: Scales) -> tuple[float, Floats]:
    """Return a query's local scale by Chamfer, and its distances (16,) to its nearest references."""
    if query.number is not None:
        at = np.searchsorted(scales.numbers, query.number)
        return float(scales.scales[CHAMFER, at]), scales.near[CHAMFER, at].astype(np.float64)
    near = np.full(KEPT, np.inf)
    if not len(scales.references):
        return 1.0, near
    among = RowSubset(rows, rows.rows_of(scales.references))
    found = nearest_rows(among, [query], "bob-chamfer", KEPT)[0].distances
    near[: len(found)] = found
    own = query.scales[CHAMFER] if query.scales is not None else local_scale(near[None, :NEIGHBOURS])[0]
    return float(own), near
