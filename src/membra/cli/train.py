"""The commands that train: `membra train` and `membra adapt`. Both need the extra `[train]`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from membra.cli.console import bars, printable
from membra.cli.options import COLLECTION, DEVICE, PATH, SEED, SOURCES, WORKERS, recipe, setting
from membra.train.training_settings import ADAPTING, IdentitySettings, TrainSettings

if TYPE_CHECKING:
    from membra.errors import Refused
    from membra.train.encoders import Network

_PAPER, _IDENTITY = TrainSettings(), IdentitySettings()


@click.command()
@SOURCES
@click.option(
    "--out",
    required=True,
    metavar="ENCODER",
    type=PATH,
    help="The .onnx file to write.",
)
@setting(
    "--network",
    "train.training_settings:NETWORK",
    type=click.Choice(["autoencoder", "identity"]),
    help="The paper's sparse autoencoder, or the encoder that tells hands apart.",
)
@click.option("--joins", type=PATH, help="identity: CSV with the columns image,join.")
@recipe("describe.recipe:MEMBRA.name", "The recipe by which letters are found.")
@click.option(
    "--epochs",
    type=click.FloatRange(0.1),
    help=f"Maximum number of passes over the letters. [default: {_PAPER.epochs}; identity: {_IDENTITY.epochs:g}]",
)
@setting(
    "--dimension",
    "train.training_settings:TrainSettings.dimension",
    shown=True,
    type=click.IntRange(2, 1024),
    help="autoencoder: length of an embedding.",
)
@setting(
    "--sparsity",
    "train.training_settings:TrainSettings.sparsity",
    shown=True,
    type=click.FloatRange(0),
    help="autoencoder: weight of the L1 penalty.",
)
@click.option(
    "--seed", type=SEED, help=f"Seed of weights and order. [default: {_PAPER.seed}; identity: {_IDENTITY.seed}]"
)
@WORKERS
@DEVICE
def train(
    sources: tuple[str, ...],
    out: Path,
    network: "Network",
    joins: Path | None,
    recipe_name: str,
    epochs: float | None,
    dimension: int | None,
    sparsity: float | None,
    seed: int | None,
    workers: int | None,
    device: str,
) -> None:
    """Train an encoder on the letters of SOURCE. Needs the extra: pip install 'membra[train]'.

    autoencoder: as in the paper; a killed run continues after the last finished epoch. identity: starts from the
    encoder that comes with membra and learns to tell your fragments apart; fragments of one join (--joins) count as
    one.

    \b
    Example: membra train photographs/ --out hand.onnx --network identity --joins joins.csv
    """
    from membra.compare.threads import processors
    from membra.describe.recipe import RECIPES
    from membra.files import check_place
    from membra.sources.fragment import fragments_of
    from membra.train.encoders import train as fit

    if out.suffix != ".onnx":
        raise click.UsageError(f"--out {out} must end in .onnx")
    if joins and network != "identity":
        raise click.UsageError("--joins is for --network identity; the autoencoder learns without labels")
    if network == "identity" and (dimension or sparsity is not None):
        raise click.UsageError("--dimension and --sparsity are for the autoencoder; leave them out here")
    check_place(out)
    found = fragments_of(sources)
    with bars() as bar:
        trained = fit(
            found,
            out,
            network=network,
            joins=joins,
            recipe=RECIPES[recipe_name],
            epochs=epochs,
            dimension=dimension,
            sparsity=sparsity,
            seed=seed,
            device=device,
            workers=workers or processors(),
            bar=bar,
        )
    _print_refused(trained.refused)
    said = f"{trained.letters} letters of {trained.images} images"
    losses = trained.losses
    if network == "identity":
        said += f", {trained.joined} images in known joins"
    else:
        last = f"after {len(losses)} epochs, reconstruction loss {losses[-1]:.5f} a pixel" if losses else ""
        said += f" {last or 'already finished'}"
    click.echo(f"trained on {said}: {out}")


@click.command()
@COLLECTION
@setting("--seed", "train.training_settings:IdentitySettings.seed", type=SEED, help="Seed of the order of letters.")
@WORKERS
@DEVICE
def adapt(path: Path, seed: int, workers: int | None, device: str) -> None:
    """Fit the encoder to COLLECTION without labels, and describe the collection again with it.

    Useful once a collection has a hundred fragments, and again when it has grown much. With too few fragments the
    command reports so and changes nothing. Minutes on a laptop, less than one with a large GPU. The collection is
    unchanged until it ends, also if it is killed.

    \b
    Example: membra adapt mine
    """
    from membra.compare.threads import processors
    from membra.store.collection import Collection
    from membra.train.adapt import adapt as fit
    from membra.train.resume import MAX_PHOTOGRAPHS, SEED
    from membra.train.torch_extra import check_torch

    check_torch()
    collection = Collection.open(path)
    settings = replace(ADAPTING, seed=seed)
    before = {entry.fragment.id for entry in collection.entries() if entry.refused}
    with bars() as bar:
        fit(collection, settings=settings, device=device, workers=workers or processors(), bar=bar)
    entries = collection.entries()
    for entry in entries:
        if entry.refused and entry.fragment.id not in before:
            click.echo(printable(f"refused: {entry.fragment.id}: {entry.refused}"), err=True)
    count = len({entry.fragment.photograph for entry in entries})
    if count > MAX_PHOTOGRAPHS:
        click.echo(
            f"learnt from {MAX_PHOTOGRAPHS} of {count} photographs, drawn with seed {SEED} (-v names them)", err=True
        )
    click.echo(f"{path}: adapted, and {sum(not entry.refused for entry in entries)} fragments described again")


def _print_refused(reasons: "Sequence[Refused | str]") -> None:
    for reason in reasons:
        click.echo(printable(f"refused: {reason}"), err=True)
