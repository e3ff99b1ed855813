"""How likely the candidates of a query are its mates: what `probability.py` asks of a pair, read from a collection."""

from collections.abc import Sequence

import numpy as np

from membra.compare.local_scaling import CHAMFER, NEIGHBOURS, REFERENCES, local_scale
from membra.find.exact import Query, nearest_rows
from membra.find.probability import Pairs, probabilities
from membra.store.collection import Collection, State
from membra.store.manifest import Entry
from membra.store.rows import Rows, RowSubset
from membra.store.scales import KEPT, Scales, last_known


def likely_mates(
    state: State, query: Query, letters: int, entries: Sequence[Entry], distances: Sequence[float]
) -> list[float | None]:
    """P(same manuscript) of a query with so many letters, and each of `entries` at these distances by the default
    method; None for what may be no writing."""
    if not entries:
        return []
    scales = state.scales()
    numbers = np.array([entry.number for entry in entries], dtype=np.int32)
    scale, far = standing(state.rows, query, scales)
    ones = np.ones(len(numbers))
    others = scales.scales[CHAMFER, np.searchsorted(scales.numbers, numbers)]
    pairs = Pairs(
        np.asarray(distances, np.float64),
        np.column_stack([scale * ones, others]),
        np.column_stack([far * ones, scales.far(numbers)]),
        np.column_stack([letters * ones, [entry.glyphs for entry in entries]]),
        fragments_in(scales),
    )
    found = probabilities(pairs).tolist()
    return [None if entry.doubtful else chance for entry, chance in zip(entries, found, strict=True)]


def stored_scales(collection: Collection) -> Scales:
    """The local scales of a collection as it is now."""
    with collection.reading() as state:
        return state.scales()


def fragments_in(scales: Scales) -> float:
    """How many fragments there are; doubtful ones count only where references are a sample, which does not say."""
    return float(len(scales.references) if len(scales.references) < REFERENCES else len(scales.numbers))


def standing(rows: Rows, query: Query, scales: Scales) -> tuple[float, float]:
    """A query's local scale by Chamfer, and how far it stands from the last of its nearest references."""
    if query.number is not None:
        at = np.searchsorted(scales.numbers, query.number)
        return float(scales.scales[CHAMFER, at]), float(scales.far(scales.numbers[[at]])[0])
    if not len(scales.references):
        return 1.0, 1.0
    among = RowSubset(rows, rows.rows_of(scales.references))
    near = np.array(nearest_rows(among, [query], "bob-chamfer", KEPT)[0].distances)
    own = query.scales[CHAMFER] if query.scales is not None else local_scale(near[None, :NEIGHBOURS])[0]
    return float(own), float(last_known(near[None])[0])
