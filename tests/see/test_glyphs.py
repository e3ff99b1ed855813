"""Tests of glyphs: which components are kept, their boxes, and how they are fitted into patches."""

import numpy as np
import pytest
from numpy.typing import NDArray

from membra.see.glyphs import PATCH, GlyphSettings, cut_glyphs, lay_out
from membra.see.ink import Ink


def ink(*rectangles: tuple[int, int, int, int], scale: float = 1.0) -> Ink:
    """Draw filled rectangles x, y, width, height on an empty sheet."""
    binary = np.zeros((300, 300), np.uint8)
    for x, y, width, height in rectangles:
        binary[y : y + height, x : x + width] = 255
    return Ink(binary, scale, 40.0)


def frame(side: int) -> NDArray[np.uint8]:
    binary = np.zeros((300, 300), np.uint8)
    binary[5 : 5 + side, 5 : 5 + side] = 255
    binary[7 : 3 + side, 7 : 3 + side] = 0
    return binary


def test_area_limits_are_inclusive_and_counted() -> None:
    found = cut_glyphs(ink((0, 0, 20, 15), (50, 0, 23, 13), (0, 50, 60, 50), (100, 100, 61, 50)), GlyphSettings())
    assert found.boxes.tolist() == [[0, 0, 20, 15], [0, 50, 60, 50]]  # 300 and 3000 px are letters, 299 and 3050 not
    assert {why: count for why, count in found.dropped.items() if count} == {"too small": 1, "too large": 1}


def test_components_are_joined_over_corners() -> None:
    found = cut_glyphs(ink((0, 0, 15, 15), (15, 15, 15, 15)), GlyphSettings())
    assert found.boxes.tolist() == [[0, 0, 30, 30]]


def test_a_box_with_too_little_ink_is_dropped() -> None:
    thin = Ink(frame(250), 1.0, 40.0)  # 2 px wide: 0.8 % of its box... and 1984 px of ink
    assert cut_glyphs(thin, GlyphSettings()).dropped["sparse box"] == 1
    assert len(cut_glyphs(thin, GlyphSettings(box_white=0.0, patch_white=0.0))) == 1


def test_a_patch_with_too_little_ink_is_dropped() -> None:
    line = ink((0, 0, 280, 2))  # 60 px long in the patch, and less than one high
    assert cut_glyphs(line, GlyphSettings()).dropped["sparse patch"] == 1


def test_fitpad_keeps_the_shape_and_centres_it() -> None:
    patch = lay_out(ink((10, 10, 20, 40)).binary, (10, 10, 20, 40), GlyphSettings())
    rows, columns = np.nonzero(patch)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 61, 17, 46)


def test_stretched_fills_the_patch() -> None:
    patch = lay_out(ink((10, 10, 20, 40)).binary, (10, 10, 20, 40), GlyphSettings(fit="stretched"))
    assert patch.min() == 255


def test_context_shows_the_neighbour() -> None:
    binary = ink((100, 100, 20, 20), (122, 100, 8, 20)).binary
    patch = lay_out(binary, (100, 100, 20, 20), GlyphSettings(fit="context"))
    assert patch[32, 32] == 255
    assert patch[32, 60] == 255  # the neighbour, 2 px beyond the box
    assert patch[32, 49] == 0  # the gap between the two
    corner = lay_out(ink((0, 0, 20, 20)).binary, (0, 0, 20, 20), GlyphSettings(fit="context"))
    assert corner.shape == (PATCH, PATCH)  # the window may extend beyond the page
    assert corner[:14].max() == 0


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_boxes_are_in_pixels_of_the_photograph(scale: float) -> None:
    found = cut_glyphs(ink((40, 60, 20, 30), scale=scale), GlyphSettings())
    assert found.boxes.tolist() == [[40 / scale, 60 / scale, 20 / scale, 30 / scale]]


def test_no_ink_gives_no_glyphs_of_the_right_shape() -> None:
    found = cut_glyphs(ink(), GlyphSettings())
    assert (found.boxes.shape, found.patches.shape) == ((0, 4), (0, PATCH, PATCH))


def test_a_blot_is_dropped_and_counted() -> None:
    letters = [(10 + 45 * column, 10 + 45 * row, 10, 36) for row in range(3) for column in range(5)]
    found = cut_glyphs(ink(*letters, (250, 200, 40, 40)), GlyphSettings(blot=1.9))
    assert len(found) == 15
    assert found.dropped["blot"] == 1
    assert len(cut_glyphs(ink(*letters, (250, 200, 40, 40)), GlyphSettings())) == 16


def test_a_crease_is_no_letter_unless_the_text_is_turned() -> None:
    letters = [(10 + 45 * column, 10 + 45 * row, 10, 36) for row in range(3) for column in range(5)]
    written = ink(*letters, (270, 10, 8, 200))
    found = cut_glyphs(written, GlyphSettings(slender=6.0))
    assert (len(found), found.dropped["slender"]) == (15, 1)
    turned = Ink(written.binary, 1.0, 40.0, turned=True)
    assert len(cut_glyphs(turned, GlyphSettings(slender=6.0))) == 16


@pytest.mark.parametrize(("whole", "kept"), [(15, 15), (11, 12)])
def test_letters_cut_by_the_tear_count_only_where_there_are_few(whole: int, kept: int) -> None:
    letters = [(60 + 35 * (number % 5), 10 + 45 * (number // 5), 10, 36) for number in range(whole)]
    written = ink((20, 10, 20, 36), *letters)
    inside = np.ones((300, 300), bool)
    inside[:, :30] = False  # the tear goes through the first
    found = cut_glyphs(Ink(written.binary, 1.0, 40.0, inside=inside), GlyphSettings(inside=0.995))
    assert len(found) == kept
    assert found.dropped["cut off"] == whole + 1 - kept


def test_specks_at_the_torn_edge_are_no_letters() -> None:
    letters = [(60 + 35 * (number % 5), 60 + 45 * (number // 5), 10, 36) for number in range(15)]
    # The edge is 30 px from the left, its margin 6 px wide. A speck that reaches it, a stroke, a letter; and one
    # that does not.
    written = ink((36, 10, 12, 12), (36, 40, 30, 10), (36, 100, 20, 36), (40, 200, 12, 12), *letters).binary
    inside = np.ones((300, 300), bool)
    inside[:, :30] = False
    torn, whole = (Ink(written, 2.0, 20.0, inside=where, margin=6) for where in (inside, np.ones((300, 300), bool)))
    found = cut_glyphs(torn, GlyphSettings(min_area=120, speck=0.6))
    assert found.dropped["edge speck"] == 1
    assert [18, 5, 6, 6] not in found.boxes.tolist()
    assert len(found) == 18
    assert len(cut_glyphs(torn, GlyphSettings(min_area=120))) == 19
    assert len(cut_glyphs(whole, GlyphSettings(min_area=120, speck=0.6))) == 19  # a page has no torn edge


def test_boxes_are_counted_from_the_photographs_corner() -> None:
    written = ink((40, 60, 20, 30), scale=2.0)
    found = cut_glyphs(Ink(written.binary, 2.0, 20.0, left=100, top=7, turned=True), GlyphSettings())
    assert found.boxes.tolist() == [[120, 37, 10, 15]]
    assert found.turned
