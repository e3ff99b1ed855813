"""Fit WEIGHTS of membra/see/split.py: the weights of the cues that decide which parts of a photograph form a piece.

    python tools/split_weights.py [--plates 60] [--leaves 60] [LEAF.jpg ...]

Draws plates with known pieces, and single leaves; further photographs of one leaf each can be given. The surface of
each is split into parts, the parts of one piece are merged again in random order, and every pair of neighbouring parts
on the way is an example. Splitting a leaf is worse than merging two pieces, because photographs of one leaf are the
common case.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1] / "benchmarks")]

from _plates import drawn_leaf, drawn_plate  # noqa: E402

from membra.see.eye import EyeSettings, ready_eye  # noqa: E402
from membra.see.geometry import resized  # noqa: E402
from membra.see.parts import Parts, take_apart  # noqa: E402
from membra.see.read import first_look  # noqa: E402
from membra.see.split import COVERED, NEAR, TOLD, WEIGHTS, cues  # noqa: E402
from membra.see.turn import ink_by_cell, letter_height  # noqa: E402
from membra.sources.photograph import read_photograph  # noqa: E402

APART = 100_000  # first seed; far from those of benchmarks/photographed_plates.py
LEAF = 3.0  # weight of an example from a single leaf
Example = tuple[list[float], bool, float]  # cues, whether the two are of one piece, weight


@click.command(help=__doc__)
@click.option("--plates", default=60, show_default=True)
@click.option("--leaves", default=60, show_default=True)
@click.argument("photographs", nargs=-1, type=click.Path(path_type=Path))
def main(plates: int, leaves: int, photographs: tuple[Path, ...]) -> None:
    examples: list[Example] = []
    for seed in range(APART, APART + plates):
        plate = drawn_plate(seed)
        examples += pairs(plate.image, plate.labels, seed)
    for seed in range(APART, APART + leaves):
        examples += pairs(drawn_leaf(seed).image, None, seed)
    for seed, path in enumerate(photographs):
        examples += pairs(read_photograph(path), None, seed)
    values, same, weight = (np.array(column) for column in zip(*examples, strict=True))
    click.echo(f"{len(same)} pairs, {same.mean():.2f} of them of one piece")
    names = list(WEIGHTS)
    spread = np.maximum(values.std(axis=0), 1e-6)
    fitted = LogisticRegression(C=1.0, fit_intercept=False, max_iter=5000).fit(values / spread, same, weight)
    for name, value in zip(names, fitted.coef_[0] / spread, strict=True):
        click.echo(f'    "{name}": {value:.3g},')
    right = (
        (fitted.predict(values / spread) == same)[~same].mean(),
        (fitted.predict(values / spread) == same)[same].mean(),
    )
    click.echo(f"right: {right[0]:.3f} of those of two pieces, {right[1]:.3f} of those of one")


def pairs(picture: NDArray[np.uint8], truth: NDArray[np.int32] | None, seed: int) -> Iterator[Example]:
    """Yield examples from a photograph (h, w, 3); `truth` (h, w) labels its pieces from 1 on; None: it is one leaf."""
    draw = np.random.default_rng(seed)
    look, scale, _ = first_look(picture, ready_eye(), EyeSettings())
    height = letter_height(look, ink_by_cell(look))
    if height == 0:
        return
    parts = take_apart(look, resized(picture, scale), height)
    if float((parts.depth > 0).mean()) >= COVERED:
        return
    piece = belongs(parts, truth)
    while True:
        for pair in parts.borders:
            one, other = piece[list(pair)]
            if one and other and near(parts, pair) and min(parts.ink[list(pair)]) >= TOLD * parts.unit**2:
                yield list(cues(parts, *pair).values()), bool(one == other), LEAF if truth is None else 1.0
        own = [pair for pair in parts.borders if piece[pair[0]] == piece[pair[1]] and near(parts, pair)]
        if not own:
            return
        for index in draw.permutation(len(own))[: max(1, len(own) // 3)].tolist():
            if own[index] in parts.borders:
                parts.join(*own[index])


def near(parts: Parts, pair: tuple[int, int]) -> bool:
    return bool(parts.borders[pair].depth.max() >= -NEAR * parts.unit)


def belongs(parts: Parts, truth: NDArray[np.int32] | None) -> NDArray[np.int64]:
    """Return (n,) the piece that covers most of each part, from 1 on; 0 for none."""
    count = len(parts.area)
    if truth is None:
        return np.ones(count, np.int64)
    size = parts.labels.shape[::-1]
    at = cv2.resize(truth.astype(np.float32), size, interpolation=cv2.INTER_NEAREST).astype(np.int64)
    on = parts.depth > 0
    votes = np.zeros((count, int(at.max()) + 1), np.int64)
    np.add.at(votes, (parts.labels[on], at[on]), 1)
    return np.asarray(votes.argmax(axis=1))


if __name__ == "__main__":
    main()
