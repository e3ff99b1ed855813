"""The dossier: one small file that opens offline from the disk, and is harmless whatever the names contain."""

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image, ImageDraw

from membra.cli import cli
from membra.describe.encoder import Encoder
from membra.errors import MembraError
from membra.show.dossier import MAX_BYTES, write_dossier
from membra.show.holding import Holding
from membra.show.iiif_export import write_manifest
from membra.sources.fragment import Fragment
from membra.store.collection import Collection


@pytest.fixture(scope="module")
def page(decided: Collection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    ids = [entry.fragment.id for entry in decided.entries()]
    return write_dossier(decided, ids[0], ids[1], tmp_path_factory.mktemp("dossier") / "צירוף.html")


def test_it_needs_nothing_else_and_says_everything(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 3_000_000
    assert set(re.findall(r'(?:src|srcset)="([^:"]*:)', html)) == {"data:"}
    assert not re.search(r"<script|<link|<iframe|@import|url\(|\son\w+=", html)
    assert "default-src 'none'" in html
    for said in (
        "T-S 8C1.3",
        "כ״י ירושלים 5",
        "ש. לוי",
        "אותה יד",
        "undoes no. 1",
        "by-nc/4.0",
        "all rights reserved",
    ):
        assert said in html
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in html
    assert 'dir="auto"' in html


def test_it_opens_in_a_browser_with_the_network_off(page: Path) -> None:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no Chromium on this machine")
    asked, said = [], []
    with sync.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = opened.new_context(offline=True, viewport={"width": 390, "height": 800}).new_page()
        shown.on("request", lambda request: asked.append(request.url.partition(":")[0]))
        shown.on("console", lambda message: said.append(message.text))
        shown.on("dialog", lambda dialog: said.append(dialog.message))
        shown.goto(page.as_uri())
        loaded = shown.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
        wide = shown.evaluate("document.documentElement.scrollWidth")
        shown.keyboard.press("Tab")
        shown.check("#k1")
        left = shown.locator(".photo g:visible").evaluate_all("all => [...new Set(all.map(g => g.className.baseVal))]")
        opened.close()
    assert set(asked) <= {"file", "data"}
    assert said == []
    assert len(loaded) > 8
    assert all(loaded)
    assert wide == 390  # nothing overflows on a phone
    assert left == ["k1"]


def test_no_rank_is_printed_where_it_is_not_known(
    decided: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large collection, that of a pair beyond the first candidates."""
    monkeypatch.setattr("membra.show.holding.NEAR", 1)
    monkeypatch.setattr("membra.show.holding.SMALL", 1)
    ids = [entry.fragment.id for entry in decided.entries()]
    ranked = {rank: (ids[0], id) for id in ids[1:] for rank in (Holding(decided).apart(ids[0], id)[1],)}
    drawn: list[str] = []
    text = ImageDraw.ImageDraw.text

    def record(self: ImageDraw.ImageDraw, xy: tuple[float, float], said: str, **more: Any) -> None:
        drawn.append(said)
        text(self, xy, said, **more)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", record)
    for rank, said in ((1, True), (0, False)):
        pair, page, picture = ranked[rank], tmp_path / f"{rank}.html", tmp_path / f"{rank}.png"
        drawn.clear()
        for out in (page, picture):
            done = CliRunner().invoke(cli, ["explain", str(decided.path), "--out", str(out), "--", *pair])
            assert done.exit_code == 0, done.output
            assert ("candidate" in done.output) == said
        html = page.read_text(encoding="utf-8")
        assert ("<dt>Candidate</dt>" in html) == said
        assert "number 0" not in html
        assert [f"candidate {rank}" in one for one in drawn if one.startswith("distance")] == [said]
        document, _ = write_manifest(decided, [pair], tmp_path / f"{rank}.json")
        compared = [one["value"]["none"][0] for one in document["metadata"] if one["label"]["en"] == ["Compared"]]
        assert ["candidate" in one for one in compared] == [said]


def test_explain_and_export_write_the_same_one(decided: Collection, tmp_path: Path) -> None:
    """Except for the minute of its creation."""
    a, b = (entry.fragment.id for entry in decided.entries()[:2])
    for command in (["explain", str(decided.path), a, b], ["export", str(decided.path), "--pair", a, b]):
        done = CliRunner().invoke(cli, [*command, "--out", str(tmp_path / f"{command[0]}.html")])
        assert done.exit_code == 0, done.output
    first, second = (
        re.sub(r" on [-0-9]{10} [0-9:]{5} UTC", "", (tmp_path / f"{name}.html").read_text(encoding="utf-8"))
        for name in ("explain", "export")
    )
    assert first == second
    assert "undoes no. 1" in first


def test_a_doubtful_fragment_is_marked_beside_its_photograph(own_shelf: Path, tmp_path: Path) -> None:
    collection = Collection.open(own_shelf)
    a, b = (entry.fragment.id for entry in collection.entries()[1:3])
    with sqlite3.connect(own_shelf / "manifest.sqlite") as database:
        database.execute("UPDATE fragments SET note = 'doubtful', angle = NULL WHERE id = ?", (a,))
    html = write_dossier(collection, a, b, tmp_path / "d.html").read_text(encoding="utf-8")
    captions = re.findall("<figcaption>(.*?)</figcaption>", html)
    assert "– doubtful" in captions[0]
    assert "the upright orientation is uncertain" in captions[0]
    assert "–" not in captions[1]


def test_without_a_verdict_it_says_so(decided: Collection, tmp_path: Path) -> None:
    ids = [entry.fragment.id for entry in decided.entries()]
    html = write_dossier(decided, ids[0], ids[5], tmp_path / "d.html").read_text(encoding="utf-8")
    assert "There is no verdict yet" in html
    assert "<h2>History</h2>" not in html


def test_bad_requests_are_one_line(decided: Collection, tmp_path: Path) -> None:
    a = decided.entries()[0].fragment.id
    for b, out, said in (
        ("nowhere", "d.html", "is not in"),
        (a, "d.html", "one fragment"),
        ("x", "d.pdf", "must end in"),
        ("x", "no/d.html", "the folder of"),
    ):
        with pytest.raises(MembraError, match=said):
            write_dossier(decided, a, b, tmp_path / out)


@pytest.mark.slow
def test_photographs_that_do_not_compress_still_fit(drawn: Path, tmp_path: Path) -> None:
    """Noise over letters at 3000 px: the worst case of a photograph."""
    found = []
    for name in ("a.jpg", "b.jpg"):
        with Image.open(drawn.parent / "images" / "0000.jpg") as image:
            scale = 3000 / max(image.size)
            large = np.asarray(image.convert("RGB").resize([round(side * scale) for side in image.size])).astype(int)
        noisy = np.clip(large + np.random.default_rng(1).integers(-24, 24, large.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(tmp_path / name, quality=97)
        found.append(Fragment(name, tmp_path / name))
    collection = Collection.create(tmp_path / "C", encoder=Encoder.ready(threads=1))
    assert collection.add(found).described == 2
    assert write_dossier(collection, "a.jpg", "b.jpg", tmp_path / "d.html").stat().st_size < MAX_BYTES < 3_000_000
