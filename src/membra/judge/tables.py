"""Tables of results: rows of scores, the paper's figures, and tests of the differences between rows."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from typing import Any

from membra.judge.statistics import LEVEL, Runs, compare_runs, holm, score_runs
from membra.sources.cells import escape_cell

# The metrics of every paired test: of the first candidate, and of the whole ranking.
TESTED = ("hit@1", "map")

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: the key of its value in a row, and its heading."""

    key: str
    heading: str
    digits: int = 3


@dataclass(frozen=True)
class Table:
    """One table. `missing` is the reason if it could not be computed; it then has no rows.

    A row is a dictionary: the columns' values; optionally `ci95` (low and high for each column), `seeds` (each seed's
    value), `paper` (the paper's figure) and `against` (the paired test); and `missing` if only this row could not be
    computed.
    """

    number: int
    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row] = ()
    reading: str = ""  # how to read it
    notes: Sequence[str] = ()
    queries: int = 0
    excluded: int = 0  # fragments that are not described
    missing: str = ""

    def is_number(self, column: Column) -> bool:
        """Return whether a column has numbers rather than text."""
        return not any(isinstance(row.get(column.key), str) for row in self.rows)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, default=str)

    def to_csv(self) -> str:
        """Format as CSV; nested values become columns such as `hit@1_ci95_low`, `hit@1_paper`, `against_hit@1_p`."""
        flat = [_flat(row) for row in self.rows] or [{"missing": self.missing}]
        names = list(dict.fromkeys(name for row in flat for name in row))
        text = StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _cell(v) if isinstance(v, str) else v for k, v in row.items()} for row in flat)
        return text.getvalue()


def _cell(text: str) -> str:
    """Put text on one line and escape formulas."""
    return escape_cell(" ".join(text.split()))


SCORES = tuple(
    Column(key, heading)
    for key, heading in (
        ("hit@1", "Hit@1"),
        ("map@1", "mAP@1"),
        ("hit@5", "Hit@5"),
        ("map@5", "mAP@5"),
        ("hit@10", "Hit@10"),
        ("map@10", "mAP@10"),
        ("mrr", "MRR"),
        ("macro_f1@1", "MacroF1@1"),
    )
)
SHORT_SCORES = tuple(column for column in SCORES if column.key not in ("hit@10", "map@10"))


@dataclass(frozen=True)
class Contender:
    """One row to be scored: its labels, its runs (one for each seed), and the paper's figures for it."""

    labels: Mapping[str, Any]
    runs: Runs = ()
    paper: Mapping[str, float] = field(default_factory=dict)
    missing: str = ""


def score_rows(contenders: Sequence[Contender], references: Sequence[int | None]) -> list[Row]:
    """Compute the rows of a table of scores. `references`: index of the row that each is tested against, or None.

    A difference is significant (not `within_noise`) if the test on Hit@1 or on mAP has p < 0.05 after Holm's adjustment
    over the whole table, and the difference has the same sign for every seed.
    """
    rows: list[Row] = []
    for one in contenders:
        row: Row = {**one.labels}
        row |= {"missing": one.missing} if one.missing else {**score_runs(one.runs), "paper": dict(one.paper)}
        rows.append(row)
    tests = []
    for index, reference in enumerate(references):
        if reference is None or reference == index or contenders[index].missing or contenders[reference].missing:
            continue
        for metric in TESTED:
            tests.append((index, reference, metric))
    found = [compare_runs(contenders[a].runs, contenders[b].runs, metric) for a, b, metric in tests]
    for (index, reference, metric), test, adjusted in zip(tests, found, holm([t.p for t in found]), strict=True):
        against = rows[index].setdefault("against", {"row": _name(contenders[reference]), "within_noise": True})
        against[metric] = {
            "difference": test.difference,
            "ci95": list(test.ci95),
            "p": test.p,
            "p_holm": adjusted,
            "seeds_agree": test.agree,
        }
        if adjusted < LEVEL and test.agree:
            against["within_noise"] = False
    return rows


def _name(contender: Contender) -> str:
    return ", ".join(str(value) for key, value in contender.labels.items() if key != "name")


def _flat(row: Row) -> dict[str, Any]:
    """Flatten a row: `ci95`, `seeds` and `paper` are appended to their column's name; other nesting joins with `_`."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if key in ("ci95", "seeds", "paper") and isinstance(value, Mapping):
            for column, inner in value.items():
                flat |= _spread(f"{column}_{key}", inner)
        else:
            flat |= _spread(key, value)
    return flat


def _spread(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {key: inner for part, entry in value.items() for key, inner in _spread(f"{name}_{part}", entry).items()}
    if isinstance(value, list | tuple):
        ends = ("low", "high") if name.endswith("ci95") else tuple(str(index) for index in range(1, len(value) + 1))
        return {f"{name}_{end}": inner for end, inner in zip(ends, value, strict=True)}
    return {name: value}
