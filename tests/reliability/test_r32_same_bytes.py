"""The same seed twice: the same bytes."""

import hashlib
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from membra import demo, scribes
from membra.cli import cli
from membra.describe.recipe import MEMBRA
from membra.sources.fragment import fragments
from membra.store import manifest
from membra.store.index import index


def digests(folder: Path) -> dict[str, str]:
    """Every file by its path below `folder`; a manifest by what it says, since SQLite counts its transactions."""
    found = {}
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        name = file.relative_to(folder).as_posix()
        if file.name == manifest.FILE:
            with manifest.connect(file.parent) as database:
                question = "SELECT number, id, sha256, columns, refused, note, glyphs, shard, place FROM fragments"
                content = repr([database.execute(question).fetchall(), manifest.read_meta(database)]).encode()
        elif file.name.startswith(manifest.FILE) or file.name == "writer.lock":
            continue
        else:
            content = re.sub(rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC", b"", file.read_bytes())  # when a dossier was made
        found[name] = hashlib.sha256(content).hexdigest()
    return found


@pytest.mark.slow
@pytest.mark.row(times=2)
def test_r32_drawn_indexed_and_exported_twice(tmp_path: Path) -> None:
    """Tried: fragments drawn, indexed, searched and exported (CSV, IIIF, dossier) twice with one seed, and drawn with
    another

    Seen to fail: the hand's generator without its seed: images differed, and all that is made of them
    """
    for name in ("a", "b"):
        folder = tmp_path / "work"
        table = scribes.collection(folder, manuscripts=2, fragments=4, letters=(20, 30), seed=3)
        index(fragments(table), folder / "C", recipe=MEMBRA, encoder=None)
        for what, out in (("candidates", "c.csv"), ("fragments", "f.csv"), ("iiif", "m.json"), ("dossier", "d.html")):
            pair = ["--pair", "images/0000.jpg", "images/0001.jpg"] if what in ("iiif", "dossier") else []
            command = ["export", str(folder / "C"), "--what", what, "--out", str(folder / out), *pair]
            done = CliRunner().invoke(cli, command, catch_exceptions=False)
            assert done.exit_code == 0, done.output
        folder.rename(tmp_path / name)  # at the same place both times: exports name paths
    first, second = digests(tmp_path / "a"), digests(tmp_path / "b")
    assert len(first) > 12
    assert first == second
    scribes.collection(tmp_path / "c", manuscripts=2, fragments=4, letters=(20, 30), seed=4)
    other = digests(tmp_path / "c")
    assert all(first[name] != digest for name, digest in other.items() if name.endswith(".jpg"))


@pytest.mark.slow
@pytest.mark.row(times=2)
def test_r32_the_demo_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried: `membra demo` with fewer fragments, twice: images, collection, scores, pages and plots

    Seen to fail: the camera's generator without its seed: every image differed, and so the collection and the report
    """
    monkeypatch.setattr(demo, "MANUSCRIPTS", 2)
    monkeypatch.setattr(demo, "FRAGMENTS", 5)
    scores = []
    for name in ("a", "b"):
        found, _ = demo.run_demo(tmp_path / "work", seed=1, bar=lambda label: lambda done, total: None)
        scores.append(found)
        (tmp_path / "work").rename(tmp_path / name)  # away: a demo keeps what an earlier one left, verdicts and all
    assert scores[0] == scores[1]
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
