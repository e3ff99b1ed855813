"""Cells of a CSV that a spreadsheet will open: text stays text, and comes back as it was."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape_cell(cell: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula; an apostrophe makes it text.

    >>> escape_cell("=1+1"), escape_cell("T-S 8C1.3")
    ("'=1+1", 'T-S 8C1.3')
    """
    return f"'{cell}" if _quoted(cell) else cell


def unescape_cell(cell: str) -> str:
    """The cell before `escape_cell`.

    >>> unescape_cell(escape_cell("-12.jpg")), unescape_cell("'quoted'"), unescape_cell(escape_cell("'=1"))
    ('-12.jpg', "'quoted'", "'=1")
    """
    return cell[1:] if cell.startswith("'") and _quoted(cell) else cell


def _quoted(cell: str) -> bool:
    """Whether a cell is a formula behind any number of apostrophes: one more or less of them tells what was meant."""
    return cell.lstrip("'").startswith(_FORMULA)
