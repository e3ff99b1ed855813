"""The 20 nearest of every fragment of a collection of synthetic bags: time, and agreement with single searches.

    python benchmarks/neighbours.py [--fragments 10000] [--add 100] [--from COLLECTION] [--keep FOLDER] [--steps ...]

The bags are made from the fragments of a collection, or of a drawn one (`_synthetic.py`); about 47 prototypes each.
`seconds` is for `membra neighbours` from scratch in a separate process, without typical scores, `processor_seconds` its
processor time over all threads, and `peak_gb` its peak memory (its own, and the resident part of mapped files). `equal`
is the share of 200 fragments, drawn at random, whose neighbours are those of single exact searches: the same fragments
in the same order at the same distances. `usual_seconds` is for the typical scores that proposals need, once;
`propose_seconds` for `propose` after that; `evaluate_...` for `evaluate` with the default method, in its own process;
`update_...` for updating the neighbours after `--add` more fragments, and `updated_equal` is `equal` after that.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _synthetic import MATES, Real, SyntheticBags
from _timing import progress, report

from membra import scribes
from membra.compare.threads import processors
from membra.describe.recipe import Description
from membra.find.neighbours import TOP, neighbours
from membra.find.proposals import propose
from membra.find.search import search_many
from membra.find.usual import usual_scores
from membra.judge.evaluate import evaluate
from membra.sources.fragment import Fragment, fragments
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

SHARD = 1_000  # fragments per shard
ASKED = 200


def main() -> None:
    options = arguments()
    if options.step:
        step(options.step, options.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        synthetic = SyntheticBags(real(options.source, home))
        progress(f"making {options.fragments} bags ...")
        collection = Collection.create(home / "collection")
        fill(collection, synthetic, 0, options.fragments)
        found = run("neighbours", home)
        found["equal"] = equal(collection)
        for name in options.steps.split(","):
            progress(f"{name} ...")
            one = run(name, home)
            found |= {f"{name}_{key}": one[key] for key in ("seconds", "processor_seconds", "peak_gb")}
            found |= {key: value for key, value in one.items() if key in ("proposals", "hit@1")}
        if options.add:
            progress(f"{options.add} more ...")
            fill(collection, synthetic, options.fragments, options.fragments + options.add)
            more = run("neighbours", home)
            found |= {f"update_{key}": value for key, value in more.items()} | {"added": options.add}
            found["updated_equal"] = equal(collection)
        words = float(np.mean([len(synthetic[index]) for index in range(0, options.fragments, 50)]))
        report("neighbours", fragments=options.fragments, **found, prototypes=words, top=TOP)


def step(name: str, home: Path) -> None:
    """Run one step in a separate process."""
    collection = Collection.open(home / "collection")
    start, processor, more = time.perf_counter(), time.process_time(), {}
    if name == "neighbours":
        more["compared"] = neighbours(collection).compared
    elif name == "usual":
        usual_scores(collection)
    elif name == "propose":
        more["proposals"] = len(propose(collection)[1])
    else:
        table = home / "joins.csv"
        rows = [f"{id},{int(Path(id).stem) // MATES}" for id in (entry.fragment.id for entry in collection.entries())]
        table.write_text("\n".join(["image,join", *rows]))
        more["hit@1"] = evaluate(collection, table)["methods"]["default"]["hit@1"]
    spent = {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - processor}
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024 / 1e9
    print(json.dumps({**spent, "peak_gb": peak, **more}))


def run(name: str, home: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--step", name, "--keep", str(home)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def equal(collection: Collection) -> float:
    """Return the share of some fragments whose neighbours are those of single searches."""
    lists = neighbours(collection).lists
    ids = {entry.number: entry.fragment.id for entry in collection.entries()}
    some = np.random.default_rng(0).choice(len(lists), min(ASKED, len(lists)), replace=False)
    single = search_many(collection, [ids[int(number)] for number in lists.numbers[some]], top=TOP)
    same = 0
    for which, scores, one in zip(lists.which[some], lists.scores(some), single, strict=True):
        own = [(ids[int(number)], float(score)) for number, score in zip(which[:TOP], scores[:TOP], strict=True)]
        same += own == [(hit.id, hit.distance) for hit in one.hits]
    return same / len(some)


def fill(collection: Collection, synthetic: SyntheticBags, first: int, last: int) -> None:
    """Add synthetic fragments like described ones: shards, then transactions; local scales with the last one."""
    with collection.writing() as writer:
        for start in range(first, last, SHARD):
            end = min(start + SHARD, last)
            writer.store(write_batch(collection.path, list(outcomes(synthetic, start, end))), scale=end == last)


def outcomes(synthetic: SyntheticBags, first: int, last: int) -> Iterator[Outcome]:
    for number in range(first, last):
        bag, name = synthetic[number], f"{number:07d}.jpg"
        bag.members = np.arange(len(bag), dtype=np.int32)
        described = Description(np.zeros((len(bag), 4), dtype=np.int32), bag.prototypes, bag)
        yield Fragment(name, Path("/") / name), hashlib.sha256(name.encode()).hexdigest(), described


def real(source: Path | None, home: Path) -> Real:
    """Return the real bags from which others are synthesized."""
    if source is None:
        progress("drawing fragments ...")
        table = scribes.collection(home / "drawn", manuscripts=12, fragments=60)
        collection = Collection.create(home / "described")
        collection.add(fragments(table), workers=processors())
    else:
        collection = Collection.open(source)
    entries, descriptions = collection.described()
    names = [entry.fragment.columns.get("join") or entry.fragment.id for entry in entries]
    return Real([one.bag for one in descriptions], names)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--add", type=int, default=100)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--steps", default="usual,propose,evaluate", help="what else is measured, with commas between")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
