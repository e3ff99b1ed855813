"""What a catalogue says of a fragment, as people say it: names of columns, sizes, and what a card has room for."""

import re
from collections.abc import Mapping

from membra.messages import gettext_noop

# The columns that membra knows, as a reader calls them; the order in which they are shown.
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
SIZES = ("height_mm", "width_mm")  # columns that hold millimetres: compared as ranges
_LIBRARY = ("photograph", "manifest", "canvas", "service", "image_api")  # by which pictures are found: not for people
_CARD = ("library", "script", "material")
_NUMBER = re.compile(r"\d{1,9}(?:[.,]\d{1,6})?")


def label_of(column: str) -> str:
    """A column's name for people, in English; one that membra does not know is read as it is.

    >>> label_of("height_mm"), label_of("folio_count")
    ('height in mm', 'folio count')
    """
    return LABELS.get(column, column.replace("_", " "))


def ordered(columns: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is said, without what is empty: first what membra knows, as `LABELS` has it, then the rest."""
    known = [name for name in LABELS if name in columns]
    return [(name, columns[name]) for name in (*known, *(n for n in columns if n not in LABELS)) if columns[name]]


def editable(columns: Mapping[str, str]) -> list[str]:
    """The columns that a person may correct: what a catalogue says most, and whatever is said already."""
    usual = ("shelfmark", "library", "side", "leaf", "title", "script", "date", "material", *SIZES)
    return [*usual, *(name for name in columns if name not in usual and name not in _LIBRARY)][:60]


def facts_of(columns: Mapping[str, str]) -> list[str]:
    """The few facts that stand on a card: library, script, material, size.

    >>> facts_of({"library": "Cambridge", "height_mm": "120", "width_mm": "85,5", "note": "x"})
    ['Cambridge', '120 × 85.5 mm']
    """
    found = [columns[name] for name in _CARD if columns.get(name)]
    size = size_of(columns)
    return [*found, size] if size else found


def turn_of(angle: float) -> int:
    """Whole degrees counter-clockwise by which writing is turned, -179 to 180: nobody calls 4 degrees 356.

    >>> turn_of(356.4), turn_of(90.0), turn_of(359.8)
    (-4, 90, 0)
    """
    return 180 - (180 - round(angle)) % 360


def size_of(columns: Mapping[str, str]) -> str:
    """Height and width in millimetres, or the one that is known; nothing where none is."""
    height, width = (number_of(columns.get(name, "")) for name in SIZES)
    if height is not None and width is not None:
        return f"{height:g} × {width:g} mm"
    known = height if height is not None else width
    return "" if known is None else f"{known:g} mm"


def number_of(text: str) -> float | None:
    """The first number in a cell, with a point or a comma; None where there is none.

    >>> number_of("ca. 12,5 cm"), number_of("120"), number_of("unknown")
    (12.5, 120.0, None)
    """
    found = _NUMBER.search(text)
    return float(found[0].replace(",", ".")) if found else None
