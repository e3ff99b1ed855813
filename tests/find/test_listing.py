"""Random changes and interruptions: the guaranteed entries of a list are always correct."""

from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest

from factories import stored
from lengths import length
from membra.compare.distance import chamfer
from membra.find import neighbours as finding
from membra.find.neighbours import Neighbours
from membra.find.search import search_many
from membra.find.snapshot import snapshot
from membra.store import neighbour_lists as keeping
from membra.store import open_files, verify, writer
from membra.store.collection import Collection


def check(collection: Collection, found: Neighbours, top: int) -> None:
    """Check that first entries equal a search's, that no unlisted score is below the limit, and no entry too high."""
    lists = found.lists
    with collection.reading() as state:
        now = snapshot(collection, state)
    assert now.describes(lists)
    assert lists.finished()
    ids = {entry.number: entry.fragment.id for entry in collection.entries()}
    scores, count = lists.scores(), min(top, len(lists) - 1)
    single = search_many(collection, [ids[number] for number in lists.numbers.tolist()], top=top)
    bags = [now.rows.bag(row) for row in now.at.tolist()]
    for own, one in enumerate(single):
        first = zip(lists.which[own, :count].tolist(), scores[own, :count].tolist(), strict=True)
        assert [(ids[number], score) for number, score in first] == [(hit.id, hit.distance) for hit in one.hits]
        listed = {number: at for at, number in enumerate(lists.which[own].tolist()) if number}
        assert len(listed) == np.count_nonzero(lists.which[own]), "listed twice"
        for other, number in enumerate(lists.numbers.tolist()):
            distance = chamfer(bags[own], bags[other])
            if number in listed:
                assert lists.distances[own, listed[number]] <= distance * (1 + 1e-12)
            elif other != own:
                score = distance / np.sqrt(now.scales[own] * now.scales[other])
                assert score >= lists.limits[own] * (1 - 1e-12), "nearer than its limit, and not listed"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(length(4, 30, 100)))
def test_changes_at_random(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    references, top = draw.choice([8, 15, 40, 2000]), draw.choice([1, 3, 5])
    for module in (writer, open_files, verify):
        monkeypatch.setattr(module, "REFERENCES", references)
    values: dict[str, list[float]] = {
        "_MORE": [0, 1, 2, 6],
        "_AT_ONCE": [1, 3, 8],
        "_KEPT_EVERY": [0.0],
        "_WRITING": [0],
    }
    for setting, some in values.items():
        monkeypatch.setattr(finding, setting, draw.choice(some))
    collection = stored(tmp_path / "C", range(draw.randint(10, 50)), size=20)
    fresh = 60
    for _ in range(6):
        there = sorted(int(entry.fragment.id[:4]) for entry in collection.entries())
        what = draw.choice(["add", "remove", "again", "both"])
        if what in ("remove", "both") and len(there) > 8:
            collection.remove([f"{seed:04d}.jpg" for seed in draw.sample(there, draw.randint(1, 4))])
        if what in ("add", "both"):
            stored(collection.path, range(fresh, fresh := fresh + draw.randint(1, 8)), size=20)
        if what == "again":
            stored(collection.path, draw.sample(there, 2), size=20)  # with new numbers
        if draw.random() < 0.5:
            with monkeypatch.context() as patch:
                interrupt(patch, draw.randint(1, 6))
                with suppress(KeyboardInterrupt):  # unless it finishes first
                    finding.neighbours(collection, top=top, threads=1)
            if draw.random() < 0.5:
                continue
        check(collection, finding.neighbours(collection, top=top, threads=draw.choice([1, 2])), top)


def interrupt(patch: pytest.MonkeyPatch, writes: int) -> None:
    left = [writes]

    def write(path: Path, lists: keeping.NeighbourLists) -> None:
        keeping.write_lists(path, lists)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    patch.setattr(finding, "write_lists", write)
