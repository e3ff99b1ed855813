"""Cells of a CSV that a spreadsheet will open: text stays text, and comes back as it was."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(cell: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula; an apostrophe makes it text.

    >>> harmless("=1+1"), harmless("T-S 8C1.3")
    ("'=1+1", 'T-S 8C1.3')
    """
    return f"'{cell}" if _quoted(cell) else cell


def as_meant(cell: str) -> str:
    """The cell before `harmless`.

    >>> as_meant(harmless("-12.jpg")), as_meant("'quoted'"), as_meant(harmless("'=1"))
    ('-12.jpg', "'quoted'", "'=1")
    """
    return cell[1:] if cell.startswith("'") and _quoted(cell) else cell


def _quoted(cell: str) -> bool:
    """Whether a cell is a formula behind any number of apostrophes: one more or less of them tells what was meant."""
    return cell.lstrip("'").startswith(_FORMULA)
