"""Catalogue data of a fragment for readers: column names, sizes, and the short facts of a card."""

import re
from collections.abc import Mapping

from membra.messages import gettext_noop

# The columns that membra knows, with their names for readers, in the order of display.
LABELS = {
    "shelfmark": gettext_noop("shelfmark"),
    "library": gettext_noop("library"),
    "collection": gettext_noop("collection"),
    "side": gettext_noop("side"),
    "leaf": gettext_noop("leaf"),
    "label": gettext_noop("label"),
    "title": gettext_noop("title"),
    "script": gettext_noop("script"),
    "language": gettext_noop("language"),
    "scribe": gettext_noop("scribe"),
    "date": gettext_noop("date"),
    "place": gettext_noop("place"),
    "material": gettext_noop("material"),
    "height_mm": gettext_noop("height in mm"),
    "width_mm": gettext_noop("width in mm"),
    "join": gettext_noop("known join"),
    "photograph": gettext_noop("photograph"),
    "attribution": gettext_noop("attribution"),
    "rights": gettext_noop("rights"),
    "manifest": gettext_noop("manifest"),
    "image": gettext_noop("image"),
}
SIZES = ("height_mm", "width_mm")  # columns in millimetres, filtered as ranges
_LIBRARY = ("photograph", "manifest", "canvas", "service", "image_api")  # locate pictures; not shown for editing
_CARD = ("library", "script", "material")
_NUMBER = re.compile(r"\d{1,9}(?:[.,]\d{1,6})?")


def label_of(column: str) -> str:
    """Return a column's name for readers, in English; the name of an unknown column has its underscores replaced.

    >>> label_of("height_mm"), label_of("folio_count")
    ('height in mm', 'folio count')
    """
    return LABELS.get(column, column.replace("_", " "))


def ordered(columns: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the non-empty columns: first those of `LABELS`, in its order, then the rest."""
    known = [name for name in LABELS if name in columns]
    return [(name, columns[name]) for name in (*known, *(n for n in columns if n not in LABELS)) if columns[name]]


def editable(columns: Mapping[str, str]) -> list[str]:
    """Return the columns that a user may edit: the most common ones, and those of the fragment."""
    common = ("shelfmark", "library", "side", "leaf", "title", "script", "date", "material", *SIZES)
    return [*common, *(name for name in columns if name not in common and name not in _LIBRARY)][:60]


def facts_of(columns: Mapping[str, str]) -> list[str]:
    """Return the facts shown on a card: library, script, material, size.

    >>> facts_of({"library": "Cambridge", "height_mm": "120", "width_mm": "85,5", "note": "x"})
    ['Cambridge', '120 × 85.5 mm']
    """
    found = [columns[name] for name in _CARD if columns.get(name)]
    size = size_of(columns)
    return [*found, size] if size else found


def turn_of(angle: float) -> int:
    """Round an angle to whole degrees counter-clockwise, -179 to 180.

    >>> turn_of(356.4), turn_of(90.0), turn_of(359.8)
    (-4, 90, 0)
    """
    return 180 - (180 - round(angle)) % 360


def size_of(columns: Mapping[str, str]) -> str:
    """Return height and width in millimetres, or the known one; "" if both are unknown."""
    height, width = (number_of(columns.get(name, "")) for name in SIZES)
    if height is not None and width is not None:
        return f"{height:g} × {width:g} mm"
    known = height if height is not None else width
    return "" if known is None else f"{known:g} mm"


def number_of(text: str) -> float | None:
    """Return the first number in a cell, with a decimal point or comma; None without one.

    >>> number_of("ca. 12,5 cm"), number_of("120"), number_of("unknown")
    (12.5, 120.0, None)
    """
    found = _NUMBER.search(text)
    return float(found[0].replace(",", ".")) if found else None
