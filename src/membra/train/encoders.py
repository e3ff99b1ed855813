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
    """What an encoder was trained on.

    Attributes
    ----------
    path : Path
        The .onnx file.
    letters, images : int
        How many it was trained on.
    refused : tuple of Refused
        The reasons why images could not be used.
    joined : int
        identity: images in known joins.
    losses : tuple of float
        autoencoder: mean reconstruction loss per pixel of each epoch of this run; none where it was finished already.
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
        The photographs, as `membra.fragments` gives them.
    out : path
        The .onnx file to write. The autoencoder's weights are written beside it as .safetensors; killed and started
        again it goes on after the last finished epoch.
    network : {"autoencoder", "identity"}
        The paper's sparse autoencoder, or the encoder that tells hands apart, which begins with the one that comes with
        membra.
    joins : path, optional
        identity: a CSV file with the columns image,join. Fragments of one join are one class, others each their own.
    recipe : Recipe
        How letters are found.
    epochs : float, optional
        Passes over the letters, at most. Default: 50; identity: 10.
    dimension, sparsity : optional
        autoencoder: length of an embedding (default 128) and weight of the L1 penalty (default 1e-5).
    seed : int, optional
        Of weights and order. Default: 42; identity: 0.
    device : {"auto", "cpu", "cuda"}
    workers : int
        Processes that look at images.
    bar : Bars, optional
        Gives each stage its progress.

    Returns
    -------
    Trained

    Raises
    ------
    MembraError
        Where PyTorch is missing, options do not go together, or there are no letters to train on.
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
    pick_device(device)  # that it is not there is said before the work, not after
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
