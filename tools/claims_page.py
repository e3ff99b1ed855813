"""Make what docs/claims.md and docs/reproduce.md show of a finished run of `membra reproduce`:

    python tools/claims_page.py RUN      RUN: the folder given as --out

Prints the table of claims in Markdown, by verdict; saves the pictures `docs/images/reproduce-desktop.png` (the first
screen) and `reproduce-phone.png` (table 8 on a phone), and in RUN the first screen in grey, to be looked at. Needs the
extra [test] (a browser by Playwright) and `chromium` on the path.
"""

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs" / "images"
VERDICTS = ("yes", "no", "undecided")
HEADINGS = (
    "verdict here",
    "claim of the paper",
    "comparison",
    "difference in mAP (95 %)",
    "in Hit@1",
    "paper, Hit@1",
    "certainty",
)
DESKTOP, PHONE = {"width": 860, "height": 1041}, {"width": 390, "height": 1250}
COLOURS = 128  # of a picture in the docs: text and flat colours


def main(run: Path) -> None:
    claims = json.loads((run / "tables" / "claims.json").read_text(encoding="utf-8"))["rows"]
    counts = Counter(row["verdict"] for row in claims)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS), end="; ")
    for_it = sum(row["verdict"] == "undecided" and row.get("leans") == "to the paper" for row in claims)
    print(f"of the undecided the mean difference supports the paper in {for_it}\n")
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---|---|---|---|---|---|---|")
    for row in sorted(claims, key=lambda row: VERDICTS.index(row["verdict"])):
        print("| " + " | ".join(_cells(row)) + " |")
    _pictures(run)


def _cells(row: dict[str, Any]) -> list[str]:
    difference, paper = "", row.get("paper", {}).get("hit@1")
    if "map" in row:
        low, high = row["ci95"]["map"]
        difference = f"{_signed(row['map'])} ({_signed(low)} to {_signed(high)})"
    return [
        f"**{row['verdict']}**",
        row["claim"],
        row["tested"],
        difference,
        _signed(row["hit@1"]) if "hit@1" in row else "",
        "" if paper is None else _signed(paper),
        row["sure"],
    ]


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _pictures(run: Path) -> None:
    """Save the screens of the page, and its graph, in the docs."""
    page_url = (run / "index.html").absolute().as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, size, at in (("desktop", DESKTOP, ""), ("phone", PHONE, "#table-8")):
            page = browser.new_page(viewport=size)  # type: ignore[arg-type]
            page.goto(page_url + at)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=run / f"screen-{name}.png")
            _keep(Image.open(run / f"screen-{name}.png"), f"reproduce-{name}")
            page.close()
        browser.close()
    Image.open(run / "screen-desktop.png").convert("L").save(run / "screen-grey.png")


def _keep(picture: Image.Image, name: str) -> None:
    picture.convert("RGB").quantize(COLOURS).save(DOCS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
