"""Segmentation of drawn plates and single leaves into pieces: share of pieces found, and share of leaves split.

    python benchmarks/photographed_plates.py [COUNT] [SEED]

Draws COUNT plates (24) and COUNT leaves from SEED (0) on. A piece with letters is found if it has an intersection over
union of at least 0.7 with one detected piece, and no more than a fifth of any other piece with letters lies in that.
"""

import json
import sys
import time
from collections import Counter

import cv2
import numpy as np
from _plates import background, drawn_leaf, drawn_plate

from membra.scribes import Plate
from membra.scribes.photograph import BACKGROUNDS
from membra.see.eye import EyeSettings, ready_eye
from membra.see.geometry import resized
from membra.see.read import first_look
from membra.see.split import Pieces, split

COVERED, OTHER = 0.7, 0.2


def main() -> None:
    cv2.setNumThreads(1)
    count, seed = ([int(argument) for argument in sys.argv[1:]] + [24, 0][len(sys.argv) - 1 :])[:2]
    eye, settings = ready_eye(), EyeSettings()
    tally: Counter[str] = Counter()
    times = []
    for number in range(seed, seed + count):
        plate = drawn_plate(number)
        look, scale, pieces = first_look(plate.image, eye, settings)
        begun = time.perf_counter()
        split(look, resized(plate.image, scale))
        times.append(time.perf_counter() - begun)
        found = found_pieces(plate, pieces)
        ground = "plain" if background(number) in BACKGROUNDS else "textured"
        tally[f"{ground} pieces"] += len(found)
        tally[f"{ground} found"] += sum(found)
        tally["made out"] += pieces.count
        tally["chips"] += sum(piece.chip for piece in plate.pieces)
        tally["chips made out"] += len(pieces.chips())
        tally["leaves split"] += first_look(drawn_leaf(number).image, eye, settings)[2].count > 1
    total = tally["plain pieces"] + tally["textured pieces"]
    line = {
        "name": "plates",
        "plates": count,
        "pieces": total,
        "found": share(tally["plain found"] + tally["textured found"], total),
        "found_on_plain_grounds": share(tally["plain found"], tally["plain pieces"]),
        "found_on_textured_grounds": share(tally["textured found"], tally["textured pieces"]),
        "pieces_made_out": tally["made out"],
        "chips": tally["chips"],
        "chips_made_out": tally["chips made out"],
        "leaves": count,
        "leaves_split": share(tally["leaves split"], count),
        "split_ms": round(1000 * float(np.median(times)), 1),
    }
    print(json.dumps(line))


def found_pieces(plate: Plate, pieces: Pieces) -> list[bool]:
    """Return for each piece of a plate that has letters whether it was found as one."""
    shape = plate.labels.shape
    labels = cv2.resize(pieces.labels, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST)
    labels[labels > pieces.count] = 0
    shared = np.zeros((pieces.count + 1, int(plate.labels.max()) + 1))
    np.add.at(shared, (labels.astype(int), plate.labels), 1)
    areas, true = shared.sum(axis=1), shared.sum(axis=0)
    written = [piece.label for piece in plate.pieces if piece.letters]
    found = []
    for label in written:
        others = [other for other in written if other != label]
        union = areas + true[label] - shared[:, label]
        alone = (shared[:, others] <= OTHER * true[others]).all(axis=1)
        found.append(bool(((shared[:, label] >= COVERED * union) & alone)[1:].any()))
    return found


def share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


if __name__ == "__main__":
    main()
