"""Draw a whole collection: many manuscripts, several fragments of each, photographed by several cameras."""

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from membra.progress import Progress
from membra.scribes.damage import Damage, damage
from membra.scribes.drawing import Drawn, fragment
from membra.scribes.grounds import TEXTURED
from membra.scribes.photograph import camera
from membra.scribes.scribe import hand

COLUMNS = ("image", "join", "leaf", "camera", "letters")

# One in ``RULER_EVERY`` photographs has a ruler beside the fragment.
RULER_EVERY = 4
# Share of the damaged fragments on wood or cloth.
TEXTURED_SHARE = 0.25
# Damage that leaves less than ``MIN_LEFT`` of the letters is drawn again, ``ATTEMPTS`` times at most.
MIN_LEFT, ATTEMPTS = 0.5, 4


class Plan(NamedTuple):
    """What to draw as fragment ``number``, planned before drawing."""

    number: int
    manuscript: int
    leaf: int
    camera: int
    letters: int


def collection(
    folder: Path,
    *,
    manuscripts: int = 20,
    fragments: int = 60,
    letters: tuple[int, int] = (60, 260),
    cameras: int | None = None,
    seed: int = 0,
    damaged: bool = False,
    any_turn: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Draw a collection into ``folder`` and return the path of its table ``fragments.csv``.

    Writes ``images/*.jpg``, ``fragments.csv`` and ``truth.json``, which has for each image its letters and their
    boxes. Every manuscript has at least two fragments, all on different leaves. With ``cameras`` None every fragment
    has its own camera; otherwise ``cameras`` is their number, each photographs many manuscripts, and each manuscript
    is spread over several. ``progress`` counts fragments.

    ``damaged`` fragments have the damage that ``damage`` draws, some lie on wood or cloth, and the letters counted are
    those still visible. With ``any_turn`` fragments have any rotation. With either, ``truth.json`` also has the angle,
    the boxes of vowel points and the damage, and ``ink/*.png`` is 255 where letters have visible ink.
    """
    plans = plan(manuscripts, fragments, letters, cameras, seed)
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    truth = {}
    for done, one in enumerate(plans, start=1):
        join, leaf = f"m{one.manuscript:03d}", f"m{one.manuscript:03d}-{one.leaf:02d}"
        drawn, suffered = _fragment(one, seed, join, leaf, damaged, any_turn)
        name = f"{one.number:04d}.jpg"
        (images / name).write_bytes(drawn.jpeg)
        rows.append((f"images/{name}", join, leaf, f"c{one.camera:03d}", len(drawn.letters)))
        known: dict[str, Any] = {"letters": drawn.letters, "boxes": drawn.boxes.tolist()}
        if damaged or any_turn:
            (folder / "ink").mkdir(exist_ok=True)
            Image.fromarray(drawn.ink).save(folder / "ink" / f"{one.number:04d}.png")
            known |= {"angle": round(drawn.angle, 3), "points": drawn.points.tolist()}
            known["damage"] = {} if suffered is None else _present(suffered)
        truth[f"images/{name}"] = known
        if progress:
            progress(done, len(plans))
    table = folder / "fragments.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    (folder / "truth.json").write_text(json.dumps(truth, ensure_ascii=False), encoding="utf-8")
    return table


def plan(manuscripts: int, fragments: int, letters: tuple[int, int], cameras: int | None, seed: int) -> list[Plan]:
    """Plan manuscript, leaf and camera of each fragment, in an order that mixes the manuscripts."""
    least = 2 * manuscripts
    if fragments < least:
        raise ValueError(f"{manuscripts} manuscripts need {least} fragments or more, not {fragments}")
    if cameras is not None and cameras < 1:
        raise ValueError("a collection needs at least one camera")
    generator = np.random.default_rng((401, seed))
    # two per manuscript, the rest at random, as in real collections
    rest = generator.integers(0, manuscripts, fragments - least)
    counts = 2 + np.bincount(rest, minlength=manuscripts)
    pairs = [(book, leaf) for book in range(manuscripts) for leaf in range(int(counts[book]))]
    order = generator.permutation(len(pairs))
    sizes = generator.integers(letters[0], letters[1] + 1, len(pairs))
    plans = []
    for number, at in enumerate(order.tolist()):
        book, leaf = pairs[at]
        # consecutive leaves go to consecutive cameras; each manuscript starts at another one
        seen_by = number if cameras is None else (book + leaf) % cameras
        plans.append(Plan(number, book, leaf, seen_by, int(sizes[number])))
    return plans


def _fragment(one: Plan, seed: int, join: str, leaf: str, damaged: bool, any_turn: bool) -> tuple[Drawn, Damage | None]:
    """Draw a planned fragment; return it and its damage."""
    seen_by = camera(_mixed(seed, 2, one.camera))
    chance = np.random.default_rng((402, seed, one.number))
    turn = float(chance.uniform(0.0, 360.0)) if any_turn else None
    if damaged and chance.random() < TEXTURED_SHARE:
        seen_by = replace(seen_by, background=str(chance.choice(list(TEXTURED))))
    for attempt in range(ATTEMPTS):
        suffered = damage(_mixed(seed, 4, one.number, attempt)) if damaged else None
        drawn = fragment(
            hand(_mixed(seed, 1, one.manuscript)),
            seen_by,
            letters=one.letters,
            seed=_mixed(seed, 3, one.number),
            join=join,
            leaf=leaf,
            ruler=one.number % RULER_EVERY == RULER_EVERY - 1,
            damage=suffered,
            turn=turn,
        )
        if not damaged or len(drawn.letters) >= MIN_LEFT * one.letters:
            break
    return drawn, suffered


def _present(suffered: Damage) -> dict[str, float | str]:
    """Return the kinds of damage above zero and the kind of capture."""
    return {
        kind: value if isinstance(value, str) else round(value, 3) for kind, value in asdict(suffered).items() if value
    }


def _mixed(*parts: int) -> int:
    """Combine several numbers into one seed, the same on every machine."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
