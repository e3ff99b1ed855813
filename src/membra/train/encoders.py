"""Train an encoder on photographs: the paper's autoencoder, or the identity encoder that tells hands apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from membra.describe.recipe import MEMBRA, Recipe
from membra.describe.workers import Workers
from membra.errors import Invalid, Refused
from membra.files import check_place
from membra.judge.joins import read_joins
from membra.progress import Bars
from membra.sources.fragment import Fragment
from membra.train.adapt import train_on
from membra.train.torch_extra import check_torch
from membra.train.training_glyphs import cut_letters
from membra.train.training_settings import DEVICE, NETWORK

Network = Literal["autoencoder", "identity"]


@dataclass(frozen=True)
class Trained:
    """The result of training an encoder.

    Attributes
    ----------
    path : Path
        The .onnx file.
    letters, images : int
        Number of letters and images used for training.
    refused : tuple of Refused
        The reasons why images could not be used.
    joined : int
        identity: number of images in known joins.
    losses : tuple of float
        autoencoder: mean reconstruction loss per pixel of each epoch of this run; empty if it was already finished.
    """

    path: Path
    letters: int
    images: int
    refused: tuple[Refused, ...] = ()
    joined: int = 0
    losses: tuple[float, ...] = ()


def train(
    fragments: Sequence[Fragment],
    out: str | Path,
    *,
    network: Network = NETWORK,
    joins: str | Path | None = None,
    recipe: Recipe = MEMBRA,
    epochs: float | None = None,
    dimension: int | None = None,
    sparsity: float | None = None,
    seed: int | None = None,
    device: str = DEVICE,
    workers: int = 1,
    bar: Bars | None = None,
) -> Trained:
    """Train an encoder on the letters of photographs. Needs the extra `[train]`.

    Parameters
    ----------
    fragments : sequence of Fragment
        The photographs, as returned by `membra.fragments`.
    out : path
        The .onnx file to write. The autoencoder's weights are also written beside it as .safetensors; a killed run
        that is started again continues after the last finished epoch.
    network : {"autoencoder", "identity"}
        The paper's sparse autoencoder, or the identity encoder, which tells hands apart and starts from the encoder
        that comes with membra.
    joins : path, optional
        identity: a CSV file with the columns image,join. Fragments of one join form one class, every other its own.
    recipe : Recipe
        The recipe by which letters are found.
    epochs : float, optional
        Maximum number of passes over the letters. Default: 50; identity: 10.
    dimension, sparsity : optional
        autoencoder: length of an embedding (default 128) and weight of the L1 penalty (default 1e-5).
    seed : int, optional
        Seed of weights and order. Default: 42; identity: 0.
    device : {"auto", "cpu", "cuda"}
    workers : int
        Number of processes that read images.
    bar : Bars, optional
        Called with the name of each stage; returns the progress callback for it.

    Returns
    -------
    Trained

    Raises
    ------
    MembraError
        If PyTorch is missing, options exclude each other, or there are no letters to train on.
    """
    out = Path(out)
    _check(out, network, joins, dimension, sparsity)
    check_torch()
    check_place(out)
    chosen = {"epochs": epochs, "seed": seed, "dimension": dimension, "sparsity": sparsity}
    given = {name: value for name, value in chosen.items() if value is not None}
    if network == "identity":
        return _identity(fragments, recipe, joins, out, given, workers, device, bar)
    return _autoencoder(fragments, recipe, out, given, workers, device, bar)


def _check(out: Path, network: str, joins: str | Path | None, dimension: int | None, sparsity: float | None) -> None:
    if network not in get_args(Network):
        raise Invalid(
            "there is no network `{network}`; there are {networks}", network=network, networks=get_args(Network)
        )
    if out.suffix != ".onnx":
        raise Invalid("{file} must end in .onnx", file=out)
    if joins and network != "identity":
        raise Invalid("joins are for the network `identity`; the autoencoder learns without labels")
    if network == "identity" and (dimension or sparsity is not None):
        raise Invalid("dimension and sparsity are for the autoencoder; leave them out here")


def _identity(
    fragments: Sequence[Fragment],
    recipe: Recipe,
    joins: str | Path | None,
    out: Path,
    given: dict[str, Any],
    workers: int,
    device: str,
    bar: Bars | None,
) -> Trained:
    from membra.train.identity import IdentitySettings

    known = read_joins(joins, [fragment.id for fragment in fragments], unseen=True) if joins else {}
    join_of = {id: row["join"] for id, row in known.items()}
    settings = IdentitySettings(**given)
    letters, refused = train_on(fragments, recipe, join_of, out, settings, device=device, workers=workers, bar=bar)
    return Trained(out, letters, len(fragments) - len(refused), tuple(refused), joined=len(join_of))


def _autoencoder(
    fragments: Sequence[Fragment],
    recipe: Recipe,
    out: Path,
    given: dict[str, Any],
    workers: int,
    device: str,
    bar: Bars | None,
) -> Trained:
    from membra.train.autoencoder import TrainSettings, pick_device, train_autoencoder

    if "epochs" in given:
        given["epochs"] = max(1, round(given["epochs"]))
    settings = TrainSettings(**given)
    pick_device(device)  # a missing device raises before the work starts
    with Workers(workers) as pool:
        patches, _, _, refused = cut_letters(
            fragments,
            recipe,
            pool,
            most=settings.patches_per_image,
            seed=(settings.seed,),
            progress=bar("cutting letters") if bar else None,
        )
    progress = bar("training") if bar else None
    losses = train_autoencoder(patches, out, settings, device=device, progress=progress)
    images = len(fragments) - len(refused)
    return Trained(out, len(patches), images, tuple(refused), losses=tuple(losses))
