"""Imports follow the order of the rooms, and `import membra` loads nothing heavy."""

import ast
import importlib
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import membra
from factories import stored

ROOMS = ("sources", "see", "describe", "compare", "store", "find", "judge", "show")
BESIDE = {"cli", "demo", "scribes", "reproduce", "train"}  # these use rooms; no room uses them
SOURCE = Path(membra.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Return the rooms and files of membra that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("membra"):
            rest = (node.module or "").split(".")[1:]
            found |= {rest[0]} if rest else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("membra.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_room_imports_only_rooms_to_its_left(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0]
    names = imported(path)
    if room in ROOMS:
        assert not names & set(ROOMS[ROOMS.index(room) + 1 :])
        assert not names & BESIDE
    if room != "cli":
        assert "cli" not in names
    if path.stem in ("errors", "files", "messages", "progress"):
        assert not names & set(ROOMS)


def test_neighbours_have_different_names() -> None:
    """A module's name identifies it without its room."""
    houses = [*pairwise(ROOMS), *(("train", room) for room in ROOMS)]
    for one, other in houses:
        names = [{path.stem for path in (SOURCE / room).rglob("*.py")} - {"__init__"} for room in (one, other)]
        assert not names[0] & names[1], (one, other)


def test_the_drawing_of_the_house_is_true() -> None:
    """docs/architecture.md: the arrows are the rooms in order, and the table has the actual imports of each."""
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    real = {
        room: set().union(*(imported(path) for path in (SOURCE / room).rglob("*.py"))) & set(ROOMS) - {room}
        for room in ROOMS
    }
    arrows = re.findall(r"^ +(\w+) -->(?:\|\w+\|)? (\w+)", text, re.MULTILINE)
    assert [(a, b) for a, b in arrows if a in ROOMS and b in ROOMS] == list(pairwise(ROOMS))
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", cells)) for room, cells in rows} == real


def test_the_way_of_a_photograph_and_of_a_query_goes_through_the_rooms_in_order() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name in ("index", "search"):
        table = re.search(rf"^\| `membra {name}` \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
        assert table
        steps = re.findall(r"^\| `((\w+)/\w+\.py:[\w.]+)`", table.group(), re.MULTILINE)
        rooms = [ROOMS.index(room) for _, room in steps]
        assert len(steps) > 5
        assert rooms == sorted(rooms)
        for step in re.findall(r"`(\w+/\w+\.py:[\w.]+)`", table.group()):
            file, function = step.split(":")
            found = importlib.import_module("membra." + file.removesuffix(".py").replace("/", "."))
            for part in function.split("."):
                found = getattr(found, part)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_file_holds_one_idea(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= 400


def test_nothing_heavy_is_loaded_by_import_membra() -> None:
    code = "import membra, sys; print([m for m in ('torch', 'matplotlib', 'fastapi') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_indexing_and_searching_never_load_torch(tmp_path: Path) -> None:
    code = (
        "import sys, membra\n"
        "for name in membra.__all__: getattr(membra, name)\n"
        "import membra.show.report, membra.cli\n"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_search_for_a_fragment_loads_nothing_of_scipy(tmp_path: Path) -> None:
    """Importing it would take longer than the search."""
    pytest.importorskip("membra.compare._exact", reason="installed without a compiler")
    collection = stored(tmp_path / "C", range(9))
    code = (
        "import sys; from membra.cli import cli\n"
        f"cli.main(['search', {str(collection.path)!r}, '0003.jpg', '--json'], standalone_mode=False)\n"
        "print([name for name in ('scipy', 'sklearn', 'torch', 'distributed', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.alone
def test_help_answers_at_once() -> None:
    """Within half a second of CPU time after Python's own start; the best of five, since machines are busy."""

    def best(*command: str) -> float:
        times = []
        for _ in range(5):
            before = os.times()
            subprocess.run([sys.executable, *command], capture_output=True, check=True)
            after = os.times()
            times.append(sum(after[2:4]) - sum(before[2:4]))  # user and system time of child processes
        return min(times)

    assert best("-c", "from membra.cli import main; main()", "--help") - best("-c", "pass") < 0.5
