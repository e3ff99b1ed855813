"""Tests of letters in upright ink: points, specks and rulings are rejected, touching letters are cut where thin."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from membra.see.letters import LetterSettings, find_letters

SETTINGS = LetterSettings()
UNIT = SETTINGS.height

Box = tuple[int, int, int, int]


def page(*boxes: Box, high: int = 400, wide: int = 600) -> NDArray[np.uint8]:
    """Draw ink (high, wide) in boxes x, y, width, height."""
    ink = np.zeros((high, wide), np.uint8)
    for x, y, width, height in boxes:
        ink[y : y + height, x : x + width] = 255
    return ink


def found(ink: NDArray[np.uint8]) -> list[Box]:
    return [tuple(box) for box in find_letters(ink, SETTINGS).boxes.tolist()]


def test_letters_in_the_order_of_their_rows() -> None:
    letters = [(300, 20, 30, 40), (350, 20, 40, 38), (100, 90, 10, 40), (20, 150, 30, 60)]
    for order in (letters, letters[::-1]):
        assert found(page(*order)) == letters


def test_a_box_is_as_large_as_its_ink() -> None:
    ink = np.zeros((200, 200), np.uint8)
    cv2.line(ink, (50, 60), (80, 95), 255, 5)
    rows, columns = np.nonzero(ink)
    left, top = columns.min(), rows.min()
    assert found(ink) == [(left, top, columns.max() - left + 1, rows.max() - top + 1)]


@pytest.mark.parametrize(
    "speck",
    [
        (300, 200, 1, 1),
        (300, 200, 6, 6),  # a point
        (300, 200, 14, 14),  # enough ink for a letter, but low and narrow
        (300, 200, 20, 4),  # long enough for a letter, but with little ink
        (300, 200, 3, 31),
    ],
)
def test_points_and_specks_are_no_letters(speck: Box) -> None:
    letter = (100, 100, 30, 40)
    letters = find_letters(page(letter, speck), SETTINGS)
    assert letters.boxes.tolist() == [list(letter)]
    assert letters.dropped == {"too small": 1, "a line": 0}


def test_small_letters_are_letters() -> None:
    yod, thin = (100, 100, 12, 17), (200, 100, 4, 26)
    assert found(page(yod, thin)) == [yod, thin]


@pytest.mark.parametrize("ruling", [(50, 200, 500, 6), (50, 200, 100, 8), (300, 20, 6, 350), (40, 200, 550, 30)])
def test_rulings_are_no_letters(ruling: Box) -> None:
    letter = (10, 10, 30, 40)
    letters = find_letters(page(letter, ruling), SETTINGS)
    assert letters.boxes.tolist() == [list(letter)]
    assert letters.dropped == {"too small": 0, "a line": 1}


def test_the_stroke_of_a_letter_is_no_ruling() -> None:
    final, roof = (100, 100, 8, 80), (200, 100, 70, 8)  # thin, but not longer than letters are
    assert found(page(final, roof)) == [final, roof]
    word = [(100, 300, 220, 8), *((100 + 45 * index, 300, 10, 40) for index in range(5))]
    assert len(found(page(*word))) > 1, "letters that hang on one line"


@pytest.mark.parametrize("first", [30, 40, 50])
def test_two_letters_run_together_are_cut_where_it_is_thin(first: int) -> None:
    ink = page((100, 100, first, 40), (100 + first, 120, 8, 4), (108 + first, 100, 82 - first, 40))
    one, other = find_letters(ink, SETTINGS).boxes.tolist()
    cut = other[0]
    assert 100 + first <= cut <= 108 + first
    assert one == [100, 100, cut - 100, 40]
    assert other == [cut, 100, 190 - cut, 40]


def test_a_word_run_together_is_cut_into_its_letters() -> None:
    starts = list(range(50, 450, 50))
    ink = page(*((x, 100, 42, 40) for x in starts), (50, 136, 392, 4))
    boxes = find_letters(ink, SETTINGS).boxes
    assert len(boxes) == pytest.approx(len(starts), abs=1)
    cuts = boxes[1:, 0]
    on_letters = [x for x in cuts.tolist() if any(start + 6 < x < start + 36 for start in starts)]
    assert len(on_letters) <= 1
    assert (boxes[:-1, 0] + boxes[:-1, 2] == cuts).all(), "nothing is lost between them"


def test_letters_of_two_lines_that_touch_are_cut_between_the_lines() -> None:
    upper, tail, lower = (100, 100, 40, 40), (130, 140, 5, 40), (105, 180, 40, 40)
    boxes = find_letters(page(upper, tail, lower), SETTINGS).boxes
    assert len(boxes) == 2
    assert boxes[0, 1] == 100
    assert 140 <= boxes[1, 1] <= 180
    assert boxes[0, 1] + boxes[0, 3] == boxes[1, 1]
    assert (boxes[1, 1] + boxes[1, 3]) == 220
    lamed = page((100, 100, 8, 50), (100, 145, 30, 8), (122, 145, 8, 48))
    assert found(lamed) == [(100, 100, 30, 93)], "a high letter is no two"


def test_what_is_cut_off_is_a_letter_only_with_ink_enough() -> None:
    ink = page((100, 100, 40, 40), (140, 138, 90, 1))  # a letter with a hairline
    assert len(found(ink)) == 1
    assert found(ink)[0][:2] == (100, 100)


def test_no_ink_no_letters() -> None:
    for ink in (page(), np.zeros((1, 1), np.uint8)):
        letters = find_letters(ink, SETTINGS)
        assert letters.boxes.shape == (0, 4)
        assert letters.boxes.dtype == np.int32
        assert letters.dropped == {"too small": 0, "a line": 0}


def test_letters_go_by_the_height_that_is_set() -> None:
    boxes = [(100, 100, 30, 40), (200, 100, 10, 10), (20, 300, 560, 6), (300, 100, 42, 40), (342, 115, 60, 40)]
    ink = page(*boxes)
    twice = np.asarray(cv2.resize(ink, None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST), np.uint8)
    once, double = find_letters(ink, SETTINGS), find_letters(twice, replace(SETTINGS, height=2 * UNIT))
    assert len(once.boxes) == 3
    np.testing.assert_allclose(double.boxes, 2 * once.boxes, atol=4)
    assert double.dropped == once.dropped == {"too small": 1, "a line": 1}


@given(st.integers(0, 2**32), st.integers(1, 160), st.integers(1, 160), st.floats(0.05, 0.95))
@settings(max_examples=80, deadline=None)
def test_any_ink_has_letters_with_ink_in_them(seed: int, high: int, wide: int, share: float) -> None:
    draw = np.random.default_rng(seed)
    rough = draw.random((-(-high // 9), -(-wide // 9))) < share
    ink = np.kron(rough, np.ones((9, 9), np.uint8))[:high, :wide].astype(np.uint8) * 255
    letters = find_letters(ink, SETTINGS)
    for x, y, width, height in letters.boxes.tolist():
        assert x >= 0
        assert y >= 0
        assert x + width <= wide
        assert y + height <= high
        assert ink[y : y + height, x : x + width].any()
        assert max(width, height) >= SETTINGS.min_side * UNIT
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    components = stats[1:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]]
    if (components <= np.array([SETTINGS.max_wide, SETTINGS.max_high]) * UNIT).all():
        assert sum(letters.dropped.values()) + len(letters.boxes) == len(components)
