"""Tests of rotation and letter height: synthetic looks of known angle, and drawn fragments at any angle."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from membra import scribes
from membra.describe.recipe import MEMBRA
from membra.see.eye import READY, STRIDE, Look, ready_eye
from membra.see.read import read_pieces
from membra.see.turn import along_lines, cells_at, direction, ink_by_cell, letter_height

Mask = NDArray[np.bool_]


def seen(ink: Mask, height: float = 12.0, angle: float = 0.0) -> Look:
    """Make a look at ink (h, w) whose letters are `height` px high and rotated by `angle` degrees everywhere."""
    cells = tuple(-(-side // STRIDE) for side in ink.shape)
    turn = np.empty((2, *cells), np.float32)
    turn[0], turn[1] = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    bytes_ = np.where(ink, 255, 0).astype(np.uint8)
    return Look(bytes_, np.full_like(bytes_, 255), turn, np.full(cells, height, np.float32))


def blank(high: int = 64, wide: int = 96) -> Mask:
    return np.zeros((high, wide), bool)


def apart(one: float, other: float) -> float:
    """Return the degrees between two angles."""
    return abs((one - other + 180) % 360 - 180)


def test_the_share_of_ink_in_each_cell() -> None:
    ink = blank()
    ink[16:26, 32:40] = True  # 80 px in one cell
    ink[40:52, 60:68] = True  # 12 x 8 px, over four
    found = ink_by_cell(seen(ink))
    expected = np.zeros((4, 6))
    expected[1, 2] = 80
    expected[2, 3] = expected[2, 4] = 8 * 4
    expected[3, 3] = expected[3, 4] = 4 * 4
    np.testing.assert_allclose(found, expected / STRIDE**2, atol=1e-6)


def test_specks_do_not_count() -> None:
    ink = blank()
    ink[4:14, 4:8] = True  # a third of a letter's height and more
    ink[20:28, 36:44] = True  # less
    ink[20, 70] = True
    assert np.flatnonzero(ink_by_cell(seen(ink, 27.0))).tolist() == [0]
    assert np.flatnonzero(ink_by_cell(seen(ink, 24.0))).tolist() == [0, 8]
    assert np.flatnonzero(ink_by_cell(seen(ink, 3.0))).tolist() == [0, 8], "nothing of a pixel, however low letters are"


def test_only_what_is_within_counts() -> None:
    ink, within = blank(), blank()
    ink[16:28, 10:22] = True
    ink[16:28, 70:82] = True
    within[:, :48] = True
    both, one = ink_by_cell(seen(ink)), ink_by_cell(seen(ink), within)
    assert one.sum() == pytest.approx(both.sum() / 2)
    assert not one[:, 3:].any()
    assert not ink_by_cell(seen(ink), blank()).any()


def test_ink_at_the_edge_of_a_picture_and_ink_all_over() -> None:
    ink = blank(21, 35)
    ink[9:, 23:] = True
    assert ink_by_cell(seen(ink)).sum() == pytest.approx(144 / STRIDE**2)
    full = ink_by_cell(seen(~blank(20, 40)))
    np.testing.assert_allclose(full, [[1, 1, 0.5], [0.25, 0.25, 0.125]], atol=1e-6)
    assert not ink_by_cell(seen(blank())).any()


def test_the_cell_of_a_point_is_its_row_and_column() -> None:
    row, column = cells_at(np.array([[5.0, 40.0], [95.9, 0.0], [500.0, 500.0], [np.nan, np.nan]]), seen(blank()))
    assert list(zip(row.tolist(), column.tolist(), strict=True)) == [(2, 0), (0, 5), (3, 5), (0, 0)]


@given(st.floats(-179.5, 180))
def test_the_direction_is_the_angle_counter_clockwise(angle: float) -> None:
    look = seen(blank(), angle=angle)
    found, length = direction(look, np.ones((4, 6), np.float32))
    assert apart(found, angle) < 0.01
    assert length == pytest.approx(1.0, abs=1e-5)


def test_the_direction_goes_by_the_weight_of_cells() -> None:
    look = seen(blank(), angle=30.0)
    look.turn[:, :, 3:] = np.array([0.0, 1.0])[:, None, None]  # the right half is rotated by 90 degrees
    weight = np.zeros((4, 6), np.float32)
    assert direction(look, weight) == (0.0, 0.0)
    weight[:, :3] = 0.2
    assert direction(look, weight) == pytest.approx((30.0, 1.0))
    weight[:, 3:] = 0.2
    assert direction(look, weight) == pytest.approx((60.0, np.cos(np.deg2rad(30))), rel=1e-4)
    weight[:, 3:] = 20.0
    assert direction(look, weight)[0] == pytest.approx(90.0, abs=1.0)


def test_what_stands_anyhow_has_no_direction() -> None:
    look = seen(blank())
    turned = np.deg2rad(15.0 * np.arange(24).reshape(4, 6))
    look.turn[:] = np.stack([np.cos(turned), np.sin(turned)])
    assert direction(look, np.ones((4, 6), np.float32))[1] < 1e-6


def test_the_letter_height_is_the_median_by_ink() -> None:
    look = replace(seen(blank()), height=np.arange(10.0, 34.0, dtype=np.float32).reshape(4, 6))
    weight = np.zeros((4, 6), np.float32)
    assert letter_height(look, weight) == 0.0
    weight[0, 5] = 0.1
    assert letter_height(look, weight) == 15.0
    weight[:] = 0.1
    assert letter_height(look, weight) == pytest.approx(21.5, abs=0.5)
    weight[0, 2] = 10.0  # one cell has more ink than all others
    assert letter_height(look, weight) == 12.0


def lined(angle: float, height: int = 12, side: int = 420) -> Mask:
    """Draw a round sheet (side, side) with lines of words, rotated by `angle` degrees counter-clockwise."""
    page = np.zeros((side, side), np.uint8)
    draw = np.random.default_rng(1)
    for y in range(0, side - height, 2 * height):
        for x in range(0, side - height, height):
            if draw.random() < 0.8:
                page[y : y + height, x : x + int(draw.integers(3, height - 2))] = 255
    matrix = cv2.getRotationMatrix2D((side / 2, side / 2), angle, 1.0)  # counter-clockwise, as in OpenCV
    turned = cv2.warpAffine(page, matrix, (side, side)) > 127
    rows, columns = np.mgrid[:side, :side] - side / 2
    return np.asarray(turned & (np.hypot(rows, columns) < 0.47 * side))


@pytest.mark.parametrize("angle", [0.0, 7.0, 100.0, -35.5, 180.0, 263.0])
@pytest.mark.parametrize("off", [-9.0, -3.0, 0.0, 5.0, 10.0])
def test_lines_mend_the_angle(angle: float, off: float) -> None:
    assert apart(along_lines(lined(angle), angle + off, 12.0), angle) <= 0.75


def test_without_ink_the_angle_stays() -> None:
    few = blank()
    few[10:13, 10:25] = True
    for ink in (blank(), few):
        assert along_lines(ink, 33.0, 12.0) == 33.0


@pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")
def test_drawn_fragments_are_read_at_any_angle() -> None:
    draw = np.random.default_rng(11)
    right, angles = 0, (np.arange(8) * 45 + draw.uniform(0, 45, 8)).tolist()  # all around
    for seed, angle in enumerate(angles, start=400):
        camera = replace(scribes.camera(seed), letter_height=float(draw.uniform(22, 40)))
        one = scribes.fragment(scribes.hand(seed), camera, letters=60, seed=seed, turn=angle)
        assert apart(one.angle, angle) < 0.01
        found = read_pieces(one.image, ready_eye(), MEMBRA.reading, MEMBRA.letters, "one")[0].angle
        right += found is not None and 0 <= found < 360 and apart(found, angle) < 5
    assert right >= 7
