"""A collection of 300,000 synthetic bags: time to open it, memory, and an exact query compared with reading its bytes.

    python benchmarks/collection.py [--fragments 300000] [--plot FILE.png] [--keep FOLDER] [--fused] [--quick]

`ratio` is the time of a query (`search` by id, as a user calls it, the exact top 20 by Chamfer) divided by the time of
one plain pass over the prototypes in float16, `ratio_to_bytes_read` by that of one pass over what the query itself
reads of every fragment: int8 prototypes, if the processor multiplies those. All are run on all processors, in turns, in
this run; the minimum of many times is taken, so that other processes do not count. `--plot` draws the time of a query
against the number of fragments; `curve_off_line` is its largest relative deviation from a straight line. `--fused`
computes the local scales of all fragments (minutes) and queries by `fused` too; `--quick` computes none, and skips
adding ten fragments to ten thousand.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from _timing import Spent, progress, report, timed

from membra.compare.bounds import int8_supported
from membra.compare.threads import processors
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.find.search import search
from membra.sources.fragment import Fragment
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

WORDS, DIMENSIONS = 20, 128
AT_ONCE = 2_500  # fragments per shard: 40 MB, which is not merged further
STEPS = (10_000, 20_000, 50_000, 100_000, 200_000, 300_000)
QUERY = "0000017.jpg"


def main() -> None:
    options = arguments()
    if options.ask:
        ask(options.ask, options.fused)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = (options.keep or Path(folder)) / "collection"
        collection, curve, adding = Collection.create(path), [], 0.0
        steps = [step for step in STEPS if step < options.fragments] + [options.fragments]
        done = 0
        for step in steps:
            progress(f"{step} fragments ...")
            fill(collection, done, step, scale=(done == 0 and not options.quick) or options.fused)
            if done == 0 and not options.quick:  # ten more, with everything except their description
                start = time.perf_counter()
                fill(collection, 10_000_000, 10_000_010)
                adding = time.perf_counter() - start
                collection.remove([name(number) for number in range(10_000_000, 10_000_010)])
            query, reading, least = measure(collection, "bob-chamfer")
            curve.append((step, 1e3 * query.wall, 1e3 * reading.wall))
            done = step
        fresh = subprocess.run(
            [sys.executable, __file__, "--ask", path, *(["--fused"] if options.fused else [])],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        if options.plot:
            plot(curve, options.plot)
        size = sum(file.stat().st_size for file in (path / "shards").iterdir())
        report(
            "collection",
            ratio=query.wall / reading.wall,
            fragments=options.fragments,
            ms=1e3 * query.wall,
            reading_ms=1e3 * reading.wall,
            ratio_to_bytes_read=query.wall / least.wall,
            bytes_read_ms=1e3 * least.wall,
            processor_ms=1e3 * query.processor,
            reading_processor_ms=1e3 * reading.processor,
            bytes_read_processor_ms=1e3 * least.processor,
            solved=search(collection, QUERY, method="bob-chamfer", shortlist="off").solved,
            bytes=int8_supported(),
            **json.loads(fresh.stdout),
            add_10_to=steps[0],
            add_10_seconds=adding,
            shards_gb=size / 1e9,
            shards=len(list((path / "shards").iterdir())),
            curve=[[count, round(ms, 2), round(plain, 2)] for count, ms, plain in curve],
            curve_off_line=off_line(curve),
        )


def fill(collection: Collection, first: int, last: int, *, scale: bool = True) -> None:
    """Add synthetic fragments like described ones: a shard, then a transaction."""
    with collection.writing() as writer:
        for start in range(first, last, AT_ONCE):
            writer.store(write_batch(collection.path, list(synthetic(start, min(start + AT_ONCE, last)))), scale=scale)


def synthetic(first: int, last: int) -> Iterator[Outcome]:
    draw = np.random.default_rng(first)
    words = draw.standard_normal((last - first, WORDS, DIMENSIONS), dtype=np.float32) / np.float32(DIMENSIONS**0.5)
    boxes = np.zeros((WORDS, 4), dtype=np.int32)
    for number, own in zip(range(first, last), words, strict=True):
        bag = Bag(own, draw.uniform(0.2, 1, WORDS), np.arange(WORDS))
        fragment = Fragment(name(number), Path("/") / name(number))
        yield fragment, hashlib.sha256(str(number).encode()).hexdigest(), Description(boxes, own, bag)


def name(number: int) -> str:
    return f"{number:07d}.jpg"


def measure(collection: Collection, method: str, rounds: int = 41) -> list[Spent]:
    """Time a query, a plain pass over the prototypes in float16, and one over what the query reads of all fragments."""
    with collection.reading() as state:
        shards = [shard.arrays for shard in state.rows.shards]
        words = [part for arrays in shards for part in pieces(arrays["tiles"], arrays["norms"])]
        read = [part for arrays in shards for part in pieces(arrays["coarse"], arrays["coarse_norms"])]
        with ThreadPoolExecutor(processors()) as pool:
            search(collection, QUERY, method=method)  # verifies everything and brings it into memory
            return timed(
                lambda: search(collection, QUERY, method=method, shortlist="off"),
                lambda: list(pool.map(np.max, words)),
                lambda: list(pool.map(np.max, read if int8_supported() else words)),
                rounds=rounds,
                least=True,
            )


def off_line(curve: list[tuple[int, float, float]]) -> float:
    """Return the largest deviation of a time from the fitted straight line, relative to the line's value."""
    counts, times, _ = np.array(curve).T
    if len(counts) < 3:
        return 0.0
    # Weighted by 1 / time, so that small times count as much as large ones.
    line = np.polyval(np.polyfit(counts, times, 1, w=1 / times), counts)
    return float(np.abs(times / line - 1).max())


def pieces(*arrays: np.ndarray) -> Iterator[np.ndarray]:
    """Yield each array as integers, whose maximum is found about as fast as memory is read: few large pieces, so that
    Python's overhead is small."""
    for array in arrays:
        yield array.reshape(-1).view(np.uint8).view(np.int64)


def ask(path: Path, fused: bool) -> None:
    """Measure, in a separate process, the time to open, the time of the first query, and the process's own memory."""
    with watched_memory() as most:
        start = time.perf_counter()
        collection = Collection.open(path)
        opened = time.perf_counter() - start
        start = time.perf_counter()
        search(collection, QUERY, method="bob-chamfer", shortlist="off")  # verifies every byte that it reads
        first = time.perf_counter() - start
        for _ in range(5):
            search(collection, QUERY, method="bob-chamfer", shortlist="off")
    found = {"open_seconds": opened, "first_query_seconds": first, "own_mb": max(most)}
    if fused:
        found["fused_ms"] = 1e3 * measure(collection, "fused", 7)[0].wall
    print(json.dumps(found))


@contextmanager
def watched_memory() -> Iterator[list[float]]:
    """Sample this process's memory, without mapped files, in MB every few milliseconds; Python included."""
    found, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.003):
            found.append(int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1000)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        done.set()
        watching.join()


def plot(curve: list[tuple[int, float, float]], into: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    counts, query, reading = zip(*curve, strict=True)
    axes.plot(counts, query, "o-", label="an exact query, top 20 by Chamfer")
    axes.plot(counts, reading, "s--", label="reading the words in float16 once")
    axes.plot(counts, [2 * one for one in reading], ":", color="grey", label="twice that")
    axes.set(xlabel="fragments", ylabel="ms", xlim=(0, None), ylim=(0, None))
    axes.set_title(f"Time of a query, {WORDS} words of {DIMENSIONS} numbers, {processors()} processors")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(into)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fragments", type=int, default=300_000)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
