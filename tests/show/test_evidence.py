"""Evidence: matches are the same letters, boxes are on them, and it can be written as a picture or a page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import membra
from membra.cli import cli
from membra.compare.distance import costs
from membra.describe.bag import BagSettings, make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description
from membra.errors import MembraError
from membra.scribes import camera, fragment, hand
from membra.show.evidence import Evidence, best_shown, explain, letter_height, match_words, matched_heights
from membra.show.holding import Holding, natural
from membra.show.strips import cut_letter
from membra.sources.fragment import Fragment, fragments
from membra.store.collection import Collection
from scenes import found

MEANS = replace(MEMBRA, bag=BagSettings(words=32, letters_per_word=1, min_words=1, clusters="membra"))


@pytest.fixture(scope="module", params=[MEMBRA, MEANS], ids=["membra", "means"])
def known(drawn: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Collection:
    """Six drawn fragments, described with membra's encoder, with bags of letters and of means."""
    path = tmp_path_factory.mktemp("known") / "collection"
    made = Collection.create(path, encoder=Encoder.ready(threads=1), recipe=request.param)
    made.add(fragments(drawn)[:6])
    return made


@pytest.fixture(scope="module")
def evidence(known: Collection) -> Evidence:
    """The evidence for two fragments of one manuscript."""
    columns = {entry.fragment.id: entry.fragment.columns["join"] for entry in known.entries()}
    a, b = next((a, b) for a in columns for b in columns if a < b and columns[a] == columns[b])
    return explain(known, a, b)


def test_matched_words_are_the_same_letters(evidence: Evidence, drawn: Path) -> None:
    truth = json.loads((drawn.parent / "truth.json").read_text(encoding="utf-8"))
    sides = []
    for id, boxes in ((evidence.a, evidence.boxes_a), (evidence.b, evidence.boxes_b)):
        known_boxes, letters = np.array(truth[id]["boxes"]), truth[id]["letters"]
        sides.append([next(iter(np.array(list(letters))[found(box[None], known_boxes)]), "") for box in boxes])
    same = total = 0
    for match in best_shown(evidence.matches, 8):
        named = [sides[0][at] for at in match.letters_a] + [sides[1][at] for at in match.letters_b]
        named = [name for name in named if name]
        same += max(map(named.count, named), default=0)
        total += len(named)
    assert total > 20
    assert same / total > 0.9


def test_the_best_matches_are_mutual_and_nearest(known: Collection, evidence: Evidence) -> None:
    holding = Holding(known)
    bags = [holding.description(id).bag for id in (evidence.a, evidence.b)]
    apart = costs(*bags)
    best = evidence.matches[0]
    assert best.mutual
    assert best.distance == pytest.approx(apart.min(), rel=1e-5)
    assert [match.distance for match in evidence.matches if match.mutual] == sorted(
        match.distance for match in evidence.matches if match.mutual
    )
    assert {match.word_a for match in evidence.matches} == set(range(len(bags[0])))
    assert {match.word_b for match in evidence.matches} == set(range(len(bags[1])))


def test_distance_and_rank_are_those_of_the_search(known: Collection, evidence: Evidence) -> None:
    hits = membra.search(known, evidence.a, top=10).hits
    assert (evidence.distance, evidence.rank) == next((hit.distance, hit.rank) for hit in hits if hit.id == evidence.b)


def test_in_a_large_collection_a_far_pair_has_its_distance_and_no_rank(
    known: Collection, evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = membra.search(known, evidence.a, top=10).hits
    monkeypatch.setattr("membra.show.holding.SMALL", 2)
    monkeypatch.setattr("membra.show.holding.NEAR", 1)
    far = explain(known, evidence.a, hits[-1].id)
    assert far.distance == pytest.approx(hits[-1].distance, rel=1e-9)
    assert far.rank == 0


@pytest.mark.parametrize("turn", [1, 3, 6, 8])
def test_boxes_are_in_the_photograph_as_displayed(tmp_path: Path, turn: int) -> None:
    one = fragment(hand(3), camera(3), letters=40, seed=3)
    back = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}[turn]
    image = Image.fromarray(one.image)
    exif = Image.Exif()
    exif[0x0112] = turn
    (image.transpose(back) if back is not None else image).save(tmp_path / "one.png", exif=exif)
    made = Collection.create(tmp_path / "collection", encoder=Encoder.ready(threads=1))
    made.add([Fragment("one.png", tmp_path / "one.png")])
    description = Holding(made).description("one.png")
    # all of them are on ink, also boxes of letters cut by the tear, which are not in the truth
    inked = [one.ink[y : y + high, x : x + wide].mean() for x, y, wide, high in description.boxes.tolist()]
    assert np.mean(np.array(inked) > 0.08) > 0.95
    assert found(description.boxes, one.boxes).mean() > 0.9


def test_embeddings_without_a_scale_give_only_the_words_own_letters(collection: Collection) -> None:
    holding = Holding(collection)
    first, second = (holding.description(entry.fragment.id) for entry in collection.entries()[:2])
    matches = match_words(first, second)
    own = first.bag.members
    assert own is not None
    assert all(set(match.letters_a) == set(np.flatnonzero(own == match.word_a)) for match in matches)


def test_a_picture_and_a_page_that_need_nothing_else(known: Collection, evidence: Evidence, tmp_path: Path) -> None:
    for name in ("why.png", "why.html"):
        command = ["explain", str(known.path), evidence.a, evidence.b, "--out", str(tmp_path / name)]
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert result.exit_code == 0
        assert "candidate" in result.output
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.width >= 820
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="(.{5})', page)) == {"data:"}
    assert len(page) < 3_000_000


@pytest.mark.parametrize(("a", "b"), [("nothing", "images/0000.jpg"), ("images/0000.jpg", "images/0000.jpg")])
def test_what_cannot_be_explained_is_one_sentence(known: Collection, a: str, b: str) -> None:
    with pytest.raises(MembraError):
        explain(known, a, b)


def test_no_other_file_than_a_picture_or_a_page(known: Collection, evidence: Evidence, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["explain", str(known.path), evidence.a, evidence.b, "--out", "why.pdf"])
    assert isinstance(result.exception, MembraError)


def test_a_letter_is_brought_to_one_height_and_stays_within_the_photograph() -> None:
    photograph = np.zeros((100, 200, 3), np.uint8)
    assert cut_letter(photograph, (50, 30, 20, 40), 40, height=20).size == (20, 30)
    assert cut_letter(photograph, (190, 90, 40, 40), 40).size[0] > 0
    assert cut_letter(photograph, (900, 900, 40, 40), 40).size == (48, 48)


def test_shelfmarks_stand_in_natural_order() -> None:
    names = ["T-S 8C10.2", "T-S 8C2.11", "T-S 8C2.3", "t-s 8c2.4", "AS 1.1", "7", "ס 2", "ס 10"]
    assert sorted(names, key=natural) == [
        "7",
        "AS 1.1",
        "T-S 8C2.3",
        "t-s 8c2.4",
        "T-S 8C2.11",
        "T-S 8C10.2",
        "ס 2",
        "ס 10",
    ]


def test_letters_that_match_say_how_high_letters_are() -> None:
    """One photograph has twice the scale and also headings, which are in no match."""
    draw = np.random.default_rng(1)
    alphabet = np.eye(8, dtype=np.float32)

    def of(letters: list[int], heights: list[int]) -> Description:
        embeddings = alphabet[letters] + draw.normal(0, 0.01, (len(letters), 8)).astype(np.float32)
        boxes = np.array([[0, 0, 20, high] for high in heights], np.int32)
        return Description(boxes, embeddings, make_bag(embeddings, BagSettings()))

    small = of([0, 1, 2, 3] * 3, [30, 33, 27, 40] * 3)
    large = of([0, 1, 2, 3] * 2 + [6, 7] * 8, [60, 66, 54, 80] * 2 + [200] * 16)
    heights = matched_heights(small, large, match_words(small, large))
    assert heights[1] / heights[0] == pytest.approx(2, rel=0.05)
    assert letter_height(large) / letter_height(small) > 4  # the ratio over all letters
    few = of([0], [30])
    assert matched_heights(few, large, match_words(few, large)) == (letter_height(few), letter_height(large))
