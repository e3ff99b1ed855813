"""The page of a reproduction: every table with the paper's values, every figure with its caption."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from membra.files import atomic_write
from membra.judge.claims import MARGIN
from membra.judge.printed import PAPER_QUERIES
from membra.judge.tables import Column, Table
from membra.show.template import page_template

# The figures below each table; the rest come at the end.
_BELOW = {
    "separation": ("distributions",),
    "words": ("words",),
    "proposition": ("bound",),
    "letters": ("letters",),
    "retrieval": ("rankings", "map"),
}

_ORDER = ("yes", "no", "undecided")  # decided claims come first


@dataclass(frozen=True)
class Summary:
    """The inputs of the run."""

    fragments: int
    described: int
    excluded: Sequence[Mapping[str, str]]
    queries: int
    joins: int
    seeds: int
    epochs: int
    recipe: str
    encoder: str
    exclude_same: str


@dataclass(frozen=True)
class Cell:
    """One cell: the value, its interval, and the value in the paper."""

    text: str
    interval: str = ""
    paper: str = ""
    number: bool = True


@dataclass(frozen=True)
class Bar:
    """An interval on the common scale of all claims: x from 0 to 100, 50 for no difference."""

    low: float
    high: float
    mean: float
    margin: float  # half the width of the band in which a difference is irrelevant


def write_page(path: Path, tables: Sequence[Table], figures: Sequence[Any], summary: Summary) -> None:
    """Write the page; `figures` have `name`, `title`, `caption`, `files` and `missing`."""
    claims = next((table for table in tables if table.number == 0), None)
    tables = [table for table in tables if table.number]
    by_name = {figure.name: figure for figure in figures}
    placed = {table.name: [by_name[name] for name in _BELOW.get(table.name, ()) if name in by_name] for table in tables}
    apart = [figure for figure in figures if all(figure not in below for below in placed.values())]
    html = page_template("reproduction.html").render(
        claims=claims,
        ordered=sorted(claims.rows, key=lambda row: _ORDER.index(row["verdict"])) if claims else [],
        counts=Counter(row["verdict"] for row in claims.rows) if claims else {},
        manuscripts=max((row.get("manuscripts", 0) for row in claims.rows), default=0) if claims else 0,
        tables=tables,
        placed=placed,
        apart=apart,
        summary=summary,
        paper_queries=PAPER_QUERIES,
        cell=cell,
        verdict=verdict,
        signed=signed,
        leaning=sum(row.get("leans") == "to the paper" for row in claims.rows if row["verdict"] == "undecided")
        if claims
        else 0,
        bar=partial(bar, widest=_widest(claims.rows) if claims else 0.0),
        margin=MARGIN,
        sub=subscripts,
    )
    atomic_write(path, html.encode())


def cell(row: Mapping[str, Any], column: Column) -> Cell:
    """Return one cell of the page."""
    value = row.get(column.key)
    if value is None:
        return Cell("–", number=True)
    if isinstance(value, str):
        return Cell(value, number=False)
    text = f"{value:.{column.digits}f}" if isinstance(value, float) else str(value)
    interval = ""
    if (ends := row.get("ci95", {}).get(column.key)) is not None:
        interval = f"{ends[0]:.2f}–{ends[1]:.2f}"
    printed = row.get("paper", {}).get(column.key)
    return Cell(text, interval, "" if printed is None else f"{printed:.3f}")


def subscripts(text: str) -> Markup:
    """Escape a text and typeset ε_I and K_g with subscripts."""
    return Markup(re.sub(r"([εK])_(\w)", r"\1<sub>\2</sub>", str(escape(text))))


def signed(row: Mapping[str, Any], key: str) -> Cell:
    """Return a difference of the claims table: with sign, interval, and the paper's value."""
    value, ends, printed = row.get(key), row.get("ci95", {}).get(key), row.get("paper", {}).get(key)
    if value is None:
        return Cell("")
    interval = "" if ends is None else f"{_minus(ends[0])} to {_minus(ends[1])}"
    return Cell(_minus(value), interval, "" if printed is None else _minus(printed))


def _minus(value: float) -> str:
    """Format with sign and a true minus, since a hyphen is easily overlooked."""
    return f"{value:+.3f}".replace("-", "−")


def bar(row: Mapping[str, Any], widest: float) -> Bar | None:
    """Return a claim's difference in mAP as a bar; `widest` reaches the ends. None if it was not tested."""
    if row.get("map") is None or (ends := row.get("ci95", {}).get("map")) is None:
        return None
    low, high, mean = (round(50 + 50 * float(value) / widest, 2) for value in (*ends, row["map"]))
    return Bar(low, high, mean, round(50 * MARGIN / widest, 2))


def _widest(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the farthest end of any interval times 1.05, at least three margins."""
    ends = [abs(end) for row in rows for end in row.get("ci95", {}).get("map", ())]
    return max(1.05 * max(ends, default=0.0), 3 * MARGIN)


def verdict(row: Mapping[str, Any]) -> str:
    """Return the paired test as text: the differences, the smaller adjusted p, and whether it is beyond noise."""
    against = row.get("against")
    if not against:
        return ""
    p = min(against[metric]["p_holm"] for metric in ("hit@1", "map"))
    parts = ", ".join(
        f"{name} {_minus(against[metric]['difference'])}" for metric, name in (("hit@1", "Hit@1"), ("map", "mAP"))
    )
    said = "within noise" if against["within_noise"] else "beyond noise"
    return f"against {against['row']}: {parts}; p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}: {said}"
