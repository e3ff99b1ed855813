"""The demonstration: manuscripts that never existed, torn, scattered, photographed, and found again."""

import os
import shutil
from pathlib import Path
from typing import Any

from membra import scribes
from membra.errors import Invalid
from membra.judge.evaluate import evaluate
from membra.progress import Bars
from membra.show.report import write_report
from membra.sources.fragment import fragments
from membra.store import verdicts
from membra.store.index import index

OUT = Path("demo")
MANUSCRIPTS, FRAGMENTS = 36, 90
LETTERS = (12, 45)  # few, and many hands: with whole pages every method is right every time, and shows nothing
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


def run_demo(out: str | Path = OUT, *, seed: int = 0, bar: Bars | None = None) -> tuple[dict[str, Any], Path]:
    """Draw manuscripts that never existed, tear them, index, evaluate and show them.

    Run again with the same seed it draws the same, so that the collection and the verdicts given on it stay.

    Parameters
    ----------
    out : path
        The folder to fill: images, a collection and a report. One of the user's own is never touched.
    seed : int
        Another seed draws other scribes.
    bar : Bars, optional
        Gives each stage its progress.

    Returns
    -------
    scores : dict
        As `evaluate` gives them.
    page : Path
        The report to look at.

    Raises
    ------
    MembraError
        Where `out` holds something else than an earlier demo.
    """
    out, bar = Path(out), bar or (lambda stage: lambda done, total: None)
    _make_room(out, f"Made by `membra demo`: {FRAGMENTS} fragments of {MANUSCRIPTS} manuscripts, seed {seed}.\n")
    table = scribes.collection(
        out,
        manuscripts=MANUSCRIPTS,
        fragments=FRAGMENTS,
        letters=LETTERS,
        seed=seed,
        progress=bar("drawing"),
    )
    workers = os.cpu_count() or 1
    into = out / "collection"
    drawn, progress = fragments(table), bar("describing")
    # What an earlier membra left there may be described by other numbers.
    collection, _ = index(drawn, into, redescribe=into.exists(), workers=workers, progress=progress)
    scores = evaluate(collection, table, exclude_same="leaf", methods=METHODS, progress=bar("comparing"))
    page = write_report(out / "report", collection, table, scores, exclude_same="leaf", title="membra demo")
    return scores, page


def _make_room(out: Path, mark_text: str) -> None:
    """Clear away another demo, but never a folder of the user's own, nor verdicts: those are somebody's work."""
    mark = out / MARK
    if out.exists() and not mark.exists() and any(out.iterdir()):
        raise Invalid("{folder} holds something else than an earlier demo; give another folder with --out", folder=out)
    if mark.exists() and mark.read_text() != mark_text:
        if (out / "collection" / verdicts.FILE).exists():
            raise Invalid(
                "{folder} holds another demo with verdicts of yours; give another folder with --out", folder=out
            )
        for name in ("images", "collection", "report"):
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    mark.write_text(mark_text)
