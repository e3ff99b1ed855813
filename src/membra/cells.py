"""Cells of a CSV that a spreadsheet will open: text stays text, and comes back as it was."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(cell: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula; an apostrophe makes it text.

    >>> harmless("=1+1"), harmless("T-S 8C1.3")
    ("'=1+1", 'T-S 8C1.3')
    """
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def as_meant(cell: str) -> str:
    """The cell before `harmless`.

    >>> as_meant(harmless("-12.jpg")), as_meant("'quoted'")
    ('-12.jpg', "'quoted'")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
