"""The shortlist's approximate scores agree with the plain formulas, and its recall is high."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from membra.compare.kernels import chamfer_many, nearest_sums, pack
from membra.compare.methods import METHODS
from membra.describe.bag import Bag
from membra.errors import MembraError
from membra.find import shortlist
from membra.find.codes import FOLDER, RecallEstimate, recall_estimate, shortlist_index
from membra.find.search import search
from membra.sources.fragment import Fragment, fragments
from membra.store.collection import Collection


def bags_of(count: int, seed: int = 0, d: int = 16) -> list[Bag]:
    """Make bags of 1 to 30 prototypes in 40 hands: a hand is a shift of a common alphabet, a fragment some letters."""
    rng = np.random.default_rng(seed)
    alphabet, hands = rng.standard_normal((22, d)), rng.standard_normal((40, 22, d))
    found = []
    for index in range(count):
        letters = rng.integers(0, 22, int(rng.integers(1, 31)))
        words = alphabet[letters] + 0.6 * hands[index % 40][letters] + 0.2 * rng.standard_normal((len(letters), d))
        found.append(Bag(words, rng.uniform(0.2, 1, len(letters))))
    return found


def test_every_word_gets_its_nearest_codeword_and_empty_lanes_none() -> None:
    bags = bags_of(37)
    packed = pack(bags)
    codewords = shortlist.fit_codewords(
        np.concatenate([bag.prototypes for bag in bags]), shortlist.ShortlistSettings(words_each=10)
    )
    codes = shortlist.code_prototypes(packed, codewords)
    assert len(codewords) > 20
    assert (codes[~np.isfinite(packed.norms)] == len(codewords)).all()
    for tile, lane in np.argwhere(np.isfinite(packed.norms)).tolist():
        gaps = np.linalg.norm(codewords - packed.tiles[tile, :, lane], axis=1)
        assert gaps[codes[tile, lane]] == pytest.approx(gaps.min())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 16, 333, 9000])
def test_with_a_codeword_for_each_word_the_first_look_is_the_one_sided_sum(count: int, threads: int) -> None:
    few = bags_of(min(count, 333))
    bags = [few[index % len(few)] for index in range(count)]
    packed, query = pack(bags), bags_of(1, seed=5)[0]
    codewords = np.unique(np.concatenate([bag.prototypes for bag in few]), axis=0)
    codes = shortlist.code_prototypes(packed, codewords, threads=threads)
    looked = shortlist.first_look(query, [packed], [codes], codewords, threads=threads)
    plain = nearest_sums([query], packed)[1][0]
    assert looked == pytest.approx(plain, abs=1e-4)
    twice = shortlist.first_look(query, [packed, packed], [codes, codes], codewords, threads=threads)
    assert twice == pytest.approx(np.concatenate([plain, plain]), abs=1e-4)


def test_the_lowest_scores_are_found_and_infinite_ones_never() -> None:
    scores = np.array([3.0, np.inf, 1.0, 2.0, np.inf, 0.5])
    assert shortlist.lowest(scores, 2).tolist() == [2, 5]
    assert shortlist.lowest(scores, 5).tolist() == [0, 2, 3, 5]
    assert shortlist.lowest(scores, 100).tolist() == [0, 2, 3, 5]
    assert shortlist.lowest(np.zeros(0), 3).tolist() == []


def test_codewords_for_few_or_equal_words() -> None:
    assert shortlist.fit_codewords(np.ones((1, 4), dtype=np.float32)).tolist() == [[1, 1, 1, 1]]
    assert len(shortlist.fit_codewords(np.ones((500, 4), dtype=np.float32))) == 1


def test_who_is_compared_in_full() -> None:
    limit = shortlist.ShortlistSettings().exact_up_to
    assert shortlist.how_many(limit, "auto") == 0
    assert shortlist.how_many(limit + 1, "auto") == limit // 100
    assert shortlist.how_many(10 * limit, "off") == 0
    assert shortlist.how_many(300_000, "auto", shortlist.ShortlistSettings(exact_up_to=1000)) == 3000
    assert shortlist.how_many(10_000, "auto", shortlist.ShortlistSettings(exact_up_to=1000)) == 2000
    assert shortlist.how_many(10_000, "500") == 500
    assert shortlist.how_many(400, "500") == 0


def test_a_tenth_of_the_fragments_holds_nearly_all_of_the_nearest() -> None:
    bags = bags_of(2000)
    packed = pack(bags, "float16")
    codewords = shortlist.fit_codewords(np.concatenate([bag.prototypes for bag in bags]))
    codes = shortlist.code_prototypes(packed, codewords)
    kept = []
    for index in range(0, 2000, 50):
        truth = np.argsort(chamfer_many([bags[index]], packed)[0], kind="stable")[:21]
        listed = shortlist.lowest(shortlist.first_look(bags[index], [packed], [codes], codewords), 200)
        kept.append(np.isin(truth, listed).mean())
    assert np.mean(kept) > 0.9


def own_shard(collection: Collection) -> str:
    """Return the name of its only shard."""
    with collection.reading() as state:
        (shard,) = state.rows.shards
    return shard.name


@pytest.fixture
def own(collection: Collection, tmp_path: Path) -> Collection:
    """A writable copy of the drawn collection."""
    return Collection.open(shutil.copytree(collection.path, tmp_path / "own"))


@pytest.mark.parametrize("method", [method.name for method in METHODS if method.shortlist])
def test_what_a_shortlist_ranks_has_its_exact_distance(method: str, own: Collection) -> None:
    query = own.entries()[2].fragment.id
    exact = {hit.id: hit.distance for hit in search(own, query, method=method).hits}
    listed = search(own, query, method=method, shortlist="6")
    assert len(listed.hits) == 6
    assert {hit.id: hit.distance for hit in listed.hits} == {hit.id: exact[hit.id] for hit in listed.hits}
    assert listed.hits[0].distance == min(exact.values())
    assert listed.shortlist is not None
    assert listed.shortlist == RecallEstimate(6 / 11, 20, 6, 6, 12, listed.shortlist.weight)  # 6 of the 11 others
    assert search(own, query, method=method).shortlist is None


def test_an_image_from_outside_is_measured_as_in_the_exact_search(own: Collection, tmp_path: Path) -> None:
    image = tmp_path / "strange.jpg"
    shutil.copy(own.entries()[4].fragment.path, image)
    own.remove([own.entries()[0].fragment.id])
    exact = {hit.id: hit.distance for hit in search(own, image).hits}
    listed = {hit.id: hit.distance for hit in search(own, image, shortlist="5").hits}
    assert len(listed) == 5
    assert listed == pytest.approx({id: exact[id] for id in listed})
    assert next(iter(listed)) == own.entries()[3].fragment.id


def test_codes_are_kept_and_made_again_only_where_they_must(own: Collection, drawn: Path, tmp_path: Path) -> None:
    query = own.entries()[2].fragment.id
    before = search(own, query, shortlist="6").hits
    files = sorted((own.path / FOLDER).rglob("*.*"), key=lambda file: (len(file.parts), file.name))
    assert [file.name[:6] for file in files] == ["codewo", *sorted([own_shard(own)[:6], "recall"])]
    times = [file.stat().st_mtime_ns for file in files]
    assert search(own, query, shortlist="6").hits == before
    assert [file.stat().st_mtime_ns for file in files] == times

    codes = next(file for file in files if file.name == own_shard(own))
    whole = codes.read_bytes()
    for damage in (whole[:-9], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        codes.write_bytes(damage)
        assert search(own, query, shortlist="6").hits == before
        assert codes.read_bytes() == whole
    (own.path / FOLDER / "codewords.safetensors").write_bytes(b"none")
    assert search(own, query, shortlist="6").hits == before

    shutil.copy(fragments(drawn)[0].path, tmp_path / "another.jpg")
    own.add([Fragment("another.jpg", tmp_path / "another.jpg")])
    assert "another.jpg" in {hit.id for hit in search(own, fragments(drawn)[0].id, shortlist="9").hits}


def test_the_recall_is_that_of_the_list_and_of_about_this_many_fragments(own: Collection) -> None:
    ids = [entry.fragment.id for entry in own.entries()]

    def measured(shortlist: str) -> tuple[int, int]:
        found = search(own, ids[2], shortlist=shortlist).shortlist
        assert found is not None
        return found.listed, found.fragments

    assert [measured(one) for one in ("6", "4", "06")] == [(6, 12), (4, 12), (6, 12)]
    own.remove(ids[-3:])
    assert measured("6") == (6, 12)  # a quarter fewer
    own.remove(ids[-4:-3])
    assert measured("6") == (6, 8)
    assert measured("4") == (4, 8)


def test_an_older_file_of_the_recall_is_that_of_auto(own: Collection) -> None:
    """Earlier versions stored one file for each method, whatever the list."""
    query = own.entries()[2].fragment.id
    search(own, query, shortlist="6")
    (file,) = (own.path / FOLDER).glob("*/recall-*")
    older = RecallEstimate(0.5, 20, 3000, 20, 12, 0.0)
    for known, expected in ((older, 3000), (replace(older, fragments=9), 12), (None, 12)):
        file.with_name("recall-bob-local.json").write_text(json.dumps(asdict(known) if known else [1]))
        found = search(own, query, shortlist="6").shortlist
        assert found is not None
        assert (found.listed, found.fragments) == (6, 12)
        with own.reading() as state:
            index = shortlist_index(own.path, state.rows, state.scales())
            assert recall_estimate(state.rows, index, "bob-local", state.scales()).listed == expected


def test_a_folder_that_cannot_be_written_is_searched_all_the_same(own: Collection) -> None:
    (own.path / FOLDER).write_text("in the way")
    query = own.entries()[2].fragment.id
    assert search(own, query, shortlist="6").hits[0] == search(own, query).hits[0]


def test_nonsense_is_refused(own: Collection) -> None:
    query = own.entries()[2].fragment.id
    for wrong in ("many", "0", "-3", "1.5", ""):
        with pytest.raises(MembraError, match="auto, off or a number"):
            search(own, query, shortlist=wrong)
    with pytest.raises(MembraError, match="not available for `bob-transport`"):
        search(own, query, method="bob-transport", shortlist="6")
    assert search(own, query, method="bob-transport", shortlist="auto").hits
