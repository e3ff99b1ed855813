"""Exported tables: Hebrew intact, nothing that a spreadsheet would execute, and joins that can be imported again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from membra.cli import cli
from membra.errors import MembraError
from membra.judge.joins import read_joins
from membra.show.export import (
    contradictions,
    make_table,
    write_table,
)
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from membra.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "150"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_verdicts_are_what_holds_and_history_is_everything(decided: Collection) -> None:
    standing, history = make_table(decided, "verdicts"), make_table(decided, "history")
    assert sorted(str(row[3]) for row in standing.rows) == ["join", "join", "unsure"]
    assert [row[3] for row in history.rows] == ["no", "undo", "join", "join", "unsure"]
    assert [row[-2:] for row in history.rows[:2]] == [("yes", None), ("", 1)]
    assert any("ש. לוי" in row for row in standing.rows)


def test_confirmed_joins_come_back_in(decided: Collection, tmp_path: Path) -> None:
    """Also with awkward names: `--joins` reads what was written."""
    write_table(make_table(decided, "joins"), tmp_path / "joins.csv")
    ids = [entry.fragment.id for entry in decided.entries()]
    known = {id: row["join"] for id, row in read_joins(tmp_path / "joins.csv", ids).items()}
    assert known == Verdicts.open(decided.path).joins()
    assert len(known) == 3
    assert len(set(known.values())) == 1


def test_candidates_tell_what_was_decided(decided: Collection) -> None:
    table = make_table(decided, "candidates", top=5)
    assert len(table.rows) == 6 * 5
    assert {row[4] for row in table.rows} == {"", "join", "unsure"}


def test_a_no_within_a_group_is_noticed(decided: Collection, tmp_path: Path) -> None:
    shutil.copytree(decided.path, tmp_path / "C")
    copy = Collection.open(tmp_path / "C")
    assert contradictions(copy) == []
    a, _, c = (entry.fragment.id for entry in copy.entries()[:3])
    Verdicts.open(copy.path).give(a, c, "no", by="D")
    assert [verdict.by for verdict in contradictions(copy)] == ["D"]
    done = run("export", copy.path, "--what", "joins", "--out", tmp_path / "j.csv")
    assert "note: D says" in done.stderr


def test_the_command(decided: Collection, tmp_path: Path) -> None:
    done = run("export", decided.path, "--out", tmp_path / "v.xlsx")
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 lines of verdicts" in done.stderr
    done = run("export", decided.path, "--out", tmp_path / "v.txt")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "must end in .csv" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "no/v.csv"), "the folder of"),
        (("--out", "v.html", "--pair", "x", "y"), "is not in"),
        (("--out", "m.json", "--what", "iiif", "--group", "x"), "x is not in"),
        (("--out", "m.txt", "--what", "iiif", "--pair", "x", "y"), "must end in"),
    ],
)
def test_bad_requests_are_one_line(
    decided: Collection, arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["export", str(decided.path), *arguments])
    assert isinstance(result.exception, MembraError)
    assert said in str(result.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("v.csv", "--pair", "a", "b"),
        ("v.csv", "--what", "candidates", "--group", "a"),
        ("pair.html", "--pair", "a", "b", "--group", "c"),
    ],
)
def test_a_pair_or_a_group_that_would_be_ignored_is_wrong_usage(
    decided: Collection, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["export", str(decided.path), "--out", *arguments])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])


def test_there_is_no_table_of_everything(decided: Collection) -> None:
    with pytest.raises(MembraError, match="no table"):
        make_table(decided, "everything")
