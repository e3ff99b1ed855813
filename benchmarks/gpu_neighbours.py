"""The exact neighbours of a tenth of 300,000 bags of 20 prototypes among all of them, on a GPU.

    python benchmarks/gpu_neighbours.py [--fragments 30000] [--of 300000] [--device cuda] [--keep FOLDER]

`fragments` drawn at random are compared with all others, in both directions, so that ten times `seconds` is more than
the whole graph takes, which compares each pair once: `minutes_for_all`, from `comparing_seconds` (device and tighter
bounds) and `solving_seconds` (the plain formula, on the processor). `equal` is the share of 200 of them whose 20
neighbours are those of single exact searches on the processor: the same fragments, in the same order, at the same
distances.

Only NumPy, torch and safetensors are needed: if OpenCV and the small packages that membra imports are missing, empty
modules replace them, as no photograph is read. The kernels (`_*.abi3.so`) should be installed: without them local
scales and single searches take hours.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_STANDING_IN: dict[str, dict[str, object]] = {
    "cv2": {},
    "threadpoolctl": {"threadpool_limits": nullcontext},
    "lazy_loader": {"attach_stub": lambda *_: (None, None, [])},
}
for missing, names in _STANDING_IN.items():
    if importlib.util.find_spec(missing) is None:
        sys.modules[missing] = types.ModuleType(missing)
        vars(sys.modules[missing]).update(names)

from membra.compare import kernels  # noqa: E402
from membra.compare.threads import processors  # noqa: E402
from membra.describe.bag import Bag  # noqa: E402
from membra.describe.recipe import Description  # noqa: E402
from membra.find.comparing import Entries  # noqa: E402
from membra.find.listing import Floats, Indices  # noqa: E402
from membra.find.neighbours import neighbours_of  # noqa: E402
from membra.find.on_device import DeviceComparer  # noqa: E402
from membra.find.search import search_many  # noqa: E402
from membra.find.snapshot import Snapshot  # noqa: E402
from membra.sources.fragment import Fragment  # noqa: E402
from membra.store.batch import Batch, Outcome, write_batch  # noqa: E402
from membra.store.collection import Collection  # noqa: E402
from membra.store.neighbour_lists import NeighbourLists  # noqa: E402

WORDS, DIMENSIONS, MATES, LETTERS = 20, 128, 8, 400
SHARD, ASKED, TOP = 2_500, 200, 20
Found = TypeVar("Found")


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        collection, making = timed(lambda: made(home / "collection", options.of))
        say(f"made in {making:.0f} s; measuring the local scales ...")
        _, scaling = timed(lambda: scaled(collection))
        say(f"{scaling:.0f} s; comparing {options.fragments} of {options.of} on {options.device} ...")
        numbers = np.array([entry.number for entry in collection.entries()], np.int32)
        drawn = np.random.default_rng(0).permutation(numbers)
        some = np.sort(drawn[: options.fragments])
        spent: dict[str, float] = {}
        lists, seconds = timed(
            lambda: neighbours_of(collection, some, top=TOP, by=lambda *given: Clocked(spent, options.device, *given))
        )
        say(f"{seconds:.0f} s; {ASKED} single searches on the processor ...")
        share, searching = timed(lambda: equal(collection, lists, drawn[: min(ASKED, options.fragments)]))
        solving = seconds - spent["sending"] - spent["comparing"]
        found = {
            "name": "gpu-neighbours",
            "fragments": options.fragments,
            "of": options.of,
            "words": WORDS,
            "device": options.device,
            "half_products": bool(spent["half"]),
            "seconds": seconds,
            "sending_seconds": spent["sending"],
            "comparing_seconds": spent["comparing"],
            "solving_seconds": solving,
            "minutes_for_all": (seconds - spent["sending"]) * options.of / options.fragments / 60,
            "equal": share,
            "asked": min(ASKED, options.fragments),
            "device_gb": spent.get("device_gb", 0.0),
            "making_seconds": making,
            "scaling_seconds": scaling,
            "searching_seconds": searching,
            "kernel": kernels.available()[0],
            "processors": processors(),
        }
        print(json.dumps({key: round(one, 4) if isinstance(one, float) else one for key, one in found.items()}))


class Clocked(DeviceComparer):
    """A `DeviceComparer` that measures its time."""

    def __init__(self, spent: dict[str, float], device: str, now: Snapshot, size: int, threads: int) -> None:
        start = time.perf_counter()
        super().__init__(now, size, threads, device)
        self.spent = spent
        spent["sending"], spent["comparing"] = time.perf_counter() - start, 0.0
        spent["half"] = float(self.on_device.half)

    def compare(self, some: Indices, columns: NDArray[np.bool_], last: Floats) -> Entries:
        """Like `DeviceComparer.compare`, timed."""
        found, seconds = timed(lambda: super(Clocked, self).compare(some, columns, last))
        self.spent["comparing"] += seconds
        if self.device.startswith("cuda"):
            self.spent["device_gb"] = self.torch.cuda.max_memory_allocated() / 1e9
        return found


def made(path: Path, count: int) -> Collection:
    """Create a collection of `count` synthetic bags, with shards written on all processors."""
    if path.exists():
        return Collection.open(path)
    collection = Collection.create(path)
    starts = range(0, count, SHARD)
    with ProcessPoolExecutor(processors()) as pool, collection.writing() as writer:
        for batch in pool.map(partial(shard, path, count), starts):
            writer.store(batch, scale=False)
    return collection


def scaled(collection: Collection) -> None:
    """Compute and store the local scales."""
    with collection.writing() as writer:
        writer.store(scale=True)


def shard(path: Path, count: int, first: int) -> Batch:
    return write_batch(path, list(outcomes(first, min(first + SHARD, count))))


def outcomes(first: int, last: int) -> Iterator[Outcome]:
    """Yield bags of 20 letters of an alphabet of 400, each changed by its hand, which has 8 fragments, and a little by
    noise: so some are near, as in a real collection."""
    alphabet = np.random.default_rng(0).standard_normal((LETTERS, DIMENSIONS), dtype=np.float32)
    boxes = np.zeros((WORDS, 4), dtype=np.int32)
    for number in range(first, last):
        hand, own = np.random.default_rng((1, number // MATES)), np.random.default_rng((2, number))
        letters = own.choice(LETTERS // 8, WORDS, replace=False) * 8 + hand.integers(0, 8, WORDS)
        words = alphabet[letters] + 0.5 * hand.standard_normal(DIMENSIONS, dtype=np.float32)
        words += 0.4 * own.standard_normal(words.shape, dtype=np.float32)
        words /= np.linalg.norm(words, axis=1, keepdims=True)
        bag = Bag(words, np.full(WORDS, 1 / WORDS), np.arange(WORDS, dtype=np.int32))
        name = f"{number:07d}.jpg"
        digest = hashlib.sha256(name.encode()).hexdigest()
        yield Fragment(name, Path("/") / name), digest, Description(boxes, words, bag)


def equal(collection: Collection, lists: NeighbourLists, numbers: np.ndarray) -> float:
    """Return the share of these fragments whose neighbours are those of single searches."""
    ids = {entry.number: entry.fragment.id for entry in collection.entries()}
    single = search_many(collection, [ids[int(number)] for number in numbers], top=TOP)
    at, same = np.searchsorted(lists.numbers, numbers), 0
    for which, scores, one in zip(lists.which[at], lists.scores(at), single, strict=True):
        own = [(ids[int(number)], float(score)) for number, score in zip(which[:TOP], scores[:TOP], strict=True)]
        same += own == [(hit.id, hit.distance) for hit in one.hits]
    return same / len(numbers)


def timed(work: Callable[[], Found]) -> tuple[Found, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fragments", type=int, default=30_000)
    parser.add_argument("--of", type=int, default=300_000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
