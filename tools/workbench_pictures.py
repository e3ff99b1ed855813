"""Make the pictures of docs/workbench.md, and the dossier of docs/how-to/export.md, from a drawn collection:

    python tools/workbench_pictures.py [FOLDER]
    MEMBRA_FILM=FILM pytest tests/show/web/test_film.py && python tools/workbench_pictures.py --film FILM

FOLDER keeps the collection (60 fragments of 20 manuscripts) and every picture, also those that no page shows. FILM is
the output folder of the film test, with the pictures of the editor, the inbox and the phone. Needs the extra [test] (a
browser by Playwright) and `chromium` on the path.
"""

import json
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from membra import scribes
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from shelves import start

BETWEEN = 24  # px between pictures of the phone
DOCS = Path(__file__).parents[1] / "docs"
SHOWN = ("compare", "candidates", "hebrew", "map")
FILMED, ON_PHONE = ("fix", "inbox"), ("catalogue", "fix", "inbox", "group")


def main(folder: Path) -> None:
    path = folder / "drawn fragments"
    if not path.is_dir():
        make(path, folder / "images")
    process, url = start(path, folder / "cache")
    try:
        a, b, word = pair(url)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

            def shot(
                name: str,
                page: str,
                act: Callable[[Page], None] = lambda page: None,
                size: tuple[int, int] = (1280, 860),
            ) -> None:
                context = browser.new_context(viewport={"width": size[0], "height": size[1]})
                opened = context.new_page()
                opened.set_default_timeout(120_000)
                opened.goto(page if page.startswith("file:") else url + page)
                opened.wait_for_load_state("networkidle")
                opened.locator("[data-wait]").wait_for(state="detached")  # until background work is done
                act(opened)
                opened.wait_for_timeout(1_000)
                opened.screenshot(path=folder / f"{name}.png")
                context.close()
                print(folder / f"{name}.png", flush=True)

            def closer(page: Page) -> None:
                page.locator("[data-tools=a] [data-do=right]").click()
                for _ in range(2):
                    page.locator("[data-tools=a] [data-do=in]").click()
                page.wait_for_timeout(900)

            compare = f"/compare?a={quote(a)}&b={quote(b)}&word={word}"
            shot("collection", "/")
            shot("fragment", f"/fragment?id={quote(a)}")
            shot("candidates", f"/candidates?id={quote(a)}")
            shot("compare", compare)
            shot("hebrew", f"{compare}&lang=he&theme=dark", closer)
            shot("map", f"/map?at={quote(a)}")
            shot("proposals", "/proposals")
            shot("verdicts", "/verdicts")
            shot("phone", compare, size=(390, 844))
            with urllib.request.urlopen(f"{url}/export/dossier?a={quote(a)}&b={quote(b)}") as answer:
                (folder / "dossier.html").write_bytes(answer.read())
            shot("dossier", (folder / "dossier.html").absolute().as_uri(), size=(1000, 1100))
            browser.close()
    finally:
        process.kill()
        process.communicate()
    for name in SHOWN:
        keep(Image.open(folder / f"{name}.png"), name)
    Image.open(folder / "dossier.png").convert("RGB").quantize(128).save(DOCS / "images/dossier.png", optimize=True)


def filmed(folder: Path) -> None:
    """Save the pictures of the film test in `folder`; those of the phone side by side."""
    for name in FILMED:
        keep(Image.open(folder / f"film-desk-{name}.png"), name)
    scenes = [Image.open(folder / f"film-phone-{name}.png") for name in ON_PHONE]
    width, height = scenes[0].size
    beside = Image.new("RGB", (len(scenes) * (width + BETWEEN) - BETWEEN, height), "white")
    for number, scene in enumerate(scenes):
        beside.paste(scene, (number * (width + BETWEEN), 0))
    keep(beside, "phone")


def keep(picture: Image.Image, name: str) -> None:
    picture.convert("RGB").save(DOCS / f"images/workbench-{name}.jpg", quality=80)


def make(path: Path, images: Path) -> None:
    """Make the collection, with a few verdicts to show."""
    drawn = fragments(scribes.collection(images, manuscripts=20, fragments=60))
    Collection.create(path).add(drawn, workers=2)
    verdicts = Verdicts.open(path)
    by_join: dict[str, list[str]] = {}
    for one in drawn:
        by_join.setdefault(one.columns["join"], []).append(one.id)
    pairs = [own[:2] for own in by_join.values() if len(own) > 1][1:5]
    for (first, other), says in zip(pairs, ("join", "join", "same hand", "unsure"), strict=False):
        verdicts.give(first, other, says, by="R. Levi", note="the same lamed" if says == "join" else "")


def pair(url: str) -> tuple[str, str, int]:
    """Return the first fragment, its best candidate of the same manuscript, and a match with many broad letters."""
    a = fetched(f"{url}/api/collection")["fragments"][0]["id"]
    candidates = fetched(f"{url}/api/candidates?id={quote(a)}")["candidates"]
    b = next(one for one in candidates if one["known"])["card"]["id"]
    shown = fetched(f"{url}/api/compare?a={quote(a)}&b={quote(b)}")

    def worth(match: dict[str, list[int]]) -> float:
        width = sum(shown["a"]["boxes"][index][2] for index in match["letters_a"]) / len(match["letters_a"])
        broad = width > 0.7 * shown["a"]["letter_height"]  # narrow letters such as vav show little
        return float(broad) * min(len(match["letters_a"]), len(match["letters_b"]))

    return a, b, max(shown["matches"][:12], key=worth)["number"]


def fetched(url: str) -> dict:  # type: ignore[type-arg]
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)  # type: ignore[no-any-return]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--film"]:
        filmed(Path(sys.argv[2]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
