"""Drawn fragments with every kind of damage, at any rotation: precision and recall of letters, and retrieval of mates.

    python benchmarks/damaged.py [MANUSCRIPTS] [SEED] [LETTERS]

Draws four fragments of 15 to LETTERS (80) letters for each of MANUSCRIPTS (36) hands, from SEED (0) on, and indexes
them twice: with the eye, and by the earlier rules and Sauvola's threshold. A reported letter is right if at least 8 %
of its box is ink of letters and its centre is not on a vowel point alone; a letter is found if its centre lies in a
reported box. Letters cut by a tear are ink, but need not be found.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from membra import scribes
from membra.compare.threads import processors
from membra.describe.recipe import MEMBRA, SAUVOLA, Description
from membra.judge.evaluate import evaluate
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.index import index

EACH = 4  # fragments per hand
INKED = 0.08  # share of a box that must be ink
OFF = 10.0  # degrees of tolerance for an angle


def main() -> None:
    manuscripts, seed, letters = ([int(argument) for argument in sys.argv[1:]] + [36, 0, 80][len(sys.argv) - 1 :])[:3]
    with tempfile.TemporaryDirectory() as folder:
        table = scribes.collection(
            Path(folder) / "drawn",
            manuscripts=manuscripts,
            fragments=EACH * manuscripts,
            letters=(15, letters),
            seed=seed,
            damaged=True,
            any_turn=True,
        )
        truth = json.loads((table.parent / "truth.json").read_text(encoding="utf-8"))
        line: dict[str, Any] = {"name": "damaged", "hands": manuscripts, "fragments": len(truth), "seed": seed}
        for recipe in (MEMBRA, SAUVOLA):
            into = Path(folder) / recipe.name
            collection, _ = index(fragments(table), into, recipe=recipe, workers=processors())
            line[recipe.name] = seen(collection, truth, table.parent / "ink") | found(collection, table)
    print(json.dumps(line))


def seen(collection: Collection, truth: dict[str, Any], masks: Path) -> dict[str, float]:
    """Measure the shares of reported letters that are right, of letters found, and of fragments with a right angle.

    If one fragment was split into several pieces, their letters are pooled and the first piece gives the angle.
    """
    descriptions: dict[str, list[Description]] = {name: [] for name in truth}
    for entry, description in zip(*collection.described(), strict=True):
        descriptions[f"images/{entry.fragment.path.name}"].append(description)
    right, complete, angles = [], [], []
    for name, known in truth.items():
        true = np.array(known["boxes"]).reshape(-1, 4)
        boxes = np.concatenate([np.zeros((0, 4), np.int32), *(one.boxes for one in descriptions[name])])
        points = within(boxes, np.array(known["points"]).reshape(-1, 4)) & ~within(boxes, true)
        inked = share_of_ink(boxes, masks / f"{Path(name).stem}.png") >= INKED
        right.append(float((inked & ~points).mean()) if len(boxes) else 0.0)
        complete.append(float(within(true, boxes).mean()) if len(true) else 1.0)
        angle = descriptions[name][0].angle if descriptions[name] else None
        angles.append(angle is not None and abs((angle - known["angle"] + 180) % 360 - 180) <= OFF)
    return {
        "letters_that_are_letters": round(float(np.mean(right)), 3),
        "letters_found": round(float(np.mean(complete)), 3),
        "angle_right": round(float(np.mean(angles)), 3),
        "taken_for_several": round(float(np.mean([len(own) > 1 for own in descriptions.values()])), 3),
        "not_described": round(float(np.mean([not own for own in descriptions.values()])), 3),
    }


def within(boxes: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether the centre of each of `boxes` (n, 4) lies in one of `others` (m, 4), (n,)."""
    middle = boxes[:, None, :2] + boxes[:, None, 2:] / 2
    low, high = others[None, :, :2], others[None, :, :2] + others[None, :, 2:]
    return np.asarray(((middle >= low) & (middle <= high)).all(axis=2).any(axis=1))


def share_of_ink(boxes: NDArray[Any], mask: Path) -> NDArray[np.float64]:
    """Return the share of each box (n, 4) that is ink in the image `mask`, (n,)."""
    ink = np.asarray(Image.open(mask)) > 0
    return np.array([float(ink[y : y + h, x : x + w].mean()) for x, y, w, h in boxes.tolist()])


def found(collection: Collection, table: Path) -> dict[str, Any]:
    """Evaluate Hit@1 and mAP with their intervals; mates on the query's own leaf do not count."""
    scores = evaluate(collection, table, exclude_same="leaf")["methods"]["default"]
    return {"hit@1": scores["hit@1"], "map": scores["map"], "ci95": {k: scores["ci95"][k] for k in ("hit@1", "map")}}


if __name__ == "__main__":
    main()
