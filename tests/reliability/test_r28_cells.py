"""Cells that a spreadsheet would run: in every table that membra writes, as CSV and as XLSX, and back."""

import csv
import json
import zipfile
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from openpyxl import load_workbook

from membra.find.proposals import Pair, Proposal, proposals_csv
from membra.judge.joins import read_joins
from membra.judge.tables import Column
from membra.judge.tables import Table as Scores
from membra.show.export import SUFFIXES, TABLES, Table, as_csv, as_json, as_xlsx, make_table, write_table
from membra.sources.download import COLUMNS, TABLE, _write_table
from membra.sources.fragment import Fragment, fragments
from membra.store.collection import Collection

BEGINS = ("=", "+", "-", "@", "\t", "\r")
FORMULAS = (
    "=1+1",
    "+cmd|'/C calc'!A0",
    "-2+3",
    "@SUM(1,2)",
    "\t=1",
    "\r=1",
    '=HYPERLINK("http://evil.example")',
    "'=kept",
)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(StringIO(text, newline="")))


@pytest.mark.row(times=15)
@pytest.mark.parametrize("what", TABLES)
def test_r28_every_table_in_every_form_says_the_same(decided: Collection, what: str, tmp_path: Path) -> None:
    """Tried: every table of a collection whose names, shelfmarks, notes and people begin with = + - @, as CSV, XLSX and
    JSON: no cell of the CSV begins so, no cell of the sheet is a formula, all three say the same, Hebrew included

    Seen to fail: without the apostrophe, the CSV of verdicts had a cell =cmd, as all other tables
    """
    table = make_table(decided, what, top=3)
    assert table.rows
    for suffix in SUFFIXES:
        write_table(table, tmp_path / f"דוח{suffix}")
    reported = json.loads((tmp_path / "דוח.json").read_text(encoding="utf-8"))
    assert reported["what"] == what
    assert [tuple(row.values()) for row in reported["rows"]] == table.rows

    raw = (tmp_path / "דוח.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")  # the mark by which Excel knows UTF-8
    lines = rows_of(raw.decode("utf-8-sig"))
    assert lines[0] == list(table.columns)
    for line, row in zip(lines[1:], table.rows, strict=True):
        for cell, value in zip(line, row, strict=True):
            if isinstance(value, str):
                assert not cell.startswith(BEGINS)
                assert cell.removeprefix("'") == value.removeprefix("'")

    sheet = load_workbook(BytesIO((tmp_path / "דוח.xlsx").read_bytes())).active
    cells = list(sheet.iter_rows())
    assert [cell.value for cell in cells[0]] == list(table.columns)
    for line, row in zip(cells[1:], table.rows, strict=True):
        for cell, value in zip(line, row, strict=True):
            wanted = pytest.approx(value) if isinstance(value, float) else value or None  # a sheet keeps 15 digits
            assert (cell.value or None) == wanted
        assert not any(cell.data_type == "f" for cell in line)


@pytest.mark.row(times=40)
def test_r28_formulas_are_text_wherever_a_table_is_written(tmp_path: Path) -> None:
    """Tried: eight formulas in the tables that are written elsewhere: proposals, the table of fetched images, the
    tables of scores, the names of columns; and back in from CSV as sources and joins, unchanged

    Seen to fail: without the apostrophe, a label that began with a tab and = came back as another
    """
    pairs = tuple(Pair(a, a + 1, 1.0, 1.0) for a in range(len(FORMULAS) - 1))
    proposal = Proposal(tuple(range(len(FORMULAS))), pairs, 1.0)
    proposed = proposals_csv([proposal], FORMULAS, FORMULAS, [(text, text) for text in FORMULAS])
    assert proposed.startswith("\ufeff")

    fetched = [Fragment(f"{index}.jpg", tmp_path, dict.fromkeys(COLUMNS, text)) for index, text in enumerate(FORMULAS)]
    for one in fetched:
        (tmp_path / one.id).touch()
    _write_table(tmp_path / TABLE, fetched)
    text = (tmp_path / TABLE).read_text("utf-8-sig")
    back = fragments(tmp_path / TABLE)
    assert [one.columns["label"] for one in back] == list(FORMULAS)

    methods = [{"method": text, "score": -0.5} for text in FORMULAS]
    scores = Scores(1, "t", "a title", [Column("score", "Score")], methods).to_csv()
    header = as_csv(Table("fragments", FORMULAS, [])).decode("utf-8-sig")  # a source's own columns
    for made in (proposed, text, scores, header):
        for line in rows_of(made):
            assert not any(cell.startswith(BEGINS) and not is_number(cell) for cell in line), line

    table = tmp_path / "joins.csv"
    table.write_bytes(as_csv(Table("joins", ("image", "join"), [(name, "=1") for name in FORMULAS[:4]])))
    assert read_joins(table, list(FORMULAS)) == {name: {"image": name, "join": "=1"} for name in FORMULAS[:4]}


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.row(times=4)
def test_r28_what_no_file_can_hold_is_made_harmless() -> None:
    """Tried: a cell with control characters, half a character and 40,000 letters, numbers that are none, Hebrew with
    vowels: a sheet that opens, well-formed XML inside

    Seen to fail: without the apostrophe, the cell with a tab and = was in the CSV as it stood
    """
    hebrew = "כְּתַב יָד \u202bא\u202c"
    table = Table(
        "t", ("text", "number"), [("\x00\x0b\ud800" + "x" * 40_000, -1.5), ("\t=1", float("inf")), (hebrew, 1)]
    )
    made = as_xlsx(table)
    sheet = load_workbook(BytesIO(made)).active
    assert sheet["B2"].value == -1.5
    assert sheet["A4"].value == hebrew
    with zipfile.ZipFile(BytesIO(made)) as parts:
        assert not any("vba" in name.lower() or "external" in name.lower() for name in parts.namelist())
        assert b"<f>" not in parts.read("xl/worksheets/sheet1.xml")
    assert [row["number"] for row in json.loads(as_json(table))["rows"]] == [-1.5, None, 1]
    assert rows_of(as_csv(table).decode("utf-8-sig"))[2:] == [["'\t=1", ""], [hebrew, "1"]]
