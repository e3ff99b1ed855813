"""The tutorial's commands are run as written, in order, in an empty folder."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from programs import ran

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_only_what_cannot_be_typed_here_is_not_typed() -> None:
    """Installation, a server that runs until it is stopped, and minutes of training have their own tests."""
    lines = [line for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]
    left_out = [line.split("#")[0].split()[:2] for line in lines]
    allowed = (["git", "clone"], ["make", "-C"], ["export"], ["membra", "serve"], ["membra", "adapt"])
    assert all(words in allowed or words[:1] in allowed for words in left_out)
    assert {kind for kind, _ in BLOCKS} == {"console", "sh", "text"}


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    program = bin / "membra"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from membra.cli import main; main()" "$@"\n')
    program.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "COLUMNS": "150"}
    shown = ""
    for kind, text in BLOCKS:
        if kind == "sh":
            done = ran(["sh", "-e", "-c", text], folder, environment, timeout=600)
            assert done.returncode == 0, (text, done.stdout, done.stderr)
            assert "error" not in done.stderr
            shown = done.stdout
        if kind == "text":  # the printed output is that of the tutorial, at the same rank
            for rank, fragment in re.findall(r"^(\d+) +(\S+)$", text, re.MULTILINE):
                assert re.search(rf"│ +{rank} │ {re.escape(fragment)} ", shown), shown
    for made in ("demo/report/index.html", "why.png", "verdicts.xlsx", "joins.csv", "dossier.html"):
        assert (folder / made).stat().st_size > 20, made
    joined = (folder / "joins.csv").read_text(encoding="utf-8-sig").splitlines()
    assert [line.split(",")[:2] for line in joined[1:]] == [["0000.jpg", "0000.jpg"], ["0025.jpg", "0000.jpg"]]
