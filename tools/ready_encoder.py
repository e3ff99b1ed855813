"""Train the encoder that ships with membra, and score it on manuscripts that it has not seen.

    python tools/ready_encoder.py gather DATA --out letters.npz       cut the letters of every set (half an hour)
    python tools/ready_encoder.py train letters.npz --out WEIGHTS/    an encoder for each fold and one on all (a GPU)
    python tools/ready_encoder.py ship WEIGHTS/all.safetensors        write src/membra/describe/ready.onnx
    python tools/ready_encoder.py score letters.npz WEIGHTS/          the table of docs/encoder.md

DATA holds the sets `hebrew`, `latin`, `tiny`, `hands`, `hebrew-pages` and `latin-pages`, each with `fragments.csv`. The
manuscripts are the classes. Each is in one of five folds (`folds.csv`), and its fragments are queries only for the
encoder trained without that fold, in a gallery of all manuscripts.
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

SHIPPED = ROOT / "src" / "membra" / "describe" / "ready.onnx"
HEBREW = 0.3  # share of Hebrew among the letters seen: otherwise 20 of 182 manuscripts would have little weight
GROUPS = (2, 3, 0)  # fragments per manuscript in a gallery, since most have few mates; 0: all
main = click.Group(help=__doc__)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def gather(data: Path, out: Path) -> None:
    """Cut the letters of all photographs and windows into one file."""
    for line in encoder_letters.gather(data, out):
        click.echo(line)


@main.command()
@click.argument("letters", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--folds", default="0,1,2,3,4,all", show_default=True)
@click.option("--seed", default=0, show_default=True)
def train(letters: Path, out: Path, folds: str, seed: int) -> None:
    """Train an encoder without each fold, and one on everything."""
    import torch
    from safetensors.numpy import save_file

    from membra.train.identity import READY, train_identity

    device = "cuda" if torch.cuda.is_available() else "cpu"
    known = encoder_letters.read(letters)
    out.mkdir(parents=True, exist_ok=True)
    for fold in folds.split(","):
        rows = known.trained & (known.fold != int(fold)) if fold != "all" else known.trained
        chosen = rows[known.owner]
        names, classes = np.unique(known.join[known.owner[chosen]], return_inverse=True)
        hebrew = np.isin(names, known.join[np.isin(known.set, ("hebrew", "tiny", "hebrew-pages"))])
        often = np.where(hebrew, HEBREW / max(hebrew.sum(), 1), (1 - HEBREW) / max((~hebrew).sum(), 1))
        settings = replace(READY, seed=seed)
        weights = train_identity(known.patches[chosen], classes, settings, often=often, device=device)
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
    from safetensors.numpy import load_file

    from membra.describe.encoder import Encoder
    from membra.describe.graph import identity_graph

    known = encoder_letters.read(letters)
    galleries = {name: (known.set == name) & (known.kind == "whole") for name in encoder_letters.FRAGMENTS}
    galleries |= {f"{count} letters": known.kind == str(count) for count in encoder_letters.WINDOWS}
    galleries["worn"] = (known.kind == "worn") & np.isin(known.set, encoder_letters.FRAGMENTS)
    named = methods.split(",")
    results: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    for fold in range(folds):
        encoder = Encoder(identity_graph(load_file(weights / f"{fold}.safetensors")))
        for name, within in galleries.items():
            rows = np.flatnonzero(within)
            found = [_described(known.of(row), encoder) for row in rows.tolist()]
            for most in GROUPS:
                for seed in range(3 if most else 1):
                    chosen = encoder_letters.thinned(known, rows, most, seed)
                    for method in named:
                        outcomes = _outcomes(known, rows[chosen], [found[at] for at in chosen], method, fold)
                        results.setdefault((name, most, method), []).extend(outcomes)
            click.echo(f"fold {fold}: {name}", err=True)
    click.echo(f"| | fragments a manuscript | queries | {' | '.join(named)} |\n|---|---|---|{'---|' * len(named)}")
    for name in galleries:
        for most in reversed(GROUPS):
            cells = [results[name, most, method] for method in named]
            means = ["{:.3f} / {:.3f}".format(*np.mean(cell, axis=0)) for cell in cells]
            click.echo(f"| {name} | {most or 'all'} | {len(cells[0])} | {' | '.join(means)} |")


def _described(patches: NDArray[np.uint8], encoder: "Encoder") -> "Description | None":
    from membra.describe.bag import in_company, make_bag
    from membra.describe.recipe import MEMBRA, Description

    if not len(patches):
        return None
    embeddings = in_company(encoder.encode(patches), MEMBRA.bag)
    return Description(np.zeros((len(patches), 4), np.int32), embeddings, make_bag(embeddings, MEMBRA.bag))


def _outcomes(
    known: Letters, rows: NDArray[np.int64], found: "list[Description | None]", method: str, fold: int
) -> list[tuple[float, float]]:
    """Return Hit@1 and average precision of each query of this fold; a query without letters scores 0."""
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
        if known.fold[rows[int(question.ids[query])]] == fold:
            row = matrix[query] if query < len(there) else np.zeros(0)
            scores = measure(outcome(question, query, row))
            results.append((scores["hit@1"], scores["map"]))
    return results


if __name__ == "__main__":
    main()
