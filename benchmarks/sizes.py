"""Retrieval of the same photographs at half, full and twice their size.

    python benchmarks/sizes.py [CSV or FOLDER]

Prints the share of fragments that have themselves at another size as first candidate, and at both other sizes as the
first two, in a collection of all three sizes; and for each size among one other.
"""

import json
import tempfile
from itertools import permutations
from pathlib import Path

import cv2
import numpy as np
from _photographs import photographs

from membra.compare.methods import distances
from membra.describe.bag import in_company, make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description, pick
from membra.sources.fragment import Fragment

SIZES = (0.5, 1.0, 2.0)


def main() -> None:
    descriptions: list[Description] = []
    encoder = Encoder.ready()
    with tempfile.TemporaryDirectory() as folder:
        source, found = photographs(Path(folder))
        for size in SIZES:
            for number, fragment in enumerate(found):
                image = resized(fragment, size, Path(folder) / f"{number}.png")
                glyphs = pick(image, MEMBRA)[1].glyphs
                embeddings = in_company(encoder.encode(glyphs.patches), MEMBRA.bag)
                descriptions.append(Description(glyphs.boxes, embeddings, make_bag(embeddings, MEMBRA.bag)))
    count = len(found)
    own = np.tile(np.arange(count), len(SIZES))
    matrix = distances(descriptions, descriptions, MEMBRA.method, same=range(len(descriptions)))
    np.fill_diagonal(matrix, np.inf)
    nearest = own[np.argsort(matrix, axis=1)[:, :2]] == own[:, None]
    row = {"fragments": count, "first": nearest[:, 0].mean(), "first_two": nearest.all(axis=1).mean()}
    for one, other in permutations(range(len(SIZES)), 2):
        queries, gallery = (descriptions[index * count : (index + 1) * count] for index in (one, other))
        between = distances(queries, gallery, MEMBRA.method, same=[None] * count)
        row[f"{SIZES[one]:g} among {SIZES[other]:g}"] = (between.argmin(axis=1) == np.arange(count)).mean()
    print(json.dumps({"name": "sizes", "source": source} | {key: round(float(value), 4) for key, value in row.items()}))


def resized(fragment: Fragment, size: float, path: Path) -> Fragment:
    """Write the photograph, `size` times as large, without compression loss, to `path`."""
    image = cv2.imread(str(fragment.path))
    assert image is not None, fragment.path
    how = cv2.INTER_AREA if size < 1 else cv2.INTER_CUBIC
    cv2.imwrite(str(path), cv2.resize(image, None, fx=size, fy=size, interpolation=how))
    return Fragment(fragment.id, path)


if __name__ == "__main__":
    main()
