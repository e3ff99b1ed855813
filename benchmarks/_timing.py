"""Shared by the benchmarks: interleaved timing, the machine's limits, bags to measure on, and the JSON report."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist

from membra.compare.kernels import available
from membra.compare.threads import processors
from membra.describe.bag import Bag

if TYPE_CHECKING:
    from membra.describe.recipe import Description

SHARED = Path(__file__).parents[2] / "shared"


@dataclass(frozen=True)
class Spent:
    """Seconds of wall-clock time, and of processor time over all threads."""

    wall: float
    processor: float


def timed(*work: Callable[[], object], rounds: int = 7, least: bool = False) -> list[Spent]:
    """Return the median time of each piece of work, run in turns, so that interruptions affect all alike.

    `least`: return the minimum instead, which excludes the effect of other processes.
    """
    times: list[list[tuple[float, float]]] = [[] for _ in work]
    for _ in range(rounds):
        for own, call in zip(times, work, strict=True):
            clock, processor = time.perf_counter(), time.process_time()
            call()
            own.append((time.perf_counter() - clock, time.process_time() - processor))
    return [Spent(*(np.min if least else np.median)(own, axis=0).tolist()) for own in times]


def ratios(plain: Spent, fast: Spent, times: float = 1.0) -> dict[str, float]:
    """Return the speed-up in wall-clock time, and in processor time: an estimate for an idle machine.

    `times`: how much more work the fast one did.
    """
    return {
        "ratio": times * plain.wall / fast.wall,
        "ratio_were_it_idle": times * plain.processor / (fast.processor / processors()),
    }


def plain_chamfer(a: Bag, b: Bag) -> float:
    """Compute Chamfer as in the plain loop: SciPy's distances and two minima."""
    distance = cdist(a.prototypes, b.prototypes)
    return float((distance.min(axis=0).mean() + distance.min(axis=1).mean()) / 2)


def report(name: str, **more: object) -> None:
    """Print one line of JSON, with the machine's limits in this run."""
    line = {"name": name, **more, "kernel": available()[0], **_limits()}
    print(json.dumps({key: _short(value) for key, value in line.items()}), flush=True)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def random_bags(count: int, words: int = 20, d: int = 128, seed: int = 0) -> list[Bag]:
    rng = np.random.default_rng(seed)
    return [Bag(p, w) for p, w in zip(rng.standard_normal((count, words, d), dtype=np.float32),
                                      rng.uniform(0.2, 1, (count, words)), strict=True)]  # fmt: skip


def descriptions() -> "tuple[str, Sequence[Description]]":
    """Return source and descriptions of real fragments: the collection in `sys.argv`, else the shared Hebrew set."""
    # Imported here, so that the kernels can be measured without the packages that read images.
    from membra.describe.encoder import Encoder
    from membra.sources.fragment import fragments
    from membra.store.collection import Collection

    if len(sys.argv) > 1:
        return sys.argv[1], Collection.open(sys.argv[1]).described()[1]
    table, weights = SHARED / "data/hebrew/fragments.csv", SHARED / "golden/autoencoder.safetensors"
    if not table.is_file():
        raise SystemExit("give a collection of real fragments: python benchmarks/NAME.py COLLECTION")
    with tempfile.TemporaryDirectory() as folder:
        progress("describing the shared Hebrew fragments ...")
        collection = Collection.create(Path(folder) / "hebrew", encoder=Encoder.open(weights))
        collection.add(fragments(table)[::3], workers=processors())  # a third: half a minute
        return "a third of shared/data/hebrew", collection.described()[1]


def jittered(bags: Sequence[Bag], count: int, amount: float, seed: int = 0) -> list[Bag]:
    """Return `count` bags: the given ones, then copies with jitter of `amount` times their spread, and other masses."""
    rng = np.random.default_rng(seed)
    found = list(bags[:count])
    while len(found) < count:
        bag = bags[len(found) % len(bags)]
        step = rng.normal(0, amount * float(bag.prototypes.std()), bag.prototypes.shape)
        found.append(Bag(bag.prototypes + step, bag.weights * rng.uniform(0.7, 1.3, len(bag))))
    return found


def _limits() -> dict[str, object]:
    """Measure single-precision matrix products and memory reading, on all processors."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2048, 2048), dtype=np.float32)
    parts = np.array_split(np.ones(2**26, dtype=np.float32), processors())  # 256 MB
    with ThreadPoolExecutor(processors()) as pool:
        multiply, read = timed(lambda: a @ a, lambda: list(pool.map(np.max, parts)), rounds=9)
    return {
        "sgemm_gflops": 2 * 2048**3 / multiply.wall / 1e9,
        "read_gb_s": 2**28 / read.wall / 1e9,
        "processors": processors(),
    }


def _short(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value
