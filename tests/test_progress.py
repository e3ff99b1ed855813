"""One progress protocol, and one logger, which is silent by default."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import membra
from membra.cli import cli
from membra.find.search import search
from membra.progress import log
from membra.store.collection import Collection

SOURCE = Path(membra.__file__).parent


def test_there_is_one_protocol_and_one_logger() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "progress: Callable" not in text, path
        assert "report: " not in text or path.parent.name == "cli", path
        if path.name not in ("progress.py", "console.py", "cluster.py"):  # cluster.py silences Dask's logger
            assert "import logging" not in text, path


def test_whoever_listens_hears_what_is_done(
    collection: Collection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = shutil.copytree(collection.path, tmp_path / "C", ignore=shutil.ignore_patterns("codebook-*"))
    with caplog.at_level(logging.INFO, "membra"):
        own = Collection.open(copy)
        id = own.entries()[0].fragment.id
        search(own, id, method="bow-raw-l2")
        search(own, id, method="bow-raw-l2")
        own.remove([id])
    assert [record.message.replace(str(own.path), "C") for record in caplog.records] == [
        "opened C: 1 shards, recipe membra",
        "C: fitting the codebook over the raw of 12 fragments",
        "C: 1 fragments removed",
    ]
    assert {record.name for record in caplog.records} == {"membra"}


def test_nobody_else_hears_anything(collection: Collection) -> None:
    program = (
        "import membra, warnings\n"
        f"found = membra.Collection.open({str(collection.path)!r})\n"
        "membra.search(found, found.entries()[0].fragment.id)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_commands_say_it_when_asked(collection: Collection) -> None:
    handlers = list(log.handlers)
    quiet = CliRunner().invoke(cli, ["list", str(collection.path)])
    loud = CliRunner().invoke(cli, ["-v", "list", str(collection.path)])
    assert (quiet.exit_code, loud.exit_code) == (0, 0)
    assert quiet.stderr == ""
    assert f"opened {collection.path}: 1 shards" in loud.stderr
    assert quiet.stdout == loud.stdout
    assert (log.handlers, log.level) == (handlers, logging.NOTSET)
