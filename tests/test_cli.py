"""The command line as users run it: in a separate process, with exit status, stdout and stderr."""

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from factories import random_encoder, stored
from membra import cli
from membra.demo import _make_room
from membra.describe.encoder import Encoder
from membra.errors import MembraError
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from membra.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "150"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False)


def fails(*arguments: str | Path, said: str, cwd: Path | None = None) -> None:
    done = run(*arguments, cwd=cwd)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [line for line in done.stderr.splitlines() if not line.endswith("...")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert said in lines[0]


@pytest.fixture(scope="module")
def encoder_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "e.onnx"
    path.write_bytes(random_encoder().onnx)
    return path


def test_from_a_table_to_scores(drawn: Path, encoder_file: Path, tmp_path: Path) -> None:
    """index, list, search and evaluate, each as one command."""
    done = run("index", drawn, "--into", tmp_path / "C", "--encoder", encoder_file, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "12 described, 0 known already, 0 refused" in done.stdout
    assert "12 known already" in run("index", drawn, "--into", tmp_path / "C").stdout

    listed = json.loads(run("list", tmp_path / "C", "--json").stdout)
    assert len(listed) == 12
    assert {"id", "image", "letters", "note", "refused", "join"} <= set(listed[0])
    assert {"photograph", "piece", "angle", "letter_height", "legibility"} <= set(listed[0])
    assert "images/0003.jpg" in run("list", tmp_path / "C").stdout

    found = json.loads(run("search", tmp_path / "C", "images/0000.jpg", "--top", "4", "--json").stdout)
    assert {"query", "method", "hits", "solved"} <= set(found)
    assert len(found["hits"]) == 4
    assert {"rank", "id", "image", "distance"} <= set(found["hits"][0])
    assert {"photograph", "piece", "angle", "letter_height", "legibility", "note"} <= set(found["hits"][0])
    assert found["piece"] == 0
    both = ("images/0000.jpg", "images/0001.jpg")
    pooled = json.loads(run("search", tmp_path / "C", *both, "--together", "--json").stdout)
    assert pooled["query"] == " + ".join(both)
    assert not {hit["id"] for hit in pooled["hits"]} & set(both)
    shown = run("search", tmp_path / "C", "images/0000.jpg")
    assert "images/" in shown.stdout
    assert shown.stderr == ""

    scored = run(
        "evaluate", tmp_path / "C", "--joins", drawn, "--exclude-same", "leaf", "--methods", "default,pool-mean-cosine",
        "--json", tmp_path / "scores.json", "--report", tmp_path / "report",
    )  # fmt: skip
    assert scored.returncode == 0, scored.stderr
    assert "pool-mean-cosine" in scored.stdout
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert {"fragments", "described", "excluded", "queries", "methods"} <= set(scores)
    wanted = {"hit@1", "hit@5", "hit@10", "hit@20", "map@1", "map@5", "map@10", "map", "mrr", "macro_f1@1", "ci95"}
    assert set(scores["methods"]["default"]) == wanted
    assert set(scores["methods"]["default"]["ci95"]) == wanted - {"ci95"}
    assert (tmp_path / "report" / "picture.png").stat().st_size > 10_000
    assert "12 of 12 fragments described" in (tmp_path / "report" / "index.html").read_text()


def test_bad_input_is_one_line_and_leaves_nothing(drawn: Path, encoder_file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "unreadable").mkdir()
    (tmp_path / "unreadable" / "a.jpg").write_text("no image")
    (tmp_path / "missing.csv").write_text("image,join\ngone.jpg,1\n")
    (tmp_path / "column.csv").write_text("colour,join\ngone.jpg,1\n")
    (tmp_path / "text.onnx").write_text("no encoder")
    into = ("--into", tmp_path / "C", "--encoder", encoder_file)
    fails("index", tmp_path / "empty", *into, said="contains no images")
    fails("index", tmp_path / "unreadable", *into, said="could be read")
    fails("index", tmp_path / "missing.csv", *into, said="'gone.jpg'")
    fails("index", tmp_path / "column.csv", *into, said="no column `image`")
    fails("index", drawn, "--into", tmp_path / "C", "--encoder", tmp_path / "text.onnx", said="text.onnx")
    fails("index", drawn, "--into", tmp_path / "unreadable", said="is not a collection")
    assert not (tmp_path / "C").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_bad_questions_to_a_collection(collection: Collection, drawn: Path, tmp_path: Path) -> None:
    (tmp_path / "strangers.csv").write_text("image,join\nx.jpg,1\ny.jpg,1\n")
    (tmp_path / "alone.csv").write_text("image,join\n0000.jpg,1\n0001.jpg,2\n")
    (tmp_path / "column.csv").write_text("image,group\n0000.jpg,1\n")
    (tmp_path / "other.onnx").write_bytes(random_encoder(dimension=9).onnx)
    path = collection.path
    fails("evaluate", path, "--joins", tmp_path / "strangers.csv", said="matches no fragment")
    fails("evaluate", path, "--joins", tmp_path / "alone.csv", said="no fragment has a mate")
    fails("evaluate", path, "--joins", tmp_path / "column.csv", said="no column `join`")
    fails("evaluate", path, "--joins", tmp_path / "none.csv", said="does not exist")
    fails("evaluate", path, "--joins", drawn, "--exclude-same", "side", said="no column `side`")
    fails("evaluate", path, "--joins", drawn, "--methods", "best", said="no method `best`")
    fails("search", path, "nothing.jpg", said="neither a fragment")
    fails("search", tmp_path, "nothing.jpg", said="is not a collection")
    fails("index", drawn, "--into", path, "--encoder", tmp_path / "other.onnx", said="another encoder")
    fails("index", drawn, "--into", path, "--recipe", "paper", said="recipe `membra`")


def test_wrong_usage_is_status_2() -> None:
    for arguments in (
        ("index",),
        ("search", "C"),
        ("nonsense",),
        ("index", "a", "--into", "b", "--recipe", "mine"),
        ("train", "a", "--out", "b.pt"),
        ("train", "a", "--out", "b.onnx", "--joins", "c.csv"),
        ("train", "a", "--out", "b.onnx", "--network", "identity", "--dimension", "9"),
        ("search", "C", "a.jpg", "--cluster", "tcp://localhost:1", "--shortlist", "9"),
        ("search", "C", "a.jpg", "b.jpg"),
        ("search", "C", "a.jpg", "b.jpg", "--together", "--cluster", "tcp://localhost:1"),
        ("export", "C", "--out", "a.json", "--what", "iiif"),
        ("decide", "C", "a.jpg", "b.jpg", "perhaps", "--by", "Rivka"),
    ):
        shown = CliRunner().invoke(cli.cli, arguments)
        assert (shown.exit_code, shown.stdout) == (2, ""), arguments
        assert "Error: " in shown.stderr
    assert run("index").returncode == 2


def test_every_command_has_help_with_an_example() -> None:
    for name, command in cli.cli.commands.items():
        shown = CliRunner().invoke(cli.cli, [name, "--help"])
        assert shown.exit_code == 0
        assert f"Example: membra {name}" in shown.output, name
        assert command.help


def test_every_option_explains_itself() -> None:
    mute = [
        f"{name} {option.opts[0]}"
        for name, command in cli.cli.commands.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert mute == []


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_pipe_that_is_closed_ends_the_command_quietly(collection: Collection, how: tuple[str, ...]) -> None:
    """Like `membra list mine | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from membra.cli import main; main()", "list", str(collection.path), *how]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_verdicts_are_given_and_taken_back(tmp_path: Path) -> None:
    """`decide` writes the same entries as the workbench, and only about existing fragments."""
    into = stored(tmp_path / "C", range(3)).path

    def decide(a: str, b: str, says: str, *more: str) -> tuple[str, str]:
        done = CliRunner().invoke(cli.cli, ["decide", str(into), a, b, says, "--by", "Rivka", *more])
        return done.stdout, str(done.exception or "")

    assert "no verdict on" in decide("0001.jpg", "0000.jpg", "undo")[1]
    assert "nowhere.jpg is not in" in decide("0001.jpg", "nowhere.jpg", "join")[1]
    assert "is one fragment" in decide("0001.jpg", "0001.jpg", "join")[1]
    assert "kept as verdict 1" in decide("0001.jpg", "0000.jpg", "same-hand", "--note", "hooks")[0]
    assert [(v.says, v.by, v.note) for v in Verdicts.open(into).standing()] == [("same hand", "Rivka", "hooks")]
    assert "undone: verdict 1" in decide("0001.jpg", "0000.jpg", "undo")[0]
    assert Verdicts.open(into).standing() == []
    assert len(Verdicts.open(into).history()) == 2


def test_a_demo_keeps_the_verdicts_given_on_it(tmp_path: Path) -> None:
    """The same seed draws the same fragments; another seed would draw others with the same names."""
    _make_room(tmp_path / "demo", "seed 0\n")
    manifest = tmp_path / "demo" / "collection" / "manifest.sqlite"
    manifest.parent.mkdir()
    manifest.touch()
    _make_room(tmp_path / "demo", "seed 0\n")
    assert manifest.exists()
    Verdicts.open(manifest.parent).give("a", "b", "join", by="Rivka")
    _make_room(tmp_path / "demo", "seed 0\n")
    with pytest.raises(MembraError, match="with your verdicts"):
        _make_room(tmp_path / "demo", "seed 1\n")
    (manifest.parent / "verdicts.sqlite").unlink()
    _make_room(tmp_path / "demo", "seed 1\n")
    assert not manifest.parent.exists()


def test_training_says_what_it_trained_on(drawn: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    few = tmp_path / "few"
    few.mkdir()
    for image in sorted((drawn.parent / "images").iterdir())[:2]:
        (few / image.name).write_bytes(image.read_bytes())
    (few / "broken.jpg").write_text("no image")
    out = tmp_path / "e.onnx"
    options = ["--out", str(out), "--epochs", "1", "--dimension", "8", "--device", "cpu"]
    done = CliRunner().invoke(cli.cli, ["train", str(few), *options])
    assert done.exit_code == 0, done.exception
    assert "letters of 2 images after 1 epochs" in done.stdout
    assert done.stderr.count("refused: ") == 1
    assert Encoder.open(out).dimension == 8


def test_adapting_says_who_cannot_be_read_any_more(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    from membra.train.training_settings import IdentitySettings

    brief = IdentitySettings(epochs=0.1, min_letters=256)
    monkeypatch.setattr(import_module("membra.cli.train"), "ADAPTING", brief)
    source, into = tmp_path / "source", tmp_path / "C"
    shutil.copytree(drawn.parent / "images", source)
    (source / "broken.jpg").write_text("no image")
    assert run("index", source, "--into", into).returncode == 0
    (source / "0000.jpg").write_text("no image any more")
    done = CliRunner().invoke(cli.cli, ["adapt", str(into), "--workers", "2", "--device", "cpu"])
    assert done.exit_code == 0, done.exception
    assert "11 fragments described again" in done.stdout
    assert "\nrefused: 0000.jpg: " in done.stderr
    assert "broken.jpg" not in done.stderr  # reported when it was indexed


def test_training_without_torch_names_the_extra(drawn: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from membra.cli import main; main()"
    command = [sys.executable, "-c", code, "train", str(drawn), "--out", str(tmp_path / "e.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "pip install 'membra[train]'" in done.stderr


def test_search_by_transport_without_pot_names_it(collection: Collection) -> None:
    query = collection.entries()[0].fragment.id
    code = "import sys; sys.modules['ot'] = None; from membra.cli import main; main()"
    command = [sys.executable, "-c", code, "search", str(collection.path), query, "--method", "bob-transport"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "pip install POT" in done.stderr


def test_a_demo_never_clears_a_folder_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "fragments.csv").write_text("image\n")
    fails("demo", "--out", tmp_path, said="not from a demo")
    assert (tmp_path / "fragments.csv").read_text() == "image\n"


def test_scores_and_page_take_the_leaf_from_the_joins_file(drawn: Path, encoder_file: Path, tmp_path: Path) -> None:
    """The collection was made from a plain folder and has no leaves."""
    images, into = drawn.parent / "images", tmp_path / "C"
    assert run("index", images, "--into", into, "--encoder", encoder_file, "--workers", "1").returncode == 0
    options = ("--joins", drawn, "--exclude-same", "leaf", "--methods", "bob-chamfer", "--report", tmp_path / "R")
    done = run("evaluate", into, *options)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "R" / "index.html").exists()


def test_fragments_are_removed_by_id(drawn: Path, encoder_file: Path, tmp_path: Path) -> None:
    run("index", drawn, "--into", tmp_path / "C", "--encoder", encoder_file, "--workers", "1")
    fails("remove", tmp_path / "C", "images/0000.jpg", "nowhere.jpg", said="nowhere.jpg is not in")
    assert "1 removed" in run("remove", tmp_path / "C", "images/0000.jpg").stdout
    assert len(json.loads(run("list", tmp_path / "C", "--json").stdout)) == 11


@pytest.mark.skipif(not hasattr(os, "nice"), reason="this system has no priorities to give up")
@pytest.mark.parametrize(("command", "less"), [("index", 10), ("adapt", 10), ("search", 0), ("serve", 0)])
def test_long_work_gives_way_to_whoever_waits(command: str, less: int) -> None:
    program = "import atexit, os; from membra.cli import main; atexit.register(lambda: print(os.nice(0))); main()"
    done = subprocess.run(
        [sys.executable, "-c", program, command, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == str(min(19, os.nice(0) + less))


def test_options_that_had_another_name_keep_it_hidden() -> None:
    done = CliRunner().invoke(cli.cli, ["index", "a", "--into", "b", "--most-side", "5"])
    assert done.exit_code == 2
    assert "--max-side" in done.output, "understood, and out of range"
    assert "most-side" not in CliRunner().invoke(cli.cli, ["index", "--help"]).output
