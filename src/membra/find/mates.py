"""Compute the probability that candidates are mates of a query: reads the features for `probability.py`.

The probability was fitted on collections in which every fragment is a reference of the local scales, so that each side
of a pair has been compared with the other. In a large collection the references are a sample. If only one of two mates
is a reference, it is among the nearest of the other, but not vice versa: their local scales differ like those of
strangers. Therefore a side that is not a reference is treated as one: the distance of the two is inserted into the
other side's nearest distances, as if all fragments were references.
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

Floats = NDArray[np.float64]


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
        """Return the local scales (m,) and the distances to the sixteenth nearest (m,), as if the other sides, at these
        plain distances, were among the references."""
        last = last_known(self.near.astype(np.float64))
        if self.met.all():  # every fragment of a small collection
            return self.scales, last
        nearest = np.column_stack([self.near[:, :NEIGHBOURS], distances]).astype(np.float64)
        count = np.isfinite(self.near).sum(axis=1)
        before = np.where(count == KEPT, self.near[:, -2], np.where(count > 0, last, 0.0))
        far = np.where(count == KEPT, np.minimum(last, np.maximum(before, distances)), np.maximum(before, distances))
        return np.where(self.met, self.scales, local_scale(nearest)), np.where(self.met, last, far)


def pairs_of(distances: Floats, one: Side, other: Side, letters: Floats, fragments: float) -> Pairs:
    """Return the features of pairs at these distances (m,) by the default method, as if all were references."""
    plain = distances * np.sqrt(one.scales * other.scales)
    sides = [side.with_other(plain) for side in (one, other)]
    scales, far = (np.column_stack([side[part] for side in sides]) for part in (0, 1))
    return Pairs(plain / np.sqrt(scales[:, 0] * scales[:, 1]), scales, far, letters, fragments)


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
