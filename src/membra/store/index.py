"""Fill a collection from fragments: make it or open it, check that recipe and encoder fit, describe what is new."""

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
    """Describe fragments into a collection, which is made if it does not exist.

    What is known already and has not changed is not described again.

    Parameters
    ----------
    fragments : sequence of Fragment
        The photographs, as `membra.fragments` gives them.
    into : path
        The collection's folder.
    recipe, encoder : optional
        Of a new collection; the default is `MEMBRA` and the encoder that comes with membra. An existing one keeps its
        own, as it was made or as `adapt` left it: asking for others is an error, unless it is redescribed.
    pieces : {"auto", "one"}, optional
        Whether each piece in a photograph is a fragment, or the whole; overrides the recipe's own setting.
    redescribe : bool
        Describe what is in the collection anew first; after a kill it goes on where it was.
    workers : int
        Processes that look at images.
    cluster : str, optional
        The address of a Dask scheduler, whose workers then do it; it must answer before anything is made.
    progress : Progress, optional
        Called with how many are done, of how many.

    Returns
    -------
    collection : Collection
    added : Added
        How many were described or known already, and what was refused, each with its reason.

    Raises
    ------
    MembraError
        Where settings do not fit the collection, or none of the images can be read.
    """
    into = Path(into)
    with connected(cluster) if cluster else nullcontext() as client:
        fresh = not exists(into) and not redescribe
        if fresh:
            recipe = recipe or MEMBRA
            recipe = replace(recipe, pieces=pieces or recipe.pieces)
            collection = Collection.create(into, encoder=encoder or default_encoder(recipe), recipe=recipe)
        else:
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
    """Describe all that is in a collection anew, unless it is as it would become."""
    if collection.recipe.revision > computed(collection.recipe).revision:
        collection.check_current()  # says so: it would be a step back
    encoder = encoder or encoder_for(collection)
    wanted = renewed(collection.recipe) if recipe is None else recipe
    wanted = computed(replace(wanted, encoder=encoder.digest, pieces=pieces or wanted.pieces))
    if wanted != collection.recipe:
        with Workers(workers) as pool:
            by = by or describing_here(collection, pool)
            describe_anew(collection, encoder, wanted, resumable=True, describing=by, progress=progress)


def default_encoder(recipe: Recipe) -> Encoder:
    """The encoder that comes with membra. The paper's recipe has none of its own: its encoder is trained on the set."""
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
