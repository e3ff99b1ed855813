"""Agreement in kinds of letter: all of a copy's, most of a mate's, few of a stranger's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hands import EACH, HANDS, KINDS, letters, name, store_hands
from membra.compare.distance import chamfer, costs
from membra.describe.bag import Bag
from membra.find.agreement import Agreement, agreements
from membra.find.search import search, search_together
from membra.show.wording import agreement_words
from membra.store.collection import Collection


def of(collection: Collection, query: int, others: list[str]) -> list[Agreement | None]:
    """Compute the agreement of these fragments with one of the collection."""
    with collection.reading() as state:
        own = collection.entry(name(query))
        entries = [collection.entry(id) for id in others]
        assert own is not None
        return agreements(state, letters(query).bag, [one for one in entries if one], number=own.number)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return store_hands(tmp_path_factory.mktemp("agreement") / "C", copy=0)


def test_all_kinds_of_a_copy_agree_and_it_is_nearer_than_all_strangers(known: Collection) -> None:
    (found,) = of(known, 0, ["copy.jpg"])
    assert found is not None
    assert sorted(found.kinds) == list(range(KINDS))
    assert (found.of, found.nearer, found.strangers) == (KINDS, 1.0, HANDS * EACH - 1)


def test_mates_agree_in_most_and_strangers_in_few(known: Collection) -> None:
    mates, strangers = of(known, 30, [name(31), name(32)]), of(known, 30, [name(number) for number in range(0, 27, 3)])
    shares = [[len(one.kinds) / one.of for one in some if one] for some in (mates, strangers)]
    assert min(shares[0]) > 0.7
    assert np.mean(shares[1]) < 0.15  # one kind of twenty, by definition, on average over all strangers
    assert all(one is not None and one.nearer > 0.9 for one in mates)
    assert np.mean([one.nearer for one in strangers if one]) < 0.7
    assert all(one is not None and one.usual <= 2 for one in mates)


def test_what_is_said_follows_from_the_distances_of_the_score(known: Collection) -> None:
    """Compared with the formula, computed from all bags."""
    query, other, count = 30, 5, HANDS * EACH
    (found,) = of(known, query, [name(other)])
    bags = {name(number): letters(number).bag for number in range(count)} | {"copy.jpg": letters(0).bag}
    with known.reading() as state:
        scales = state.scales()
    entries = {entry.fragment.id: entry.number for entry in known.entries()}
    roots = {id: np.sqrt(scales.scales[0, np.searchsorted(scales.numbers, entries[id])]) for id in bags}
    own = bags.pop(name(query))
    scores = {id: chamfer(own, bag) / roots[id] for id, bag in bags.items()}
    far = sorted(scores, key=scores.__getitem__)[10:]
    apart = np.array([costs(own, bags[id]).min(axis=1) / roots[id] for id in far])
    pair = costs(own, bags[name(other)]).min(axis=1) / roots[name(other)]
    kinds = np.flatnonzero(pair < np.quantile(apart, 0.05, axis=0))
    best = sorted(kinds.tolist(), key=lambda kind: pair[kind] / np.median(apart[:, kind]))
    assert found is not None
    assert list(found.kinds) == best
    others = [score for id, score in scores.items() if id != name(other)]
    assert found.nearer == pytest.approx(np.mean(np.array(others) > scores[name(other)]))


def test_the_best_kinds_come_first(known: Collection) -> None:
    """A stranger with an exact copy of one letter of the query agrees best in that letter."""
    query, stranger = letters(30), letters(0)
    changed = query.bag.prototypes.copy()
    changed[:] = stranger.bag.prototypes
    changed[7] = query.bag.prototypes[7]
    with known.reading() as state:
        entry = known.entry(name(30))
        assert entry is not None
        bag = Bag(changed, np.ones(KINDS), np.arange(KINDS, dtype=np.int32), 0.0)
        (found,) = agreements(state, bag, [entry])
    assert found is not None
    assert found.kinds[0] == 7


def test_nothing_is_said_of_what_may_be_no_writing_or_among_few(tmp_path: Path) -> None:
    doubtful = store_hands(tmp_path / "D", doubtful=4)
    assert of(doubtful, 0, [name(4), name(5)])[0] is None
    assert of(doubtful, 0, [name(4), name(5)])[1] is not None
    few = store_hands(tmp_path / "F", count=25)
    assert of(few, 0, [name(1)]) == [None]
    hits = search(few, name(0), agreement=True).hits
    assert all(hit.agreement is None and hit.probability is not None for hit in hits)


def test_a_search_says_it_where_it_is_asked(known: Collection) -> None:
    hits = search(known, name(30), top=5, agreement=True).hits
    assert [hit.agreement for hit in hits] == of(known, 30, [hit.id for hit in hits])
    assert [replace(hit, agreement=None) for hit in hits] == search(known, name(30), top=5).hits
    together = search_together(known, [name(30), name(31)], top=1, agreement=True).hits
    assert together[0].id == name(32)
    assert together[0].agreement is not None
    assert len(together[0].agreement.kinds) > 0.7 * together[0].agreement.of
    others = search(known, name(30), top=5, method="bob-chamfer", agreement=True).hits
    assert all(hit.agreement is None for hit in others)


def test_of_a_collection_of_many_a_sample_says_nearly_the_same(known: Collection) -> None:
    from membra.find.agreement import AgreementSettings

    with known.reading() as state:
        entries = [known.entry(name(number)) for number in (31, 0)]
        bag, some = letters(30).bag, [one for one in entries if one]
        few = agreements(state, bag, some, number=31, settings=AgreementSettings(compared=40, closely=20))
    assert all(one is not None and one.strangers <= 40 for one in few)
    assert few[0] is not None
    assert few[1] is not None
    assert len(few[0].kinds) > 3 * len(few[1].kinds)


def test_words_for_none_one_and_many() -> None:
    kinds: tuple[int, ...]
    said = []
    for kinds, nearer in (((), 0.5), ((3,), 0.999), ((3, 1), 1.0)):
        said.append("; ".join(agreement_words(Agreement(kinds, 40, 2, nearer, 180))))
    assert said == [
        "none of 40 kinds of letter agrees (usual among strangers here: 2); nearer than 50 % of strangers here",
        "one of 40 kinds of letter agrees (usual among strangers here: 2); nearer than 99 % of strangers here",
        "2 of 40 kinds of letter agree (usual among strangers here: 2); nearer than all of 180 strangers here",
    ]
