"""The first look: its pieces against the plain formulas, and how little it loses."""

import numpy as np
import pytest

from membra.compare.kernels import chamfer_many, nearest_sums, pack
from membra.describe.bag import Bag
from membra.find.shortlist import (
    ShortlistSettings,
    code_words,
    first_look,
    fit_codewords,
    how_many,
    lowest,
    take_bags,
)


def bags_of(count: int, seed: int = 0, d: int = 16) -> list[Bag]:
    """Bags of 1 to 30 words in 40 hands: a hand is a shift of a common alphabet, a fragment some letters of it."""
    rng = np.random.default_rng(seed)
    alphabet, hands = rng.standard_normal((22, d)), rng.standard_normal((40, 22, d))
    found = []
    for place in range(count):
        letters = rng.integers(0, 22, int(rng.integers(1, 31)))
        words = alphabet[letters] + 0.6 * hands[place % 40][letters] + 0.2 * rng.standard_normal((len(letters), d))
        found.append(Bag(words, rng.uniform(0.2, 1, len(letters))))
    return found


def test_every_word_gets_its_nearest_codeword_and_empty_lanes_none() -> None:
    bags = bags_of(37)
    packed = pack(bags)
    codewords = fit_codewords(np.concatenate([bag.prototypes for bag in bags]), ShortlistSettings(words_each=10))
    codes = code_words(packed, codewords)
    assert len(codewords) > 20
    assert (codes[~np.isfinite(packed.norms)] == len(codewords)).all()
    for tile, lane in np.argwhere(np.isfinite(packed.norms)).tolist():
        gaps = np.linalg.norm(codewords - packed.tiles[tile, :, lane], axis=1)
        assert gaps[codes[tile, lane]] == pytest.approx(gaps.min())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 16, 333, 9000])
def test_with_a_codeword_for_each_word_the_first_look_is_the_one_sided_sum(count: int, threads: int) -> None:
    few = bags_of(min(count, 333))
    bags = [few[place % len(few)] for place in range(count)]
    packed, query = pack(bags), bags_of(1, seed=5)[0]
    codewords = np.unique(np.concatenate([bag.prototypes for bag in few]), axis=0)
    looked = first_look(query, packed, code_words(packed, codewords, threads=threads), codewords, threads=threads)
    assert looked == pytest.approx(nearest_sums([query], packed)[1][0], abs=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("count", [1, 15, 16, 200])
def test_bags_taken_out_have_the_distances_they_had(dtype: str, count: int) -> None:
    bags, query = bags_of(300), bags_of(1, seed=5)[0]
    packed = pack(bags, dtype)
    places = np.random.default_rng(1).permutation(300)[:count]
    taken = take_bags(packed, places)
    assert len(taken) == count
    assert taken.slack == packed.slack
    assert chamfer_many([query], taken)[0].tolist() == chamfer_many([query], packed)[0][places].tolist()
    weighed = [nearest_sums([query], some, masses=True) for some in (taken, packed)]
    assert weighed[0][1][0].tolist() == weighed[1][1][0][places].tolist()


def test_the_lowest_scores_are_found_and_infinite_ones_never() -> None:
    scores = np.array([3.0, np.inf, 1.0, 2.0, np.inf, 0.5])
    assert lowest(scores, 2).tolist() == [2, 5]
    assert lowest(scores, 5).tolist() == [0, 2, 3, 5]
    assert lowest(scores, 100).tolist() == [0, 2, 3, 5]
    assert lowest(np.zeros(0), 3).tolist() == []


def test_codewords_for_few_or_equal_words() -> None:
    assert fit_codewords(np.ones((1, 4), dtype=np.float32)).tolist() == [[1, 1, 1, 1]]
    assert len(fit_codewords(np.ones((500, 4), dtype=np.float32))) == 1


def test_who_is_compared_in_full() -> None:
    limit = ShortlistSettings().exact_up_to
    assert how_many(limit, "auto") == 0
    assert how_many(limit + 1, "auto") == limit // 100
    assert how_many(10 * limit, "off") == 0
    assert how_many(300_000, "auto", ShortlistSettings(exact_up_to=1000)) == 3000
    assert how_many(10_000, "auto", ShortlistSettings(exact_up_to=1000)) == 2000
    assert how_many(10_000, "500") == 500
    assert how_many(400, "500") == 0


def test_a_tenth_of_the_fragments_holds_nearly_all_of_the_nearest() -> None:
    bags = bags_of(2000)
    packed = pack(bags, "float16")
    codewords = fit_codewords(np.concatenate([bag.prototypes for bag in bags]))
    codes = code_words(packed, codewords)
    kept = []
    for place in range(0, 2000, 50):
        truth = np.argsort(chamfer_many([bags[place]], packed)[0], kind="stable")[:21]
        listed = lowest(first_look(bags[place], packed, codes, codewords), 200)
        kept.append(np.isin(truth, listed).mean())
    assert np.mean(kept) > 0.9
