"""The inbox shows the most valuable pair first, and every verdict updates its order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from factories import stored
from membra.cli import cli
from membra.errors import MembraError
from membra.find.inbox import (
    InboxSettings,
    InboxState,
    Order,
    Pairs,
    inbox,
    ordered,
    pairs_of,
    refined,
)
from membra.find.known import joined_groups
from membra.find.mates import stored_scales
from membra.find.neighbours import neighbours
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts

EXAMPLE = {(0, 1): 0.9, (2, 3): 0.8, (1, 2): 0.6, (0, 2): 0.5, (4, 5): 0.3, (0, 3): 0.2}


def some_pairs(example: dict[tuple[int, int], float] = EXAMPLE, fragments: int = 6) -> Pairs:
    best = sorted(example, key=lambda pair: -example[pair])
    chances = np.array([example[pair] for pair in best])
    a, b = np.array(best).T
    return Pairs(a, b, 1 - chances, chances, fragments)


def asked(pairs: Pairs, order: Order) -> list[tuple[int, int]]:
    return [(int(pairs.a[pair]), int(pairs.b[pair])) for pair in order.pairs]


def after(*said: tuple[int, int, str], pairs: Pairs | None = None, **more: Any) -> list[tuple[int, int]]:
    pairs = pairs or some_pairs()
    return asked(pairs, ordered(pairs, np.arange(pairs.fragments), said, **more))


def test_a_disputed_pair_is_open_again_and_a_question_of_its_own() -> None:
    said = [(0, 1, "join"), (2, 3, "join")]
    assert (0, 3) not in after(*said)
    pairs = some_pairs()
    found = ordered(pairs, np.arange(6), said, [(3, 0)])
    index = asked(pairs, found).index((0, 3))
    assert found.disputed.tolist() == [at == index for at in range(len(found))]
    assert found.probabilities[index] == InboxSettings().disputed
    assert (1, 2) in asked(pairs, found), "the groups' own question stays"
    within = ordered(pairs, np.arange(6), [(0, 1, "join"), (1, 2, "join")], [(0, 2)])
    assert asked(pairs, within)[0] == (0, 2), "though joins connect the two: that is worth most to know"


def test_nothing_decided_is_by_probability() -> None:
    assert after() == [(0, 1), (2, 3), (1, 2), (0, 2), (4, 5), (0, 3)]


def test_a_join_makes_a_group_that_asks_one_question_of_each_other_one() -> None:
    order = after((0, 1, "join"))
    # 1-2 represents 0-2 too, which raises its probability, and has a higher gain than the first mates 2-3
    assert order[:2] == [(1, 2), (2, 3)]
    assert (0, 2) not in order
    pairs = some_pairs()
    found = ordered(pairs, np.arange(6), [(0, 1, "join")])
    assert found.probabilities[0] == pytest.approx(1 - 0.4 * (1 - 0.5 * 0.5))
    assert found.whys.tolist()[:2] == [1, 0]


def test_what_was_decided_leaves() -> None:
    for says in ("join", "same hand", "unsure", "no"):
        assert (0, 1) not in after((0, 1, says))


def test_what_is_implied_comes_last() -> None:
    order = after((0, 1, "join"), (1, 2, "join"))
    assert order[-1] == (0, 2)
    assert order.index((4, 5)) < order.index((0, 2))


def test_a_no_keeps_groups_apart_and_the_undecided_rest_sinks() -> None:
    joined = ((0, 1, "join"), (2, 3, "join"))
    assert after(*joined)[0] == (1, 2)
    assert after(*joined, (1, 2, "no"))[:2] == [(4, 5), (0, 2)]
    assert after(*joined, (1, 2, "same hand"))[0] == (4, 5)
    assert after(*joined, (1, 2, "unsure"))[0] == (0, 2)
    pairs = some_pairs()
    found = ordered(pairs, np.arange(6), [*joined, (1, 2, "no")])
    assert found.against.tolist()[:2] == [0, 1]
    assert found.probabilities[1] < 0.05


def test_a_group_that_contradicts_itself_is_trusted_less() -> None:
    pairs = some_pairs({(0, 1): 0.9, (1, 2): 0.9, (0, 3): 0.7, (4, 5): 0.75})
    joined = [(0, 1, "join"), (1, 2, "join")]
    assert after(*joined, pairs=pairs)[0] == (0, 3)
    assert after(*joined, (0, 2, "no"), pairs=pairs)[0] == (4, 5)


def test_known_joins_are_groups_from_the_beginning() -> None:
    pairs = some_pairs()
    labels = np.array([0, 0, 0, 3, 4, 5])
    found = ordered(pairs, labels, [])
    assert asked(pairs, found)[:2] == [(2, 3), (4, 5)]
    assert asked(pairs, found)[-1] == (0, 2)  # the least probable of the implied pairs


def test_columns() -> None:
    libraries = np.array([0, 0, 1, 1, 2, -1])
    assert after(barred=libraries) == [(1, 2), (0, 2), (4, 5), (0, 3)]
    assert after(across=libraries)[:3] == [(1, 2), (0, 2), (0, 3)]
    assert after(across=libraries)[3:] == [(0, 1), (2, 3), (4, 5)]  # no library does not count as a different one


def test_a_question_of_two_groups_is_asked_across_libraries_where_that_is_wanted() -> None:
    """Even if a pair within one library is more probable; the shown pair has the probability of the group pair."""
    pairs, libraries = some_pairs(), np.array([0, 1, 1, 2, 2, 2])
    joined = [(0, 1, "join")]
    assert after(*joined)[0] == (1, 2)
    found = ordered(pairs, np.arange(6), joined, across=libraries)
    assert asked(pairs, found)[0] == (0, 2)
    assert found.crosses[0]
    assert found.probabilities[0] == ordered(pairs, np.arange(6), joined).probabilities[0]


def test_groups_however_they_came_about() -> None:
    assert joined_groups(np.array([7, 7, 9, 3]), []).tolist() == [1, 1, 2, 0]
    joins = [(5, 4), (0, 5), (3, 2), (2, 4)]
    groups = joined_groups(np.arange(7), joins)
    assert len({int(groups[i]) for i in (0, 2, 3, 4, 5)}) == 1
    assert groups[1] != groups[6] != groups[0]


def test_verdicts_make_other_pairs_more_or_less_likely_and_keep_what_was_said_before() -> None:
    pairs = some_pairs({(2 * i, 2 * i + 1): 0.5 - i / 100 for i in range(20)}, 40)
    before = pairs.probabilities.copy()
    for says, more in (("join", True), ("no", False), ("same hand", False)):
        found = refined(pairs, [(2 * i + 1, 2 * i, says) for i in range(10)])  # in either order of the ends
        assert ((found.probabilities > before) == more).all()
        assert (np.diff(found.probabilities) < 0).all(), "what is nearer stays more likely"
    np.testing.assert_array_equal(pairs.probabilities, before)
    nothing = [(0, 1, "unsure"), (0, 39, "join")]  # an unsure verdict; a pair that is in no list
    assert refined(pairs, nothing) is pairs
    assert refined(pairs, []) is pairs


def test_empty() -> None:
    nothing = np.zeros(0, np.int64)
    assert len(ordered(Pairs(nothing, nothing, np.zeros(0), np.zeros(0), 0), nothing, [])) == 0


def nearer(a: object, b: object, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """A probability that falls with the distance."""
    return np.asarray(np.exp(-scores))


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return stored(tmp_path / "C", range(30))


def test_pairs_of_a_collection(collection: Collection) -> None:
    lists = neighbours(collection, top=5).lists
    sure = np.ones(30, bool)
    sure[7] = False
    pairs = pairs_of(lists, sure, nearer, 10_000)
    assert (pairs.a < pairs.b).all()
    assert len({(a, b) for a, b in zip(pairs.a.tolist(), pairs.b.tolist(), strict=True)}) == len(pairs)
    assert 7 not in pairs.a
    assert 7 not in pairs.b
    assert (np.diff(pairs.probabilities) <= 0).all()
    first = int(pairs.a[0])
    own = lists.which[first, :5].tolist()
    assert lists.scores()[first][own.index(lists.numbers[pairs.b[0]])] == pairs.distances[0]
    few = pairs_of(lists, sure, nearer, 4)
    assert few.a.tolist() == pairs.a.tolist()[:4]


def test_inbox_of_a_collection(collection: Collection) -> None:
    first = inbox(collection, top=3)
    assert len(first) == 3
    assert all(pair.a < pair.b for pair in first)
    assert [pair.value for pair in first] == sorted((pair.value for pair in first), reverse=True)
    leaves = {entry.fragment.id: entry.fragment.columns["leaf"] for entry in collection.entries()}
    assert all(leaves[pair.a] != leaves[pair.b] for pair in first)  # sides of one leaf count as joined
    Verdicts.open(collection.path).give(first[0].a, first[0].b, "no", by="x")
    after = {(pair.a, pair.b): pair.probability for pair in inbox(collection, top=100)}
    assert (first[0].a, first[0].b) not in after
    assert after[first[1].a, first[1].b] < first[1].probability, "a likely pair was none, so others are less likely"
    with pytest.raises(MembraError, match="no fragment has a column `shelf`"):
        inbox(collection, across="shelf")


def test_lists_of_an_earlier_state(collection: Collection) -> None:
    lists = neighbours(collection, top=5).lists
    collection.remove(["0004.jpg"])
    state = InboxState(lists, collection.entries(), stored_scales(collection), settings=InboxSettings(most=1000))
    named = state.named(order := state.order([]), range(len(order)))
    assert named
    assert all("0004.jpg" not in (pair.a, pair.b) for pair in named)


def test_command(collection: Collection, tmp_path: Path) -> None:
    run = CliRunner()
    done = run.invoke(cli, ["inbox", str(collection.path), "--top", "4", "--json", "--csv", str(tmp_path / "x.csv")])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["pairs"]
    assert [pair["rank"] for pair in found] == [1, 2, 3, 4]
    assert {"a", "b", "probability", "distance", "value", "why", "against", "crosses"} <= set(found[0])
    table = (tmp_path / "x.csv").read_text(encoding="utf-8-sig").splitlines()
    assert len(table) == 5
    assert table[1].startswith(f"1,{found[0]['a']},{found[0]['b']}")
    assert "4 pairs to decide on" in run.invoke(cli, ["inbox", str(collection.path), "--top", "4"]).output
