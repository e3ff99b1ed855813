"""A drawn collection with everything that a library has, a real server for it, and a real browser."""

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from membra import scribes
from membra.describe.encoder import Encoder
from membra.find.collection import Collection
from membra.see.fragment import fragments
from membra.show.web import app as application

VENDOR = Path(application.__file__).with_name("vendor")
ODD = 'ב"ג <script>alert(1)-script>.jpg'  # a name as nobody should give, and somebody will
TITLE = "<script>alert(2)</script>"


@pytest.fixture(scope="session")
def drawn_shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten drawn fragments of three manuscripts with shelfmarks, one oddly named, one with few letters, one no image."""
    folder = tmp_path_factory.mktemp("shelf")
    table = scribes.collection(folder, manuscripts=3, fragments=10, letters=(45, 80), seed=11)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    few = scribes.fragment(scribes.hand(90), scribes.camera(90), letters=6, seed=90)
    (folder / "images" / "few.jpg").write_bytes(few.jpeg)
    (folder / "images" / "broken.jpg").write_text("this is no image")
    (folder / rows[0]["image"]).rename(folder / "images" / ODD)
    rows[0]["image"] = f"images/{ODD}"
    more = [
        {"image": f"images/{name}.jpg", "join": "", "leaf": "", "camera": "", "letters": ""}
        for name in ("few", "broken")
    ]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "join", "leaf", "shelfmark", "collection", "title"])
        for number, row in enumerate([*rows, *more], start=1):
            whose = "Geniza" if number % 2 else "אוסף"
            writer.writerow([row["image"], row["join"], row["leaf"], f"T-S 8C{number}.1", whose, TITLE])
    return table


@pytest.fixture(scope="session")
def shelf(drawn_shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection's folder. Shared by all tests: look at it, do not write to it."""
    made = Collection.create(tmp_path_factory.mktemp("bench") / "shelf", encoder=Encoder.ready(threads=1))
    made.add(fragments(drawn_shelf))
    return made.path


@pytest.fixture
def own_shelf(shelf: Path, tmp_path: Path) -> Path:
    """A copy to write to."""
    return Path(shutil.copytree(shelf, tmp_path / "shelf"))


def start(path: Path, cache: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A server of its own process for the collection `path`, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from membra.cli import main; main()", "serve", str(path), "--port", "0", *more],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout
    line = process.stdout.readline()
    assert "http://" in line, line
    return process, line.split("  ")[0].split(": ", 1)[1].rstrip("/")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def shared_server(shelf: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    path = Path(shutil.copytree(shelf, tmp_path_factory.mktemp("served") / "shelf"))
    process, address = start(path, cache)
    yield address, path
    process.kill()
    process.communicate()


@pytest.fixture
def server(shared_server: tuple[str, Path]) -> Iterator[str]:
    """A server whose collection stays as it is; what a test decides is forgotten after it."""
    address, path = shared_server
    yield address
    for file in path.glob("verdicts.sqlite*"):
        file.unlink()


@pytest.fixture
def own_server(own_shelf: Path, cache: Path) -> Iterator[str]:
    """For a test that adds to the collection."""
    process, address = start(own_shelf, cache)
    yield address
    process.kill()
    process.communicate()


@pytest.fixture(scope="session")
def browser() -> "Iterator[object]":
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium on this machine: the pages are not tested in a browser")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # machines are busy
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def scripts() -> None:
    if not (VENDOR / "openseadragon.js").is_file():
        pytest.skip("the scripts that npm brings are not there: `make test` fetches them")
