"""What a reproduction is given in practice: images that are none, a full disk. A clear line; what was done stays."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from membra.describe.recipe import MEMBRA, PAPER
from membra.reproduce.run import reproduce
from membra.reproduce.settings import QUICK
from membra.reproduce.work import Work
from membra.sources.fragment import fragments

pytest.importorskip("torch", reason="torch is in the extra [train]")


def test_unreadable_images_are_listed_with_the_reason(tmp_path: Path, given: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"no image")
    page = reproduce(tmp_path / "in", None, tmp_path / "out", settings=replace(QUICK, recipe=MEMBRA), encoder=given)
    html = page.read_text()
    assert "a/1.png" in html
    assert "none of the 3 fragments has the 1 letters" in html
    assert html.count("</span> undecided</span>") == 17


def test_a_single_page_with_too_few_letters(drawn: Path, tmp_path: Path, given: Path) -> None:
    table = tmp_path / "one.csv"
    image = fragments(drawn)[0].path
    table.write_text(f"image,join\n{image},a\n")
    page = reproduce(table, None, tmp_path / "out", settings=replace(QUICK, recipe=PAPER), encoder=given)
    assert "fewer than 200" in page.read_text()


def test_a_full_disk_leaves_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says `No space left on device (...); make room ...` of it: tests/reliability."""
    work = Work(tmp_path / "work")
    work.kept("x", {"a": 1}, lambda: {"v": np.arange(3)})

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        work.kept("x", {"a": 2}, lambda: {"v": np.arange(4)})
    monkeypatch.undo()
    assert [path.suffix for path in work.folder.iterdir()] == [".npz"]  # nothing half written
    assert work.kept("x", {"a": 1}, lambda: {"v": np.zeros(0)})["v"].tolist() == [0, 1, 2]
