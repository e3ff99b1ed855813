"""Do second photographs of a piece change what is said of its mates?

    python benchmarks/copies.py [MANUSCRIPTS] [SINGLES] [SEED]

Draws three fragments of each of MANUSCRIPTS (50) hands and one of each of SINGLES (80), of 14 to 180 letters, and
photographs each twice with different cameras. Galleries are drawn from them (six for each share): a manuscript has one,
two or three of its fragments there, and a share of these has both photographs. For each share of second photographs,
over the first ten candidates of every fragment by the default score:

`mates`, `mates_with_copies`: the median probability of true mates on another leaf, where neither has a second
photograph in the gallery and where one or both have; `ece` and `log_loss` of all candidates; `uncorrected`: the same
with local scales as they are (`find/mates.py` leaves copies out). `copies_at`, `mates_at`: 5, 50
and 95 % quantiles of the distance of second photographs and of mates, relative to that of the sixteenth nearest.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _timing import progress
from numpy.typing import NDArray

from membra import scribes
from membra.compare.kernels import chamfer_matrix
from membra.compare.local_scaling import local_scale
from membra.compare.threads import processors
from membra.find.mates import Side, pairs_of
from membra.find.probability import Pairs, probabilities
from membra.sources.fragment import Fragment
from membra.store.collection import Collection
from membra.store.index import index
from membra.store.scales import KEPT

SHARES = (0.0, 0.3, 0.8)  # of the pieces in a gallery that have two photographs there
GALLERIES, CANDIDATES, FRAGMENTS = 6, 10, 3
LETTERS = (14, 180)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Photographs:
    """All photographs: plain distances (n, n), infinite to itself; manuscript, leaf and number of letters of each."""

    distances: Floats
    join: NDArray[np.int64]
    leaf: NDArray[np.int64]
    letters: Floats


def main() -> None:
    manuscripts, singles, seed = ([int(argument) for argument in sys.argv[1:]] + [50, 80, 0][len(sys.argv) - 1 :])[:3]
    with tempfile.TemporaryDirectory() as folder:
        every = photographed(Path(folder), manuscripts, singles, seed)
    far = np.sort(every.distances, axis=1)[:, KEPT - 1 : KEPT]
    same_leaf = every.leaf[:, None] == every.leaf
    mates = (every.join[:, None] == every.join) & ~same_leaf
    np.fill_diagonal(same_leaf, False)
    line: dict[str, object] = {"name": "copies", "pieces": len(np.unique(every.leaf)), "seed": seed}
    for name, these in (("copies_at", same_leaf), ("mates_at", mates)):
        line[name] = np.quantile((every.distances / far)[these], [0.05, 0.5, 0.95]).round(2).tolist()
    for share in SHARES:
        line[f"{share:g}"] = measured(every, share, corrected) | {"uncorrected": measured(every, share, uncorrected)}
    print(json.dumps(line))


def photographed(folder: Path, manuscripts: int, singles: int, seed: int) -> Photographs:
    """Draw every fragment, photograph it twice and describe both photographs; doubtful ones are left out."""
    chance, drawn = np.random.default_rng((410, seed)), []
    for join in range(manuscripts + singles):
        for leaf in range(FRAGMENTS if join < manuscripts else 1):
            letters = int(np.exp(chance.uniform(*np.log(LETTERS))))
            for shot, seen_by in enumerate(chance.choice(14, 2, replace=False).tolist()):
                piece = scribes.fragment(
                    scribes.hand(100_000 * seed + 7000 + join),
                    scribes.camera(900 + seen_by),
                    letters=letters,
                    seed=100_000 * seed + 10 * join + leaf,
                )
                path = folder / f"{join}-{leaf}-{shot}.jpg"
                path.write_bytes(piece.jpeg)
                columns = {"join": str(join), "leaf": str(FRAGMENTS * join + leaf)}
                drawn.append(Fragment(path.name, path, columns))
    progress(f"describing {len(drawn)} photographs ...")
    collection, _ = index(drawn, folder / "collection", workers=processors())
    return gathered(collection)


def gathered(collection: Collection) -> Photographs:
    """The photographs of a collection that are not doubtful."""
    pairs = [(entry, one) for entry, one in zip(*collection.described(), strict=True) if not entry.doubtful]
    distances = chamfer_matrix([one.bag for _, one in pairs]).astype(np.float64)
    np.fill_diagonal(distances, np.inf)
    join, leaf = (np.array([int(entry.fragment.columns[name]) for entry, _ in pairs]) for name in ("join", "leaf"))
    return Photographs(distances, join, leaf, np.array([len(one.boxes) for _, one in pairs], np.float64))


def measured(every: Photographs, share: float, of: Callable[..., Pairs]) -> dict[str, float | int]:
    """What is said of the first candidates in galleries where a `share` of the pieces has two photographs."""
    said, true, clean = [], [], []
    for number in range(GALLERIES):
        rows = gallery(every, share, np.random.default_rng((411, number)))
        distances = every.distances[np.ix_(rows, rows)]
        near = np.sort(distances, axis=1)[:, :KEPT]
        scales, join, leaf = local_scale(distances), every.join[rows], every.leaf[rows]
        photographs = (leaf[:, None] == leaf).sum(axis=1)
        for query in range(len(rows)):
            scored = distances[query] / np.sqrt(scales[query] * scales)
            others = np.argsort(scored, kind="stable")[:CANDIDATES]
            said.append(probabilities(of(scored[others], query, others, scales, near, every.letters[rows])))
            same = join[others] == join[query]
            true.append(same)
            mate = same & (leaf[others] != leaf[query])
            clean.append(np.where(mate, (photographs[others] == 1) & (photographs[query] == 1), -1))
    chance, right, kind = np.concatenate(said), np.concatenate(true).astype(float), np.concatenate(clean)
    bins = np.bincount(np.clip((chance * 10).astype(int), 0, 9), chance - right, minlength=10)
    found: dict[str, float | int] = {
        "ece": round(float(np.abs(bins).sum() / len(chance)), 4),
        "log_loss": round(float(-np.mean(np.log(np.where(right > 0, chance, 1 - chance) + 1e-9))), 4),
    }
    for name, which in (("mates", 1), ("mates_with_copies", 0)):
        if (kind == which).any():
            found |= {
                name: round(float(np.median(chance[kind == which])), 3),
                f"{name}_pairs": int((kind == which).sum()),
            }
    return found


def gallery(every: Photographs, share: float, chance: np.random.Generator) -> NDArray[np.int64]:
    """Indices of photographs: of each manuscript one (twice as often), two or three leaves, some photographed twice."""
    kept: list[int] = []
    for join in np.unique(every.join).tolist():
        leaves = np.unique(every.leaf[every.join == join])
        for leaf in chance.permutation(leaves)[: int(chance.choice([1, 1, 2, 3]))].tolist():
            own = chance.permutation(np.flatnonzero(every.leaf == leaf))
            kept += own[: 2 if chance.random() < share else 1].tolist()
    return np.array(sorted(kept))


def corrected(
    scored: Floats, query: int, others: NDArray[np.int64], scales: Floats, near: Floats, letters: Floats
) -> Pairs:
    """The inputs of the probability as membra computes them."""
    met = np.ones(len(others), bool)
    own = Side(np.full(len(others), scales[query]), np.repeat(near[query][None], len(others), axis=0), met)
    counts = np.column_stack([np.full(len(others), letters[query]), letters[others]])
    return pairs_of(scored, own, Side(scales[others], near[others], met), counts, len(scales))


def uncorrected(
    scored: Floats, query: int, others: NDArray[np.int64], scales: Floats, near: Floats, letters: Floats
) -> Pairs:
    """The inputs of the probability with copies among the references."""
    sides = [
        np.column_stack([np.full(len(others), values[query]), values[others]])
        for values in (scales, near[:, -1], letters)
    ]
    return Pairs(scored, sides[0], sides[1], sides[2], len(scales))


if __name__ == "__main__":
    main()
