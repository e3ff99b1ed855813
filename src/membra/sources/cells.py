"""Escapes cells of a CSV, so that a spreadsheet does not read text as formulas, and restores them."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape_cell(cell: str) -> str:
    """Prefix a cell that a spreadsheet would read as a formula with an apostrophe.

    >>> escape_cell("=1+1"), escape_cell("T-S 8C1.3")
    ("'=1+1", 'T-S 8C1.3')
    """
    return f"'{cell}" if _quoted(cell) else cell


def unescape_cell(cell: str) -> str:
    """Reverse `escape_cell`.

    >>> unescape_cell(escape_cell("-12.jpg")), unescape_cell("'quoted'"), unescape_cell(escape_cell("'=1"))
    ('-12.jpg', "'quoted'", "'=1")
    """
    return cell[1:] if cell.startswith("'") and _quoted(cell) else cell


def _quoted(cell: str) -> bool:
    """Return whether a cell begins like a formula after any number of apostrophes, so that escaping is reversible."""
    return cell.lstrip("'").startswith(_FORMULA)
