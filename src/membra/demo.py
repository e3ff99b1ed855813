"""The demonstration: manuscripts that never existed, torn, scattered, photographed, and found again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from membra import scribes
from membra.describe.recipe import MEMBRA
from membra.errors import MembraError
from membra.find.index import index
from membra.judge.evaluate import evaluate
from membra.see.fragment import fragments
from membra.show.report import write_report

MANUSCRIPTS, FRAGMENTS = 20, 60
MARK = ".membra-demo"  # tells a folder that a demo made
METHODS = (
    "bob-local",
    "bob-chamfer",
    "bob-hungarian",
    "bob-transport",
    "two-stage",
    "bow-raw-chi2",
    "pool-mean-cosine",
)

Bar = Callable[[int, int], None]


def run_demo(out: Path, *, seed: int, bar: Callable[[str], Bar]) -> tuple[dict[str, Any], Path]:
    """Draw, index, evaluate and show; the scores and the page's path. `out` is made anew."""
    # Only what a demo left may be cleared away; a folder of the user's own, whatever is in it, never.
    if out.exists() and not (out / MARK).exists() and any(out.iterdir()):
        raise MembraError(f"{out} holds something else than an earlier demo; give another folder with --out")
    for name in ("images", "collection", "report"):
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).write_text("Made by `membra demo`, which clears this folder when it is run again.\n")
    table = scribes.collection(
        out, manuscripts=MANUSCRIPTS, fragments=FRAGMENTS, seed=seed, progress=_counted(bar("drawing"))
    )
    found = fragments(table)
    workers = os.cpu_count() or 1
    collection, _ = index(
        found, out / "collection", recipe=MEMBRA, encoder=None, workers=workers, progress=bar("describing")
    )
    scores = evaluate(collection, table, exclude_same="leaf", methods=METHODS, progress=bar("comparing"))
    page = write_report(out / "report", collection, table, scores, exclude_same="leaf", title="membra demo")
    return scores, page


def _counted(bar: Bar) -> Callable[[Any], Any]:
    def through(items: Any) -> Any:
        everything = list(items)
        for done, item in enumerate(everything):
            bar(done, len(everything))
            yield item

    return through
