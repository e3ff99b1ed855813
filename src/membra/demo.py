"""The demonstration: draws synthetic manuscripts, tears and photographs them, and finds the joins again."""

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
from membra.store import annotations, corrections, placements, verdicts
from membra.store.index import index

OUT = Path("demo")
MANUSCRIPTS, FRAGMENTS = 36, 90
LETTERS = (12, 45)  # letters per fragment; with whole pages every method is always right
MARK = ".membra-demo"  # marker file of a folder that a demo made
DECISIONS = (verdicts.FILE, annotations.FILE, corrections.FILE, placements.FILE)  # in a collection, by a person
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
    """Draw synthetic manuscripts, tear them into fragments, index and evaluate them, and write a report.

    The same seed draws the same fragments, so that the collection and its verdicts are kept between runs.

    Parameters
    ----------
    out : path
        The folder to fill: images, a collection and a report. A folder that no demo made is never changed.
    seed : int
        Another seed draws other scribes.
    bar : Bars, optional
        Called with the name of each stage; returns the progress callback for it.

    Returns
    -------
    scores : dict
        The scores that `evaluate` returns.
    page : Path
        The page of the report.

    Raises
    ------
    MembraError
        If `out` holds anything other than an earlier demo, or one of another seed in which a person has decided.
    """
    if seed < 0:
        raise Invalid("a seed is a whole number from 0, not {seed}", seed=seed)
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
    # An earlier version of membra may have described it by another recipe revision.
    collection, _ = index(drawn, into, redescribe=into.exists(), workers=workers, progress=progress)
    scores = evaluate(collection, table, exclude_same="leaf", methods=METHODS, progress=bar("comparing"))
    page = write_report(out / "report", collection, table, scores, exclude_same="leaf", title="membra demo")
    return scores, page


def _make_room(out: Path, mark_text: str) -> None:
    """Remove another demo from `out`; raise `Invalid` for a folder that no demo made, and for a demo with verdicts,
    notes, corrections or placements."""
    mark = out / MARK
    if out.exists() and not mark.exists() and any(out.iterdir()):
        raise Invalid("{folder} contains files that are not from a demo; give another folder with --out", folder=out)
    if mark.exists() and mark.read_text() != mark_text:
        if any((out / "collection" / name).exists() for name in DECISIONS):
            raise Invalid(
                "{folder} contains another demo with your verdicts, notes or corrections; give another folder with "
                "--out",
                folder=out,
            )
        for name in ("images", "collection", "report"):
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    mark.write_text(mark_text)
