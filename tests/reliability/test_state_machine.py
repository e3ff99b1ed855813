"""Whatever is done to a collection, in whatever order, killed or not: it says what a dictionary would say.

2,000 steps: MEMBRA_LENGTH=full pytest tests/reliability/test_state_machine.py
"""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from lengths import LENGTH, length
from made import random_encoder, slip
from membra.compare.distance import chamfer
from membra.describe.bag import Bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, describe
from membra.errors import MembraError
from membra.find import collection as collecting
from membra.find.collection import Collection
from membra.find.search import search
from membra.see.fragment import Fragment

STEPS = length(100, 600, 2000)
IN_A_ROW = 40  # steps from an empty collection on
PROCESSES = multiprocessing.get_context("forkserver")
TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect", "shutil.rmtree"}  # what may be cut off

NAMES = st.lists(st.sampled_from([f"{letter}.png" for letter in "abcdefghijkl"]), min_size=1, max_size=5, unique=True)
CONTENTS = st.integers(0, 8)  # which image; 0 is none at all
# A kill at this event of those that touch files, so many milliseconds later; nothing: not killed.
KILLS = st.none() | st.tuples(st.integers(1, 60), st.sampled_from([0.0, 0.2, 1.0, 3.0, 10.0]))
State = dict[str, int]  # the content by fragment, in the order in which they came

done_steps = {"steps": 0, "kills": 0}


@cache
def content(number: int) -> bytes:
    return slip(number) if number else b"no image"


@cache
def encoder(seed: int) -> Encoder:
    return random_encoder(8, seed=seed)


@cache
def bag(number: int, seed: int) -> Bag:
    """What describing gives, without a collection."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.png"
        image.write_bytes(content(number))
        return describe(Fragment("image.png", image), encoder(seed), MEMBRA).bag


def work(path: Path, what: str, names: Sequence[str], seed: int, kill: tuple[int, float] | None) -> None:
    """In a process of its own: one change, two fragments a shard; killed where `kill` says."""
    collecting.BATCH = 2
    held = Collection.open(path)
    if kill:
        kill_at(*kill)
    if what == "add":
        held.add([Fragment(name, path.parent / "images" / name) for name in names])
    elif what == "remove":
        held.remove(names)
    elif what == "compact":
        held.compact()
    else:
        held.redescribe(encoder(seed))


def kill_at(event: int, later: float) -> None:
    """Kill this process when it touches a file for the so-manieth time, or so many milliseconds after."""
    left, reached = [event], threading.Event()

    def die() -> None:
        reached.wait()
        time.sleep(later / 1000)
        os.kill(os.getpid(), signal.SIGKILL)

    def hear(name: str, _: object) -> None:
        if name in TOUCHES:
            left[0] -= 1
            if left[0] == 0 and later == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if left[0] == 0:
                reached.set()

    threading.Thread(target=die, daemon=True).start()
    sys.addaudithook(hear)


class Collecting(RuleBasedStateMachine):
    """A collection and what ought to be in it.

    What is drawn never depends on what there is: a kill hits now here, now there, and a failure is to be replayed.
    """

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "images").mkdir()
        self.path, self.seed, self.model = self.folder / "C", 0, State()
        Collection.create(self.path, encoder=encoder(0))
        self.held = Collection.open(self.path)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(names=NAMES, contents=st.lists(CONTENTS, min_size=5, max_size=5), kill=KILLS)
    def add_or_change(self, names: list[str], contents: list[int], kill: tuple[int, float] | None) -> None:
        """Files are written, some of them over others, and added. What was refused is tried again, and comes last."""
        wanted = dict(zip(names, contents, strict=False))
        for name, number in wanted.items():
            (self.folder / "images" / name).write_bytes(content(number))
        news = [name for name, number in wanted.items() if self.model.get(name, 0) != number or number == 0]
        states = [self.model]
        for first in range(0, len(news), 2):
            some = news[first : first + 2]
            kept = {name: number for name, number in states[-1].items() if name not in some}
            states.append(kept | {name: wanted[name] for name in some})
        self.change("add", names, states, kill)

    @rule(names=NAMES, kill=KILLS)
    def remove(self, names: list[str], kill: tuple[int, float] | None) -> None:
        names = [name for name in names if name in self.model]
        kept = {name: number for name, number in self.model.items() if name not in names}
        self.change("remove", names, [self.model, kept], kill)

    @rule(kill=KILLS)
    def compact(self, kill: tuple[int, float] | None) -> None:
        self.change("compact", [], [self.model], kill)

    @rule(seed=st.integers(0, 2), kill=KILLS)
    def describe_anew(self, seed: int, kill: tuple[int, float] | None) -> None:
        """With another encoder: all of them, from the files as they are now; those are as they were added."""
        for name, number in self.model.items():
            (self.folder / "images" / name).write_bytes(content(number))
        self.change("redescribe", [], [self.model], kill, seed)

    def change(
        self,
        what: str,
        names: Sequence[str],
        states: list[State],
        kill: tuple[int, float] | None,
        seed: int | None = None,
    ) -> None:
        """Do it, killed or not; then the collection is in one of the states, and in the last one if it was finished."""
        process = PROCESSES.Process(target=work, args=(self.path, what, names, seed, kill))
        process.start()
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL), "it failed by itself"
        finished = process.exitcode == 0
        assert finished or kill
        done_steps["kills"] += not finished
        now = Collection.open(self.path)
        assert now.verify().wrong == []
        if seed is not None and now.recipe.encoder == encoder(seed).digest:
            self.seed = seed
        assert seed is None or not finished or self.seed == seed
        shown = [entry.fragment.id for entry in now.entries()]
        if finished:
            self.model = states[-1]
        else:
            fitting = [state for state in states if list(state) == shown and self.fits(now, state)]
            assert fitting, (shown, states)
            self.model = fitting[0]

    def fits(self, held: Collection, state: State) -> bool:
        """Whether every fragment is described as the content in `state` is."""
        refused = {entry.fragment.id for entry in held.entries() if entry.refused}
        if refused != {name for name, number in state.items() if not number}:
            return False
        return all(self.same(held, name, number) for name, number in state.items() if number)

    def same(self, held: Collection, name: str, number: int) -> bool:
        found, wanted = held.description(name).bag, bag(number, self.seed)
        return np.array_equal(found.prototypes, wanted.prototypes) and np.array_equal(found.weights, wanted.weights)

    @rule()
    def open_again(self) -> None:
        self.held = Collection.open(self.path)

    @rule()
    def tidy(self) -> None:
        """A writer that does nothing clears away what the killed ones left."""
        with Collection.open(self.path).writing():
            pass
        assert Collection.open(self.path).verify().notes == []

    @rule(which=st.integers(0, 11))
    def search(self, which: int) -> None:
        """By one who opened it long ago, and by a newcomer: the plain formula, for every candidate."""
        described = [name for name, number in self.model.items() if number]
        if not described:
            return
        query = described[which % len(described)]
        asked = bag(self.model[query], self.seed)
        expected = {
            name: chamfer(asked, bag(number, self.seed))
            for name, number in self.model.items()
            if number and name != query
        }
        for held in (self.current(), Collection.open(self.path)):
            hits = search(held, query, top=100, method="bob-chamfer").hits
            assert {hit.id: hit.distance for hit in hits} == pytest.approx(expected, rel=1e-5, abs=1e-6)
            assert [hit.distance for hit in hits] == sorted(hit.distance for hit in hits)
            assert {hit.id for hit in search(held, query, top=100).hits} == set(expected)

    @rule()
    def made_at_once(self) -> None:
        """By the default method, whose scales depend on all: as a collection that was made in one go."""
        if not any(self.model.values()):
            return
        fresh = Collection.create(self.folder / "fresh", encoder=encoder(self.seed))
        for name, number in self.model.items():
            (self.folder / "images" / name).write_bytes(content(number))
        fresh.add([Fragment(name, self.folder / "images" / name) for name in self.model])
        query = next(name for name, number in self.model.items() if number)
        ours, theirs = (
            {hit.id: hit.distance for hit in search(c, query, top=99).hits} for c in (self.current(), fresh)
        )
        shutil.rmtree(fresh.path)
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)

    def current(self) -> Collection:
        """The one that was opened long ago, unless the encoder is another since, which it must say."""
        if self.held.recipe.encoder != encoder(self.seed).digest:
            with pytest.raises(MembraError, match="adapted since it was opened"):
                self.held.described()
            self.held = Collection.open(self.path)
        return self.held

    @invariant()
    def says_what_the_model_says(self) -> None:
        done_steps["steps"] += 1
        held = self.current()
        assert [entry.fragment.id for entry in held.entries()] == list(self.model)
        assert self.fits(held, self.model)


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    done_steps.update(steps=0, kills=0)
    yield
    print(done_steps)


@pytest.mark.slow
@pytest.mark.long
def test_a_collection_is_a_dictionary() -> None:
    run_state_machine_as_test(
        Collecting,
        settings=settings(
            max_examples=2 + STEPS // 36,  # a few come to an end before
            stateful_step_count=IN_A_ROW,
            deadline=None,
            derandomize=LENGTH != "full",  # in CI always the same; by hand always others
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert done_steps["steps"] >= STEPS
    assert done_steps["kills"] >= STEPS / 50
