"""Check in a real browser that the boxes that the workbench highlights lie on their letters.

    python tools/boxes_on_letters.py COLLECTION [--joins CSV] [--pairs 20]

For up to `--pairs` pairs of fragments of one manuscript (column `join`, different leaves; manuscripts in turn), opens
the comparison in Chromium, highlights the match with the most letters, and shows both photographs at several zooms and
rotations. Around each highlighted box it searches the screenshot for the letter: `worst` is the largest distance from a
box to its letter, in letter heights, and `nowhere` the number of letters not found. Prints one line of JSON; the
exit status is 1 if a box misses by a tenth of a letter height or more, or a letter is not found.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from urllib.parse import quote

import numpy as np
from playwright.sync_api import Browser, expect, sync_playwright

from membra.judge.joins import read_joins
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph
from membra.store.collection import Collection

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from places import choose_most, offset, settled
from shelves import start

# Centre each viewer on a highlighted letter, so that some are on the screen at every zoom and rotation.
SEE = """
    document.querySelector('[data-do=tied]').checked = false;
    for (const [n, v] of window.membra.viewers.entries()) {
        v.turn = turns[n];
        const at = [...v.boxes.children].find((one) => one.classList.contains('lit'));
        const get = (name) => Number(at.getAttribute(name));
        v.show(height / v.shown.letter, { x: get('x') + get('width') / 2, y: get('y') + get('height') / 2 });
    }
"""
LOOKS = [(28, (0, 0)), (36, (90, -37)), (48, (-143, 180)), (70, (12, -90))]  # letter height on the screen; rotations


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("collection", type=Path)
    parser.add_argument("--joins", type=Path, help="known joins, if the collection has no column `join`")
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    expect.set_options(timeout=90_000)
    found, nowhere, unseen = [], 0, 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(shutil.copytree(options.collection, Path(folder) / options.collection.name))
        process, url = start(path, Path(folder) / "cache")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for number, (a, b) in enumerate(pairs(path, options.joins, options.pairs), start=1):
            misses = look(browser, url, a, b)
            print(f"{number}: {a.id} and {b.id}: {misses}", file=sys.stderr, flush=True)
            nowhere += misses.count("nowhere")
            unseen += sum(isinstance(one, float) and bool(np.isnan(one)) for one in misses)
            found.append([one for one in misses if isinstance(one, float) and not np.isnan(one)])
        process.kill()
        process.communicate()
        browser.close()
    every = [miss for one in found for miss in one]
    result = {
        "pairs": len(found), "looks": len(every), "worst": max(every), "median": float(np.median(every)),
        "nowhere": nowhere, "unseen": unseen,
    }  # fmt: skip
    print(json.dumps(result))
    sys.exit(nowhere > 0 or max(every) >= 0.1)


def pairs(path: Path, joins: Path | None, most: int) -> list[tuple[Fragment, Fragment]]:
    """At most `most` pairs from one manuscript and different leaves, one of each manuscript in turn."""
    fragments = [entry.fragment for entry in Collection.open(path).entries() if not entry.refused]
    known = read_joins(joins, [one.id for one in fragments]) if joins else {one.id: one.columns for one in fragments}
    by_join: dict[str, list[Fragment]] = {}
    for one in fragments:
        if known.get(one.id, {}).get("join"):
            by_join.setdefault(known[one.id]["join"], []).append(one)
    turns: list[Iterator[tuple[Fragment, Fragment]]] = [combinations(own, 2) for own in by_join.values()]
    found: list[tuple[Fragment, Fragment]] = []
    while turns and len(found) < most:
        turn = turns.pop(0)
        for a, b in turn:
            if known[a.id].get("leaf", a.id) != known[b.id].get("leaf", b.id):
                found.append((a, b))
                turns.append(turn)
                break
    if not found:
        raise SystemExit("no two fragments of one manuscript are known; give --joins CSV")
    return found


def look(browser: Browser, url: str, a: Fragment, b: Fragment) -> list[float | str]:
    """Offsets of the boxes in letter heights, per view and side; nan if no highlighted letter is wholly visible."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.goto(f"{url}/compare?a={quote(a.id)}&b={quote(b.id)}")
    choose_most(page)
    photographs = {"a": read_photograph(a.path), "b": read_photograph(b.path)}
    found: list[float | str] = []
    for height, turns in LOOKS:
        page.evaluate(f"([height, turns]) => {{ {SEE} }}", [height, list(turns)])
        settled(page)
        for side in ("a", "b"):
            try:
                found.append(round(offset(page, side, photographs[side], least=1), 3))
            except AssertionError:
                found.append("nowhere")
    context.close()
    return found


if __name__ == "__main__":
    main()
