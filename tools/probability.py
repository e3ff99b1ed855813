"""Fit P(same manuscript) on manuscripts that the encoder has not seen, and draw the reliability diagram.

    python tools/probability.py gather letters.npz WEIGHTS/ --out pairs.npz    candidates of every fold (slow on a CPU)
    python tools/probability.py fit pairs.npz                                  writes src/membra/find/probability.json
    python tools/probability.py diagram pairs.npz --out FIGURE.png             reliability, each fold by a fit on others

`letters.npz` and WEIGHTS are written by `tools/ready_encoder.py gather` and `train`. A *gallery* is a whole set, or a
set thinned so that each manuscript has one fragment (twice as often), two, three or all; each query gives a pair with
each of its first ten candidates.
"""

import json
import sys
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools import encoder_letters  # noqa: E402  (needs the path set above)

from membra.find.probability import FIT_ARRAYS, FITTED, Fit, Pairs, expit, numbers_of, with_products  # noqa: E402

CANDIDATES = 10  # per query
FAR = 16  # rank of the neighbour whose distance is a feature
MIXED = 6  # mixed galleries per fold and set: of each manuscript one, two, three or all fragments, drawn at random
SHARES = (1, 1, 2, 3, 999)  # fragments per manuscript in a mixed gallery, drawn with equal probability
SETS = ("hebrew", "latin", "tiny", "hands", "16", "30", "worn")
REGULAR = 1.0  # inverse strength of the ridge penalty

Floats = NDArray[np.float64]
main = click.Group(help=__doc__)


@main.command()
@click.argument("letters", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def gather(letters: Path, weights: Path, out: Path) -> None:
    """Write the first candidates of every query of every fold, in galleries of several kinds."""
    from safetensors.numpy import load_file

    from membra.describe.bag import in_company, make_bag
    from membra.describe.encoder import Encoder
    from membra.describe.graph import identity_graph
    from membra.describe.recipe import MEMBRA

    known = encoder_letters.read(letters)
    rows: list[Floats] = []
    for fold in range(encoder_letters.COUNT):
        encoder = Encoder(identity_graph(load_file(weights / f"{fold}.safetensors")))
        for number, name in enumerate(SETS):
            kind = (known.kind == name) if number > 3 else (known.set == name) & (known.kind == "whole")
            within = np.flatnonzero(kind & np.isin(known.set, encoder_letters.FRAGMENTS))
            within = np.array([row for row in within.tolist() if len(known.of(row))])
            bags = [
                make_bag(in_company(encoder.encode(known.of(row)), MEMBRA.bag), MEMBRA.bag) for row in within.tolist()
            ]
            for thinned in (0, *[-1] * MIXED, *[2] * 3, *[3] * 3):
                most = SHARES if thinned < 0 else thinned
                kept = encoder_letters.thinned(known, within, most, len(rows))
                rows.append(_pairs(known, within[kept], [bags[at] for at in kept], fold, number, thinned, len(rows)))
            click.echo(f"fold {fold}: {name}", err=True)
    np.savez_compressed(out, pairs=np.concatenate(rows))


@main.command()
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option("--out", default=FITTED, show_default=True, type=click.Path(path_type=Path))
def fit(pairs: Path, out: Path) -> None:
    """Fit on the pairs of all folds."""
    found = _read(pairs)
    fitted = _fitted(found, np.ones(len(found), bool))
    kept = {name: np.round(getattr(fitted, name), 6).tolist() for name in FIT_ARRAYS}
    out.write_text(json.dumps({"intercept": round(fitted.intercept, 6), **kept}, indent=1) + "\n")
    click.echo(f"{out}: fitted on {len(found)} pairs")


@main.command()
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def diagram(pairs: Path, out: Path) -> None:
    """Draw the reliability diagram, and print the expected calibration error of every set and kind of gallery."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = _read(pairs)
    said = np.zeros(len(found))
    for fold in range(encoder_letters.COUNT):
        own = found[:, 0] == fold
        said[own] = expit(_fitted(found, ~own).logits(_as_pairs(found[own])))
    mate = found[:, 11]
    click.echo("| | mixed | two each | three each | all |\n|---|---|---|---|---|")
    groups = {name: found[:, 1] == number for number, name in enumerate(SETS)}
    groups["whole fragments"] = np.isin(found[:, 1], (0, 1, 3))
    for name, own in groups.items():
        cells = [_error(said[own & (found[:, 2] == kind)], mate[own & (found[:, 2] == kind)]) for kind in (-1, 2, 3, 0)]
        click.echo(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    figure, plot = pyplot.subplots(figsize=(5, 5), layout="constrained")
    plot.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    for name, marker in (("whole fragments", "o"), ("30", "s"), ("16", "^"), ("worn", "x")):
        own = groups[name] & (found[:, 2] == -1)
        bins = np.clip((said[own] * 10).astype(int), 0, 9)
        there = [number for number in range(10) if (bins == number).sum() >= 20]
        x, y = ([float(values[own][bins == number].mean()) for number in there] for values in (said, mate))
        label = f"{name} letters" if name in ("16", "30") else name
        plot.plot(x, y, marker=marker, label=f"{label}: error {_error(said[own], mate[own]):.3f}")
    plot.set(xlabel="probability that membra says", ylabel="share that is of the same manuscript")
    plot.legend(frameon=False)
    figure.savefig(out, dpi=120)
    click.echo(f"{out}")


def _read(path: Path) -> Floats:
    """Read pairs (m, 14): fold, set, thinned, gallery, distance, scales, far, letters, mate, fragments, query."""
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive["pairs"], np.float64)


def _as_pairs(found: Floats) -> Pairs:
    return Pairs(found[:, 4], found[:, 5:7], found[:, 7:9], found[:, 9:11], found[:, 12])


def _fitted(found: Floats, chosen: NDArray[np.bool_]) -> Fit:
    """Fit on the chosen pairs of mixed galleries, which resemble libraries; each set has the same weight."""
    from sklearn.linear_model import LogisticRegression

    used = found[chosen & (found[:, 2] == -1)]
    numbers = numbers_of(_as_pairs(used))
    low, high = np.quantile(numbers, [0.001, 0.999], axis=0)
    low[:2] = np.quantile(numbers[:, :2], 0.02, axis=0)  # clip the nearest: the quadratic terms would reverse the trend
    terms = with_products(np.clip(numbers, low, high))
    weight = len(used) / len(SETS) / np.bincount(used[:, 1].astype(int), minlength=len(SETS))[used[:, 1].astype(int)]
    mean, spread = terms.mean(axis=0), terms.std(axis=0)
    model = LogisticRegression(C=REGULAR, max_iter=5000)
    model.fit((terms - mean) / spread, used[:, 11] > 0, sample_weight=weight)
    return Fit(low, high, mean, spread, model.coef_[0], float(model.intercept_[0]))


def _error(said: Floats, true: Floats) -> float:
    """Return the expected calibration error over ten bins."""
    bins = np.clip((said * 10).astype(int), 0, 9)
    gaps = [abs(said[bins == one].mean() - true[bins == one].mean()) * (bins == one).mean() for one in np.unique(bins)]
    return float(np.sum(gaps))


def _pairs(
    known: encoder_letters.Letters,
    rows: NDArray[np.int64],
    bags: list,  # type: ignore[type-arg]
    fold: int,
    number: int,
    thinned: int,
    gallery: int,
) -> Floats:
    """Return the first candidates of the queries of this fold, as rows of `_read`."""
    from membra.compare.kernels import chamfer_matrix
    from membra.compare.local_scaling import local_scale

    plain = chamfer_matrix(bags).astype(np.float64)
    np.fill_diagonal(plain, np.inf)
    scale, far = local_scale(plain), np.sort(plain, axis=1)[:, min(FAR - 1, len(rows) - 2)]
    letters = np.array([len(known.of(row)) for row in rows.tolist()])
    found = []
    for query in np.flatnonzero(known.fold[rows] == fold).tolist():
        distances = plain[query] / np.sqrt(scale[query] * scale)
        distances[known.leaf[rows] == known.leaf[rows[query]]] = np.inf
        for other in np.argsort(distances, kind="stable")[:CANDIDATES].tolist():
            if np.isfinite(distances[other]):
                mate = known.join[rows[other]] == known.join[rows[query]]
                sides = [value[at] for value in (scale, far, letters) for at in (query, other)]
                found.append([fold, number, thinned, gallery, distances[other], *sides, mate, len(rows), query])
    return np.array(found, np.float64).reshape(-1, 14)


if __name__ == "__main__":
    main()
