"""Peers on a collection: keypoints of the same ink as its fragments, per piece; errors if photographs are missing."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from factories import stored
from membra.compare.encodings import EncodingSettings, cosine_distances, mean_pool, vlad, whitened
from membra.compare.peers import PEERS, encode
from membra.describe.encoder import Encoder
from membra.describe.keypoints import ink_of
from membra.describe.recipe import SAUVOLA
from membra.describe.workers import Workers
from membra.errors import MembraError, NotFound
from membra.judge import peers
from membra.judge.evaluate import ask, barred_among, evaluate, outcomes
from membra.judge.joins import read_joins
from membra.judge.metrics import score
from membra.judge.peers import KeypointGallery
from membra.see.sift import SiftSettings, sift, within_budget
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.index import index

NAMES = [peer.name for peer in PEERS]


@pytest.fixture(scope="module")
def seen_by_rules(drawn: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The drawn fragments by a recipe without a network, which is fast."""
    return index(fragments(drawn), tmp_path_factory.mktemp("rules") / "C", recipe=SAUVOLA, encoder=encoder)[0]


def test_every_peer_answers_by_its_name(seen_by_rules: Collection, drawn: Path) -> None:
    told: list[tuple[int, int]] = []
    scores = evaluate(
        seen_by_rules,
        drawn,
        exclude_same="leaf",
        methods=[*NAMES, "bob-chamfer"],
        progress=lambda done, of: told.append((done, of)),
    )
    assert list(scores["methods"]) == [*NAMES, "bob-chamfer"]
    assert all(0 < row["mrr"] <= 1 for row in scores["methods"].values())
    assert scores["methods"]["sift-vlad"] != scores["methods"]["sift-vlad-plain"]
    assert told == sorted(told)


def test_vlad_is_of_the_ink_that_letters_are_cut_from(seen_by_rules: Collection, drawn: Path) -> None:
    """Compared with the steps by hand, with the query's own leaf left out."""
    found = [sift(ink_of(one, SAUVOLA), SiftSettings()) for one in fragments(drawn)]
    matrix = cosine_distances(whitened(vlad(found, EncodingSettings()), EncodingSettings()))
    ids = [entry.fragment.id for entry in seen_by_rules.entries()]
    assert ids == [fragment.id for fragment in fragments(drawn)]
    expected = score(outcomes(ask(ids, [], read_joins(drawn, ids), "leaf"), matrix))
    assert (
        evaluate(seen_by_rules, drawn, exclude_same="leaf", methods=["sift-vlad"])["methods"]["sift-vlad"] == expected
    )


def test_pieces_of_one_photograph_have_keypoints_of_their_own(plates: Path) -> None:
    collection = Collection.open(plates)
    described = [entry for entry in collection.entries() if not entry.refused]
    gallery = KeypointGallery(collection, described)
    told: list[tuple[int, int]] = []
    matrix = gallery.distances(PEERS[0], np.eye(len(described), dtype=bool), lambda *done: told.append(done))
    assert told[-1] == (len(described) - 1, len(described) - 1)  # the plate is read once
    ids = [entry.fragment.id for entry in described]
    one, other = ids.index("plate.png#1"), ids.index("plate.png#2")
    assert np.allclose(np.diag(matrix), 0)
    assert matrix[one, other] > 1e-3


def test_who_is_not_described_takes_no_part(drawn: Path, encoder: Encoder, tmp_path: Path) -> None:
    """It is a miss, as with every method."""
    shutil.copytree(drawn.parent, tmp_path / "in")
    first = fragments(tmp_path / "in" / drawn.name)[0]
    first.path.write_bytes(b"torn")
    collection, _ = index(fragments(tmp_path / "in" / drawn.name), tmp_path / "C", recipe=SAUVOLA, encoder=encoder)
    scores = evaluate(collection, tmp_path / "in" / drawn.name, methods=["sift-mean"])
    assert (scores["fragments"], scores["described"]) == (12, 11)
    assert scores["methods"]["sift-mean"]["hit@20"] < 1


def test_photographs_that_are_gone(drawn: Path, encoder: Encoder, tmp_path: Path) -> None:
    shutil.copytree(drawn.parent, tmp_path / "in")
    table = tmp_path / "in" / drawn.name
    collection, _ = index(fragments(table), tmp_path / "C", recipe=SAUVOLA, encoder=encoder)
    shutil.rmtree(tmp_path / "in" / "images")
    with pytest.raises(NotFound, match="12 images are gone"):
        evaluate(collection, table, methods=["sift-vlad"])


def test_few_processes_extract_keypoints_on_a_machine_with_many_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIFT of a full page takes 2 to 3 GB in each of them."""
    counts: list[int] = []

    def counted(count: int) -> Workers:
        counts.append(count)
        return Workers(1)

    collection = stored(tmp_path / "C", range(64))
    for entry in collection.entries():
        entry.fragment.path.touch()
    monkeypatch.setattr(peers, "processors", lambda: 64)
    monkeypatch.setattr(peers, "Workers", counted)
    with pytest.raises(MembraError):  # the files are no photographs
        KeypointGallery(collection, collection.entries()).distances(PEERS[0], np.eye(64, dtype=bool), print)
    assert counts == [peers.MAX_PROCESSES]


def test_an_unknown_name_lists_peers_too(seen_by_rules: Collection, drawn: Path) -> None:
    with pytest.raises(MembraError, match=r"there is no method `vlad`.*bob-chamfer.*sift-vlad-graph"):
        evaluate(seen_by_rules, drawn, methods=["vlad"])


def test_pairs_that_may_not_answer_are_barred_among_all_fragments() -> None:
    known = {id: {"join": "x", "leaf": leaf} for id, leaf in zip("abc", "112", strict=True)}
    barred = barred_among(ask(["a", "b"], ["c"], known, "leaf"), [0, 2], 4)
    assert np.argwhere(barred & ~np.eye(4, dtype=bool)).tolist() == [[0, 2], [2, 0]]


def test_encodings_by_name() -> None:
    descriptors = [np.random.default_rng(seed).random((150, 16)).astype(np.float32) for seed in range(4)]
    settings = EncodingSettings(words=5, gaussians=3, dimensions=4)
    assert np.array_equal(encode("mean", descriptors, settings), mean_pool(descriptors))
    assert np.array_equal(encode("vlad", descriptors, settings), vlad(descriptors, settings))
    assert encode("fisher", descriptors, settings).shape == (4, 2 * 3 * 4)


def test_many_fragments_share_the_memory() -> None:
    assert within_budget(SiftSettings(), 60).max_descriptors == 4000
    assert within_budget(SiftSettings(), 1000).max_descriptors == 1000
    assert within_budget(SiftSettings(), 10**9).max_descriptors == 200


def test_large_ink_is_shrunk() -> None:
    ink = np.zeros((400, 400), np.uint8)
    ink[::20, ::20] = ink[1::20, ::20] = ink[::20, 1::20] = 255
    assert len(sift(ink, SiftSettings(max_pixels=100 * 100))) < len(sift(ink, SiftSettings()))
