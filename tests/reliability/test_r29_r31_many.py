"""Very many fragments: opened at once, mapped and not loaded; indexing takes no more memory the longer it lasts."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from made import random_encoder, slip
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.find.collection import Collection
from membra.find.writer import Outcome, write_batch
from membra.see.fragment import Fragment

BAGS, AT_ONCE, WORDS, DIMENSIONS = 300_000, 50_000, 4, 16
IMAGES = int(os.environ.get("MEMBRA_IMAGES", "1500"))  # 10000 in full

OWN = """
import json, sys, time
from pathlib import Path

def own():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1000
"""

ASK = f"""{OWN}
import numpy as np
from membra.find.collection import Collection
from membra.find.search import search

path = Path(sys.argv[1])
start, before = time.perf_counter(), own()
held = Collection.open(path)
opened, at_open = time.perf_counter() - start, own() - before
hits = search(held, "000017.jpg", method="bob-chamfer", shortlist="off").hits
with held.reading() as state:
    tiles = [shard.arrays["tiles"].reshape(-1).view(np.uint8).view(np.int64) for shard in state.rows.shards]
spent = dict(query=[], reading=[])
for _ in range(5):
    for what, work in (
        ("query", lambda: search(held, "000017.jpg", method="bob-chamfer", shortlist="off")),
        ("reading", lambda: [tile.max() for tile in tiles]),
    ):
        start = time.process_time()
        work()
        spent[what].append(time.process_time() - start)
    most = own() - before
ratio = min(spent["query"]) / min(spent["reading"])
print(json.dumps(dict(opened=opened, at_open=at_open, most=most, ratio=ratio, first=hits[0].id, hits=len(hits))))
"""

INDEX = f"""{OWN}
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA
from membra.find.index import index
from membra.see.fragment import fragments

source, encoder, into = map(Path, sys.argv[1:])
seen = []
def look(done, total):
    if done % 50 == 0:
        seen.append(own())
_, added = index(fragments(source), into, recipe=MEMBRA, encoder=Encoder.open(encoder, threads=1), progress=look)
print(json.dumps(dict(seen=seen, described=added.described)))
"""


def run(code: str, *arguments: Path) -> dict[str, object]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def bags(first: int) -> Iterator[Outcome]:
    draw = np.random.default_rng(first)
    words = draw.standard_normal((AT_ONCE, WORDS, DIMENSIONS), dtype=np.float32)
    boxes, members, weights = np.zeros((WORDS, 4), dtype=np.int32), np.arange(WORDS), np.full(WORDS, 1 / WORDS)
    for number, own in zip(range(first, first + AT_ONCE), words, strict=True):
        name = f"{number:06d}.jpg"
        digest = hashlib.sha256(name.encode()).hexdigest()
        yield Fragment(name, Path("/") / name), digest, Description(boxes, own, Bag(own, weights, members))


@pytest.mark.slow
@pytest.mark.row(
    29,
    tried="300,000 bags of 4 words with 16 numbers stored, then opened and searched in a process of its own: seconds, "
    "own memory, and the processor time of an exact query against reading its bytes (under 80 x here, where bags are "
    "tiny; with full bags `benchmarks/collection.py` measures it against 2 x)",
    times=1,
    without="shards read instead of mapped: 239 MB of memory of its own instead of 6, where less than 60 are allowed",
)
@pytest.mark.alone
def test_r29_three_hundred_thousand_bags(tmp_path: Path) -> None:
    made = Collection.create(tmp_path / "C", encoder=random_encoder(DIMENSIONS))
    with made.writing() as writer:
        for first in range(0, BAGS, AT_ONCE):
            writer.store(write_batch(made.path, list(bags(first))), scale=False)
    size = sum(file.stat().st_size for file in (made.path / "shards").iterdir()) / 1e6
    found = run(ASK, made.path)
    assert found["hits"] == 20
    assert found["opened"] < 1, found  # seconds
    assert found["at_open"] < 20, found  # MB
    assert found["most"] < 60 < size / 2, (found, size)
    assert found["ratio"] < 80, found


@pytest.mark.slow
@pytest.mark.row(
    31,
    tried="1,500 images indexed in a process of its own, whose own memory is looked at every 50; 10,000 by "
    "MEMBRA_IMAGES=10000",
    times=1500,
    without="photographs kept after use (a cache on read_photograph): 47 MB more after 1,500 than after 500",
)
def test_r31_memory_is_flat_after_the_first_five_hundred(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for seed in range(20):
        (source / f"{seed:05d}.png").write_bytes(slip(seed))
    for number in range(20, IMAGES):
        os.link(source / f"{number % 20:05d}.png", source / f"{number:05d}.png")
    (tmp_path / "e.onnx").write_bytes(random_encoder(8).onnx)
    found = run(INDEX, source, tmp_path / "e.onnx", tmp_path / "C")
    assert found["described"] == IMAGES
    seen = found["seen"]
    assert max(seen[10:]) - max(seen[:10]) < 25, seen  # MB
