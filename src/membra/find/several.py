"""Search several collections with one query; each candidate in the merged list names its collection."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from membra.compare.methods import METHODS, named
from membra.errors import Incompatible, Invalid
from membra.find.codes import own_scales
from membra.find.exact import nearest_rows
from membra.find.lookup import entry_of
from membra.find.search import Hit, Ranking, excluded, resolve
from membra.store import manifest
from membra.store.collection import Collection, State


def search_in(
    collections: Sequence[Collection],
    query: str | Path,
    *,
    top: int = 20,
    method: str = "default",
    exclude_same: str | None = None,
) -> Ranking:
    """Rank the fragments of several collections of one recipe for one query, exactly, in one list.

    A score is d / sqrt(r_q r_j): the local scale r_j of a candidate is that in its own collection, and r_q of the query
    is the same for all collections, the smallest that it has in any. For a method without local scales the list equals
    that of the merged collection.

    Parameters
    ----------
    collections : sequence of Collection
        Described by one recipe and one encoder.
    query : str or path
        The id of a fragment or the path of its image, in the first of the collections that has it; otherwise its
        shelfmark, likewise; or the path of another image.
    top : int
        Number of candidates.
    method : str
        A method that reads mapped shards, or `default`: the recipe's own.
    exclude_same : str, optional
        A column; candidates with the query's own value in it are left out.

    Returns
    -------
    Ranking
        Its hits have the path of their collection in `collection`.

    Raises
    ------
    MembraError
        If the recipes differ, the method needs all descriptions, or the query is neither fragment nor image.
    """
    if not collections:
        raise Invalid("no collection was given; give at least one")
    first = collections[0]
    folders = [collection.path.resolve() for collection in collections]
    for index, folder in enumerate(folders):
        if folder in folders[:index]:
            raise Invalid("{source} is the same collection; name another", source=collections[index].path)
    for other in collections[1:]:
        if other.recipe != first.recipe:
            raise Incompatible(
                "{collection} was described by another recipe or encoder than {first}; their distances cannot be "
                "compared: index its images again with that encoder",
                collection=other.path,
                first=first.path,
            )
    by = named(method, first.recipe.method)
    if not by.mapped:
        able = [one.name for one in METHODS if one.mapped]
        raise Invalid(
            "several collections cannot be searched with `{method}`, only with {methods}", method=by.name, methods=able
        )
    with ExitStack() as stack:
        states = [stack.enter_context(collection.reading()) for collection in collections]
        home = _home(states, query)
        resolved = resolve(collections[home], states[home], query)
        queries = [resolved.query if at == home else replace(resolved.query, number=None) for at in range(len(states))]
        scales = [state.scales() if by.parts else None for state in states]
        if by.parts:
            measured = [
                own_scales(state.rows, one, scale)
                for state, one, scale in zip(states, queries, scales, strict=True)
                if scale is not None and len(scale.numbers)
            ]
            common = np.min(measured, axis=0) if measured else np.ones(2)
            queries = [replace(one, scales=common) for one in queries]
        found: list[Hit] = []
        for collection, state, one, scale in zip(collections, states, queries, scales, strict=True):
            numbers = excluded(state.database, resolved.entry, exclude_same)
            among = state.rows.alive & ~np.isin(state.rows.numbers, numbers)
            near = nearest_rows(state.rows, [one], by.name, top, scales=scale, among=[among])[0]
            own = [int(state.rows.numbers[row]) for row in near.indices]
            entries = manifest.entries_of(state.database, own)
            for number, distance in zip(own, near.distances, strict=True):
                found.append(replace(Hit.of(0, entries[number], distance), collection=str(collection.path)))
    best = sorted(found, key=lambda hit: hit.distance)[:top]  # a stable sort: ties in the order of the collections
    hits = [replace(hit, rank=rank) for rank, hit in enumerate(best, start=1)]
    return Ranking(str(query), by.name, hits, piece=resolved.piece)


def _home(states: Sequence[State], query: str | Path) -> int:
    """Return the index of the collection that has the query, ids and paths before shelfmarks; 0 if none has it."""
    for by_shelfmark in (False, True):
        for index, state in enumerate(states):
            if entry_of(state.database, query, by_shelfmark=by_shelfmark):
                return index
    return 0
