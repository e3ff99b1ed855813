"""Search on a Dask cluster: each worker ranks its shards exactly, and the merged ranking is exact, too."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import chamfer_many, pack
from membra.compare.local_scaling import NEIGHBOURS, cosines, local_scale
from membra.compare.methods import MAPPED, named
from membra.compare.pooling import pool
from membra.describe.recipe import Recipe
from membra.errors import Damaged, Invalid, MembraError, NotFound
from membra.find import exact
from membra.find.lookup import entry_of
from membra.find.search import Hit, Ranking, describe_image, excluded
from membra.store import manifest
from membra.store.cluster import Client, wait_for
from membra.store.collection import Collection
from membra.store.rows import Rows
from membra.store.scales import Scales, read_scales
from membra.store.tensors import FileRecord

ShardList = Sequence[tuple[FileRecord, NDArray[np.int32]]]  # with the number of the fragment at each row


def search_on(
    client: Client,
    collection: Collection,
    query: str | Path,
    *,
    top: int = 20,
    method: str = "default",
    exclude_same: str | None = None,
) -> Ranking:
    """Like `search`, by the workers of `client`, which see the collection under the same path.

    The client reads only the manifest and the query's shard, except while local scales lag behind the fragments.
    """
    by = named(method, collection.recipe.method)
    if not by.mapped:
        raise Invalid(
            "`{method}` needs all descriptions at once and cannot run on a cluster; leave --cluster out, or use "
            "{methods}",
            method=by.name,
            methods=MAPPED,
        )
    while True:
        with manifest.connect(collection.path) as database:
            shards = manifest.shards(database)
            resolved, piece, hidden = _resolve(collection, database, query, exclude_same)
            request = _Request(resolved, by.name, top, hidden)
            text = manifest.read_meta(database).get("scales") if by.parts else ""
            try:
                stored = FileRecord(*json.loads(text)) if text else None
                found = _merged(client, collection, shards, stored, request)
                if found is None:  # a merge is under way, or was killed: it stores local scales with its last shard
                    scales = collection.files.scales(collection.files.rows(database), database)
                    found = _merged(client, collection, shards, scales, request) or []
            except MembraError:
                with manifest.connect(collection.path) as now:
                    if [w for w, _ in manifest.shards(now)] == [w for w, _ in shards]:
                        raise
                continue  # a writer replaced shards meanwhile: retry with the present ones
            entries = manifest.entries_of(database, [number for _, number in found])
            hits = [Hit.of(rank, entries[number], distance) for rank, (distance, number) in enumerate(found, start=1)]
            return Ranking(str(query), by.name, hits, piece=piece)


@dataclass(frozen=True)
class _Request:
    """A request to workers: the `top` nearest to `query` by `method`, except fragments with the numbers `hidden`."""

    query: exact.Query
    method: str
    top: int
    hidden: NDArray[np.int32]


def _resolve(
    collection: Collection, database: sqlite3.Connection, query: str | Path, exclude_same: str | None
) -> tuple[exact.Query, int, NDArray[np.int32]]:
    """Return the query, the number of its piece on the photograph, and the numbers of the excluded fragments."""
    entry = entry_of(database, query)
    outside = None if entry else describe_image(collection, query)
    if entry:
        piece, found = entry.fragment.piece, collection.description(entry.fragment.id)
    elif outside:
        piece, found = outside
    else:
        raise NotFound(
            "{query} is neither a fragment of {collection} nor an image file; see `membra list`",
            query=query,
            collection=collection.path,
        )
    mean = pool(found.embeddings, "mean").astype(np.float32)
    resolved = exact.Query(found.bag, mean, entry.number if entry else None)
    return resolved, piece, np.array(excluded(database, entry, exclude_same), dtype=np.int32)


def _merged(
    client: Client, collection: Collection, shards: ShardList, scales: FileRecord | Scales | None, request: _Request
) -> list[tuple[float, int]] | None:
    """Merge each worker's nearest fragments into the requested ones, as (distance, number).

    None if the method needs the local scales of fragments that `scales` lack.

    shards : of one state of the collection; scales : its local scales or their file, for `fused` and `bob-local`
    """
    query = request.query
    shares = _shares(client, shards)
    if isinstance(scales, Scales):  # workers need no distances to references, most of the data
        slim = replace(scales, near=scales.near[:, :0], which=scales.which[:, :0])
        scales = client.scatter(slim, broadcast=True)
    where = (str(collection.path.absolute()), collection.recipe.to_json(), scales)
    if named(request.method).parts and query.number is None and shares:
        near = _ask(client, shares, _references, *where, query)
        if None in near:
            return None
        nearest = [np.sort(np.concatenate([part[kind] for part in near]))[:NEIGHBOURS] for kind in (0, 1)]
        query = replace(query, scales=np.array([local_scale(part[None])[0] for part in nearest]))
    found = _ask(client, shares, _nearest, *where, replace(request, query=query))
    if None in found:
        return None
    return sorted(hit for part in found for hit in part)[: request.top]


def _nearest(
    shards: ShardList, folder: str, recipe: str, stored: FileRecord | Scales | None, request: _Request
) -> list[tuple[float, int]] | None:
    """Return the nearest fragments of some shards, as (distance, number); None where local scales are lacking.

    Runs on a worker.
    """
    rows, scales = rows_on_worker(folder, recipe, shards), _scales(folder, stored)
    if named(request.method).parts and not _has_scales(scales, rows, request.query):
        return None
    among = [~np.isin(rows.numbers, request.hidden)]
    found = exact.nearest_rows(rows, [request.query], request.method, request.top, scales=scales, among=among)[0]
    numbers = [int(rows.numbers[row]) for row in found.indices]
    return list(zip(found.distances, numbers, strict=True))


def _references(
    shards: ShardList, folder: str, recipe: str, stored: FileRecord | Scales | None, query: exact.Query
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return a query's distances to its nearest references in some shards, by Chamfer and by cosine; None where local
    scales are lacking, and so references may be.

    Runs on a worker.
    """
    rows, scales = rows_on_worker(folder, recipe, shards), _scales(folder, stored)
    if scales is None or not _has_scales(scales, rows, query):
        return None
    own = np.flatnonzero(rows.alive & np.isin(rows.numbers, scales.references))
    if not len(own):
        return np.zeros(0), np.zeros(0)
    chamfers = chamfer_many([query.bag], pack([rows.bag(row) for row in own.tolist()]))[0].astype(np.float64)
    pooled = cosines(query.mean[None].astype(np.float64), rows.means(own).astype(np.float64))[0]
    return np.sort(chamfers)[:NEIGHBOURS], np.sort(pooled)[:NEIGHBOURS]


def rows_on_worker(folder: str, recipe: str, shards: ShardList) -> Rows:
    """Map some shards of a collection in the process of a worker."""
    collection = _opened(folder, recipe)
    return Rows([collection.files.shard(record) for record, _ in shards], [numbers for _, numbers in shards])


@lru_cache(maxsize=4)
def _opened(folder: str, recipe: str) -> Collection:
    """Open a collection, cached in each worker so that shards are mapped and checked only once."""
    return Collection(Path(folder), Recipe.from_json(recipe))


def _has_scales(scales: Scales | None, rows: Rows, query: exact.Query) -> bool:
    """Return whether there are local scales of all fragments in `rows`, and of the query if it is in the collection."""
    wanted = rows.numbers[rows.alive]
    if query.number is not None:
        wanted = np.append(wanted, query.number)
    return scales is not None and bool(np.isin(wanted, scales.numbers).all())


def _scales(folder: str, stored: FileRecord | Scales | None) -> Scales | None:
    return _read(folder, stored) if isinstance(stored, FileRecord) else stored


@lru_cache(maxsize=2)
def _read(folder: str, record: FileRecord) -> Scales:
    found = read_scales(Path(folder), record)
    if found is None:
        raise Damaged(
            "{file} of {collection} cannot be read; search without --cluster, or restore it from a copy",
            file=record.name,
            collection=folder,
        )
    return found


def _shares(client: Client, shards: ShardList) -> list[tuple[str, ShardList]]:
    """Assign shards to workers: the same ones each time while the workers stay the same."""
    workers = sorted(client.nthreads())
    return [
        (worker, shards[index :: len(workers)]) for index, worker in enumerate(workers) if shards[index :: len(workers)]
    ]


def _ask(client: Client, shares: Sequence[tuple[str, ShardList]], work: Any, *arguments: Any) -> list[Any]:
    """Return `work(shards, *arguments)` for each share, run on the assigned worker, or on another if that one is
    gone."""
    futures = [
        client.submit(work, shards, *arguments, workers=[worker], allow_other_workers=True, pure=False)
        for worker, shards in shares
    ]
    for future in futures:
        wait_for(client, future)
    return [future.result() for future in futures]
