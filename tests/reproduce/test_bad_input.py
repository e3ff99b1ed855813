"""Bad input of a reproduction: files that are no images, a full disk. A clear message; finished results stay."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from membra.describe.recipe import MEMBRA, PAPER
from membra.files import atomic_write
from membra.reproduce import work
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
    """The command reports `No space left on device (...); make room ...`: tests/reliability."""
    kept = Work(tmp_path / "work")
    kept.kept("x", {"a": 1}, lambda: {"v": np.arange(3)})

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        kept.kept("x", {"a": 2}, lambda: {"v": np.arange(4)})
    monkeypatch.undo()
    assert [path.suffix for path in kept.folder.iterdir()] == [".npz"]  # no partly written file
    assert kept.kept("x", {"a": 1}, lambda: {"v": np.zeros(0)})["v"].tolist() == [0, 1, 2]


@pytest.mark.slow
def test_a_run_on_a_full_disk_goes_on_once_there_is_room(
    drawn: Path, tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with an error that the command prints as one line; results are not computed again."""
    brief = replace(QUICK, recipe=MEMBRA, words=(4,), rich_words=(), bound_pairs=2, cut_letters=())
    table, out, room = tmp_path / "apart.csv", tmp_path / "out", [4]  # writes before the disk is full
    table.write_text("image,join\n" + "".join(f"{one.path},{at}\n" for at, one in enumerate(fragments(drawn))))

    def fills_up(path: Path, content: bytes) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        atomic_write(path, content)

    monkeypatch.setattr(work, "atomic_write", fills_up)
    with pytest.raises(OSError, match="No space left"):
        reproduce(table, None, out, settings=brief, encoder=given)
    monkeypatch.undo()
    assert not (out / "index.html").exists()
    kept = {path: path.stat().st_mtime_ns for path in (out / "work").glob("*.npz")}
    assert len(kept) == 4
    assert "no mate to be found" in reproduce(table, None, out, settings=brief, encoder=given).read_text()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
