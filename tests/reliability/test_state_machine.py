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

from factories import plate, random_encoder, see_plates, slip
from lengths import LENGTH, length
from membra.compare.distance import chamfer
from membra.describe import recipe as recipes
from membra.describe.bag import Bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description, describe_photograph
from membra.errors import MembraError
from membra.find.search import search
from membra.sources.fragment import Fragment
from membra.store import collection as collecting
from membra.store.collection import Collection
from membra.store.redescribe import redescribe

STEPS = length(100, 600, 2000)
IN_A_ROW = 40  # steps from an empty collection on
PROCESSES = multiprocessing.get_context("forkserver")
TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect", "shutil.rmtree"}  # what may be cut off

NAMES = st.lists(st.sampled_from([f"{letter}.png" for letter in "abcdefghijkl"]), min_size=1, max_size=5, unique=True)
PLATES = {9: (1, 2), 10: (3, None, 4, 5), 11: (6, 7)}  # images with several pieces, of which some are chips
CONTENTS = st.integers(0, 11)  # which image; 0 is none at all
# A kill at this event of those that touch files, so many milliseconds later; nothing: not killed.
KILLS = st.none() | st.tuples(st.integers(1, 60), st.sampled_from([0.0, 0.2, 1.0, 3.0, 10.0]))
State = dict[str, int]  # the content by photograph, in the order in which they came

done_steps = {"steps": 0, "kills": 0}


@cache
def content(number: int) -> bytes:
    return plate(*PLATES[number]) if number in PLATES else slip(number) if number else b"no image"


@cache
def encoder(seed: int) -> Encoder:
    return random_encoder(8, seed=seed)


@cache
def bags(number: int, seed: int) -> dict[str, Bag]:
    """What describing gives, without a collection, by how the fragment's id goes on after the photograph's."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.png"
        image.write_bytes(content(number))
        found = describe_photograph(Fragment("", image), encoder(seed), MEMBRA).pieces
        return {fragment.id: one.bag for fragment, one in found if isinstance(one, Description)}


def fragments_of(state: State, seed: int) -> dict[str, Bag | None]:
    """The bag of each fragment, in their order; None where it was refused."""
    return {
        f"{name}{rest}": bag
        for name, number in state.items()
        for rest, bag in (bags(number, seed) if number else {"": None}).items()
    }


def work(path: Path, what: str, names: Sequence[str], seed: int, kill: tuple[int, float] | None) -> None:
    """In a process of its own: one change, two fragments a shard; killed where `kill` says."""
    recipes.see = see_plates
    collecting.BATCH = 2
    collection = Collection.open(path)
    if kill:
        kill_at(*kill)
    if what == "add":
        collection.add([Fragment(name, path.parent / "images" / name) for name in names])
    elif what == "remove":
        collection.remove(names)
    elif what == "compact":
        collection.compact()
    else:
        redescribe(collection, encoder(seed))


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
        self.collection = Collection.open(self.path)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(names=NAMES, contents=st.lists(CONTENTS, min_size=5, max_size=5), kill=KILLS)
    def add_or_change(self, names: list[str], contents: list[int], kill: tuple[int, float] | None) -> None:
        """Files are written, some of them over others, and added. What was refused is tried again, and comes last."""
        wanted = dict(zip(names, contents, strict=False))
        for name, number in wanted.items():
            (self.folder / "images" / name).write_bytes(content(number))
        pending = [name for name, number in wanted.items() if self.model.get(name, 0) != number or number == 0]
        states, some = [self.model], State()
        for name in pending:
            some[name] = wanted[name]
            if len(fragments_of(some, 0)) >= 2 or name == pending[-1]:  # a shard; all pieces of a photograph are in one
                states.append({name: number for name, number in states[-1].items() if name not in some} | some)
                some = State()
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
            fitting = [state for state in states if self.fits(now, state)]
            assert fitting, (shown, states)
            self.model = fitting[0]

    def fits(self, collection: Collection, state: State) -> bool:
        """Whether every fragment is there, and described as the content in `state` is."""
        wanted = fragments_of(state, self.seed)
        shown = [(entry.fragment.id, bool(entry.refused)) for entry in collection.entries()]
        if shown != [(id, bag is None) for id, bag in wanted.items()]:
            return False
        return all(self.same(collection.description(id).bag, bag) for id, bag in wanted.items() if bag)

    @staticmethod
    def same(found: Bag, wanted: Bag) -> bool:
        return np.array_equal(found.prototypes, wanted.prototypes) and np.array_equal(found.weights, wanted.weights)

    @rule()
    def open_again(self) -> None:
        self.collection = Collection.open(self.path)

    @rule()
    def tidy(self) -> None:
        """A writer that does nothing clears away what the killed ones left."""
        with Collection.open(self.path).writing():
            pass
        assert Collection.open(self.path).verify().notes == []

    @rule(which=st.integers(0, 11))
    def search(self, which: int) -> None:
        """By one who opened it long ago, and by a newcomer: the plain formula, for every candidate."""
        described = {id: bag for id, bag in fragments_of(self.model, self.seed).items() if bag}
        if not described:
            return
        query = list(described)[which % len(described)]
        expected = {id: chamfer(described[query], bag) for id, bag in described.items() if id != query}
        for collection in (self.current(), Collection.open(self.path)):
            hits = search(collection, query, top=100, method="bob-chamfer").hits
            assert {hit.id: hit.distance for hit in hits} == pytest.approx(expected, rel=1e-5, abs=1e-6)
            assert [hit.distance for hit in hits] == sorted(hit.distance for hit in hits)
            assert {hit.id for hit in search(collection, query, top=100).hits} == set(expected)

    @rule()
    def made_at_once(self) -> None:
        """By the default method, whose scales depend on all: as a collection that was made in one go."""
        if not any(self.model.values()):
            return
        fresh = Collection.create(self.folder / "fresh", encoder=encoder(self.seed))
        for name, number in self.model.items():
            (self.folder / "images" / name).write_bytes(content(number))
        fresh.add([Fragment(name, self.folder / "images" / name) for name in self.model])
        query = next(id for id, bag in fragments_of(self.model, self.seed).items() if bag)
        ours, theirs = (
            {hit.id: hit.distance for hit in search(c, query, top=99).hits} for c in (self.current(), fresh)
        )
        shutil.rmtree(fresh.path)
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)

    def current(self) -> Collection:
        """The one that was opened long ago, unless the encoder is another since, which it must say."""
        if self.collection.recipe.encoder != encoder(self.seed).digest:
            with pytest.raises(MembraError, match="adapted since it was opened"):
                self.collection.described()
            self.collection = Collection.open(self.path)
        return self.collection

    @invariant()
    def says_what_the_model_says(self) -> None:
        done_steps["steps"] += 1
        collection = self.current()
        assert self.fits(collection, self.model)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(recipes, "see", see_plates)
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
