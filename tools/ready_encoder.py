"""Train the encoder that ships with membra, and score it on manuscripts that it has not seen.

    python tools/ready_encoder.py gather DATA --out letters.npz       cut the letters of every set (half an hour)
    python tools/ready_encoder.py train letters.npz --out WEIGHTS/    an encoder for each fold and one on all (a GPU)
    python tools/ready_encoder.py ship WEIGHTS/all.safetensors        write src/membra/describe/ready.onnx
    python tools/ready_encoder.py score letters.npz WEIGHTS/          the table of docs/encoder.md
    python tools/ready_encoder.py adapt letters.npz WEIGHTS/          what `membra adapt` changes on unseen manuscripts

DATA holds the sets `hebrew`, `latin`, `tiny`, `hands`, `hebrew-pages` and `latin-pages`, each with `fragments.csv`. The
manuscripts are the classes. Each is in one of five folds (`folds.csv`), and its fragments are queries only for an
encoder trained without that fold, in a gallery of all manuscripts.

Without a GPU: `gather --brief`, then `train --folds 3+4 --letters 2000000`, one encoder that has seen neither fold.
"""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools import encoder_letters  # noqa: E402  (needs the path set above)
from tools.encoder_letters import COUNT, Letters  # noqa: E402

if TYPE_CHECKING:
    from membra.describe.encoder import Encoder
    from membra.describe.recipe import Description
    from membra.progress import Progress

SHIPPED = ROOT / "src" / "membra" / "describe" / "ready.onnx"
HEBREW = 0.3  # share of Hebrew among the letters seen: otherwise 20 of 182 manuscripts would have little weight
GROUPS = (2, 3, 0)  # fragments per manuscript in a gallery, since most have few mates; 0: all
main = click.Group(help=__doc__)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--brief", is_flag=True, help="No windows of 16 and 30 letters, and one worn window per photograph.")
def gather(data: Path, out: Path, brief: bool) -> None:
    """Cut the letters of all photographs and windows into one file."""
    for line in encoder_letters.gather(data, out, *(((), 1) if brief else ())):
        click.echo(line)


@main.command()
@click.argument("letters", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option(
    "--folds", default="0,1,2,3,4,all", show_default=True, help="One encoder without each; 3+4: one without both."
)
@click.option("--letters", "seen", type=int, help="Letters seen in training.  [default: as the shipped encoder]")
@click.option("--seed", default=0, show_default=True)
def train(letters: Path, out: Path, folds: str, seen: int | None, seed: int) -> None:
    """Train an encoder without each fold, and one on everything."""
    import torch
    from safetensors.numpy import save_file

    from membra.train.identity import READY, train_identity

    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = replace(READY, seed=seed, min_letters=seen or READY.min_letters)
    known = encoder_letters.read(letters)
    out.mkdir(parents=True, exist_ok=True)
    for fold in folds.split(","):
        without = [int(part) for part in fold.split("+")] if fold != "all" else []
        rows = known.trained & ~np.isin(known.fold, without)
        chosen = rows[known.owner]
        names, classes = np.unique(known.join[known.owner[chosen]], return_inverse=True)
        hebrew = np.isin(names, known.join[np.isin(known.set, ("hebrew", "tiny", "hebrew-pages"))])
        often = np.where(hebrew, HEBREW / max(hebrew.sum(), 1), (1 - HEBREW) / max((~hebrew).sum(), 1))
        weights = train_identity(
            known.patches[chosen], classes, settings, often=often, device=device, progress=_percent(fold)
        )
        save_file({name: value for name, value in weights.items() if value.ndim}, out / f"{fold}.safetensors")
        click.echo(f"{fold}: trained on {chosen.sum()} letters of {len(names)} manuscripts")


@main.command()
@click.argument("weights", type=click.Path(path_type=Path))
def ship(weights: Path) -> None:
    """Write an encoder into the package."""
    from safetensors.numpy import load_file

    from membra.describe.graph import identity_graph

    SHIPPED.write_bytes(identity_graph(load_file(weights)))
    click.echo(f"{SHIPPED}: {SHIPPED.stat().st_size / 1e6:.2f} MB")
    click.echo(f"add to SHIPPED in describe/encoder.py: {hashlib.sha256(SHIPPED.read_bytes()).hexdigest()}")


@main.command()
@click.argument("letters", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--folds", default=COUNT, show_default=True, help="Number of folds; fewer are faster and less precise.")
@click.option("--methods", default="bob-local,fused,pool-mean-cosine", show_default=True)
def score(letters: Path, weights: Path, folds: int, methods: str) -> None:
    """Print Hit@1 / mAP with the encoder that has not seen the query's manuscript, own leaf left out, over all folds.

    The second column is the maximum number of fragments per manuscript, drawn three times; the first row of
    each set has all of them.
    """
    known = encoder_letters.read(letters)
    galleries = _galleries(known)
    named = methods.split(",")
    results: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    for fold in range(folds):
        encoder = _without(fold, weights)
        for name, within in galleries.items():
            rows = np.flatnonzero(within)
            found = [_described(known.of(row), encoder) for row in rows.tolist()]
            for most in GROUPS:
                for seed in range(3 if most else 1):
                    chosen = encoder_letters.thinned(known, rows, most, seed)
                    for method in named:
                        outcomes = _outcomes(known, rows[chosen], [found[at] for at in chosen], method, fold)
                        results.setdefault((name, most, method), []).extend((hit, ap) for _, hit, ap in outcomes)
            click.echo(f"fold {fold}: {name}", err=True)
    click.echo(f"| | fragments a manuscript | queries | {' | '.join(named)} |\n|---|---|---|{'---|' * len(named)}")
    for name in galleries:
        for most in reversed(GROUPS):
            cells = [results[name, most, method] for method in named]
            means = ["{:.3f} / {:.3f}".format(*np.mean(cell, axis=0)) for cell in cells]
            click.echo(f"| {name} | {most or 'all'} | {len(cells[0])} | {' | '.join(means)} |")


@main.command()
@click.argument("letters", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--folds", default="0,1,2,3,4", show_default=True)
@click.option("--draws", default=1, show_default=True, help="Number of divisions into own and later manuscripts.")
def adapt(letters: Path, weights: Path, folds: str, draws: int) -> None:
    """Print what adapting to unseen manuscripts changes, for these and for others that are added later.

    Of each set's manuscripts in a fold, the encoder trained without that fold is adapted to two thirds (`own`) as
    `membra adapt` does; the rest are added later. Each part has a gallery of its own, and is searched by the default
    score. Intervals: resampling of manuscripts.
    """
    known = encoder_letters.read(letters)
    changes: dict[tuple[str, str], list[tuple[str, NDArray[np.float64]]]] = {}
    for fold in [int(part) for part in folds.split(",")]:
        before = _without(fold, weights)
        for name, within in _galleries(known).items():
            rows = np.flatnonzero(within & (known.fold == fold))
            for draw in range(draws if len(rows) else 0):
                parts = _own_and_later(known.join[rows], draw)
                after = _adapted(known, rows[parts["own"]], before, draw)
                for part, chosen in parts.items():
                    found = [_outcomes_of_all(known, rows[chosen], encoder, fold) for encoder in (before, after)]
                    pairs = zip(*found, strict=True)
                    changes.setdefault((name, part), []).extend(
                        (join, np.array([*first, *second])) for (join, *first), (_, *second) in pairs
                    )
            click.echo(f"fold {fold}: {name}", err=True)
    click.echo("| | | queries | before | after | change | mAP, 95 % |\n|---|---|---|---|---|---|---|")
    for (name, part), cells in changes.items():
        click.echo(f"| {name} | {part} | {_change(cells)} |")


def _galleries(known: Letters) -> dict[str, NDArray[np.bool_]]:
    """Return the rows (m,) of each gallery that has any."""
    galleries = {name: (known.set == name) & (known.kind == "whole") for name in encoder_letters.FRAGMENTS}
    galleries |= {f"{count} letters": known.kind == str(count) for count in encoder_letters.WINDOWS}
    galleries["worn"] = (known.kind == "worn") & np.isin(known.set, encoder_letters.FRAGMENTS)
    return {name: within for name, within in galleries.items() if within.any()}


def _without(fold: int, weights: Path) -> "Encoder":
    """Return the encoder that was trained without this fold: `3.safetensors`, or `3+4.safetensors`."""
    from safetensors.numpy import load_file

    from membra.describe.encoder import Encoder
    from membra.describe.graph import identity_graph

    files = [file for file in sorted(weights.glob("*.safetensors")) if str(fold) in file.stem.split("+")]
    if not files:
        raise click.ClickException(f"{weights} has no encoder trained without fold {fold}: `train` makes it")
    return Encoder(identity_graph(load_file(files[0])))


def _own_and_later(joins: NDArray[np.str_], draw: int) -> dict[str, NDArray[np.int64]]:
    """Divide rows by their manuscripts (n,): two thirds are the collection's own, the others come later."""
    order = np.random.default_rng(draw).permutation(np.unique(joins))
    own = np.isin(joins, order[: round(len(order) * 2 / 3)])
    return {"own": np.flatnonzero(own), "later": np.flatnonzero(~own)}


def _adapted(known: Letters, rows: NDArray[np.int64], before: "Encoder", seed: int) -> "Encoder":
    """Adapt an encoder to some rows as `membra adapt` does; where these are too few for it, it stays as it is."""
    from membra.errors import NotEnough
    from membra.train.adapt import fit_encoder
    from membra.train.training_settings import ADAPTING

    own = np.isin(known.owner, rows)
    settings = replace(ADAPTING, seed=seed)
    try:
        return fit_encoder(known.patches[own], known.owner[own], before.onnx, settings, "auto", None)
    except NotEnough as reason:
        click.echo(reason.message, err=True)
        return before


def _outcomes_of_all(
    known: Letters, rows: NDArray[np.int64], encoder: "Encoder", fold: int
) -> list[tuple[str, float, float]]:
    """Return manuscript, Hit@1 and average precision of each query among these rows."""
    found = [_described(known.of(row), encoder) for row in rows.tolist()]
    return _outcomes(known, rows, found, "bob-local", fold)


def _change(cells: "list[tuple[str, NDArray[np.float64]]]") -> str:
    """Return cells of a table: queries, scores before and after, and the change of mAP with its interval."""
    values = np.array([value for _, value in cells])
    joins, which = np.unique([join for join, _ in cells], return_inverse=True)
    by_join = [values[which == index, 3] - values[which == index, 1] for index in range(len(joins))]
    drawn = np.random.default_rng(0).integers(0, len(joins), (2000, len(joins)))
    low, high = np.percentile([np.concatenate([by_join[one] for one in draw]).mean() for draw in drawn], [2.5, 97.5])
    hit, average, hit_after, average_after = values.mean(axis=0)
    return (
        f"{len(values)} | {hit:.3f} / {average:.3f} | {hit_after:.3f} / {average_after:.3f} "
        f"| {hit_after - hit:+.3f} / {average_after - average:+.3f} | {low:+.3f} to {high:+.3f}"
    )


def _percent(fold: str) -> "Progress":
    """Return a progress callback that prints each percent of the training of a fold's encoder."""
    said = -1

    def report(done: int, of: int) -> None:
        nonlocal said
        if 100 * done // of > said:
            said = 100 * done // of
            click.echo(f"{fold}: {said} %", err=True)

    return report


def _described(patches: NDArray[np.uint8], encoder: "Encoder") -> "Description | None":
    from membra.describe.bag import in_company, make_bag
    from membra.describe.recipe import MEMBRA, Description

    if not len(patches):
        return None
    embeddings = in_company(encoder.encode(patches), MEMBRA.bag)
    return Description(np.zeros((len(patches), 4), np.int32), embeddings, make_bag(embeddings, MEMBRA.bag))


def _outcomes(
    known: Letters, rows: NDArray[np.int64], found: "list[Description | None]", method: str, fold: int
) -> list[tuple[str, float, float]]:
    """Return manuscript, Hit@1 and average precision of each query of this fold; a query without letters scores 0."""
    from membra.compare.methods import distances
    from membra.judge.evaluate import ask, outcome
    from membra.judge.metrics import measure

    there = [at for at, one in enumerate(found) if one is not None]
    lost = [at for at, one in enumerate(found) if one is None]
    columns = {str(at): {"join": str(known.join[rows[at]]), "leaf": str(known.leaf[rows[at]])} for at in there + lost}
    question = ask([str(at) for at in there], [str(at) for at in lost], columns, "leaf")
    described: list[Any] = [found[at] for at in there]
    matrix = distances(described, described, method, same=range(len(described)))
    results = []
    for query in question.queries():
        asked = rows[int(question.ids[query])]
        if known.fold[asked] == fold:
            row = matrix[query] if query < len(there) else np.zeros(0)
            scores = measure(outcome(question, query, row))
            results.append((str(known.join[asked]), scores["hit@1"], scores["map"]))
    return results


if __name__ == "__main__":
    main()
