"""Make the pictures of docs/tutorial.md, in a folder in which its commands were run:

    python tools/tutorial_pictures.py FOLDER

Needs the extra [test] (a browser by Playwright) and `chromium` on the path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MOST = 200_000  # bytes per picture, for slow connections


def main(folder: Path) -> None:
    candidates = Image.open(folder / "demo" / "report" / "picture.png")
    line = candidates.height // 5
    _keep(candidates.crop((0, 0, candidates.width, min(candidates.height, 4 * line))), 900, "candidates")
    why = Image.open(folder / "why.png")
    _keep(why.crop((0, 0, why.width, int(0.66 * why.height))), 900, "why")  # the first letters suffice
    server = subprocess.Popen(
        [sys.executable, "-c", "from membra.cli import main; main()", "serve", "mine", "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert server.stdout
        url = server.stdout.readline().split(": ", 1)[1].split("  ")[0].rstrip("/")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 760})
            page.goto(f"{url}/compare?a=0000.jpg&b=0025.jpg&word=1")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=folder / "workbench.png")
            browser.close()
        _keep(Image.open(folder / "workbench.png"), 1000, "workbench")
    finally:
        server.terminate()
        server.wait()


def _keep(image: Image.Image, width: int, name: str) -> None:
    """Save as a PNG with a palette, with as many colours as the file size allows."""
    small = image.convert("RGB")
    small.thumbnail((width, 4 * width), Image.Resampling.LANCZOS)
    path = IMAGES / f"tutorial-{name}.png"
    for colours in (256, 128, 64, 32, 16):
        small.quantize(colours).save(path, optimize=True)
        if path.stat().st_size <= MOST:
            break
    print(path.name, path.stat().st_size, "bytes,", colours, "colours")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
