"""Response times of the workbench on 10,000 fragments, including the first requests after the server starts.

    python benchmarks/pages.py [--fragments 10000] [--keep FOLDER] [--rounds 12]

The fragments are synthesized from drawn ones (`_synthetic.py`), stored with their neighbours and 500 verdicts, and
served by `membra serve` in a separate process. `first_*` are the first requests to a fresh server, sent as soon as it
prints its URL, one server for each; for the inbox until a pair is shown, for the map with all its points. `next_*` are
later requests, for other fragments: for the inbox, a verdict and the page with the next pair.

Each has wall-clock seconds, the median and the maximum, and processor seconds, which estimate the time on an idle
machine. Background work of the server, such as the layout of the map, counts for the page during which it runs.
`ratio` is the minimum of 1 s (the target for a first view) over each first time, and of 0.3 s (the target for a next
page) over each next time, in wall-clock time. Proposals take long at this size; their page meanwhile reports that they
are being computed (`proposals_s`). `--keep` creates the collection in a folder, or reuses the one in it.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
from _synthetic import Real, SyntheticBags
from _timing import Spent, progress, report

from membra import scribes
from membra.compare.threads import processors
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.find.neighbours import neighbours
from membra.sources.fragment import Fragment
from membra.sources.fragment import fragments as found_in
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection
from membra.store.verdicts import FILE, Verdicts

AT_ONCE = 2_500  # fragments per shard
LABELLED = 400  # fragments with a known join, so that probabilities are fitted while pages are requested
DECIDED = 500  # pairs, as after a week of work
FIRST, NEXT = 1.0, 0.3  # targets in seconds for a first view and a next page


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = options.keep or Path(folder)
        if not (kept / "collection").is_dir():
            make(kept, options.fragments)
        decide(kept / "collection", options.fragments)
        step = options.fragments // options.rounds
        ids, others = (
            [f"shelf/{number:05d}.jpg" for number in range(start, options.fragments, step)] for start in (4, 9)
        )
        firsts: dict[str, Callable[[Server], object]] = {
            "list": lambda server: server.get("/?page=1"),
            "inbox": lambda server: server.inbox(),
            "candidates": lambda server: server.get(f"/candidates?id={ids[0]}"),
            "compare": lambda server: server.get(f"/compare?a={ids[0]}&b={ids[1]}"),
            "map": lambda server: [server.get("/map"), server.get("/api/map/points")],
        }
        first: dict[str, Spent] = {}
        for number, (name, ask) in enumerate(firsts.items()):
            with serving(kept / "collection", Path(folder) / str(number)) as server:
                progress(f"{name} ...")
                first[name] = server.spent(partial(ask, server))
        with serving(kept / "collection", Path(folder) / "more") as server:
            server.inbox()
            time.sleep(5)  # let the work at start-up finish
            progress("later ones ...")
            pairs = [f"/compare?a={id}&b={server.best(id)}" for id in ids]
            asked: dict[str, list[Callable[[], object]]] = {
                "inbox": [server.decide] * len(ids),
                "candidates": [partial(server.get, f"/candidates?id={id}") for id in others],
                "compare": [partial(server.get, pair) for pair in pairs],
                "survey": [partial(server.get, f"/survey?a={id}") for id in ids],
                "map": [partial(server.get, f"/map?at={id}") for id in ids],
            }
            later = {name: [server.spent(ask) for ask in some] for name, some in asked.items()}
            proposals = server.spent(lambda: server.get("/proposals"))
    slowest = [FIRST / one.wall for one in first.values()]
    slowest += [NEXT / float(np.median([one.wall for one in some])) for some in later.values()]
    figures = {
        name: (
            np.median([one.wall for one in some]),
            max(one.wall for one in some),
            np.mean([one.processor for one in some]),
        )
        for name, some in later.items()
    }
    report(
        "pages",
        ratio=min(slowest),
        fragments=options.fragments,
        verdicts=DECIDED,
        **{f"first_{name}_s": one.wall for name, one in first.items()},
        **{f"first_{name}_processor_s": one.processor for name, one in first.items()},
        **{f"next_{name}_s": float(one[0]) for name, one in figures.items()},
        **{f"next_{name}_worst_s": float(one[1]) for name, one in figures.items()},
        **{f"next_{name}_processor_s": float(one[2]) for name, one in figures.items()},
        proposals_s=proposals.wall,
    )


@dataclass
class Server:
    """`membra serve` in a separate process, and the last page of the inbox."""

    url: str
    process: int
    shown: str = ""

    def get(self, page: str, sent: dict[str, str] | None = None) -> str:
        """Load a page completely; with a form `sent`, the page to which it redirects."""
        data = urlencode(sent).encode() if sent else None
        with urlopen(Request(self.url + page, data), timeout=120) as answer:
            return str(answer.read().decode())

    def inbox(self) -> None:
        """Request the inbox repeatedly until the first pair is shown."""
        while "data-inbox" not in self.shown:
            self.shown = self.get("/inbox")

    def decide(self) -> None:
        """Give the verdict *no* on the pair that is shown, and load the next."""
        form = self.shown.split("data-inbox", 1)[1].split("</form>", 1)[0]
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
        pair = fields["a"], fields["b"]
        sent = {name: unescape(value) for name, value in fields.items()}
        self.shown = self.get("/inbox", {**sent, "says": "no", "by": "benchmark"})
        assert f'name="b" value="{pair[1]}"' not in self.shown or f'name="a" value="{pair[0]}"' not in self.shown

    def best(self, id: str) -> str:
        """Return the first candidate of a fragment."""
        with urlopen(f"{self.url}/api/candidates?id={id}&limit=1", timeout=120) as answer:
            return str(json.load(answer)["candidates"][0]["card"]["id"])

    def spent(self, work: Callable[[], object]) -> Spent:
        clock, processor = time.perf_counter(), self._processor()
        work()
        return Spent(time.perf_counter() - clock, self._processor() - processor)

    def _processor(self) -> float:
        """Return the processor seconds of all its threads so far, at Linux's resolution of 0.01 s."""
        after_name = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def decide(path: Path, fragments: int) -> None:
    """Write the initial verdicts, replacing those of an earlier run."""
    for file in path.glob(f"{FILE}*"):
        file.unlink()
    verdicts, draw = Verdicts.open(path), np.random.default_rng(0)
    for _ in range(DECIDED):
        a, b = draw.choice(fragments, 2, replace=False).tolist()
        verdicts.give(f"shelf/{a:05d}.jpg", f"shelf/{b:05d}.jpg", "no", by="benchmark")


def make(folder: Path, count: int) -> None:
    """Create a collection of `count` fragments made from sixty drawn ones, whose photographs they share."""
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
    progress("bringing neighbours together ...")
    neighbours(collection)


def outcome(drawn: Sequence[Fragment], bag: Bag, number: int) -> Outcome:
    """Return the outcome of describing a fragment: two glyphs for each prototype."""
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
def serving(collection: Path, cache: Path) -> Iterator[Server]:
    """Start a fresh server of the collection, and yield it as soon as it prints its URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from membra.cli import main; main()", "serve", str(collection), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout
    line = process.stdout.readline()
    try:
        yield Server("http://" + line.split("http://")[1].split("/")[0], process.pid)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    main()
