"""Tune SIFT-VLAD: its settings are chosen on one set of manuscripts and reported on another, and vice versa.

    python benchmarks/peers.py [CSV CSV]

Codewords, axes kept by whitening and shrinkage of the variances are those with the highest mAP on the one set; one JSON
line for the other has the peers' scores with these settings, and SIFT-VLAD's score with settings chosen on that same
set. The query's own leaf is left out, the ink is that of the recipe `sauvola`.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra import scribes
from membra.compare.encodings import EncodingSettings, Vectors, cosine_distances, whitened
from membra.compare.peers import PEERS, encode
from membra.describe.keypoints import keypoints_of
from membra.describe.recipe import SAUVOLA
from membra.judge.evaluate import Question, ask, outcomes
from membra.judge.metrics import measure
from membra.see.sift import SiftSettings, within_budget
from membra.sources.fragment import fragments

WORDS, AXES, ADDED = (64, 100), (12, 16, 24, 32, 48), (0.01, 0.05, 0.1, 0.5)


@dataclass(frozen=True)
class Labelled:
    """Fragments with known joins: their keypoints, and the evaluation task."""

    name: str
    descriptors: list[Vectors]
    question: Question


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sets = [labelled(table) for table in sources(Path(folder))]
    vectors = [
        {words: encode("vlad", one.descriptors, EncodingSettings(words=words)) for words in WORDS} for one in sets
    ]
    chosen = [choose(one, by_words) for one, by_words in zip(sets, vectors, strict=True)]
    for here, there in ((0, 1), (1, 0)):
        one, settings, own = sets[here], chosen[there], chosen[here]
        row = {"name": "peers", "set": one.name, "queries": len(one.question.queries()), "chosen_on": sets[there].name}
        row |= {"words": settings.words, "axes": settings.whiten, "added": settings.shrinkage}
        found = {"vlad": vectors[here][settings.words]}
        for peer in PEERS:
            if peer.encoding not in found:
                found[peer.encoding] = encode(peer.encoding, one.descriptors, settings)
            row[peer.name] = scores(one.question, peer.matrix(found[peer.encoding], one.question.barred, settings))
        matrix = cosine_distances(whitened(vectors[here][own.words], own))
        row["sift-vlad chosen on the very set"] = scores(one.question, matrix)
        print(json.dumps(row), flush=True)


def sources(folder: Path) -> list[Path]:
    """Return two tables: those of `sys.argv`, or of drawn fragments."""
    if len(sys.argv) == 3:
        return [Path(name) for name in sys.argv[1:]]
    return [
        scribes.collection(folder / str(seed), manuscripts=8, fragments=32, letters=(60, 120), seed=seed)
        for seed in (1, 2)
    ]


def labelled(table: Path) -> Labelled:
    found = fragments(table)
    settings = within_budget(SiftSettings(), len(found))
    descriptors = [keypoints_of(fragment, SAUVOLA, settings) for fragment in found]
    labels = {fragment.id: dict(fragment.columns) for fragment in found}
    return Labelled(table.parent.name, descriptors, ask([one.id for one in found], [], labels, "leaf"))


def choose(one: Labelled, vectors: dict[int, NDArray[np.float64]]) -> EncodingSettings:
    """Return the settings with the highest mAP of whitened SIFT-VLAD, the first in case of ties."""
    ways = [replace(EncodingSettings(), words=w, whiten=a, shrinkage=s) for w, a, s in product(WORDS, AXES, ADDED)]

    def precision(settings: EncodingSettings) -> float:
        matrix = cosine_distances(whitened(vectors[settings.words], settings))
        return float(scores(one.question, matrix)[1])

    return max(ways, key=precision)


def scores(question: Question, matrix: NDArray[np.float64]) -> Sequence[float]:
    """Return Hit@1 and mAP, means over the queries."""
    found = [measure(outcome) for outcome in outcomes(question, matrix)]
    return [round(float(np.mean([one[name] for one in found])), 4) for name in ("hit@1", "map")]


if __name__ == "__main__":
    main()
