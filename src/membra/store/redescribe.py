"""Describe a whole collection again: with another encoder, another recipe, or another revision of its recipe.

The collection stays unchanged and searchable until one final transaction replaces all descriptions.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from membra.describe.encoder import SHIPPED, Encoder
from membra.describe.recipe import Recipe, computed
from membra.describe.workers import Workers
from membra.errors import NotFound
from membra.files import atomic_write
from membra.progress import Progress
from membra.sources.fragment import Fragment
from membra.store import manifest
from membra.store.batch import Batch
from membra.store.collection import Collection, Entry
from membra.store.corrections import with_fixes
from membra.store.edits import common, underneath
from membra.store.writer import content_digest, encoder_name

# Describes photographs, each given with the SHA-256 of its bytes, by a recipe, and writes their shards.
Describing = Callable[[Sequence[tuple[Fragment, str]], Recipe, Progress | None], Iterator[Batch]]


def redescribe(
    collection: Collection,
    encoder: Encoder,
    recipe: Recipe | None = None,
    *,
    resumable: bool = False,
    describing: Describing | None = None,
    progress: Progress | None = None,
) -> None:
    """Describe every fragment again with `encoder`, by `recipe` or else the collection's own.

    One transaction at the end replaces all of them, or none. `resumable`: finished batches are stored, and after a kill
    the same call resumes from there. `describing` describes the photographs; the default is one local process.
    """
    with collection.writing() as writer:
        entries = as_sources_say(collection)
        images = with_fixes(collection.path, photographs(entries))
        check_there(photographs(entry for entry in entries if not entry.refused))
        recipe = computed(replace(recipe or collection.recipe, encoder=encoder.digest))
        atomic_write(collection.path / encoder_name(recipe), encoder.onnx)
        work = [(photograph, content_digest(photograph.path)) for photograph in images]
        done = writer.kept(recipe, work) if resumable else []
        known = {photograph for batch in done for photograph in batch.photographs}
        rest = [(photograph, digest) for photograph, digest in work if photograph.id not in known]

        def report(so_far: int, _: int) -> None:
            if progress:
                progress(len(known) + so_far, len(work))

        describing = describing or describing_here(collection, Workers(1))
        for batch in describing(rest, recipe, report):
            if resumable:
                writer.keep(batch, recipe)
            done.append(batch)
        writer.replace(done, recipe)
        collection.recipe = recipe
        writer.merge_when_due()


def describing_here(collection: Collection, pool: Workers) -> Describing:
    """Return a `Describing` that uses the processes of `pool`."""
    return partial(collection.batches, pool)


def encoder_for(collection: Collection) -> Encoder:
    """Return the encoder for describing a collection again: its own, or the current one if its own came with membra."""
    return Encoder.ready() if collection.recipe.encoder in SHIPPED else collection.encoder()


def as_sources_say(collection: Collection) -> list[Entry]:
    """Return the entries of a collection without edits of metadata, which are applied again once they are stored."""
    with manifest.connect(collection.path) as database:
        beneath = underneath(database)
        return [_with_columns(entry, beneath.get(entry.fragment.id, {})) for entry in manifest.entries(database)]


def _with_columns(entry: Entry, columns: Mapping[str, str]) -> Entry:
    if not columns:
        return entry
    return replace(entry, fragment=replace(entry.fragment, columns={**entry.fragment.columns, **columns}))


def photographs(entries: Iterable[Entry]) -> list[Fragment]:
    """Return the photographs of fragments, each once; one that was never downloaded carries the reason.

    A photograph of several pieces has the columns that all of them share; each piece keeps its own columns.
    """
    pieces: dict[str, list[Entry]] = {}
    for entry in entries:
        pieces.setdefault(entry.fragment.photograph, []).append(entry)
    found = []
    for photograph, own in pieces.items():
        path = own[0].fragment.path
        columns = common([one.fragment.columns for one in own], photograph)
        found.append(Fragment(photograph, path, columns, "" if path.exists() else own[0].refused))
    return found


def check_there(images: Sequence[Fragment]) -> None:
    """Raise `NotFound` before any work begins if an image file is missing or must not be read."""
    gone = [image.path for image in images if not (Path(image.path).is_file() and os.access(image.path, os.R_OK))]
    if gone:
        raise NotFound(
            "{count} images are gone or cannot be read (first: {first}); restore them, or remove them from the "
            "collection",
            count=len(gone),
            first=gone[0],
        )
