"""Index photographs: create or open a collection, check recipe and encoder, describe what is new."""

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Pieces, Recipe, computed, renewed
from membra.describe.workers import Workers
from membra.errors import Incompatible, Invalid, Refused
from membra.progress import Progress
from membra.sources.fragment import Fragment
from membra.store.cluster import add_on, connected, describing_on
from membra.store.collection import Added, Collection, exists
from membra.store.manifest import FILE
from membra.store.redescribe import Describing, describing_here, encoder_for
from membra.store.redescribe import redescribe as describe_anew


def index(
    fragments: Sequence[Fragment],
    into: str | Path,
    *,
    recipe: Recipe | None = None,
    encoder: Encoder | None = None,
    pieces: Pieces | None = None,
    redescribe: bool = False,
    workers: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> tuple[Collection, Added]:
    """Describe fragments into a collection, which is created if it does not exist.

    Photographs that are already in it and have not changed are not described again.

    Parameters
    ----------
    fragments : sequence of Fragment
        The photographs, as returned by `membra.fragments`.
    into : path
        The collection's folder.
    recipe, encoder : optional
        For a new collection; the default is `MEMBRA` and the encoder that comes with membra. An existing collection
        keeps its own, as created or as changed by `adapt`: giving others is an error unless `redescribe` is set.
    pieces : {"auto", "one"}, optional
        Whether each piece on a photograph is a fragment, or the whole photograph is one; overrides the recipe.
    redescribe : bool
        First describe everything in the collection again; after a kill the same call resumes.
    workers : int
        Number of processes that describe images.
    cluster : str, optional
        Address of a Dask scheduler whose workers describe the images; it must answer before anything is created.
    progress : Progress, optional
        Called with the number of photographs done and the total.

    Returns
    -------
    collection : Collection
    added : Added
        How many fragments were described or already known, and those rejected, each with its reason.

    Raises
    ------
    MembraError
        If the settings do not fit the collection, or none of the images can be read.
    """
    into = Path(into)
    with connected(cluster) if cluster else nullcontext() as client:
        fresh = not exists(into) and not redescribe
        if fresh:
            recipe = recipe or MEMBRA
            recipe = replace(recipe, pieces=pieces or recipe.pieces)
            collection = Collection.create(into, encoder=encoder or default_encoder(recipe), recipe=recipe)
        else:
            if not redescribe and not (into / FILE).is_file():
                raise Invalid("{folder} exists and is not a collection; name a new or an empty folder", folder=into)
            collection = Collection.open(into)
            if redescribe:
                by = partial(describing_on, client, collection) if client else None
                _renew(collection, recipe, encoder, pieces, workers, by, progress)
            collection.check_current()
            _check_same(collection, recipe, encoder, pieces)
        if redescribe and not fragments:
            added = Added()
        elif client:
            added = add_on(client, collection, fragments, progress)
        else:
            added = collection.add(fragments, workers=workers, progress=progress)
    if fresh and added.refused and added.readable == 0:
        shutil.rmtree(into)
        raise Refused(
            "none of the {count} images could be read (first: {first})",
            count=len(added.refused),
            first=added.refused[0][1],
        )
    return collection, added


def _renew(
    collection: Collection,
    recipe: Recipe | None,
    encoder: Encoder | None,
    pieces: Pieces | None,
    workers: int,
    by: Describing | None,
    progress: Progress | None,
) -> None:
    """Describe the whole collection again, unless recipe and encoder are already the wanted ones."""
    if collection.recipe.revision > computed(collection.recipe).revision:
        collection.check_current()  # raises: a newer membra described it
    encoder = encoder or encoder_for(collection)
    wanted = renewed(collection.recipe) if recipe is None else recipe
    wanted = computed(replace(wanted, encoder=encoder.digest, pieces=pieces or wanted.pieces))
    if wanted != collection.recipe:
        with Workers(workers) as pool:
            by = by or describing_here(collection, pool)
            describe_anew(collection, encoder, wanted, resumable=True, describing=by, progress=progress)


def default_encoder(recipe: Recipe) -> Encoder:
    """Open the encoder that comes with membra; the paper's recipe has none, as its encoder is trained on the images."""
    if recipe.name == "paper":
        raise Invalid(
            "the paper's recipe needs an encoder trained on the images themselves: run `membra train "
            "SOURCE --recipe paper --out paper.onnx`, then give --encoder paper.onnx"
        )
    return Encoder.ready()


def _check_same(collection: Collection, recipe: Recipe | None, encoder: Encoder | None, pieces: Pieces | None) -> None:
    own = collection.recipe
    if encoder is not None and encoder.digest != own.encoder:
        raise Incompatible(
            "{collection} was described with another encoder; leave --encoder out, or index into a new collection",
            collection=collection.path,
        )
    if pieces is not None and pieces != own.pieces:
        raise Incompatible(
            "{collection} was made with --pieces {pieces}; leave --pieces out, or index into a new collection",
            collection=collection.path,
            pieces=own.pieces,
        )
    wanted = computed(replace(recipe or own, encoder=own.encoder, pieces=own.pieces))
    if own != wanted:
        raise Incompatible(
            "{collection} was made with other settings (recipe `{recipe}`); leave --recipe out, or index "
            "into a new collection",
            collection=collection.path,
            recipe=own.name,
        )
