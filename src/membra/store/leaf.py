"""Group fragments that are sides of one leaf according to the catalogue."""

from collections.abc import Iterable

from membra.store.manifest import Entry
from membra.store.naming import column_key


def leaves_of(entries: Iterable[Entry]) -> dict[str, tuple[str, ...]]:
    """Map each fragment that is one of several sides of a leaf to all sides of that leaf, itself included.

    Fragments are of one leaf if they have the same `leaf` and `shelfmark`; or, if the catalogue does not number leaves,
    the same `shelfmark` with sides that all differ (recto and verso). Fragments in two libraries are never of one leaf.
    Pieces on one photograph are never sides.
    """
    by_leaf: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        columns = entry.fragment.columns
        shelfmark, leaf = columns.get("shelfmark", ""), columns.get("leaf", "")
        if not entry.fragment.piece and (leaf or (shelfmark and columns.get("side"))):
            by_leaf.setdefault((shelfmark, leaf), []).append(entry)
    found: dict[str, tuple[str, ...]] = {}
    for (_, leaf), everywhere in by_leaf.items():
        for sides in _by_library(everywhere):
            seen = [side.fragment.columns.get("side", "") for side in sides]
            if len(sides) > 1 and (leaf or len(set(seen)) == len(seen)):
                ids = tuple(side.fragment.id for side in sides)
                found |= dict.fromkeys(ids, ids)
    return found


def _by_library(sides: list[Entry]) -> list[list[Entry]]:
    """Group sides by library. Those without one belong to the only library there is; with several, to none of them."""
    found: dict[str, list[Entry]] = {}
    for side in sides:
        found.setdefault(column_key(side.fragment.columns, "library"), []).append(side)
    return list(found.values()) if len(found.keys() - {""}) > 1 else [sides]
