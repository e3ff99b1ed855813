"""The workbench on 10,000 fragments: how long pages take, the very first one after the start of the server included.

    python benchmarks/pages.py [--fragments 10000] [--keep FOLDER]

The fragments are made from drawn ones (`_synthetic.py`), stored, and served by `membra serve` in a process of its own.
`ratio` is the second that a page may take over the slowest of first page, first candidates and later candidates.
`first_*` are the first requests that a fresh server ever gets, sent as soon as it says its address: one server is
asked for its first page first, another for candidates. Proposals of so many take long; their page answers meanwhile
that they are being worked out (`proposals_s`), and `proposals_ready_s` is when they are there (0: not within
`--patience` seconds). The map has a first look at once (`map_s` the page, `map_points_s` all its points), and
`map_ready_s` is when neighbours have been brought together. `--keep` makes the collection in a folder, or uses the
one that is there.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from _synthetic import Real, SyntheticBags
from _timing import progress, report

from membra import scribes
from membra.compare.threads import processors
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.sources.fragment import Fragment
from membra.sources.fragment import fragments as found_in
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

AT_ONCE = 2_500  # fragments a shard
LABELLED = 400  # of them have a known join, so that likelihoods are learnt while pages are asked for
LATER = 12  # other fragments whose candidates are asked for


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--patience", type=float, default=90.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = options.keep or Path(folder)
        if not (kept / "collection").is_dir():
            make(kept, options.fragments)
        ids = [f"shelf/{number:05d}.jpg" for number in range(4, options.fragments, options.fragments // LATER)]
        with serving(kept / "collection", Path(folder) / "one") as (url, start):
            first_page = wait(url, "/")
            candidates = [wait(url, f"/candidates?id={id}") for id in ids]
            compare = wait(url, f"/compare?a={ids[0]}&b={ids[1]}")
            survey = wait(url, f"/survey?a={ids[1]}")
            map_answers = wait(url, "/map")
            map_points = wait(url, "/api/map/points", ending=b"}")
            map_at = wait(url, f"/map?at={ids[2]}")
            map_ready = until_ready(url, "map", options.patience, "fine")[1]
            proposals_answer, proposals_ready = until_ready(url, "proposals", options.patience)
            after = wait(url, f"/candidates?id={ids[0]}&screen=2")
        with serving(kept / "collection", Path(folder) / "two") as (url, _):
            first_candidates = wait(url, f"/candidates?id={ids[0]}")
    slowest = max(first_page, first_candidates, *candidates)
    report(
        "pages",
        ratio=1 / slowest,
        fragments=options.fragments,
        start_s=start,
        first_page_s=first_page,
        first_candidates_s=first_candidates,
        later_candidates_s=float(np.median(candidates)),
        later_candidates_worst_s=max(candidates),
        compare_s=compare,
        survey_s=survey,
        map_s=map_answers,
        map_points_s=map_points,
        map_at_s=map_at,
        map_ready_s=map_ready,
        proposals_s=proposals_answer,
        proposals_ready_s=proposals_ready,
        candidates_meanwhile_s=after,
    )


def make(folder: Path, count: int) -> None:
    """A collection of `count` fragments made from sixty drawn ones, whose photographs they share."""
    progress("drawing fragments ...")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = found_in(scribes.collection(folder / "drawn", manuscripts=12, fragments=60))
    few = Collection.create(folder / "few")
    few.add(drawn, workers=processors())
    entries, described = few.described()
    synthetic = SyntheticBags(
        Real([one.bag for one in described], [entry.fragment.columns["join"] for entry in entries])
    )
    collection = Collection.create(folder / "collection")
    with collection.writing() as writer:
        for first in range(0, count, AT_ONCE):
            last = min(first + AT_ONCE, count)
            progress(f"{last} fragments ...")
            batch = [outcome(drawn, synthetic[number], number) for number in range(first, last)]
            writer.store(write_batch(collection.path, batch), scale=last == count)
    shutil.rmtree(folder / "few")


def outcome(drawn: Sequence[Fragment], bag: Bag, number: int) -> Outcome:
    """A fragment as if it had just been described: two letters of each word."""
    draw = np.random.default_rng(number)
    members = np.repeat(np.arange(len(bag)), 2)
    boxes = np.column_stack([draw.integers(0, 400, (len(members), 2)), np.full((len(members), 2), 30)])
    columns = {"shelfmark": f"T-S {number // 100}.{number % 100}", "join": f"j{number // 4}"}
    fragment = Fragment(
        f"shelf/{number:05d}.jpg",
        drawn[number % len(drawn)].path,
        columns if number < LABELLED else {**columns, "join": ""},
    )
    whole = Bag(bag.prototypes, bag.weights, members)
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return fragment, digest, Description(boxes.astype(np.int32), bag.prototypes[members], whole)


@contextmanager
def serving(collection: Path, cache: Path) -> Iterator[tuple[str, float]]:
    """`membra serve` in a process of its own: its address, and the seconds until it said it."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", "from membra.cli import main; main()", "serve", str(collection), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout
    line = process.stdout.readline()
    try:
        yield "http://" + line.split("http://")[1].split("/")[0], time.perf_counter() - began
    finally:
        process.kill()
        process.communicate()


def wait(url: str, page: str, ending: bytes = b"</html>") -> float:
    """Seconds until the whole page is here."""
    began = time.perf_counter()
    with urllib.request.urlopen(url + page, timeout=120) as answer:
        assert answer.read().rstrip().endswith(ending)
    return time.perf_counter() - began


def until_ready(url: str, page: str, patience: float, key: str = "ready") -> tuple[float, float]:
    """Seconds until the page answers at all, and until it has what it promises; 0 where that takes too long."""
    began, answered = time.perf_counter(), wait(url, f"/{page}")
    while time.perf_counter() - began < patience:
        with urllib.request.urlopen(f"{url}/api/{page}", timeout=120) as answer:
            if json.load(answer)[key]:
                return answered, time.perf_counter() - began
        time.sleep(0.5)
    return answered, 0.0


if __name__ == "__main__":
    main()
