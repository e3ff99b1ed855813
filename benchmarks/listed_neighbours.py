"""The neighbours of every fragment by a shortlist: time for a tenth of them, and recall.

    python benchmarks/listed_neighbours.py [--sizes 10000,30000,100000] [--from COLLECTION] [--keep FOLDER]
    python benchmarks/listed_neighbours.py --plot FIGURE.png LINES.json ...    draws these and lines of neighbours.py

A collection of synthetic bags (`_synthetic.py`) grows to each of the sizes, and `membra neighbours --shortlist auto`
runs in a separate process until it has searched `--part` of the fragments, a tenth. `preparing_...` is for the codes,
once; `part_...` for the searches; `..._seconds` is wall-clock time, `..._processor_seconds` processor time over all
threads; `hours` is the wall-clock time of everything by extrapolation, `processor_hours` the processor time. `peak_gb`
is the process's peak memory (its own, and the resident part of mapped files), `own_gb` its own memory at the end.
`recall@20` is the mean share of the true first 20 in the lists, over 50 fragments of that part, by exact searches; the
minimum is reported too. (It counts one direction only: in a complete run each pair is entered into both lists, which
raises the recall.) `--references`: number of references for local scales instead of 2,000, which only shortens the
preparation.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from _synthetic import SyntheticBags
from _timing import progress, report
from neighbours import fill, real

from membra.find import codes
from membra.find import listed_neighbours as finding
from membra.find.exact import Query, nearest_rows
from membra.find.listed_neighbours import listed_neighbours
from membra.find.neighbours import TOP
from membra.find.snapshot import snapshot
from membra.store import open_files, writer
from membra.store.collection import Collection
from membra.store.neighbour_lists import read_listed

ASKED = 50


class EnoughError(Exception):
    """Raised when the requested part has been measured."""


def main() -> None:
    options = arguments()
    for module in (open_files, writer):
        vars(module)["REFERENCES"] = options.references
    if options.plot:
        plot(options.plot, [json.loads(line) for file in options.lines for line in file.read_text().splitlines()])
    elif options.step:
        step(options.keep, options.part)
    else:
        with tempfile.TemporaryDirectory() as folder:
            home, there = options.keep or Path(folder), 0
            synthetic = SyntheticBags(real(options.source, home))
            collection = Collection.create(home / "collection")
            for size in sorted(int(one) for one in options.sizes.split(",")):
                progress(f"making {size:,} bags ...")
                fill(collection, synthetic, there, size)
                there = size
                progress("searching a part of them ...")
                rest = ["--references", str(options.references), "--part", str(options.part)]
                command = [sys.executable, __file__, "--step", "--keep", str(home), *rest]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout)
                report("listed-neighbours", fragments=size, part=options.part, references=options.references, **found)


def step(home: Path, part: float) -> None:
    """Search a part of the fragments, in a separate process."""
    collection = Collection.open(home / "collection")
    shutil.rmtree(collection.path / codes.FOLDER, ignore_errors=True)
    vars(finding)["_KEPT_EVERY"] = 1.0  # a part may take less than ten seconds

    def prepare() -> None:
        with collection.reading() as state:
            now = snapshot(collection, state)
            index = codes.shortlist_index(collection.path, now.rows, now.stored)
            codes.recall_estimate(now.rows, index, now.method, now.stored)

    def search() -> None:
        listed_neighbours(collection, progress=stop)

    def stop(done: int, of: int) -> None:
        if done >= part * of:
            raise EnoughError

    before = spent(prepare)
    searched = spent(search)
    status = Path("/proc/self/status").read_text()
    peak, own = (int(status.split(f"{name}:")[1].split()[0]) * 1024 / 1e9 for name in ("VmHWM", "RssAnon"))
    recalls = recall(collection)
    hours = {
        name: (one + two / part) / 3600
        for name, one, two in zip(("hours", "processor_hours"), before, searched, strict=True)
    }
    print(
        json.dumps(
            {
                **dict(zip(("preparing_seconds", "preparing_processor_seconds"), before, strict=True)),
                **dict(zip(("part_seconds", "part_processor_seconds"), searched, strict=True)),
                **hours,
                "peak_gb": peak,
                "own_gb": own,
                "recall@20": float(np.mean(recalls)),
                "recall@20_least": min(recalls),
                "queries": len(recalls),
            }
        )
    )


def spent(work: Callable[[], None]) -> tuple[float, float]:
    """Return seconds of wall-clock time, and of processor time over all threads."""
    clock, processor = time.perf_counter(), time.process_time()
    with suppress(EnoughError):
        work()
    return time.perf_counter() - clock, time.process_time() - processor


def recall(collection: Collection) -> list[float]:
    """Return the share of the true first 20 in the lists, for some fragments that were searched."""
    lists = read_listed(collection.path)
    assert lists is not None, "nothing was kept yet; search a larger part"
    found = []
    with collection.reading() as state:
        now = snapshot(collection, state)
        for own in np.random.default_rng(0).choice(np.flatnonzero(lists.solved), ASKED, replace=False).tolist():
            row = now.at[own : own + 1]
            query = Query(now.rows.bag(int(row[0])), now.rows.means(row)[0], int(now.numbers[own]))
            true = nearest_rows(now.rows, [query], now.method, TOP, scales=now.stored)[0].indices
            found.append(float(np.isin(now.rows.numbers[true], lists.which[own]).mean()))
    return found


def plot(out: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Plot hours of processor time and memory against the number of fragments, exactly and by a shortlist."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    exact = sorted((one["fragments"], one["processor_seconds"] / 3600, one["peak_gb"])
                   for one in lines if one["name"] == "neighbours")  # fmt: skip
    listed = sorted((one["fragments"], one["processor_hours"], one["peak_gb"], one["own_gb"])
                    for one in lines if one["name"] == "listed-neighbours")  # fmt: skip
    for axes, column in ((left, 1), (right, 2)):
        for rows, label, marker, colour in ((exact, "exact", "o", "black"), (listed, "by a shortlist", "s", "0.5")):
            axes.plot([one[0] for one in rows], [one[column] for one in rows], marker=marker, color=colour, label=label)
    right.plot(
        [one[0] for one in listed], [one[3] for one in listed], "^:", color="0.5", label="by a shortlist, its own"
    )
    left.set(xscale="log", yscale="log", xlabel="fragments", title="hours of processor time, all neighbours")
    right.set(xscale="log", ylim=(0, None), xlabel="fragments", title="GB at the most, mapped files included")
    for axes in (left, right):
        axes.grid(color="0.9")
        axes.legend(frameon=False)
    figure.savefig(out, dpi=100)
    progress(str(out))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,30000,100000")
    parser.add_argument("--part", type=float, default=0.1)
    parser.add_argument("--references", type=int, default=2000)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("lines", nargs="*", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
