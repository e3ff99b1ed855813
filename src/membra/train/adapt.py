"""Fit the encoder to a collection without labels and describe the collection again with it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.describe.encoder import Encoder
from membra.describe.graph import identity_graph, weights_of
from membra.describe.recipe import Recipe
from membra.describe.workers import Workers
from membra.errors import Incompatible, NotEnough, Refused
from membra.files import atomic_write
from membra.progress import Bars
from membra.sources.fragment import Fragment
from membra.store.collection import Collection
from membra.store.corrections import with_fixes
from membra.store.redescribe import check_there, photographs
from membra.train.resume import describe_anew, training_sample, unfinished
from membra.train.torch_extra import check_torch
from membra.train.training_glyphs import cut_letters
from membra.train.training_settings import ADAPTING, DEVICE, IdentitySettings

MAX_LETTERS_PER_FRAGMENT = 400  # used in training; more of one fragment add nothing
MAX_LETTERS = 600_000  # of all fragments together: 2.5 GB


def adapt(
    collection: Collection,
    *,
    settings: IdentitySettings | None = None,
    device: str = DEVICE,
    workers: int = 1,
    bar: Bars | None = None,
) -> Encoder:
    """Fit the collection's encoder to its fragments and replace every description. Needs the extra `[train]`.

    No labels are needed: each fragment is a class. Of more than 4,000 photographs, 4,000 drawn at random are used
    (`train/resume.py`). The collection stays searchable with its old descriptions until the new ones replace them in
    one step. A killed call leaves it unchanged; if training was finished by then, the same call continues describing.

    Parameters
    ----------
    collection : Collection
    settings : IdentitySettings, optional
        Training settings. Default: `ADAPTING`.
    device : {"auto", "cpu", "cuda"}
    workers : int
        Number of processes that read images.
    bar : Bars, optional
        Called with the name of each stage; returns the progress callback for it.

    Returns
    -------
    Encoder
        The new encoder, which the collection now uses.

    Raises
    ------
    MembraError
        If PyTorch is missing, the collection was described with an autoencoder or by another revision, an image is
        gone, or there are too few fragments or letters to train on. The collection is then unchanged.
    """
    check_torch()
    if settings is None:
        settings = ADAPTING
    collection.check_current()
    before = collection.encoder().onnx
    if "stem.0.weight" not in weights_of(before):
        raise Incompatible(
            "{collection} was described with an autoencoder, which does not adapt; index it with the "
            "encoder that comes with membra (leave --encoder out)",
            collection=collection.path,
        )
    described = [entry for entry in collection.entries() if not entry.refused]
    images = with_fixes(collection.path, photographs(described))
    check_there(images)
    if (known := unfinished(collection, settings)) is not None:
        with Workers(workers) as pool:
            describe_anew(collection, known, settings, pool, bar)
        return known
    images = training_sample(images)
    with Workers(workers) as pool:
        with _warming_up(device, settings) as on_gpu:
            # An image rejected here has changed since indexing; describing it below records the reason.
            patches, owners, pieces, _ = _letters(images, collection.recipe, pool, bar)
        if not on_gpu:
            pool.dismiss()  # training takes minutes, restarting the workers a second
        # pieces that may have no writing are left out of training
        ids = {entry.fragment.id for entry in described if not entry.doubtful}
        inside = np.array([piece.id in ids for piece in pieces])[owners]  # some pieces were removed by a user
        encoder = fit_encoder(patches[inside], owners[inside], before, settings, device, bar)
        describe_anew(collection, encoder, settings, pool, bar)
    return encoder


def train_on(
    images: Sequence[Fragment],
    recipe: Recipe,
    joins: Mapping[str, str],
    out: Path,
    settings: IdentitySettings,
    *,
    device: str = DEVICE,
    workers: int = 1,
    bar: Bars | None = None,
) -> tuple[int, list[Refused]]:
    """Train an identity encoder on photographs and write it to `out`; return the number of letters and the rejections.

    `joins` maps the id of a fragment or of its photograph to its known join. Fragments of one join form one class,
    every other fragment a class of its own.
    """
    with Workers(workers) as pool, _warming_up(device, settings):
        patches, owners, pieces, refused = _letters(images, recipe, pool, bar)
    known = [joins.get(piece.id) or joins.get(piece.photograph) for piece in pieces]
    names = np.array([join or f"\0{index}" for index, join in enumerate(known)])
    classes = np.unique(names, return_inverse=True)[1].reshape(-1)
    encoder = fit_encoder(patches, classes[owners], Encoder.ready().onnx, settings, device, bar)
    atomic_write(out, encoder.onnx)
    return len(patches), refused


def fit_encoder(
    patches: NDArray[np.uint8],
    classes: NDArray[np.int64],
    before: bytes,
    settings: IdentitySettings,
    device: str,
    bar: Bars | None,
) -> Encoder:
    """Train the identity encoder `before` (ONNX bytes) further on patches (n, 64, 64) of classes (n,).

    Raises `NotEnough` if there are too few classes or patches.
    """
    from membra.train.autoencoder import pick_device
    from membra.train.identity import train_identity

    found = len(np.unique(classes))
    if found < settings.min_classes or len(patches) < settings.min_glyphs:
        raise NotEnough(
            "{found} fragments with {letters} letters are too few to adapt to: at least {fragments} fragments with "
            "{least} letters are needed, or mates would be found less often than before; nothing was changed",
            found=found,
            letters=len(patches),
            fragments=settings.min_classes,
            least=settings.min_glyphs,
        )
    weights = train_identity(
        patches,
        classes,
        settings,
        start=weights_of(before),
        device=pick_device(device),
        progress=bar("training") if bar else None,
    )
    return Encoder(identity_graph(weights))


@contextmanager
def _warming_up(device: str, settings: IdentitySettings) -> Iterator[bool]:
    """Warm up a GPU in a thread during the block; yield whether there is one. A missing `cuda` raises at entry."""
    from membra.train.autoencoder import pick_device
    from membra.train.identity import warm_up

    with ThreadPoolExecutor(1) as aside:
        where = pick_device(device)
        warm = aside.submit(warm_up, where, settings)
        yield where.type == "cuda"
        warm.result()


def _letters(
    images: Sequence[Fragment], recipe: Recipe, pool: Workers, bar: Bars | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[Fragment], list[Refused]]:
    """Call `cut_letters` with a limit per fragment that keeps all patches within `MAX_LETTERS`."""
    most = max(5, min(MAX_LETTERS_PER_FRAGMENT, MAX_LETTERS // max(1, len(images))))
    return cut_letters(images, recipe, pool, most=most, progress=bar("cutting letters") if bar else None)
