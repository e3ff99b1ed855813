"""Search with a shortlist against exact search: the first 20 of 300,000 bags synthesized from real ones.

`python benchmarks/shortlist.py [COLLECTION ...] [--bags N] [--strange] [--keep FOLDER]`. The bags are made from the
fragments of the collections, or of a drawn one (`_synthetic.py` explains how, and why that is fair), and written as
shards of a collection into a temporary folder, or into one that is kept and reused: 14 GB for 300,000. `ratio`: time of
the exact search, by the default method, over that of the search by a shortlist, both on mapped shards, in turns, the
median over different queries, in this run; the time for computing the codes is excluded, and reported. `recall@20` is
the share of the exact first 20 that the shortlist returned, over 50 queries. For comparison, the recall of the same
number of candidates by the mean embedding is reported.
`--strange`: the codewords are fitted to other manuscripts than the bags.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _synthetic import MATES, Real, SyntheticBags, likeness
from _timing import progress, ratios, report, timed
from threadpoolctl import threadpool_limits

from membra import scribes
from membra.compare.local_scaling import cosines
from membra.compare.threads import processors
from membra.describe.recipe import MEMBRA
from membra.errors import MembraError
from membra.find import codes, exact, shortlist
from membra.sources.fragment import fragments
from membra.store.cache import keep_arrays
from membra.store.collection import Collection
from membra.store.rows import Rows
from membra.store.scales import Scales, updated
from membra.store.shard import Stored, open_shard, write_shard
from membra.store.tensors import FileRecord

TOP, QUERIES, TIMED = 20, 50, 21
METHOD = MEMBRA.method  # the default
SHARD = 2_000  # bags per shard
REFERENCES = 100  # for the local scales; a real collection has 2,000, which would only take longer here


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="*", metavar="COLLECTION")
    parser.add_argument("--bags", type=int, default=300_000)
    parser.add_argument("--strange", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    source, real = _real(options.collections)
    others = real
    if options.strange:
        odd = [int(sum(name.encode())) % 2 for name in real.manuscripts]
        real, others = (_those(real, [index for index, one in enumerate(odd) if one == side]) for side in (0, 1))
    with tempfile.TemporaryDirectory() as folder:
        measure(source, real, others if options.strange else None, options.bags, options.keep or Path(folder))


def measure(source: str, real: Real, others: Real | None, count: int, folder: Path) -> None:
    rng = np.random.default_rng(1)
    synthetic = SyntheticBags(real)
    some = [
        hand * MATES + one for hand in rng.choice(count // MATES, 40, replace=False).tolist() for one in range(MATES)
    ]
    alike = {"real": likeness(real.bags, real.manuscripts)}
    alike["made"] = likeness([synthetic[index] for index in some], [index // MATES for index in some])
    progress(f"making {count:,} bags from {len(real.bags)} ...")
    rows = _stored_rows(real, count, folder)
    progress("measuring local scales ...")
    scales = updated(None, rows, np.sort(rng.choice(rows.numbers, REFERENCES, replace=False)))
    progress("making codes ...")
    began = time.perf_counter()
    if others is not None:
        strange = SyntheticBags(others, seed=1)
        words = np.concatenate([strange[index].prototypes for index in range(0, 8 * 8_000, 8)])
        stored = {"codewords": shortlist.fit_codewords(words), "fragments": np.array([count])}
        keep_arrays(folder / codes.FOLDER / "codewords.safetensors", stored)
    shortlist_index = codes.shortlist_index(folder, rows, scales)
    coding = time.perf_counter() - began
    settings = replace(shortlist.ShortlistSettings(), exact_up_to=0)
    listed = shortlist.how_many(count, "auto", settings)
    progress("measuring a sample, as a search does once ...")
    known = codes.recall_estimate(rows, shortlist_index, METHOD, scales)

    queries = []
    for row in rng.choice(count, QUERIES, replace=False).tolist():
        queries.append(exact.Query(rows.bag(row), rows.means(np.array([row]))[0], int(rows.numbers[row])))

    def plainly(query: exact.Query) -> list[int]:
        return exact.nearest_rows(rows, [query], METHOD, TOP, scales=scales)[0].indices

    def by_list(query: exact.Query) -> list[int]:
        found = codes.nearest_listed(
            rows, shortlist_index, [query], METHOD, TOP, listed, weight=known.weight, scales=scales
        )
        return found[0].indices

    plainly(queries[0]), by_list(queries[0])
    # A different query each time, so that none profits from rows read and verified by the one before.
    full_turn, short_turn = (iter(queries[1:]) for _ in range(2))
    full, short = timed(lambda: plainly(next(full_turn)), lambda: by_list(next(short_turn)), rounds=TIMED)
    progress("asking ...")
    truth = [plainly(query) for query in queries]
    recalls = [len({*by_list(query)} & {*one}) / TOP for query, one in zip(queries, truth, strict=True)]
    report(
        "shortlist",
        **ratios(full, replace(short, processor=short.processor * processors())),
        **{"recall@20": float(np.mean(recalls)), "recall@20_least": min(recalls)},
        bags=count,
        words=float(np.mean([len(query.bag) for query in queries])),
        listed=listed,
        method=METHOD,
        weight=known.weight,
        recall_as_search_prints=known.recall,
        exact_ms=1e3 * full.wall,
        ms=1e3 * short.wall,
        exact_processor_ms=1e3 * full.processor,
        processor_ms=1e3 * short.processor,
        **{"recall@20_by_means": _by_means(rows, scales, queries, truth, listed)},
        codewords=len(shortlist_index.codewords),
        coding_s=coding,
        strange=others is not None,
        queries=QUERIES,
        source=source,
        from_bags=len(real.bags),
        **{f"{kind}_{key}": value for kind, values in alike.items() for key, value in values.items()},
    )


def _by_means(
    rows: Rows, scales: Scales, queries: Sequence[exact.Query], truth: Sequence[list[int]], listed: int
) -> float:
    """Return the recall of `listed` candidates by mean embedding, found exactly: the maximum for any index of means."""
    recalls = []
    means = np.concatenate(rows.mean_blocks)
    other = np.sqrt(scales.of_rows(rows)[1])
    for query, one in zip(queries, truth, strict=True):
        scores = cosines(query.mean[None], means)[0] / other
        scores[rows.numbers == query.number] = np.inf
        recalls.append(len({*shortlist.lowest(scores, listed).tolist()} & {*one}) / TOP)
    return float(np.mean(recalls))


def _stored_rows(real: Real, count: int, folder: Path) -> Rows:
    """Write the bags as shards, unless they exist, and map them."""
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    kept = folder / f"written-{count}.json"
    records = [FileRecord(*one) for one in json.loads(kept.read_text())] if kept.is_file() else []
    if not records:
        work = (real, count, folder / "shards")
        with ProcessPoolExecutor(processors(), get_context("spawn"), _begin, work) as pool:
            for one in pool.map(_write, range(0, count, SHARD)):
                records.append(one)
                if len(records) % 25 == 0:
                    progress(f"{len(records) * SHARD:,} ...")
        kept.write_text(json.dumps([astuple(one) for one in records]))
    shards = [open_shard(folder / "shards", one) for one in records]
    ends = np.cumsum([len(shard) for shard in shards])
    return Rows(shards, [np.arange(e - len(s), e, dtype=np.int32) + 1 for s, e in zip(shards, ends, strict=True)])


_work: tuple[SyntheticBags, int, Path]  # of a worker process


def _begin(real: Real, count: int, folder: Path) -> None:
    global _work
    threadpool_limits(1)  # one process per processor; a bag is too small to share
    _work = (SyntheticBags(real), count, folder)


def _write(first: int) -> FileRecord:
    synthetic, count, folder = _work
    stored = []
    for index in range(first, min(first + SHARD, count)):
        bag = synthetic[index]
        bag.members = np.arange(len(bag), dtype=np.int32)
        boxes = np.zeros((len(bag), 4), dtype=np.int32)
        stored.append(Stored(boxes, bag.prototypes[:0], bag, (bag.weights @ bag.prototypes).astype(np.float32)))
    return write_shard(folder, stored, range(first, first + len(stored)))


def _real(paths: Sequence[str]) -> tuple[str, Real]:
    """Return the real bags from which others are synthesized."""
    if not paths:
        with tempfile.TemporaryDirectory() as folder:
            progress("drawing fragments (give collections of real ones for figures that mean something) ...")
            table = scribes.collection(Path(folder), manuscripts=12, fragments=60)
            collection = Collection.create(Path(folder) / "drawn")
            collection.add(fragments(table), workers=processors())
            return "drawn fragments", _joined([collection])
    return ", ".join(Path(path).name for path in paths), _joined([Collection.open(path) for path in paths])


def _joined(collections: Sequence[Collection]) -> Real:
    bags, manuscripts = [], []
    for collection in collections:
        for entry, description in zip(*collection.described(), strict=True):
            bags.append(description.bag)
            manuscripts.append(f"{collection.path.name} {entry.fragment.columns.get('join') or entry.fragment.id}")
    if len(bags) < 20:
        raise MembraError("20 fragments at least are needed to make others from")
    return Real(bags, manuscripts)


def _those(real: Real, indices: Sequence[int]) -> Real:
    return Real([real.bags[index] for index in indices], [real.manuscripts[index] for index in indices])


if __name__ == "__main__":
    main()
