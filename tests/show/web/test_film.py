"""The film: from a spreadsheet to a dossier in one continuous scenario, played in a real browser.

Played in English on a desktop, and in Hebrew on a phone with a dark theme. MEMBRA_FILM=FOLDER saves its pictures.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from openpyxl import Workbook
from playwright.sync_api import Browser, Page, ViewportSize, expect

from membra import scribes
from membra.describe.encoder import Encoder
from membra.find.search import search, search_together
from membra.show.web.translations import say
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts
from shelves import serving, watched
from taped import OWN, TAPED, taped

PAIRS = 20  # to decide on
HANDS, LEAVES = 7, 2  # manuscripts, and leaves per manuscript
LEAF = 6, 60  # the leaf under the label, and its number of letters: enough to find its mates without the label
LATE = "m0-2.jpg"  # a third leaf of the first manuscript, to be found by the group search
VERSO = "m6-1.jpg"  # of the thirteenth leaf
# The characters of a Hebrew layout for the keys that decide, postpone and undo.
KEYS = {"J": "ח", "H": "י", "U": "ו", "N": "מ", "L": "ך", "Z": "ז"}
SAYS = {"J": "join", "H": "same hand", "U": "unsure", "N": "no"}


@dataclass(frozen=True)
class Variant:
    """The settings of one run of the film."""

    language: str
    theme: str
    size: ViewportSize
    name: str
    headers: tuple[str, ...]  # what the spreadsheet calls image, shelfmark, library, leaf, side, and an unknown column

    @property
    def phone(self) -> bool:
        return self.size["width"] < 500


VARIANTS = {
    "desk": Variant(
        "en",
        "light",
        {"width": 1280, "height": 900},
        "Rivka",
        ("Bilddatei", "Signatur", "Bibliothek", "Blatt", "Seite", "Fundort <b>"),
    ),
    "phone": Variant(
        "he",
        "dark",
        {"width": 390, "height": 844},
        "רבקה",
        ("קובץ", "סימן מדף", "ספרייה", "דף", "צד", "נמצא ב"),
    ),
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven manuscripts of two leaves each, a third leaf of the first, and one of its leaves rotated and taped."""
    folder = tmp_path_factory.mktemp("film")
    (folder / "images").mkdir()
    names = [f"m{hand}-{leaf}.jpg" for hand in range(HANDS) for leaf in range(LEAVES)]
    for name in (*names, LATE):
        hand, leaf = int(name[1]), int(name[3])
        one = scribes.fragment(scribes.hand(OWN + hand), scribes.camera(2), letters=50, seed=100 * hand + leaf)
        (folder / "images" / name).write_bytes(one.jpeg)
    cv2.imwrite(str(folder / "images" / TAPED), taped(*LEAF)[0][..., ::-1])
    collection = Collection.create(folder / "Geniza", encoder=Encoder.ready(threads=1))
    collection.add(fragments(folder / "images"))
    return collection.path


@pytest.fixture(params=list(VARIANTS))
def variant(request: pytest.FixtureRequest) -> Variant:
    return VARIANTS[request.param]


@pytest.fixture
def shelf(drawn: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(drawn, tmp_path / "Geniza"))


@pytest.fixture
def url(shelf: Path, cache: Path) -> Iterator[str]:
    with serving(shelf, cache) as url:
        yield url


@pytest.fixture
def page(browser: Browser, variant: Variant) -> Iterator[Page]:
    """A browser with the language, theme and size of the variant; script errors fail the test."""
    with watched(
        browser,
        viewport=variant.size,
        locale={"en": "en-GB", "he": "he-IL"}[variant.language],
        color_scheme="dark" if variant.theme == "dark" else "light",
        has_touch=variant.phone,
        is_mobile=variant.phone,
    ) as page:
        yield page


def test_from_a_spreadsheet_to_a_dossier(page: Page, url: str, shelf: Path, variant: Variant, scripts: None) -> None:
    t = partial(say, language=variant.language)
    shot = camera(page, variant)
    page.goto(url)
    expect(page.locator("html")).to_have_attribute("dir", "rtl" if variant.language == "he" else "ltr")
    assert dark(page) == (variant.theme == "dark")

    bring_the_catalogue_in(page, url, variant, t, shot)
    assert Collection.open(shelf).mapping()[variant.headers[-1]] == "place"
    columns = {entry.fragment.id: dict(entry.fragment.columns) for entry in Collection.open(shelf).entries()}
    brought = {"shelfmark": "T-S NS 100.3", "library": "Oxford", "leaf": "3", "side": "recto", "place": "Fustat"}
    assert columns["m1-0.jpg"] | brought == columns["m1-0.jpg"]

    assert rank_of_mate(shelf) > 1, "under the label it is of another hand"
    before, thumbnail = mates_rank_on_page(page, url), thumbnail_of(page)
    assert before == rank_of_mate(shelf)
    put_right(page, url, variant, t, shot)
    assert mates_rank_on_page(page, url) == rank_of_mate(shelf) == 1
    assert thumbnail_of(page) != thumbnail, "it is seen upright now, whatever the browser had kept"
    expect(page.locator(".ranked > .card")).to_have_count(HANDS * LEAVES)  # recto and verso of a leaf share one
    expect(page.locator(".ranked .sides")).to_contain_text("verso")
    shot("candidates")

    said = decide_twenty(page, url, variant, t, shot)
    verdicts = Verdicts.open(shelf)
    assert {(v.a, v.b): v.says for v in verdicts.standing()} == said
    assert (len(said), set(said.values())) == (PAIRS, set(SAYS.values()))
    history = verdicts.history()
    assert len(history) == PAIRS + 2, "what was taken back, and that it was, stay in the history"
    assert [v.undone for v in history] == [False] * (PAIRS - 1) + [True, False, False]
    assert {v.by for v in history} == {variant.name}

    group = next(group for group in verdicts.groups() if TAPED in group)
    assert all(name.startswith("m0-") for name in group if name != TAPED)
    ask_with_the_group(page, url, shelf, group, shot)
    take_away(page, shelf, [*group, LATE], t)


def bring_the_catalogue_in(
    page: Page, url: str, variant: Variant, t: Callable[..., str], shot: Callable[[str], None]
) -> None:
    """Choose the spreadsheet, set the one column that was not guessed, and join it."""
    page.goto(f"{url}/?show=all")
    page.get_by_role("link", name=t("Import a catalogue: shelfmarks, libraries, sizes")).click()
    page.locator("input[type=file][name=table]").set_input_files(
        {"name": "Katalog.xlsx", "mimeType": "application/octet-stream", "buffer": spreadsheet(variant)}
    )
    page.get_by_role("button", name=t("Preview")).click()
    count = HANDS * LEAVES + 2
    said = t(
        "{rows} rows, which match {matched} fragments; {unmatched} rows match no fragment.",
        rows=count + 1,
        matched=count,
        unmatched=1,
    )
    expect(page.get_by_text(said)).to_be_visible()
    ours = [page.locator(f"select[aria-label='{header}']").input_value() for header in variant.headers]
    assert ours == ["image", "shelfmark", "library", "leaf", "side", variant.headers[-1]]
    page.locator(f"select[aria-label='{variant.headers[-1]}']").select_option("place")
    shot("catalogue")
    page.get_by_role("button", name=t("Join to the collection")).click()
    expect(page.get_by_text(t("The catalogue was joined: its rows match {n} fragments.", n=count))).to_be_visible()


def put_right(page: Page, url: str, variant: Variant, t: Callable[..., str], shot: Callable[[str], None]) -> None:
    """Paint out the label corner by corner, and rotate the leaf until its writing is upright."""
    page.goto(f"{url}/fragment?id={TAPED}")
    page.locator(".fix > summary").click()
    form = page.locator("[data-fix][data-ready=true]")
    expect(form).to_be_visible()
    page.locator("[name=tool][value=polygon]").check()
    page.locator(".viewer").scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # photographs move smoothly
    label = taped(*LEAF)[1]
    for x, y in label:
        at = page.evaluate(
            """([x, y]) => {
                const at = new DOMPoint(x, y).matrixTransform(window.membra.viewers[0].pixels.getScreenCTM());
                return [at.x, at.y];
            }""",
            [x, y],
        )
        (page.touchscreen.tap if variant.phone else page.mouse.click)(*at)
    page.locator(".fix-stage").press("Enter")
    expect(page.locator(".fixes .painted")).to_have_count(1)
    points = [[int(n) for n in point.split(",")] for point in page.locator("[name=paint_out]").input_value().split()]
    np.testing.assert_allclose(points, label, atol=4)
    shot("fix")
    page.locator("[name=turn]").fill("200")
    page.locator("[data-fix] [name=by]").fill(variant.name)
    form.get_by_role("button", name=t("Describe again")).click()
    expect(page.locator(".mark.corrected")).to_be_visible(timeout=60_000)
    shot("fixed")


def decide_twenty(
    page: Page, url: str, variant: Variant, t: Callable[..., str], shot: Callable[[str], None]
) -> dict[tuple[str, str], str]:
    """Decide on twenty pairs with the keys of a Hebrew layout, on the last twice; return the verdicts by pair."""
    page.goto(f"{url}/inbox")
    page.locator("select[name=across]").wait_for(timeout=60_000)
    with page.expect_navigation():
        page.locator("select[name=across]").select_option("library")
    page.locator("input[name=by]").fill(variant.name)
    page.locator("h1").click()  # leave the field
    tell = page.context.new_cdp_session(page)
    said: dict[tuple[str, str], str] = {}

    def press(key: str) -> None:
        """Press a key like a keyboard whose J types ח."""
        event = {"code": f"Key{key}", "key": KEYS[key], "windowsVirtualKeyCode": ord(key)}
        with page.expect_navigation(wait_until="domcontentloaded"):
            tell.send("Input.dispatchKeyEvent", {"type": "keyDown", "text": KEYS[key], **event})
            tell.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})

    def shown() -> tuple[str, str]:
        a, b = (page.locator(f".decide [name={end}]").input_value() for end in "ab")
        return a, b

    doubts = ["U", "H"]
    while len(said) < PAIRS:
        pair = shown()
        assert pair not in said, "what was decided does not come again"
        if LATE in pair:
            press("L")
            continue
        expect(page.locator(".facts b").first).to_contain_text(re.compile(rf"\b{len(said) + 1}\b"))
        key = "J" if manuscript(pair[0]) == manuscript(pair[1]) else doubts.pop() if doubts else "N"
        if len(said) == 3:
            for side in ("a", "b"):
                expect(page.locator(f"[data-viewer={side}][data-ready=true]")).to_be_visible()
            page.wait_for_load_state("networkidle")
            shot("inbox")
        press(key)
        said[pair] = SAYS[key]
    press("Z")
    assert shown() == pair, "what was taken back is asked again"
    press(key)
    assert shown() not in said
    assert "across=library" in page.url
    return said


def ask_with_the_group(page: Page, url: str, shelf: Path, group: list[str], shot: Callable[[str], None]) -> None:
    """Go from the fragment to its group; the remaining leaf is the first candidate, and is joined."""
    page.goto(f"{url}/fragment?id={TAPED}")
    page.locator("a[href^='/group?id=']").first.click()
    expect(page.locator(".leaves .strip li")).to_have_count(len(group))
    first = page.locator(".ranked .card").first
    found = search_together(Collection.open(shelf), group, top=3).hits
    assert found[0].id == LATE
    expect(first.locator(".name")).to_contain_text("T-S NS 100.15")
    first.locator("a[href^='/group?']").click()
    expect(page.locator(".leaves .strip li")).to_have_count(len(group) + 1)
    page.wait_for_load_state("networkidle")
    shot("group")


def take_away(page: Page, shelf: Path, ids: list[str], t: Callable[..., str]) -> None:
    """Download dossier and manifest of the group."""
    names = {entry.fragment.id: entry.fragment.columns["shelfmark"] for entry in Collection.open(shelf).entries()}
    with page.expect_download() as taken:
        page.get_by_role("link", name=t("Dossier of this group")).click()
    dossier = taken.value.path().read_text(encoding="utf-8")
    assert all(names[id] in dossier for id in ids)
    assert "Cambridge" in dossier
    assert dossier.count("data:image/jpeg;base64,") >= len(ids), "photographs are in the file"
    assert not re.search(r"<(script|link)\b|src=\"https?:", dossier)
    with page.expect_download() as taken:
        page.get_by_role("link", name=t("IIIF manifest")).click()
    manifest: dict[str, Any] = json.loads(taken.value.path().read_text(encoding="utf-8"))
    assert manifest["type"] == "Manifest"
    labels = [label for canvas in manifest["items"] for label in canvas["label"]["none"]]
    assert sorted(labels) == sorted(f"{names[id]} recto" for id in ids)


def spreadsheet(variant: Variant) -> bytes:
    """Return a catalogue written like by Excel, with headers unknown to membra, and one row that matches no image."""
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(list(variant.headers))
    names = [f"m{hand}-{leaf}.jpg" for hand in range(HANDS) for leaf in range(LEAVES)]
    for number, name in enumerate([*names, LATE, TAPED, "lost.jpg"], start=1):
        leaf = 13 if name == VERSO else number
        library = ("Cambridge", "Oxford")[leaf % 2]
        sheet.append([name, f"T-S NS 100.{leaf}", library, leaf, "verso" if name == VERSO else "recto", "Fustat"])
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def manuscript(id: str) -> str:
    return "m0" if id == TAPED else id[:2]


def rank_of_mate(shelf: Path) -> int:
    """Return the rank of the first mate among all candidates of the taped fragment."""
    hits = search(Collection.open(shelf), TAPED, top=100).hits
    return next(hit.rank for hit in hits if manuscript(hit.id) == "m0")


def mates_rank_on_page(page: Page, url: str) -> int:
    page.goto(f"{url}/candidates?id={TAPED}")
    shown: list[list[str]] = page.locator(".ranked .card > a").evaluate_all(
        "all => all.map(one => [new URL(one.href).searchParams.get('b'), one.querySelector('.rank').innerText])"
    )
    return next(int(rank) for id, rank in shown if manuscript(id) == "m0")


def thumbnail_of(page: Page) -> list[int]:
    """Return width and height of the query's thumbnail, px."""
    page.wait_for_load_state("networkidle")
    size: list[int] = page.locator(".query img").evaluate("image => [image.naturalWidth, image.naturalHeight]")
    return size


def dark(page: Page) -> bool:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) < 150


def camera(page: Page, variant: Variant) -> Callable[[str], None]:
    """Return a function that saves a picture of the page if a folder is given, and checks that nothing overflows."""
    folder = os.environ.get("MEMBRA_FILM", "")
    name = next(name for name, one in VARIANTS.items() if one == variant)

    def shot(scene: str) -> None:
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= variant.size["width"], f"{scene} reaches beyond the screen"
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=Path(folder) / f"film-{name}-{scene}.png")

    return shot
