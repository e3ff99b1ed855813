"""Terminal output: complete tables, bars on a terminal, and a message when a command ends early."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from factories import stored
from membra.cli.console import bars, late, print_added, print_scores, print_shortlist, print_table
from membra.find.codes import RecallEstimate
from membra.store.collection import Added

MAIN = "from membra.cli import main; main()"


def on_a_terminal(*arguments: str | Path) -> tuple[int, str]:
    """Return exit status and complete output of a command that runs on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # on Linux: the other side is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    return process.returncode, shown.decode()


def test_a_terminal_sees_a_bar_and_what_to_do_next(drawn: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for image in sorted((drawn.parent / "images").iterdir())[:2]:
        (few / image.name).write_bytes(image.read_bytes())
    status, shown = on_a_terminal("index", few, "--into", tmp_path / "C", "--workers", "1")
    assert status == 0, shown
    assert "2/2" in shown  # the bar
    assert "describing ..." not in shown  # which is for files and pipes
    assert "next: membra search" in shown


def test_bars_say_one_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bars() as bar:
        reported = bar("describing")
        reported(1, 2)
        late(bar, "never begun")
        begun = late(bar, "begun")
        begun(0, 2)
        begun(1, 2)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "describing ...\nbegun ...\n")


def test_tables_show_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[red]" + 120 * "x" + "\x1b[2J.jpg"
    print_table("a title that is wider than the table below it", ["rank", "fragment"], [["1", name]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a title that is wider than the table below it"
    assert any("[red]" + 120 * "x" + "\\x1b[2J.jpg" in line for line in lines)


def test_what_was_added_scored_and_shortlisted_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    print_added(Path("C"), Added(described=3, few_letters=1, unchanged=2, readable=5, refused=[("a.jpg", "no image")]))
    scores = dict.fromkeys(("hit@1", "hit@5", "hit@10", "map@10", "map", "mrr", "macro_f1@1"), 0.5)
    method = {**scores, "ci95": {"hit@1": (0.25, 0.75)}}
    print_scores({"methods": {"m": method}, "excluded": [{"id": "b"}], "queries": 4, "fragments": 5})
    print_shortlist(RecallEstimate(recall=0.995, top=20, listed=3000, queries=100, fragments=9000, weight=0.5))
    shown = capsys.readouterr()
    assert "C: 3 described (1 with few letters), 2 known already, 1 refused" in shown.out
    assert "refused: a.jpg: no image" in shown.err
    assert "4 queries among 5 fragments, 1 not described" in shown.out
    assert "0.25-0.75" in shown.out
    assert "a shortlist of 3,000 was measured to hold 0.995 of the true first 20" in shown.err


def test_a_command_that_is_stopped_says_so_in_a_line() -> None:
    stop = "click.Command('stop', callback=lambda: os.kill(os.getpid(), signal.SIGINT))"
    # A background process ignores this signal, and so would its children.
    heed = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"import click, os, signal; {heed}; from membra import cli; cli.cli.add_command({stop}); cli.main()"
    done = subprocess.run([sys.executable, "-c", code, "stop"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip().startswith("error: stopped; what was finished is kept")  # below the terminal's ^C
    assert done.stderr.strip().count("\n") == 0


def test_what_the_system_refuses_is_a_line_too(tmp_path: Path) -> None:
    path = stored(tmp_path / "C", range(2)).path
    command = [sys.executable, "-c", MAIN, "export", str(path), "--out", "/proc/verdicts.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "error: " in line] == done.stderr.splitlines()[-1:]
    assert "check the path" in done.stderr


def test_too_little_memory_is_a_line_too(tmp_path: Path) -> None:
    """With a system limit slightly above the memory that two fragments take."""
    few, many = (stored(tmp_path / name, range(count), size=400).path for name, count in (("few", 2), ("many", 800)))
    code = (
        "import resource, sys; from membra import cli\n"
        "ask = ['propose', '--method', 'pool-mean-cosine']\n"
        "cli.cli.main([*ask, sys.argv[1]], standalone_mode=False)\n"  # everything is loaded now
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "room = pages * resource.getpagesize() + 2**23\n"
        "resource.setrlimit(resource.RLIMIT_AS, (room, room))\n"
        "sys.argv = ['membra', *ask, sys.argv[2]]; cli.main()"
    )
    command = [sys.executable, "-c", code, str(few), str(many)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "error: " in line] == done.stderr.splitlines()[-1:]
    assert "too little memory" in done.stderr
