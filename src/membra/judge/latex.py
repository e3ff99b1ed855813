"""Format tables as LaTeX for a paper: `booktabs`, values followed by their intervals in small print."""

from collections.abc import Mapping
from typing import Any

from membra.judge.tables import Column, Table

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}
# Symbols in headings and names; other Unicode is left to the LaTeX engine.
_SYMBOLS = {
    "χ²": r"$\chi^2$",
    r"ε\_I": r"$\varepsilon_I$",
    r"ε\_J": r"$\varepsilon_J$",
    r"K\_g": "$K_g$",
    "→": r"$\rightarrow$",
    "−": "$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "×": r"$\times$",
    "′": "$'$",
    "λ": r"$\lambda$",
    "–": "--",
}


def to_latex(table: Table) -> str:
    """Format a `table` environment with caption and label, or a comment with the reason if the table is missing."""
    if table.missing:
        return f"% {table.title}: not made: {' '.join(table.missing.split())}\n"
    columns = table.columns
    kinds = "".join("r" if table.is_number(column) else "l" for column in columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.title)}.}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        " & ".join(escape(column.heading) for column in columns) + r" \\",
        r"\midrule",
        *(" & ".join(_cell(row, column) for column in columns) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX, in one line.

    >>> escape("R&D 5 %")
    'R\\\\&D 5 \\\\%'
    """
    plain = "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))
    for symbol, command in _SYMBOLS.items():
        plain = plain.replace(symbol, command)
    return plain


def _cell(row: Mapping[str, Any], column: Column) -> str:
    value = row.get(column.key)
    if value is None:
        return "--"
    if not isinstance(value, float):
        return escape(str(value))
    text = f"{value:.{column.digits}f}"
    ends = row.get("ci95", {}).get(column.key)
    return text if ends is None else rf"{text} {{\scriptsize [{ends[0]:.2f}, {ends[1]:.2f}]}}"
