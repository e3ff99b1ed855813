"""Collections like a library's, with awkward names, rights and verdicts; a real server and a real browser."""

import csv
import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from membra import scribes
from membra.describe.encoder import Encoder
from membra.show.web import app as application
from membra.show.web.safety import Guard
from membra.sources.fix import fix_of
from membra.sources.fragment import Fragment, fragments
from membra.store.collection import Collection
from membra.store.corrections import Corrections
from membra.store.note import note
from membra.store.people import People, people
from membra.store.verdicts import Verdicts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VENDOR = Path(application.__file__).with_name("vendor")
ODD = 'ב"ג <script>alert(1)-script>.jpg'  # a hostile name
PARAMETERS = ("id", "a", "b", "at", "upload")  # that name a fragment or a dropped image
TITLE = "<script>alert(2)</script>"
PAGES = [
    "/",
    "/fragment?id={a}",
    "/candidates?id={a}",
    "/compare?a={a}&b={b}",
    "/survey?a={a}",
    "/group?id={a}&id={b}",
    "/fit?a={a}&b={b}",
    "/proposals",
    "/verdicts",
    "/map?at={a}",
]
NAMES = (
    "=cmd|'!A0.jpg",
    "אב \"גד'\nה.jpg",
    unicodedata.normalize("NFD", "é-für.jpg"),
    "<script>alert(1)<b>.jpg",
    "x" * 251 + ".jpg",
    "-2 + 3@home.jpg",
)
Enter = Callable[[str], TestClient]  # from a person's name to a browser in which the personal link was opened
SHELFMARKS = ("T-S 8C1.3", "כ״י ירושלים 5", "+1 <script>alert('x')</script>", "@Or. 1080", "", "ENA 1")


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
    """The collection's folder. Shared by all tests: read-only."""
    collection = Collection.create(tmp_path_factory.mktemp("bench") / "shelf", encoder=Encoder.ready(threads=1))
    collection.add(fragments(drawn_shelf))
    return collection.path


@pytest.fixture
def own_shelf(shelf: Path, tmp_path: Path) -> Path:
    """A writable copy."""
    return Path(shutil.copytree(shelf, tmp_path / "shelf"))


def start(path: Path, cache: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server process for the collection `path`; return it and its URL."""
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


@contextmanager
def serving(path: Path, cache: Path) -> Iterator[str]:
    """Yield the URL of a server process for the collection `path`, which is killed at the end."""
    process, url = start(path, cache)
    try:
        yield url
    finally:
        process.kill()
        process.communicate()


@contextmanager
def watched(browser: "Browser", **options: Any) -> "Iterator[Page]":
    """Yield a page on which any script error or violation of the content security policy fails the test."""
    context = browser.new_context(**options)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    yield page
    context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def shared_server(shelf: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    path = Path(shutil.copytree(shelf, tmp_path_factory.mktemp("served") / "shelf"))
    with serving(path, cache) as url:
        yield url, path


@pytest.fixture
def server(shared_server: tuple[str, Path]) -> Iterator[str]:
    """A server with a read-only collection; verdicts of a test are removed after it."""
    url, path = shared_server
    yield url
    for name in ("verdicts", "annotations"):
        for file in path.glob(f"{name}.sqlite*"):
            file.unlink()


@pytest.fixture
def own_server(own_shelf: Path, cache: Path) -> Iterator[str]:
    """A server for tests that change the collection."""
    with serving(own_shelf, cache) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> "Iterator[object]":
    """A real browser, closed after each file: its event loop would conflict with those of other tests."""
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


@pytest.fixture(scope="module")
def client(shelf: Path, cache: Path) -> Iterator[TestClient]:
    """A client of a server that no test writes to."""
    with TestClient(application.create_app(shelf, cache=cache), base_url="http://127.0.0.1:8000") as opened:
        yield opened


@pytest.fixture
def writer(own_shelf: Path, cache: Path) -> Iterator[TestClient]:
    with TestClient(application.create_app(own_shelf, cache=cache), base_url="http://127.0.0.1:8000") as opened:
        opened.headers["x-membra-token"] = opened.get("/api/token").json()["token"]
        yield opened


@pytest.fixture
def enter(own_shelf: Path, cache: Path, tmp_path: Path) -> Iterator[Enter]:
    """The browser of a person who has opened the personal link."""
    file = tmp_path / "people.csv"
    keys = people(file, add=["Rivka", "David", "נועה"])
    guard = Guard(people=People(file))
    opened: list[TestClient] = []
    app = application.create_app(own_shelf, guard=guard, cache=cache)

    def open_link(name: str) -> TestClient:
        client = TestClient(app, base_url="http://127.0.0.1:8000")
        client.__enter__()
        opened.append(client)
        if name:
            typed = {"sec-fetch-site": "none"}  # as for a typed URL, not a link on another site
            client.get("/enter", params={"key": keys[name]}, headers=typed).raise_for_status()
            client.headers["x-membra-token"] = client.get("/api/token").json()["token"]
        return client

    yield open_link
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture(scope="session")
def decided(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Six fragments, two of them from a library with an image service; four verdicts, one taken back."""
    folder = tmp_path_factory.mktemp("decided")
    found = []
    for fragment, name, shelfmark in zip(fragments(drawn), NAMES, SHELFMARKS, strict=False):
        path = folder / name
        shutil.copy(fragment.path, path)
        columns = {"shelfmark": shelfmark, "join": fragment.columns["join"]}
        if name in NAMES[:2]:
            version = "3" if name == NAMES[0] else "1"
            columns |= {
                "manifest": "https://library.example/manifest",
                "canvas": "https://library.example/canvas/1",
                "rights": "https://creativecommons.org/licenses/by-nc/4.0/"
                if version == "3"
                else "all rights reserved",
                "attribution": "<script>alert(1)</script>",
                "service": f"https://library.example/image/{version}/a%2Fb",
                "image_api": version,
            }
        found.append(Fragment(name, path, columns))
    collection = Collection.create(folder / "אוסף", encoder=Encoder.ready(threads=1))
    collection.add(found)
    verdicts = Verdicts.open(collection.path)
    wrong = verdicts.give(NAMES[0], NAMES[1], "no", by="A", note="=HYPERLINK(1)")
    verdicts.undo(wrong.number, by="A", note="mistyped")
    verdicts.give(NAMES[0], NAMES[1], "join", by="ש. לוי", note="אותה יד\n<script>alert(2)</script>")
    verdicts.give(NAMES[1], NAMES[2], "join", by="@B")
    verdicts.give(NAMES[3], NAMES[4], "unsure", by="C")
    first = collection.entries()[0]
    turned = [fix_of("turn", 2)]
    Corrections.open(collection.path).give(first.fragment.photograph, "", first.sha256, turned, by="@B", note="=1+1")
    note(collection, first.fragment.id, by="@B", text="=1+1 אותה יד", tags=["+recto"])
    return collection
