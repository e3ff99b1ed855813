"""Sides of a leaf are found by shelfmark and leaf within one library."""

from pathlib import Path

from membra.sources.fragment import Fragment
from membra.store.collection import Entry
from membra.store.leaf import leaves_of


def entry(id: str, library: str, **columns: str) -> Entry:
    return Entry(Fragment(id, Path(id), {"library": library, "shelfmark": "MS 1", **columns}), "", "", 1)


def test_one_shelfmark_in_two_libraries_is_two_leaves() -> None:
    found = leaves_of(
        [
            entry("a", "Oxford", leaf="7"),
            entry("b", "oxford ", leaf="7"),
            entry("c", "Paris", leaf="7"),
            entry("d", "Oxford", side="recto"),
            entry("e", "Paris", side="recto"),
            entry("f", "Paris", side="verso"),
        ]
    )
    assert found == {"a": ("a", "b"), "b": ("a", "b"), "e": ("e", "f"), "f": ("e", "f")}


def test_a_side_without_a_library_is_of_the_only_one_there_is() -> None:
    sides = [entry("a", "Oxford", leaf="7"), entry("b", "", leaf="7")]
    assert leaves_of(sides) == {"a": ("a", "b"), "b": ("a", "b")}
    assert leaves_of([*sides, entry("c", "Paris", leaf="7")]) == {}, "of which of the two is not known"
