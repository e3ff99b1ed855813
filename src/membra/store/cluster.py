"""Describe batches of photographs on a Dask cluster; `find/cluster_search.py` searches shards on one.

Workers see the images and the collection under the same paths as the client (shared storage): they write shards into
it themselves, and only a shard's file record and rows are sent back. Only the client writes the manifest, one
transaction for all batches finished since the last, in the order of the fragments: the collection is the same whichever
worker described what, and however often. A task is pure, its shard is named by its content, and a shard counts only
once the manifest names it; so a worker that dies costs only time.

Dask's own messages are pickled: run scheduler and workers in a network that you trust.
"""

import asyncio
import logging
import platform
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2

from membra.describe.encoder import Encoder
from membra.describe.recipe import Recipe, describe_photograph
from membra.describe.workers import described_by
from membra.errors import Incompatible, Unavailable, Unsupported
from membra.progress import Progress
from membra.sources.fragment import Fragment
from membra.store.batch import Batch, batch_of
from membra.store.collection import BATCH, Added, Collection
from membra.store.writer import content_digest, encoder_name

Client = Any  # distributed.Client, which has no types

_CONNECTING = 5.0  # seconds for a scheduler to answer, and for a worker to be connected
_NO_WORKER_TIMEOUT = 60.0  # seconds without any worker after which the client gives up
# A transaction once 1 / _PART of the photographs is new, or after _PERIOD seconds: the work that a kill can cost.
_PART, _PERIOD = 100, 300.0
_MIN_BATCHES_PER_THREAD = 8  # so that all threads have work to the end
_MAX_PENDING_PER_THREAD = 3  # submitted batches for each thread of the cluster; bounds how many results wait
# Packages that affect numbers or messages. All machines need the same versions for the collection to be consistent.
_SAME = ("membra", "numpy", "onnxruntime", "opencv-python-headless", "distributed")


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Connect to the scheduler at `address` (tcp://host:8786); check that it has workers of the client's versions."""
    distributed = _dask()
    _check_answers(distributed, address)
    before = _hushed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about differing versions; _check_versions raises for those that matter
        client = distributed.Client(address, timeout=_CONNECTING, set_as_default=False)
    try:
        try:
            client.wait_for_workers(1, timeout=_CONNECTING)
        except TimeoutError:
            raise Unavailable(
                "the scheduler at {address} has no workers; start some with `dask worker {address}`", address=address
            ) from None
        _check_versions(client)
        yield client
    except (OSError, CancelledError) as error:
        if isinstance(error, OSError) and error.filename:
            raise  # an error of the local disk
        raise Unavailable(
            "the connection to the scheduler at {address} was lost; stored results are kept: run the command again "
            "when the scheduler is back",
            address=address,
        ) from None
    finally:
        client.close()
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def add_on(
    client: Client, collection: Collection, fragments: Sequence[Fragment], progress: Progress | None = None
) -> Added:
    """Like `Collection.add`, with photographs described by the workers of `client`."""
    collection.check_current()
    with collection.writing() as writer:
        work, added = writer.pending(fragments)
        unchanged = added.unchanged
        _check_sight(client, collection)
        done, stored = 0, unchanged
        waiting: list[Batch] = []
        last = time.monotonic()
        for finished in _finished(client, collection, work, collection.recipe):
            for batch in finished:
                added = added.plus(batch)
                done += len(batch.photographs)
                waiting.append(batch)
            # A transaction rewrites the local scales of all fragments: too slow for every batch of a large collection.
            fresh = unchanged + done - stored
            if fresh * _PART >= stored or time.monotonic() - last > _PERIOD or done == len(work):
                writer.store(*waiting)
                waiting, stored, last = [], unchanged + done, time.monotonic()
            if progress:
                progress(done, len(work))
    return added


def describing_on(
    client: Client,
    collection: Collection,
    work: Sequence[tuple[Fragment, str]],
    recipe: Recipe,
    progress: Progress | None,
) -> Iterator[Batch]:
    """Like `Collection.batches`, by the workers of `client`."""
    _check_sight(client, collection)
    done = 0
    for finished in _finished(client, collection, work, recipe):
        for batch in finished:
            yield batch
            done += len(batch.photographs)
            if progress:
                progress(done, len(work))


def _finished(
    client: Client, collection: Collection, work: Sequence[tuple[Fragment, str]], recipe: Recipe
) -> Iterator[list[Batch]]:
    """Yield the batches finished since the last iteration, in the order of `work`; few batches are pending at once."""
    distributed = _dask()
    threads = sum(client.nthreads().values())
    size = max(1, min(BATCH, len(work) // (_MIN_BATCHES_PER_THREAD * max(threads, 1))))
    # Absolute paths: a worker runs in another working directory.
    whole = [(replace(fragment, path=fragment.path.absolute()), digest) for fragment, digest in work]
    batches = [whole[first : first + size] for first in range(0, len(whole), size)]
    folder, settings = str(collection.path.absolute()), recipe.to_json()
    pending: dict[int, Any] = {}
    sent = stored = 0
    while stored < len(batches):
        threads = max(1, sum(client.nthreads().values()))
        while sent < len(batches) and sent - stored < _MAX_PENDING_PER_THREAD * threads + 1:
            pending[sent] = client.submit(_describe, folder, settings, batches[sent], pure=False)
            sent += 1
        wait_for(client, pending[stored])
        ready = []
        while stored in pending and pending[stored].done():
            future = pending.pop(stored)
            try:
                ready.append(future.result())
            except distributed.KilledWorker:
                raise Unavailable(
                    "workers died repeatedly on {file} and the {count} images after it, probably because memory ran "
                    "out; stored results are kept: give the workers more memory, or remove those images, and run the "
                    "command again",
                    file=batches[stored][0][0].path.name,
                    count=len(batches[stored]) - 1,
                ) from None
            stored += 1
        yield ready


def _describe(folder: str, recipe: str, photographs: Sequence[tuple[Fragment, str]]) -> Batch:
    """Describe some photographs and write their shard; runs on a worker."""
    path, settings = Path(folder), Recipe.from_json(recipe)
    encoder = _encoder(str(path / encoder_name(settings)), settings.encoder)
    cv2.setNumThreads(1)  # Dask runs as many tasks side by side as the worker has threads
    work = partial(describe_photograph, encoder=encoder, recipe=settings)
    described = []
    for fragment, digest in photographs:
        if content_digest(fragment.path) != digest:
            raise Unavailable(
                "a worker on {host} does not have the same {file} as this machine; put the images on storage that "
                "all machines share, under one path",
                host=platform.node(),
                file=fragment.path,
            )
        described.append((digest, described_by(work, fragment)))
    return batch_of(path, described)


@lru_cache(maxsize=4)
def _encoder(path: str, digest: str) -> Encoder:
    encoder = Encoder.open(Path(path), threads=1)
    if encoder.digest != digest:
        raise Incompatible(
            "{file} on {host} is not the encoder of the collection; put the collection on storage that all machines "
            "share",
            file=path,
            host=platform.node(),
        )
    return encoder


def wait_for(client: Client, future: Any) -> None:
    """Wait until `future` is done; raise `Unavailable` if no worker is left."""
    last = time.monotonic()
    while not future.done():
        try:
            future.exception(timeout=2)
        except TimeoutError:
            if client.nthreads():
                last = time.monotonic()
            elif time.monotonic() - last > _NO_WORKER_TIMEOUT:
                raise Unavailable(
                    "the cluster has no workers left; stored results are kept: start some workers and run the "
                    "command again"
                ) from None


def _hushed() -> dict[str, int]:
    """Silence Dask's loggers and return their previous levels: membra reports errors itself, in one line."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return before


def _check_answers(distributed: Any, address: str) -> None:
    """Check that a scheduler answers. A client would find out too, but leaves threads behind that wait and log."""

    async def ask() -> None:
        comm = await distributed.comm.connect(address, timeout=_CONNECTING)
        comm.abort()

    try:
        asyncio.run(asyncio.wait_for(ask(), 2 * _CONNECTING))
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split()) or "no answer in time"
        raise Unavailable(
            "no scheduler answers at {address} ({why}); start one with `dask scheduler`, or check the "
            "address, e.g. tcp://host:8786",
            address=address,
            why=reason[:200],
        ) from None


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise Unsupported("a cluster needs the package dask; run `pip install 'membra[cluster]'`") from None


def _check_versions(client: Client) -> None:
    """Check that every worker has the client's versions of `_SAME`."""
    ours = _versions()
    try:
        theirs = client.run(_versions)
    except ImportError as error:
        raise Incompatible(
            "a worker cannot load membra ({why}); install membra {version} with its extra [cluster] on "
            "all machines of the cluster",
            why=error,
            version=ours["membra"],
        ) from None
    for worker, found in theirs.items():
        for name, wanted in ours.items():
            if found[name] != wanted:
                raise Incompatible(
                    "the worker {worker} has {package} {version}, but this machine has {wanted}; install the same "
                    "versions on all machines of the cluster",
                    worker=worker,
                    package=name,
                    version=found[name],
                    wanted=wanted,
                )


def _versions() -> dict[str, str]:
    return {"Python": ".".join(platform.python_version_tuple()[:2]), **{name: version(name) for name in _SAME}}


def _check_sight(client: Client, collection: Collection) -> None:
    """Check that every worker sees this same collection and may write into it."""
    sign = (
        collection.path.absolute() / "shards" / f".{time.time_ns()}.part"
    )  # named like an unfinished file, which `Writer.tidy` removes
    sign.touch()
    try:
        seen = client.run(_sees, str(sign))
    finally:
        sign.unlink(missing_ok=True)
    blind = [worker for worker, sight in seen.items() if not sight]
    if blind:
        raise Unavailable(
            "the worker {worker} cannot read or write {collection}; put the collection on storage that all machines "
            "share, under one path",
            worker=blind[0],
            collection=collection.path,
        )


def _sees(sign: str) -> bool:
    try:
        with Path(sign).open("r+b"):
            return True
    except OSError:
        return False
