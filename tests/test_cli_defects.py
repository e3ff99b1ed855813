"""Problems of new users in the shell: truncated help, a browser that does not open, silent updates."""

import csv
import json
import os
import shutil
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from membra.cli import cli
from membra.errors import MembraError
from membra.show.web import serve as serving
from membra.store.collection import Collection


def run(*arguments: str | Path) -> str:
    outcome = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_help_is_not_cut_off() -> None:
    assert "..." not in run("--help").split("Commands:")[1]


@pytest.mark.parametrize(("asked", "opened"), [([], []), (["--open"], ["http://127.0.0.1:1/"])])
def test_serve_opens_the_browser_where_it_is_told_to(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, asked: list[str], opened: list[str]
) -> None:
    found: list[str] = []

    def opening(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", opening)

    def served(
        path: Path,
        host: str = "",
        port: int = 1,
        say: Callable[[str], None] = print,
        base_url: str = "",
        people: Path | None = None,
        give: Callable[[str, str], None] = print,
    ) -> None:
        say("http://127.0.0.1:1/")

    monkeypatch.setattr(serving, "serve", served)
    said = run("serve", collection.path, *asked)
    assert "http://127.0.0.1:1/" in said
    assert found == opened
    assert "Open the workbench" not in run("serve", "--help")


def test_new_metadata_of_known_images_is_reported(collection: Collection, drawn: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(collection.path, tmp_path / "mine"))
    with drawn.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = drawn.with_name("again.csv")
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "shelfmark"])
        writer.writeheader()
        writer.writerows([{**row, "shelfmark": f"T-S {number}"} for number, row in enumerate(rows)])
    assert f"{len(rows)} known already, {len(rows)} of them with new metadata" in run("index", table, "--into", path)
    assert f"{len(rows)} known already, 0 refused" in run("index", table, "--into", path)
    table.unlink()
    # Columns missing from a later table keep their values.
    run("index", drawn, "--into", path)
    assert Collection.open(path).entries()[1].fragment.columns["shelfmark"] == "T-S 1"


def test_any_column_can_say_what_belongs_together(collection: Collection, drawn: Path, tmp_path: Path) -> None:
    with drawn.open(encoding="utf-8", newline="") as file:
        rows = [{"image": row["image"], "manuscript": row["join"]} for row in csv.DictReader(file)]
    table = tmp_path / "known.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    ours = json.loads(run("evaluate", collection.path, "--joins", drawn, "--json", "-"))
    theirs = json.loads(run("evaluate", collection.path, "--joins", table, "--column", "manuscript", "--json", "-"))
    assert theirs == ours
    page = tmp_path / "page"
    run("evaluate", collection.path, "--joins", table, "--column", "manuscript", "--report", page)
    assert (page / "index.html").is_file()


def test_names_that_are_not_utf8_are_reported(
    collection: Collection, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"M\xfcnchen")
    folder.mkdir()
    shutil.copy(drawn.parent / collection.entries()[0].fragment.id, folder / "a.jpg")
    mine = shutil.copytree(collection.path, tmp_path / "mine")
    reason = "a.jpg: the name of its folder M?nchen is not UTF-8; rename the folder"
    (folder / "t.csv").write_text("image,shelfmark\na.jpg,1\n")
    for cwd, source in ((tmp_path, folder.name), (folder, "."), (tmp_path, f"{folder.name}/t.csv"), (folder, "t.csv")):
        monkeypatch.chdir(cwd)
        outcome = CliRunner().invoke(cli, ["index", source, "--into", str(mine)], catch_exceptions=False)
        assert "1 refused" in outcome.stdout
        assert reason in outcome.stderr
    assert Collection.open(mine).entries()[-1].refused == reason
    searched = CliRunner().invoke(cli, ["search", str(mine), os.fsdecode(b"foto\xe9.jpg")])
    assert isinstance(searched.exception, MembraError)
    assert str(searched.exception) == "foto?.jpg: its name is not UTF-8; rename the file"


def test_a_folder_with_other_files_is_not_indexed_into(drawn: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = CliRunner().invoke(cli, ["index", str(drawn), "--into", str(tmp_path)])
    assert "exists and is not a collection; name a new or an empty folder" in str(result.exception)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
