"""An open collection for pages and pictures, each part of which is read on first use and cached.

Only this module of `show` reads descriptions. Of a large collection, only the fragments that are displayed are read.
"""

import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from membra.compare.local_scaling import CHAMFER
from membra.compare.methods import named
from membra.compare.threads import processors
from membra.describe.encoder import Encoder
from membra.describe.recipe import Description
from membra.errors import NotFound, Refused
from membra.find import exact
from membra.find.agreement import Agreement, agreements
from membra.find.search import Ranking, search, search_together
from membra.store import manifest
from membra.store.collection import Collection, Entry, State
from membra.store.leaf import leaves_of
from membra.store.naming import full_name

NEAR = 120  # candidates of a first search; a search for more takes many times as long
SMALL = 2000  # fragments up to which a rank or a probability is searched among all candidates
_KEPT = 64  # cached rankings and descriptions: users go back and forth between a few


_PARTS = re.compile(r"[0-9]+|[^0-9]+")

T = TypeVar("T")


class _Once(Generic[T]):
    """A part of a holding that is computed once, on first access, also with concurrent readers."""

    def __init__(self, make: Callable[["Holding"], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __get__(self, holding: "Holding", _: type) -> T:
        parts: dict[object, T] = holding.parts  # type: ignore[assignment]
        if self not in parts:  # reading an existing part never waits for the computation of another
            with holding.lock:
                if self not in parts:
                    parts[self] = self.make(holding)
        return parts[self]


class Holding:
    """One state of a collection. When the collection changes, create a new one."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.lock = threading.RLock()
        self.parts: dict[object, object] = {}
        self._recent: OrderedDict[tuple[object, ...], object] = OrderedDict()
        self._recent_lock = threading.Lock()
        # A search uses every processor; more searches at once would only delay all of them.
        self._searching = threading.Semaphore(processors())

    @_Once
    def entries(self) -> list[Entry]:
        """Every fragment, described or rejected, in shelf order."""
        return sorted(self.collection.entries(), key=lambda entry: natural(name_of(entry)))

    @_Once
    def names(self) -> dict[str, str]:
        """The name of each fragment for readers, by id."""
        return {entry.fragment.id: name_of(entry) for entry in self.entries}

    @_Once
    def by_id(self) -> dict[str, Entry]:
        return {entry.fragment.id: entry for entry in self.entries}

    @_Once
    def indices(self) -> dict[str, int]:
        """The index of each fragment in `entries`."""
        return {entry.fragment.id: index for index, entry in enumerate(self.entries)}

    @_Once
    def pieces(self) -> dict[str, list[Entry]]:
        """The pieces of each photograph with several, in reading order, by the photograph's id."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry.fragment.piece:
                found.setdefault(entry.fragment.photograph, []).append(entry)
        return {id: sorted(pieces, key=lambda entry: entry.fragment.piece) for id, pieces in found.items()}

    @_Once
    def leaves(self) -> dict[str, tuple[str, ...]]:
        """The ids of all sides of a leaf, by the id of each side; single sides are left out."""
        return leaves_of(self.entries)

    def entry(self, id: str) -> Entry:
        """Return the fragment of this id; raise `MembraError` if there is none."""
        try:
            return self.by_id[id]
        except KeyError:
            raise NotFound(
                "{id} is not in {collection}; run `membra list` to see its fragments",
                id=id,
                collection=self.collection.path.name,
            ) from None

    def description(self, id: str) -> Description:
        """Return the description of a fragment; raise `MembraError` with the reason if it was rejected."""
        entry = self.entry(id)
        if entry.refused:
            raise Refused("{id} is in the collection but was not described: {why}", id=id, why=entry.refused)
        return self.kept(("description", id), lambda: self.collection.description(id))

    def piece_outline(self, id: str) -> NDArray[np.int32]:
        """Return the outline (k, 2) of a piece in a photograph of several; empty otherwise, or if it was rejected."""
        entry = self.entry(id)
        if entry.refused or not entry.fragment.piece:
            return np.zeros((0, 2), np.int32)
        return self.description(id).outline

    @_Once
    def means(self) -> tuple[list[str], NDArray[np.float64]]:
        """The ids of the described fragments, and the mean embedding (n, d) of each."""
        with self.collection.reading() as state:
            by_number = {entry.number: entry.fragment.id for entry in self.entries}
            rows = np.flatnonzero(state.rows.alive)
            known = [(row, by_number[number]) for row in rows if (number := int(state.rows.numbers[row])) in by_number]
            indices = np.array([row for row, _ in known], dtype=np.int64)
            return [id for _, id in known], np.asarray(state.rows.means(indices), np.float64)

    @_Once
    def encoder(self) -> Encoder:
        return self.collection.encoder()

    @_Once
    def mapped(self) -> bool:
        """True once shards are mapped and checked and local scales read: once, also for concurrent first searches."""
        with self.collection.reading() as state:
            if named(self.collection.recipe.method).parts:
                state.scales()
        return True

    def ranking(self, query: str | Path, top: int) -> Ranking:
        """Return the `top` nearest to a fragment's id or to an image by the collection's method."""

        def find() -> Ranking:
            assert self.mapped
            with self._searching:
                return search(self.collection, query, top=top)

        return self.kept(("ranking", str(query), top), find)

    def together(self, ids: tuple[str, ...], top: int) -> Ranking:
        """Return the `top` nearest to several fragments of one manuscript, combined into one query."""

        def find() -> Ranking:
            assert self.mapped
            with self._searching:
                return search_together(self.collection, ids, top=top)

        return self.kept(("together", ids, top), find)

    def apart(self, query: str | Path, id: str) -> tuple[float, int]:
        """Return the distance of `id` from the query, and its rank among the candidates, from 1.

        In a large collection the rank is 0 beyond the first `NEAR`, since it would take a comparison with all. Infinite
        and 0 if the method does not compare the two.
        """
        everything = len(self.entries)
        for top in (min(NEAR, everything), everything):
            if top > NEAR and everything > SMALL and str(query) in self.by_id:
                return self._distance(str(query), id), 0
            for hit in self.ranking(query, top).hits:
                if hit.id == id:
                    return hit.distance, hit.rank
        return float("inf"), 0

    def probability(self, query: str | Path, id: str) -> float | None:
        """Return the probability that `id` is of the query's manuscript; None if unknown, or if it is beyond the first
        `NEAR` candidates of a large collection."""
        everything = len(self.entries)
        for top in {min(NEAR, everything), everything if everything <= SMALL else min(NEAR, everything)}:
            for hit in self.ranking(query, top).hits:
                if hit.id == id:
                    return hit.probability
        return None

    def agreements(self, query: str | Path, description: Description, ids: Sequence[str]) -> list[Agreement | None]:
        """Return for each fragment the agreement of the query's kinds of letter with it, given its description."""
        if named(self.collection.recipe.method).parts != (CHAMFER,) or description.doubtful:
            return [None] * len(ids)

        def find() -> list[Agreement | None]:
            with self.collection.reading() as state:
                there = _described_in(state, [*ids, str(query)])
                own = there.get(str(query))
                entries = [there[id] for id in ids if id in there]
                found = agreements(state, description.bag, entries, number=own.number if own else None)
                said = {entry.fragment.id: one for entry, one in zip(entries, found, strict=True)}
                return [said.get(id) for id in ids]

        return self.kept(("agreements", str(query), tuple(ids)), find)

    def _distance(self, a: str, b: str) -> float:
        """Return the distance of one pair, as the search computes it."""
        method = named(self.collection.recipe.method)
        if not method.mapped:
            hits = self.ranking(a, len(self.entries)).hits
            return next((hit.distance for hit in hits if hit.id == b), float("inf"))
        with self.collection.reading() as state:
            there = _described_in(state, [a, b])
            if len(there) < 2:
                return float("inf")
            row = state.rows.rows_of([there[a].number])
            query = exact.Query(state.rows.bag(int(row[0])), state.rows.means(row)[0], there[a].number)
            scales = state.scales() if method.parts else None
            only = state.rows.numbers == there[b].number
            found = exact.nearest_rows(state.rows, [query], method.name, 1, scales=scales, among=[only])[0].distances
            return float(found[0]) if len(found) else float("inf")

    def kept(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the cached value of this key, or compute and cache it; the least recently used value is evicted."""
        with self._recent_lock:
            if key in self._recent:
                self._recent.move_to_end(key)
                return cast(T, self._recent[key])
        outcome = make()
        with self._recent_lock:
            self._recent[key] = outcome
            if len(self._recent) > _KEPT:
                self._recent.popitem(last=False)
        return outcome


def _described_in(state: State, ids: Iterable[str]) -> dict[str, Entry]:
    """Return those of `ids` that are described in `state`, with their entries there. After a concurrent write, the
    holding's own entries are of an older state: a fragment that was described again has another number."""
    found = {id: manifest.entry_named(state.database, id) for id in ids}
    return {id: entry for id, entry in found.items() if entry and entry.fragment.id == id and not entry.refused}


def name_of(entry: Entry) -> str:
    """Return a fragment's name for readers: its shelfmark (with side or label) if its source has one, else its id."""
    named, piece = full_name(entry.fragment.columns), entry.fragment.piece
    # Pieces of one photograph share its shelfmark; their ids have the number already.
    return (f"{named} #{piece}" if piece else named) if named else entry.fragment.id


@lru_cache(maxsize=200_000)  # a collection that is being indexed is sorted repeatedly
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts shelfmarks in shelf order: numbers by value, letters ignoring case.

    >>> sorted(["T-S 8C10.2", "T-S 8C2.11", "T-S 8C2.3"], key=natural)
    ['T-S 8C2.3', 'T-S 8C2.11', 'T-S 8C10.2']
    """
    text = name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
    parts = _PARTS.findall(text)
    # Only the first 18 digits of a number count: no shelfmark has more, and longer numbers are slow to parse.
    return tuple((0, int(part[:18]), part) if part[0] in "0123456789" else (1, 0, part) for part in parts)
