"""A collection as pages and pictures need it: opened once, each part read when it is first asked for.

This is the one place in `show` that reads descriptions; whoever needs one asks here.
"""

import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from membra.describe.encoder import Encoder
from membra.describe.recipe import Description
from membra.errors import MembraError
from membra.find.collection import Collection, Entry
from membra.find.search import Ranking, search

CENTRED = ("fused", "bob-local")  # methods that see letters from the collection's middle
NEAR = 500  # candidates that are looked at first; whoever asks for more waits for all
_KEPT = 32  # rankings that are kept: a person goes back and forth between a few


T = TypeVar("T")


class _Once(Generic[T]):
    """A part of a holding that is made when first asked for, once, whoever else asks meanwhile."""

    def __init__(self, make: Callable[["Holding"], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __get__(self, holding: "Holding", _: type) -> T:
        made: dict[object, T] = holding.made  # type: ignore[assignment]
        if self not in made:  # what is there is never waited for, however long another part takes
            with holding.lock:
                if self not in made:
                    made[self] = self.make(holding)
        return made[self]


class Holding:
    """One state of a collection. When the collection changes, make another."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.lock = threading.RLock()
        self.made: dict[object, object] = {}
        self._rankings: OrderedDict[tuple[str, int], Ranking] = OrderedDict()

    @_Once
    def entries(self) -> list[Entry]:
        """Every fragment, described or refused, in the order in which shelves are read."""
        return sorted(self.collection.entries(), key=lambda entry: natural(name_of(entry)))

    @_Once
    def by_id(self) -> dict[str, Entry]:
        return {entry.fragment.id: entry for entry in self.entries}

    @_Once
    def places(self) -> dict[str, int]:
        """Where each fragment stands in `entries`."""
        return {entry.fragment.id: place for place, entry in enumerate(self.entries)}

    def entry(self, id: str) -> Entry:
        """The fragment of this id; `MembraError` where there is none."""
        try:
            return self.by_id[id]
        except KeyError:
            raise MembraError(f"{id} is not in {self.collection.path.name}; `membra list` shows what is") from None

    def description(self, id: str) -> Description:
        """What is known of one fragment; `MembraError` with the reason where it was refused."""
        entry = self.entry(id)
        if entry.refused:
            raise MembraError(f"{id} is in the collection but was not described: {entry.refused}")
        return self._descriptions[id]

    @_Once
    def centre(self) -> NDArray[np.float64]:
        """(d,) the mean embedding of the collection's fragments, from which the default method looks."""
        means = self.means[1]
        return np.asarray(means.mean(axis=0)) if len(means) else np.zeros(1)

    @_Once
    def means(self) -> tuple[list[str], NDArray[np.float64]]:
        """The described fragments' ids, and the mean embedding (n, d) of each."""
        held = self._descriptions
        return list(held), np.array([d.embeddings.mean(axis=0, dtype=np.float64) for d in held.values()])

    @_Once
    def encoder(self) -> Encoder:
        return self.collection.encoder()

    def ranking(self, query: str | Path, top: int) -> Ranking:
        """The `top` nearest by the collection's own method to a fragment's id or to an image."""
        key = (str(query), top)
        with self.lock:
            if key in self._rankings:
                self._rankings.move_to_end(key)
                return self._rankings[key]
        found = search(self.collection, query, top=top)
        with self.lock:
            self._rankings[key] = found
            if len(self._rankings) > _KEPT:
                self._rankings.popitem(last=False)
        return found

    def apart(self, query: str | Path, id: str) -> tuple[float, int]:
        """The distance of `id` from the query, and its place among the candidates; infinite and 0 where it is none."""
        for top in (min(NEAR, len(self.entries)), len(self.entries)):
            for hit in self.ranking(query, top).hits:
                if hit.id == id:
                    return hit.distance, hit.rank
        return float("inf"), 0

    @_Once
    def _descriptions(self) -> dict[str, Description]:
        entries, found = self.collection.described()
        return {entry.fragment.id: one for entry, one in zip(entries, found, strict=True)}


def name_of(entry: Entry) -> str:
    """What a person calls a fragment: its shelfmark (and side) where a CSV gave one, else its id."""
    columns = entry.fragment.columns
    named = " ".join(filter(None, (columns.get("shelfmark", ""), columns.get("side", ""))))
    return named or entry.fragment.id


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that puts shelfmarks as a shelf has them: numbers by size, letters without regard to case.

    >>> sorted(["T-S 8C10.2", "T-S 8C2.11", "T-S 8C2.3"], key=natural)
    ['T-S 8C2.3', 'T-S 8C2.11', 'T-S 8C10.2']
    """
    text = unicodedata.normalize("NFC", name).casefold()
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    # Numbers of more digits than any shelfmark has would cost time to read; the first 18 decide.
    return tuple((0, int(part[:18]), part) if part[0] in "0123456789" else (1, 0, part) for part in parts)
