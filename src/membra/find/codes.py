"""Search a stored collection with a shortlist, by codes of its prototypes that are cached beside it.

The collection's folder `shortlist` has the codewords, the codes of each shard, and the measured recall. All of it is
recomputed when missing or damaged; the codewords also once the collection has more than four times as many fragments
as they were fitted to, and the recall once that number has changed by more than a quarter.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.local_scaling import CHAMFER, COSINE
from membra.find import exact
from membra.find.exact import Query
from membra.find.pruned import Nearest
from membra.find.shortlist import (
    Codes,
    Floats,
    ShortlistSettings,
    code_prototypes,
    first_look,
    fit_codewords,
    how_many,
    lowest,
)
from membra.progress import Progress, log
from membra.store.cache import keep_arrays, keep_bytes, read_arrays
from membra.store.rows import Rows, RowSubset
from membra.store.scales import Scales

FOLDER = "shortlist"
_GROWN = 4  # growth of the collection, as a factor, beyond which the codewords are fitted again
_CHANGED = 0.25  # change of the number of fragments, relative, beyond which the recall is measured again
_SAMPLE = 20  # fragments that measure the recall; as many others choose the weight
_WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)  # of the cosine; the best one depends on the encoder


@dataclass(frozen=True)
class RecallEstimate:
    """Shortlist recall: share of the exact search's first `top` in a shortlist of `listed` fragments, over `queries`.

    weight : factor of the cosine of the means in the approximate score, relative to Chamfer; chosen on other queries
    """

    recall: float
    top: int
    listed: int
    queries: int
    fragments: int
    weight: float


@dataclass(frozen=True)
class ShortlistIndex:
    """The data for the approximate scores of all rows.

    codes : for each shard, the codes of its prototypes in the order of its tiles
    lengths : (N,), norms of the means
    others : (2, N), 1 / sqrt(local scale), for the methods that use them
    """

    codewords: Floats
    codes: list[Codes]
    lengths: Floats
    others: Floats | None
    folder: Path  # of the cache files


def nearest_listed(
    rows: Rows,
    shortlist: ShortlistIndex,
    queries: Sequence[Query],
    method: str,
    top: int,
    count: int,
    *,
    weight: float,
    scales: Scales | None = None,
    among: Sequence[NDArray[np.bool_]] | None = None,
    settings: ShortlistSettings | None = None,
    threads: int | None = None,
) -> list[Nearest]:
    """Like `exact.nearest_rows`, among the shortlist of the `count` rows with the best approximate scores."""
    settings = settings or ShortlistSettings()
    found = []
    for index, query in enumerate(queries):
        if scales is not None:
            query = replace(query, scales=own_scales(rows, query, scales))
        looks = _chamfer_looks(rows, shortlist, query, threads)
        may = rows.alive & (rows.numbers != (query.number or -1))
        looks[~(may if among is None else may & among[index])] = np.inf
        if weight:  # read only the means of the rows that Chamfer leaves: reading all would take longer
            some = lowest(looks, count * settings.before)
            listed = some[lowest(looks[some] + np.float32(weight) * _pooled_looks(rows, shortlist, query, some), count)]
        else:
            listed = lowest(looks, count)
        subset = RowSubset(rows, listed)
        near = exact.nearest_rows(subset, [query], method, top, scales=scales, threads=threads)[0]
        found.append(replace(near, indices=[int(listed[one]) for one in near.indices]))
    return found


def shortlist_index(
    path: Path,
    rows: Rows,
    scales: Scales | None = None,
    *,
    progress: Progress | None = None,
    settings: ShortlistSettings | None = None,
) -> ShortlistIndex:
    """Read the codes of the collection at `path` with the shards `rows`. Missing ones are computed and cached.

    Computing them takes about half a millisecond per fragment.
    """
    settings = settings or ShortlistSettings()
    folder = path / FOLDER
    fragments = int(rows.alive.sum())
    stored = read_arrays(folder / "codewords.safetensors", {"codewords": "float32", "fragments": "int64"})
    if stored is None or fragments > _GROWN * int(stored["fragments"][0]):
        log.info("%s: fitting the shortlist's codewords to %d fragments", path, fragments)
        stored = {"codewords": _fit(rows, settings), "fragments": np.array([fragments])}
        keep_arrays(folder / "codewords.safetensors", stored)
    codewords = stored["codewords"]
    folder = folder / hashlib.sha256(codewords.tobytes()).hexdigest()[:16]
    codes, lengths = [], []
    for done, shard in enumerate(rows.shards, start=1):
        found = read_arrays(folder / shard.name, {"codes": "uint16", "lengths": "float32"})
        if found is None or found["codes"].shape != shard.packed.norms.shape:
            found = {
                "codes": code_prototypes(shard.packed, codewords),
                "lengths": np.linalg.norm(shard.means, axis=1).astype(np.float32),
            }
            keep_arrays(folder / shard.name, found)
        codes.append(found["codes"])
        lengths.append(found["lengths"])
        if progress:
            progress(done, len(rows.shards))
    _tidy(folder, {shard.name for shard in rows.shards})
    others = None if scales is None else (1 / np.sqrt(scales.of_rows(rows))).astype(np.float32)
    return ShortlistIndex(codewords, codes, np.concatenate([*lengths, np.zeros(0, dtype=np.float32)]), others, folder)


def recall_estimate(
    rows: Rows,
    shortlist: ShortlistIndex,
    method: str,
    scales: Scales | None,
    wanted: str = "auto",
    settings: ShortlistSettings | None = None,
) -> RecallEstimate:
    """Choose the weight of the means, and measure the recall of a shortlist of the `wanted` size, a number or `auto`,
    against the exact search.

    Both use fragments drawn at random from the collection; the result is cached for each size.
    """
    settings = settings or ShortlistSettings()
    size = "" if wanted == "auto" else f"-{int(wanted)}"
    file, top, fragments = shortlist.folder / f"recall-{method}{size}.json", 20, int(rows.alive.sum())
    try:
        known = RecallEstimate(**json.loads(file.read_text()))
        if abs(fragments - known.fragments) <= _CHANGED * known.fragments:
            return known
    except (OSError, ValueError, TypeError):
        pass
    count = how_many(fragments, wanted, replace(settings, exact_up_to=0)) or fragments
    sample = np.random.default_rng(settings.seed).permutation(np.flatnonzero(rows.alive))[: 2 * _SAMPLE]
    ranks, recalls = [], []
    weight = 0.0
    for index, row in enumerate(sample.tolist()):
        query = Query(rows.bag(row), rows.means(np.array([row]))[0], int(rows.numbers[row]))
        truth = exact.nearest_rows(rows, [query], method, top, scales=scales)[0].indices
        if index < len(sample) // 2:
            if scales is not None:
                query = replace(query, scales=own_scales(rows, query, scales))
            chamfers = _chamfer_looks(rows, shortlist, query)
            pooled = _pooled_looks(rows, shortlist, query, np.arange(len(rows)))
            looks = [chamfers + np.float32(one) * pooled for one in _WEIGHTS]
            ranks.append([[int((look < look[true]).sum()) for true in truth] for look in looks])
            weight = _WEIGHTS[np.quantile(np.concatenate(ranks, axis=1), 0.98, axis=1).argmin()]
        else:
            found = nearest_listed(rows, shortlist, [query], method, top, count, weight=weight, scales=scales)[0]
            recalls.append(len(set(truth) & set(found.indices)) / max(len(truth), 1))
    recall = float(np.mean(recalls)) if recalls else 1.0
    found_so = RecallEstimate(recall, top, count, len(recalls), fragments, weight)
    keep_bytes(file, json.dumps(asdict(found_so)).encode())
    return found_so


def _chamfer_looks(rows: Rows, shortlist: ShortlistIndex, query: Query, threads: int | None = None) -> Floats:
    """Return the approximate Chamfer scores of all rows, (N,)."""
    looks = first_look(query.bag, rows.packed, shortlist.codes, shortlist.codewords, threads=threads)
    return looks if shortlist.others is None else _scaled(looks, shortlist.others[CHAMFER], query, CHAMFER)


def _pooled_looks(rows: Rows, shortlist: ShortlistIndex, query: Query, some: NDArray[np.int64]) -> Floats:
    """Return 1 - cos of the angle between the query's mean and that of some rows, scaled likewise, (n,)."""
    unit = query.mean / np.maximum(np.linalg.norm(query.mean), np.float32(1e-12))
    turned = np.empty(len(some), dtype=np.float32)
    for own, shard, indices in rows.by_shard(some):
        turned[own] = shard.means[indices] @ unit
    looks = np.asarray(1 - turned / np.maximum(shortlist.lengths[some], 1e-12), dtype=np.float32)
    return looks if shortlist.others is None else _scaled(looks, shortlist.others[COSINE][some], query, COSINE)


def _scaled(looks: Floats, others: Floats, query: Query, part: int) -> Floats:
    own = 1.0 if query.scales is None else float(query.scales[part])
    return np.asarray(looks * (others * np.float32(1 / np.sqrt(own))))


def own_scales(rows: Rows, query: Query, scales: Scales) -> NDArray[np.float64]:
    """Return the local scales of a query, stored or computed."""
    if query.scales is not None or query.number is not None:
        return exact.query_scales(rows, query, np.zeros(0), scales)
    references = RowSubset(rows, rows.rows_of(scales.references))
    bounds = references.below(query.bag, np.arange(len(references)), int8=True).astype(np.float64)
    return exact.query_scales(references, query, bounds, scales)


def _fit(rows: Rows, settings: ShortlistSettings) -> Floats:
    """Fit codewords to the prototypes of fragments drawn at random."""
    prototypes: list[Floats] = []
    wanted = settings.codewords * settings.words_each
    for row in np.random.default_rng(settings.seed).permutation(np.flatnonzero(rows.alive)).tolist():
        prototypes.append(rows.bag(row).prototypes)
        wanted -= len(prototypes[-1])
        if wanted <= 0:
            break
    return fit_codewords(np.concatenate(prototypes), settings)


def _tidy(folder: Path, names: set[str]) -> None:
    """Remove the codes of other codewords, and of shards that no longer exist."""
    if not folder.is_dir():
        return
    for other in folder.parent.iterdir():
        if other.is_dir() and other != folder:
            shutil.rmtree(other, ignore_errors=True)
    for file in folder.glob("*.safetensors"):
        if file.name not in names:
            file.unlink(missing_ok=True)
