"""Simulate a scholar who decides pairs in the inbox's order, and one who checks candidates fragment by fragment.

    python benchmarks/inbox.py [--from COLLECTION] [--thin] [--decisions 100] [--wrong 0.05] [--keep FOLDER]

Without `--from`: drawn scribes, 40 manuscripts of three fragments and 160 of one, like a library's collection. With it:
a collection whose catalogue has the columns `join` and `leaf`; `--thin` keeps three fragments of every third manuscript
and one of the others. The catalogue is hidden from both scholars, and used only for scoring. Pairs of one leaf are left
out for both. One verdict in twenty is wrong.

The second scholar takes the fragments in shelf order, and checks the five nearest of each, nearest first, until she
finds a join; pairs that are decided, or that follow from earlier decisions, are skipped. A join is *found* when the
verdict is join for two fragments of one manuscript that no earlier decision connects. `ratio` is the number of joins
found by the inbox in the first 100 decisions over that of the second scholar; medians over ten simulations.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from _drawn import drawn
from _timing import report

from membra.find.inbox import InboxState
from membra.find.mates import stored_scales
from membra.find.neighbours import neighbours
from membra.store.collection import Collection
from membra.store.neighbour_lists import NeighbourLists
from membra.store.verdicts import Verdict

SEEDS, LOOKED_AT = 10, 5
Decide = Callable[[int, int], bool]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        if options.source is None:
            collection = drawn(home, manuscripts=40, mates=3, singles=160)
        else:
            collection = copied(options.source, home / "copy", options.thin)
        lists = neighbours(collection).lists
        entries = {entry.number: entry for entry in collection.entries()}
        own = [entries[number] for number in lists.numbers.tolist()]
        joins, leaves = ([entry.fragment.columns[name] for entry in own] for name in ("join", "leaf"))
        plain = [
            replace(one, fragment=replace(one.fragment, columns={"cut": leaf}))
            for one, leaf in zip(own, leaves, strict=True)
        ]
        state = InboxState(lists, plain, stored_scales(collection))
        usable = [not entry.doubtful for entry in own]
        found: dict[str, list[list[int]]] = {"inbox": [], "fragments": []}
        for seed in range(SEEDS):
            for name, ways in (("inbox", by_inbox(state)), ("fragments", by_fragment(lists, leaves, usable, seed))):
                found[name].append(scholar(ways, joins, options.decisions, options.wrong, seed))
        counts = {name: np.array([one[-1] for one in runs]) for name, runs in found.items()}
        medians = {name: float(np.median(one)) for name, one in counts.items()}
        report(
            "inbox",
            ratio=medians["inbox"] / max(medians["fragments"], 1),
            decisions=options.decisions,
            wrong=options.wrong,
            joins_by_inbox=medians["inbox"],
            joins_by_fragment=medians["fragments"],
            least_and_most={name: [int(one.min()), int(one.max())] for name, one in counts.items()},
            joins_to_find=to_find(joins, leaves, usable),
            fragments=len(own),
            with_a_mate=sum(joins.count(join) > 1 for join in joins),
            decisions_for_half={name: half(runs, joins, leaves, usable) for name, runs in found.items()},
            curve={name: np.median(runs, axis=0)[9::10].tolist() for name, runs in found.items()},
        )


def scholar(ways: "Iterator[tuple[int, int]]", joins: list[str], decisions: int, wrong: float, seed: int) -> list[int]:
    """Return the number of joins found after each decision; `ways` is sent each verdict, and yields the next pair."""
    chance = np.random.default_rng(seed)
    groups = {index: {index} for index in range(len(joins))}  # true joins found so far
    count, found = [], 0
    try:
        a, b = next(ways)
        for _ in range(decisions):
            true = joins[a] == joins[b]
            says = true != (chance.random() < wrong)
            if says and true and groups[a] is not groups[b]:
                found += 1
                both = groups[a] | groups[b]
                for one in both:
                    groups[one] = both
            count.append(found)
            a, b = ways.send(says)  # type: ignore[attr-defined]
    except StopIteration:
        pass
    return count + [found] * (decisions - len(count))


def by_inbox(state: InboxState) -> "Iterator[tuple[int, int]]":
    said: list[Verdict] = []
    while len(order := state.order(said, exclude_same="cut")):
        pair = order.pairs[0]
        a, b = int(state.pairs.a[pair]), int(state.pairs.b[pair])
        join = yield a, b
        ends = sorted((state.ids[a], state.ids[b]))
        said.append(Verdict(len(said), ends[0], ends[1], "join" if join else "no", "x", "", ""))


def by_fragment(lists: NeighbourLists, leaves: list[str], usable: list[bool], seed: int) -> "Iterator[tuple[int, int]]":
    """Yield pairs fragment by fragment, in a shelf order that differs between simulations."""
    groups = {index: {index} for index in range(len(lists))}
    decided: set[tuple[int, int]] = set()
    nearest = lists.indices(lists.which)[:, : lists.top]
    for own in np.random.default_rng(100 + seed).permutation(len(lists)).tolist():
        others = [int(other) for other in nearest[own] if usable[other] and leaves[other] != leaves[own]]
        for other in others[:LOOKED_AT] if usable[own] else ():
            pair = (min(own, other), max(own, other))
            if pair in decided or groups[own] is groups[other]:
                continue
            decided.add(pair)
            join = yield pair
            if join:
                both = groups[own] | groups[other]
                for one in both:
                    groups[one] = both
                break


def half(runs: list[list[int]], joins: list[str], leaves: list[str], usable: list[bool]) -> float | None:
    """Return the number of decisions after which the median run found half of the joins; None if none did."""
    enough = np.median(runs, axis=0) >= to_find(joins, leaves, usable) / 2
    return int(np.argmax(enough)) + 1 if enough.any() else None


def to_find(joins: list[str], leaves: list[str], usable: list[bool]) -> int:
    """Return the number of joins to find: for each manuscript with several leaves, one less than its fragments."""
    own: dict[str, list[str]] = {}
    for join, leaf, may in zip(joins, leaves, usable, strict=True):
        own.setdefault(join, []).extend([leaf] if may else [])
    return sum(len(one) - 1 for one in own.values() if len(set(one)) > 1)


def copied(source: Path, into: Path, thin: bool) -> Collection:
    shutil.copytree(source, into)
    collection = Collection.open(into)
    if thin:
        entries = [entry for entry in collection.entries() if not entry.refused]
        names = sorted({entry.fragment.columns["join"] for entry in entries})
        many = set(names[::3])
        leaves: dict[str, set[str]] = {name: set() for name in names}
        gone = []
        for entry in entries:
            own = leaves[entry.fragment.columns["join"]]
            leaf = entry.fragment.columns["leaf"]
            if leaf in own or len(own) >= (3 if entry.fragment.columns["join"] in many else 1):
                gone.append(entry.fragment.id)
            own.add(leaf)
        collection.remove(gone)
    return collection


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--thin", action="store_true")
    parser.add_argument("--decisions", type=int, default=100)
    parser.add_argument("--wrong", type=float, default=0.05)
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
