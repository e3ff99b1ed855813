"""Plates of several pieces, and damaged collections: pieces are separate, and the truth of each is right."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from membra.scribes import Plate, broken_leaf, camera, collection, fragment, hand, plate
from membra.scribes.packing import pack, scatter
from membra.scribes.wear import blob, filled

HANDS = [hand(seed) for seed in range(3)]


def drawn(seed: int, pieces: int, background: str = "black", **options: object) -> Plate:
    eye = replace(camera(seed), letter_height=20.0, background=background)
    return plate(HANDS, eye, pieces=pieces, seed=seed, letters=(6, 20), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plates() -> list[Plate]:
    return [
        drawn(0, 2, "blue", chips=2),
        drawn(1, 6, "wood", damaged=True, chips=3, ruler=True, card=True),
        drawn(2, 12, "linen", touching=1.0),
        drawn(3, 20, "white", damaged=True, touching=0.0),
    ]


def test_plates_are_reproducible(plates: list[Plate]) -> None:
    again = drawn(1, 6, "wood", damaged=True, chips=3, ruler=True, card=True)
    assert again.jpeg == plates[1].jpeg
    assert np.array_equal(again.labels, plates[1].labels)
    assert drawn(9, 2, "blue", chips=2).jpeg != plates[0].jpeg


def test_the_label_map_holds_every_piece(plates: list[Plate]) -> None:
    for one, count in zip(plates, (2, 6, 12, 20), strict=True):
        assert one.image.shape == (*one.labels.shape, 3)
        assert [piece.label for piece in one.pieces] == list(range(1, len(one.pieces) + 1))
        assert set(np.unique(one.labels)) == {0, *(piece.label for piece in one.pieces)}
        written = [piece for piece in one.pieces if not piece.chip]
        assert len(written) == count
        assert [piece.hand for piece in written] == [number % 3 for number in range(count)]
        assert all(piece.hand == -1 and piece.letters == "" for piece in one.pieces if piece.chip)
        assert not (one.surface & (one.labels == 0)).any()
        assert not (one.ink & ~one.surface).any()
        assert not (one.beside & (one.labels > 0)).any()


def test_chips_are_small_and_bare(plates: list[Plate]) -> None:
    assert sum(piece.chip for piece in plates[0].pieces) == 2
    for one in plates[:2]:
        sizes = {piece.label: int((one.labels == piece.label).sum()) for piece in one.pieces}
        for piece in one.pieces:
            if piece.chip:
                assert 20 < sizes[piece.label] < 10 * 20.0**2
                assert not one.ink[one.labels == piece.label].any()
            else:
                assert len(piece.letters) == len(piece.boxes)


def test_letters_lie_on_their_own_piece(plates: list[Plate]) -> None:
    letters = 0
    for one in plates:
        for piece in one.pieces:
            for x, y, width, height in piece.boxes.tolist():
                at = (slice(y, y + height), slice(x, x + width))
                assert (one.labels[at] == piece.label).mean() > 0.5
                assert (one.ink[at] & (one.labels[at] == piece.label)).any()
            letters += len(piece.letters)
    assert letters > 6 * 40 * 0.4


def test_pieces_differ_in_turn_and_size(plates: list[Plate]) -> None:
    angles = np.array([piece.angle for piece in plates[3].pieces])
    heights = np.array([piece.letter_height for piece in plates[3].pieces])
    assert 0.0 <= angles.min() < 60.0 < 300.0 < angles.max() < 360.0
    assert 14.9 < heights.min() < 18.0 < 23.0 < heights.max() < 26.7
    level = drawn(4, 3, any_turn=False)
    assert all(min(piece.angle, 360.0 - piece.angle) < 12.0 for piece in level.pieces)


def test_a_turned_piece_is_written_at_its_angle(plates: list[Plate]) -> None:
    # letters follow each other leftwards along the line: the median step between neighbours gives its direction
    for one in plates[2:]:
        for piece in one.pieces:
            middles = piece.boxes[:, :2] + piece.boxes[:, 2:] / 2.0
            steps = np.diff(middles, axis=0)
            near = np.hypot(steps[:, 0], steps[:, 1]) < 1.6 * piece.letter_height
            if near.sum() < 5:
                continue
            left, up = -np.median(steps[near], axis=0)
            off = np.rad2deg(np.arctan2(-up, left)) - piece.angle
            assert abs((off + 180.0) % 360.0 - 180.0) < 30.0


def test_some_pieces_touch_and_others_do_not(plates: list[Plate]) -> None:
    assert _touching(plates[2].labels) >= 5
    assert _touching(plates[3].labels) == 0


def test_ruler_and_card_lie_beside_the_pieces(plates: list[Plate]) -> None:
    one = plates[1]
    count, _ = cv2.connectedComponents(one.beside.astype(np.uint8))
    assert count - 1 == 2
    assert np.ptp(cv2.cvtColor(one.image, cv2.COLOR_RGB2GRAY)[one.beside].astype(int)) > 100
    assert not plates[0].beside.any()


def test_pieces_look_like_sheet_on_their_ground() -> None:
    for seed, background in enumerate(("blue", "black", "dark felt")):
        one = drawn(seed, 4, background)
        grey = cv2.cvtColor(one.image, cv2.COLOR_RGB2GRAY).astype(float)
        near = cv2.dilate((one.labels > 0).astype(np.uint8), np.ones((31, 31))).astype(bool)
        table = np.median(grey[~near])
        for piece in one.pieces:
            assert np.median(grey[one.surface & (one.labels == piece.label)]) > table + 30.0


def test_nothing_is_asked_of_no_pieces() -> None:
    with pytest.raises(ValueError, match="piece"):
        plate(HANDS, camera(0), pieces=0, seed=0)
    with pytest.raises(ValueError, match="hand"):
        plate([], camera(0), pieces=2, seed=0)


@pytest.mark.parametrize("touching", [0.0, 0.5, 1.0])
def test_packed_shapes_never_overlap(touching: float) -> None:
    for seed in range(12):
        generator = np.random.default_rng(seed)
        masks = [_shape(generator) for _ in range(int(generator.integers(1, 15)))]
        shape, corners = pack(masks, 10.0, touching, generator)
        total = np.zeros(shape, int)
        for mask, (row, column) in zip(masks, corners, strict=True):
            window = total[row : row + mask.shape[0], column : column + mask.shape[1]]
            assert window.shape == mask.shape, "every piece lies on the plate"
            window += mask
        assert total.max() == 1
        crumbs = [_shape(generator) for _ in range(4)]
        for mask, (row, column) in zip(crumbs, scatter(crumbs, total > 0, 10.0, generator), strict=False):
            total[row : row + mask.shape[0], column : column + mask.shape[1]] += mask
        assert total.max() == 1


def test_a_piece_that_slides_past_its_neighbour_stops_at_the_next() -> None:
    tall, small, fork = np.ones((60, 12), bool), np.ones((8, 8), bool), np.ones((60, 50), bool)
    fork[10:50, :44] = False
    stopped = 0
    for seed in range(10):
        shape, corners = pack([tall, small, fork], 2.0, 1.0, np.random.default_rng(seed))
        total = np.zeros(shape, int)
        for mask, (row, column) in zip((tall, small, fork), corners, strict=True):
            total[row : row + mask.shape[0], column : column + mask.shape[1]] += mask
        assert total.max() == 1
        # the arms of the fork extend around the small piece to the tall one
        stopped += corners[2][1] == corners[0][1] + 12
    assert stopped >= 3


def test_a_broken_leaf_is_one_fragment() -> None:
    parted = 0
    for seed in range(6):
        one = fragment(hand(seed), camera(seed), letters=30, seed=seed, damage=broken_leaf(seed))
        _, parts = cv2.connectedComponents(one.surface.astype(np.uint8))
        sizes = np.bincount(parts[one.surface])[1:]
        parted += int((sizes > 0.1 * one.mask.sum()).sum() >= 2)
    assert broken_leaf(3) == broken_leaf(3)
    assert parted >= 3


def test_a_damaged_collection(tmp_path: Path) -> None:
    options = {"manuscripts": 2, "fragments": 6, "letters": (15, 25), "cameras": 3, "seed": 5}
    for folder in ("one", "two"):
        collection(tmp_path / folder, damaged=True, any_turn=True, **options)  # type: ignore[arg-type]
    first, second = (_files(tmp_path / folder) for folder in ("one", "two"))
    assert first == second
    truth = json.loads(first["truth.json"])
    assert len(truth) == 6
    for known in truth.values():
        assert len(known["letters"]) == len(known["boxes"]) >= 5
        assert 0.0 <= known["angle"] < 360.0
        assert known["damage"]["capture"]
        assert len(known["damage"]) >= 3
    assert sum(20.0 < known["angle"] < 340.0 for known in truth.values()) >= 4
    turned = json.loads(
        (collection(tmp_path / "turned", any_turn=True, **options).parent / "truth.json").read_text()  # type: ignore[arg-type]
    )
    assert all(known["damage"] == {} for known in turned.values())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _shape(generator: np.random.Generator) -> NDArray[np.bool_]:
    outline = blob(generator.uniform(8.0, 40.0), 0.8, generator)
    outline = outline - outline.min(axis=0) + generator.uniform(2.0, 12.0)
    columns, rows = np.ceil(outline.max(axis=0) + 5.0).astype(int).tolist()
    return filled((rows, columns), outline)


def _touching(labels: NDArray[np.int32]) -> int:
    """Return how many pairs of pieces have adjacent pixels."""
    pairs = set()
    for first, second in ((labels[:, :-1], labels[:, 1:]), (labels[:-1], labels[1:])):
        meet = (first != second) & (first > 0) & (second > 0)
        pairs |= {(min(a, b), max(a, b)) for a, b in zip(first[meet].tolist(), second[meet].tolist(), strict=True)}
    return len(pairs)
