"""Tests of splitting into pieces: synthetic looks, whose truth is known, and a few drawn plates with the eye."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from membra.scribes import camera, hand, plate
from membra.see.eye import READY, STRIDE, EyeSettings, Look, ready_eye
from membra.see.letters import LetterSettings
from membra.see.read import read_pieces
from membra.see.split import Pieces, reading_order, split

HEIGHT = 16  # px of a letter
GROUND, SHEET, TISSUE = (30, 30, 60), (200, 180, 150), (120, 120, 120)

Mask = NDArray[np.bool_]


class Table:
    """The look at a table, on which pieces are placed."""

    def __init__(self, high: int = 400, wide: int = 600) -> None:
        self.picture = np.full((high, wide, 3), GROUND, np.uint8)
        self.surface = np.zeros((high, wide), np.uint8)
        self.ink = np.zeros((high, wide), np.uint8)
        self.pieces: list[Mask] = []

    def lay(self, piece: Mask, angle: float = 0.0, *, tone: tuple[int, int, int] = SHEET, shift: float = 0.0) -> None:
        """Place a piece with lines of writing at `angle` degrees, shifted across them by `shift` letter heights."""
        written = piece & lines(piece.shape, angle, shift)
        self.picture[piece] = tone
        self.surface[piece] = 250
        self.ink[written] = 250
        self.picture[written] = 20
        self.pieces.append(piece)

    def look(self) -> Look:
        high, wide = self.ink.shape
        cells = (-(-high // STRIDE), -(-wide // STRIDE))
        turn = np.stack([np.ones(cells, np.float32), np.zeros(cells, np.float32)])
        return Look(self.ink, self.surface, turn, np.full(cells, HEIGHT, np.float32))

    def split(self) -> Pieces:
        return split(self.look(), self.picture)


def lines(shape: tuple[int, ...], angle: float, shift: float) -> Mask:
    """Return (h, w) True on ink: rows of letters, no two rows alike."""
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    turned = np.deg2rad(angle)
    along = (x * np.cos(turned) - y * np.sin(turned)) / HEIGHT + 1000
    down = (x * np.sin(turned) + y * np.cos(turned)) / HEIGHT + shift + 1000
    row = np.floor(down / 2)
    letter = np.floor(along + 0.37 * row)
    gap = (letter * 7 + row * 13) % 6 == 0
    return np.asarray((down % 2 < 1) & ((along + 0.37 * row) % 1 < 0.65) & ~gap)


def disc(shape: tuple[int, ...], x: float, y: float, radius: float) -> Mask:
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return np.asarray((columns - x) ** 2 + (rows - y) ** 2 <= radius**2)


def box(shape: tuple[int, ...], left: int, top: int, right: int, bottom: int) -> Mask:
    mask = np.zeros(shape, bool)
    mask[top:bottom, left:right] = True
    return mask


def overlap(one: Mask, other: Mask) -> float:
    return float((one & other).sum() / (one | other).sum())


def test_pieces_apart_are_each_one() -> None:
    table = Table()
    for number, (x, y) in enumerate(((110, 110), (320, 100), (120, 290), (450, 270))):
        table.lay(disc(table.ink.shape, x, y, 85), angle=35.0 * number)
    found = table.split()
    assert found.count == 4
    assert found.chips() == []
    for mask, piece in zip(found.written(), table.pieces, strict=True):
        assert overlap(mask, piece) > 0.85


def test_touching_pieces_with_different_directions_are_cut() -> None:
    for angle in (15.0, 50.0, 90.0):
        table = Table()
        table.lay(disc(table.ink.shape, 200, 200, 95))
        table.lay(disc(table.ink.shape, 382, 200, 95), angle=angle, shift=0.7)
        found = table.split()
        assert found.count == 2, f"turned by {angle} degrees"
        for mask, piece in zip(found.written(), table.pieces, strict=True):
            assert overlap(mask, piece) > 0.85


def test_a_leaf_torn_nearly_in_two_is_one() -> None:
    table = Table()
    leaf = disc(table.ink.shape, 200, 200, 95) | disc(table.ink.shape, 370, 200, 95)
    table.lay(leaf)
    assert table.split().count == 1


def test_writing_across_on_the_same_leaf_parts_nothing() -> None:
    """A leaf is one piece where its halves hang together deeply, though one half is written across the other."""
    for angle in (40.0, 90.0):
        table = Table()
        shape = table.ink.shape
        leaf, left = disc(shape, 200, 200, 95) | disc(shape, 340, 200, 95), box(shape, 0, 0, 270, 400)
        table.lay(leaf & left)
        table.lay(leaf & ~left, angle=angle)
        assert table.split().count == 1, f"turned by {angle} degrees"


def test_a_cracked_leaf_is_one() -> None:
    table = Table()
    table.lay(box(table.ink.shape, 100, 80, 500, 320))
    for x in range(298, 303):  # from edge to edge, crooked
        for y in range(80, 320):
            at = y, x + round(6 * np.sin(y / 17))
            table.surface[at], table.ink[at], table.picture[at] = 0, 0, 15
    found = table.split()
    assert found.count == 1
    assert overlap(found.written()[0], table.pieces[0]) > 0.85


def test_parts_of_a_leaf_on_one_tissue_are_one_and_without_it_they_are_two() -> None:
    for tissue in (True, False):
        table = Table()
        if tissue:
            table.picture[60:340, 80:520] = TISSUE
        table.lay(box(table.ink.shape, 100, 80, 290, 320))
        table.lay(box(table.ink.shape, 304, 80, 500, 320), shift=0.0 if tissue else 1.1, angle=0.0 if tissue else 12.0)
        assert table.split().count == (1 if tissue else 2)


def test_holes_do_not_part_a_leaf() -> None:
    table = Table()
    table.lay(box(table.ink.shape, 60, 60, 540, 340))
    for x, y, radius in ((200, 150, 30), (330, 220, 45), (300, 120, 25)):
        hole = disc(table.ink.shape, x, y, radius)
        table.surface[hole], table.ink[hole], table.picture[hole] = 0, 0, GROUND
    found = table.split()
    assert found.count == 1
    assert found.written()[0][220, 330], "what is in a hole is in the outline"


def test_a_page_without_ground_is_one_piece() -> None:
    table = Table()
    table.lay(np.ones(table.ink.shape, bool))
    between = box(table.ink.shape, 270, 0, 330, 400)  # two columns
    table.ink[between], table.picture[between] = 0, SHEET
    table.surface[box(table.ink.shape, 290, 0, 305, 400)] = 60  # and a dark fold
    found = table.split()
    assert found.count == 1
    assert (found.labels == 1).all()


def test_an_open_book_without_ground_is_one_piece() -> None:
    """However dark its gutter is: what fills the photograph is a page, and no piece on a table."""
    table = Table()
    table.lay(np.ones(table.ink.shape, bool))
    gutter = box(table.ink.shape, 288, 0, 313, 400)
    table.surface[gutter], table.ink[gutter], table.picture[gutter] = 0, 0, 20
    found = table.split()
    assert found.count == 1
    assert (found.labels == 1).all()


def test_chips_are_counted_and_are_in_no_piece() -> None:
    table = Table()
    table.lay(disc(table.ink.shape, 150, 200, 100))
    table.lay(disc(table.ink.shape, 450, 200, 100), angle=40)
    chips = [disc(table.ink.shape, x, y, 11) for x, y in ((300, 60), (300, 340))]
    for chip in chips:
        table.surface[chip], table.picture[chip] = 250, SHEET
    found = table.split()
    assert found.count == 2
    assert len(found.chips()) == 2
    for mask, chip in zip(found.chips(), chips, strict=True):
        assert overlap(mask, chip) > 0.6
    assert not any((mask & chip).any() for mask in found.written() for chip in chips)


def test_what_touches_a_piece_or_runs_off_the_photograph_is_no_chip() -> None:
    """A bit of tape on the edge of a piece, and a ruler that is cut off by the photograph's."""
    table = Table()
    table.lay(disc(table.ink.shape, 200, 180, 100))
    tape, ruler = disc(table.ink.shape, 323, 180, 25), box(table.ink.shape, 0, 360, 600, 400)
    for blank in (tape, ruler):
        table.surface[blank], table.picture[blank] = 250, SHEET
        found = table.split()
        assert (found.count, found.chips()) == (1, [])


def test_bars_of_a_ruler_are_no_writing() -> None:
    table = Table()
    table.lay(disc(table.ink.shape, 150, 180, 100))
    ruler = box(table.ink.shape, 20, 350, 580, 390)
    table.surface[ruler], table.picture[ruler] = 220, 230
    for x in range(30, 570, 20):
        table.ink[355:385, x : x + 4] = 250
    assert table.split().count == 1


def test_a_gloss_in_the_margin_and_a_deep_fold_part_nothing() -> None:
    table = Table()
    leaf = box(table.ink.shape, 60, 40, 560, 360)
    table.lay(leaf)
    margin = box(table.ink.shape, 60, 40, 200, 360)
    table.ink[margin], table.picture[margin] = 0, SHEET
    gloss = margin & box(table.ink.shape, 70, 180, 130, 230) & lines(leaf.shape, 25, 0.4)
    table.ink[gloss], table.picture[gloss] = 250, 20
    fold = box(table.ink.shape, 196, 40, 203, 330)  # nearly down to the lower edge
    table.surface[fold], table.picture[fold] = 0, 15
    assert table.split().count == 1


def test_writing_is_never_lost() -> None:
    table = Table()
    assert (table.split().labels == 1).all(), "no ink: all of it"
    table.lay(disc(table.ink.shape, 200, 200, 100))
    table.surface[:] = 0
    found = table.split()
    inside = (found.labels > 0) & (found.labels <= found.count)
    assert (table.ink > 0)[inside].sum() > 0.95 * (table.ink > 0).sum(), "ink without surface"


@pytest.mark.parametrize("seed", range(6))
def test_all_ink_of_pieces_is_in_one_of_them(seed: int) -> None:
    draw = np.random.default_rng(seed)
    table = Table(500, 700)
    for x in (110, 340, 570):
        for y in (120, 370):
            at = x + draw.uniform(-15, 15), y + draw.uniform(-15, 15)
            table.lay(disc(table.ink.shape, *at, draw.uniform(60, 110)), angle=draw.uniform(0, 180))
    found = table.split()
    assert found.count == 6
    inside = (found.labels > 0) & (found.labels <= found.count)
    assert (table.ink > 0)[inside].sum() > 0.99 * (table.ink > 0).sum()


def test_reading_order_is_row_by_row_from_the_left() -> None:
    shape = (300, 400)
    rows = [
        [box(shape, 10, 12, 90, 90), box(shape, 120, 30, 200, 105), box(shape, 230, 10, 390, 80)],
        [box(shape, 20, 130, 160, 200), box(shape, 200, 120, 380, 210)],
        [box(shape, 100, 230, 300, 290)],
    ]
    masks = [mask for row in rows for mask in row]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(masks))
        found = [int(order[index]) for index in reading_order([masks[index] for index in order])]
        assert found == list(range(len(masks)))
    assert reading_order([]) == []


@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 70), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_any_look_has_pieces(seed: int, high: int, wide: int, share: float) -> None:
    draw = np.random.default_rng(seed)
    table = Table(high, wide)
    table.surface[:] = draw.integers(0, 256, (high, wide)) * (draw.random((high, wide)) < share)
    table.ink[:] = cv2.resize(draw.integers(0, 256, (3, 3)).astype(np.uint8), (wide, high))
    found = table.split()
    assert found.labels.shape == (high, wide)
    assert found.count >= 1
    assert len(found.written()) + len(found.chips()) == found.labels.max()
    assert all(mask.any() for mask in (*found.written(), *found.chips()))


@pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")
def test_the_eye_reads_each_piece_of_a_plate() -> None:
    known, right, found, pieces = 0, 0, 0, 0
    for seed, ground in enumerate(("blue", "black", "white")):
        seen_by = replace(camera(seed), background=ground, letter_height=26.0)
        drawn = plate([hand(seed), hand(seed + 9)], seen_by, pieces=4, seed=seed, letters=(15, 30), chips=2)
        readings = [
            reading
            for reading in read_pieces(drawn.image, ready_eye(), EyeSettings(), LetterSettings())
            if len(reading.glyphs)
        ]
        for piece in drawn.pieces:
            if piece.chip:
                continue
            pieces += 1
            own = [reading for reading in readings if _covers(reading.outline, drawn.labels == piece.label)]
            found += len(own) == 1
            for reading in own[:1]:
                assert 0.8 < reading.letter_height / piece.letter_height < 1.25
                if reading.angle is not None:
                    known += 1
                    right += abs((reading.angle - piece.angle + 180) % 360 - 180) < 5
    assert found >= pieces - 2, "two that touch and run together are both lost"
    assert right >= known - 1 >= pieces - 4


@pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")
def test_a_plate_read_as_one_is_one() -> None:
    seen_by = replace(camera(1), background="black", letter_height=26.0)
    drawn = plate([hand(1)], seen_by, pieces=3, seed=1, letters=(10, 20))
    readings = read_pieces(drawn.image, ready_eye(), EyeSettings(), LetterSettings(), "one")
    assert len(readings) == 1
    assert len(readings[0].outline) == 0
    assert len(readings[0].glyphs) > 20


def _covers(outline: NDArray[np.int32], piece: Mask) -> bool:
    """Return whether an outline (k, 2) is that of a piece (h, w)."""
    mask = cv2.fillPoly(np.zeros(piece.shape, np.uint8), [outline], 1) > 0 if len(outline) else np.ones_like(piece)
    return overlap(np.asarray(mask), piece) > 0.7
