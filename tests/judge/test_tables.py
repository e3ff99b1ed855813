"""Tables: significance, rows that cannot be computed, and file formats."""

import csv
import json
from io import StringIO

import numpy as np

from membra.judge import printed
from membra.judge.metrics import Outcome
from membra.judge.tables import SCORES, Column, Contender, Table, score_rows


def run(ranks: list[int]) -> list[Outcome]:
    return [
        Outcome(np.arange(1, 11) == rank, 1, f"j{index % 15}", f"j{index % 15}") for index, rank in enumerate(ranks)
    ]


GOOD, BAD = run([1] * 30), run([1] * 8 + [5] * 22)


def test_a_clear_difference_is_beyond_noise_a_small_one_is_not() -> None:
    near = run([1] * 9 + [5] * 21)
    contenders = [
        Contender({"name": "ref"}, [BAD]),
        Contender({"name": "good"}, [GOOD]),
        Contender({"name": "near"}, [near]),
    ]
    rows = score_rows(contenders, [None, 0, 0])
    assert "against" not in rows[0]
    assert rows[1]["against"]["within_noise"] is False
    assert rows[1]["against"]["hit@1"]["difference"] > 0.7
    assert rows[2]["against"]["within_noise"] is True


def test_seeds_that_disagree_are_noise_however_small_p_is() -> None:
    rows = score_rows(
        [Contender({"name": "ref"}, [BAD, GOOD]), Contender({"name": "x"}, [GOOD, run([1] * 29 + [5])])], [None, 0]
    )
    assert rows[1]["against"]["hit@1"]["p_holm"] < 0.05
    assert rows[1]["against"]["within_noise"] is True


def test_a_row_that_cannot_be_made_says_why_and_the_others_are_made() -> None:
    rows = score_rows([Contender({"name": "ref"}, missing="no words"), Contender({"name": "x"}, [BAD])], [None, 0])
    assert rows[0] == {"name": "ref", "missing": "no words"}
    assert rows[1]["hit@1"] == 8 / 30
    assert "against" not in rows[1]


def test_files() -> None:
    rows = score_rows(
        [
            Contender({"method": "a", "name": "a"}, [BAD, GOOD], {"hit@1": 0.5}),
            Contender({"method": "b", "name": "b"}, [GOOD, GOOD]),
        ],
        [None, 0],
    )
    table = Table(1, "t", "T", [Column("method", "method"), *SCORES], rows, queries=30)
    (first, second) = csv.DictReader(StringIO(table.to_csv()))
    assert first["hit@1_paper"] == "0.5"
    assert float(first["hit@1_seeds_1"]) == 8 / 30
    assert float(first["hit@1_ci95_low"]) < float(first["hit@1"]) < float(first["hit@1_ci95_high"])
    assert second["against_within_noise"] in ("True", "False")
    assert json.loads(table.to_json())["rows"][0]["hit@1"] == rows[0]["hit@1"]
    missing = Table(2, "u", "U", [], missing="a reason, with a comma")
    assert list(csv.DictReader(StringIO(missing.to_csv()))) == [{"missing": "a reason, with a comma"}]


def test_printed_figures_are_the_papers() -> None:
    assert printed.RETRIEVAL["bob-chamfer"]["hit@1"] == 0.784
    assert printed.RETRIEVAL["bow-raw-chi2"]["mrr"] == 0.800
    assert printed.SEPARATION["bob-hungarian"]["cohen_d"] == 1.831
    assert len(printed.RETRIEVAL) == 14
    # Every printed Hit@k is a whole number of the 88 queries; the two-stage row is the paper's own exception.
    for name, row in printed.RETRIEVAL.items():
        if name != "two-stage":
            assert abs(row["hit@1"] * 88 - round(row["hit@1"] * 88)) < 0.05, name
