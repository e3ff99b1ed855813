"""Filters and order of candidates: keep only, leave out, size ranges, sort."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from membra.errors import Invalid
from membra.show.facts import SIZES, number_of
from membra.store.annotations import NO_MARKS, Marks
from membra.store.collection import Entry
from membra.store.verdicts import same_person

KNOWN, DECIDED = "known", "decided"  # other candidates that can be left out
TAG, BOOKMARKED = "tag:", "bookmarked"  # `tag:TAG`; `bookmarked`: by any person; `bookmarked:NAME`: by this one
SAME, IS = "same:", "is:"  # `same:COLUMN`: the query's value; `is:COLUMN:VALUE`: that value
DISTANCE = "distance"  # sort by distance, the order of the search
# Columns with a different text for each fragment, or unrelated to the manuscript: no filters for them.
UNSORTED = frozenset(
    {"join", "letters", "side", "label", "title", "shelfmark", "photograph", "canvas", "manifest", "service", *SIZES}
)
MAX_VALUES = 40  # offered per column

_TERMS = "same:COLUMN (the query's own value), is:COLUMN:VALUE, tag:TAG, bookmarked, bookmarked:NAME"
Hide = Annotated[list[str], Query(max_length=40, description=f"leave out matches of any: {_TERMS}, known, decided")]
Keep = Annotated[list[str], Query(max_length=40, description=f"keep only matches of all: {_TERMS}")]
Marked = Annotated[
    list[str], Query(max_length=40, description="keep only matches of all: tag:TAG, bookmarked, bookmarked:NAME")
]
Millimetres = Annotated[
    str, Query(max_length=20, description="limit in millimetres; fragments without a size are then left out")
]


@dataclass(frozen=True)
class Filters:
    """The filters of a page of candidates, as in its URL."""

    hide: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    height_from: str = ""
    height_to: str = ""
    width_from: str = ""
    width_to: str = ""
    sort: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of a link to a page with the same filters."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    def passes(self, columns: Mapping[str, str], own: Mapping[str, str], marks: Marks = NO_MARKS) -> bool:
        """Return whether a candidate with these columns and marks passes, for a query with `own` columns."""
        if any(_matches(term, columns, own, marks) for term in self.hide if term not in (KNOWN, DECIDED)):
            return False
        if not all(_matches(term, columns, own, marks) for term in self.keep):
            return False
        limits = ((SIZES[0], self.height_from, self.height_to), (SIZES[1], self.width_from, self.width_to))
        return all(_within(columns.get(name, ""), low, high) for name, low, high in limits)


def filters_of(
    hide: Hide = [],  # noqa: B006
    keep: Keep = [],  # noqa: B006
    height_from: Millimetres = "",
    height_to: Millimetres = "",
    width_from: Millimetres = "",
    width_to: Millimetres = "",
    sort: Annotated[str, Query(max_length=200, description="order: distance (the default), name, or a column")] = "",
) -> Filters:
    """Return the filters of a request; forms also send empty ones."""
    for limit in (height_from, height_to, width_from, width_to):
        if limit and number_of(limit) is None:
            raise Invalid("{text} is not a size in millimetres; give a number", text=repr(limit[:40]))
    out, only = (tuple(term for term in terms if term) for terms in (hide, keep))
    return Filters(out, only, height_from, height_to, width_from, width_to, sort)


Filtered = Annotated[Filters, Depends(filters_of)]


def choices_of(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return the columns by which a collection can be filtered, each with its values, most frequent first."""
    counts: dict[str, dict[str, int]] = {}
    for entry in entries:
        for name, value in entry.fragment.columns.items():
            if value and name not in UNSORTED:
                values = counts.setdefault(name, {})
                values[value] = values.get(value, 0) + 1
    # A column in which nearly every fragment differs is useless as a filter.
    few = {name: values for name, values in counts.items() if 1 < len(values) <= max(MAX_VALUES, len(entries) // 20)}
    return {name: sorted(values, key=lambda v: (-values[v], v))[:MAX_VALUES] for name, values in few.items()}


def is_marked(term: str, marks: Marks) -> bool:
    """Return whether marks match `tag:TAG`, `bookmarked` or `bookmarked:NAME`."""
    if term.startswith(TAG):
        return unicodedata.normalize("NFC", term.removeprefix(TAG)) in marks.tags
    if term == BOOKMARKED:
        return bool(marks.bookmarked)
    if term.startswith(f"{BOOKMARKED}:"):
        return any(same_person(name, term.removeprefix(f"{BOOKMARKED}:")) for name in marks.bookmarked)
    raise Invalid("there is no filter {term}; there are tag:TAG, bookmarked and bookmarked:NAME", term=repr(term[:60]))


def _matches(term: str, columns: Mapping[str, str], own: Mapping[str, str], marks: Marks) -> bool:
    if term.startswith((TAG, BOOKMARKED)):
        return is_marked(term, marks)
    if term.startswith(SAME):
        name = term.removeprefix(SAME)
        return bool(own.get(name)) and columns.get(name) == own[name]
    if term.startswith(IS):
        name, _, value = term.removeprefix(IS).partition(":")
        return bool(value) and columns.get(name) == value
    raise Invalid(
        "there is no filter {term}; there are known, decided, same:COLUMN, is:COLUMN:VALUE, tag:TAG and bookmarked",
        term=repr(term[:60]),
    )


def _within(cell: str, low: str, high: str) -> bool:
    if not low and not high:
        return True
    size, least, most = number_of(cell), number_of(low), number_of(high)
    return size is not None and (least is None or size >= least) and (most is None or size <= most)
