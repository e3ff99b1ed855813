"""Tests of ink: the paper's Otsu threshold and polarity, the local threshold, and the letter height."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from skimage.filters import threshold_otsu, threshold_sauvola

from membra import scribes
from membra.see.ink import InkSettings, find_ink, otsu, sauvola
from membra.see.lines import find_lines

WORD = scribes.word(scribes.hand(3), "שלום עולם", height=40)


def photograph(luminance: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(luminance[..., None], 3, axis=2)


def page(height: int = 40) -> NDArray[np.uint8]:
    line = scribes.word(scribes.hand(3), "אבגד הוזח טיכל", height=height)
    sheet = np.full((line.shape[0] * 3, line.shape[1] + 2 * height), 255, np.uint8)
    for row in range(3):
        sheet[row * line.shape[0] : (row + 1) * line.shape[0], height : height + line.shape[1]] = line
    return sheet


def test_otsu_is_scikit_images_with_text_white() -> None:
    expected = threshold_otsu(WORD) >= WORD  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(otsu(WORD) > 0, expected)


def test_text_is_white_whichever_way_it_was_written() -> None:
    np.testing.assert_array_equal(otsu(WORD) > 0, otsu(255 - WORD) > 0)


def test_sauvola_is_scikit_images() -> None:
    """Inside, away from the border, where the two implementations pad differently."""
    expected = threshold_sauvola(WORD, window_size=31, k=0.2, r=128)  # type: ignore[no-untyped-call]
    inside = (slice(16, -16), slice(16, -16))
    np.testing.assert_allclose(sauvola(WORD, 31, 0.2)[inside], expected[inside], atol=0.5)


@pytest.mark.parametrize("height", [20, 40, 80])
def test_letters_come_out_at_one_height_from_any_scale(height: int) -> None:
    sheet = page(height)
    ink = find_ink(photograph(sheet), np.ones(sheet.shape, bool), InkSettings())
    assert ink.letter_height == pytest.approx(height, rel=0.2)
    assert ink.scale * ink.letter_height == pytest.approx(40, rel=0.02)
    assert ink.binary.shape == pytest.approx(np.array(sheet.shape) * ink.scale, abs=2)


def test_light_text_on_dark_is_found_too() -> None:
    sheet = page()
    everywhere = np.ones(sheet.shape, bool)
    dark = find_ink(photograph(sheet), everywhere, InkSettings())
    light = find_ink(photograph(255 - sheet), everywhere, InkSettings())
    agreement = (dark.binary == light.binary).mean()
    assert agreement > 0.98


def test_uneven_light_does_not_hide_ink_from_the_local_threshold() -> None:
    sheet = page().astype(np.float32)
    shaded = np.clip(sheet * np.linspace(0.25, 1.0, sheet.shape[1]), 0, 255).astype(np.uint8)
    everywhere = np.ones(sheet.shape, bool)
    even = find_ink(photograph(page()), everywhere, InkSettings()).binary > 0
    found = find_ink(photograph(shaded), everywhere, InkSettings())
    binary = cv2.resize(found.binary, even.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
    assert (binary & even).sum() > 0.9 * even.sum()


def pale_page() -> NDArray[np.uint8]:
    """Strokes of varying paleness, of which a threshold for dark ink leaves only fragments."""
    sheet = cv2.GaussianBlur(page(), (0, 0), 1.2).astype(np.float32)
    dryness = np.linspace(0.16, 0.22, sheet.shape[1]) * (1 + 0.3 * np.sin(np.arange(sheet.shape[1]) / 4))
    return np.round(225 - (255 - sheet) * dryness).astype(np.uint8)


def test_pale_ink_is_found_as_dark_ink_is() -> None:
    pale = pale_page()
    everywhere = np.ones(pale.shape, bool)
    dark = find_ink(photograph(page()), everywhere, InkSettings())
    found = find_ink(photograph(pale), everywhere, InkSettings())
    assert found.letter_height == pytest.approx(dark.letter_height, rel=0.1)
    binary = cv2.resize(found.binary, dark.binary.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
    assert (binary & (dark.binary > 0)).sum() > 0.65 * (dark.binary > 0).sum()


def test_the_dark_shadow_of_a_gutter_does_not_hide_that_the_ink_is_pale() -> None:
    pale = pale_page()
    alone = find_ink(photograph(pale), np.ones(pale.shape, bool), InkSettings())
    beside = np.full((pale.shape[0], 160), 225, np.uint8)
    beside[:, 70:76] = beside[:, 90:94] = 60
    both = np.hstack([pale, beside])
    found = find_ink(photograph(both), np.ones(both.shape, bool), InkSettings())
    assert found.letter_height == pytest.approx(alone.letter_height, rel=0.1)
    left = cv2.resize(found.binary, None, fx=1 / found.scale, fy=1 / found.scale)[:, : pale.shape[1]] > 127
    expected = cv2.resize(alone.binary, pale.shape[::-1]) > 127
    assert (left & expected).sum() > 0.8 * expected.sum()


def test_a_blank_page_has_no_ink_and_no_height() -> None:
    blank = np.full((200, 300), 230, np.uint8)
    ink = find_ink(photograph(blank), np.ones(blank.shape, bool), InkSettings())
    assert (ink.binary.max(), ink.scale, ink.letter_height) == (0, 1.0, 0.0)


def lines_of(height: int, gap: int) -> NDArray[np.uint8]:
    """Draw six lines, 255 on ink, `gap` px apart."""
    words = "אבגד הוזח טיכל מנסעפ"
    # Different letters in each line: the same ones would form columns as regular as the lines.
    lines = [255 - scribes.word(scribes.hand(3), words[row:] + words[:row], height=height) for row in range(6)]
    sheet = np.zeros((7 * gap + lines[0].shape[0], max(line.shape[1] for line in lines)), np.uint8)
    for row, line in enumerate(lines):
        part = sheet[row * gap : row * gap + line.shape[0], : line.shape[1]]
        np.maximum(part, line, out=part)
    return sheet


@pytest.mark.parametrize(("height", "gap"), [(40, 80), (40, 110), (20, 44)])
def test_the_line_pitch_is_measured(height: int, gap: int) -> None:
    lines = find_lines(lines_of(height, gap), height)
    assert lines.pitch == pytest.approx(gap, rel=0.1)
    assert not lines.turned


def test_lines_that_run_down_are_told() -> None:
    assert find_lines(np.ascontiguousarray(lines_of(40, 80).T), 40).turned


def test_no_lines_where_there_is_no_ink() -> None:
    lines = find_lines(np.zeros((300, 200), np.uint8), 40)
    assert (lines.pitch, lines.turned) == (0.0, False)


def test_a_wrong_scale_is_put_right_by_the_line_pitch() -> None:
    """Vertical strokes that join all lines give components as high as the page; the line pitch gives the height."""
    written = lines_of(40, 80)
    for column in range(20, written.shape[1], 90):
        written[10:-10, column : column + 4] = 255
    ink = find_ink(photograph(255 - written), np.ones(written.shape, bool), InkSettings())
    assert ink.letter_height == pytest.approx(40, rel=0.35)


def test_blurred_letters_are_no_fatter_than_sharp_ones() -> None:
    sheet = page()
    everywhere = np.ones(sheet.shape, bool)
    blurred = np.asarray(cv2.GaussianBlur(sheet, (0, 0), 3.0), np.uint8)
    share = (find_ink(photograph(sheet), everywhere, InkSettings()).binary > 0).mean()
    with_it, without = (
        (find_ink(photograph(blurred), everywhere, InkSettings(sharpen=sharpen)).binary > 0).mean()
        for sharpen in (1.0, 0.0)
    )
    assert abs(with_it - share) < abs(without - share)


def test_only_the_fragment_is_looked_at() -> None:
    sheet = page()
    inside = np.zeros(sheet.shape, bool)
    inside[: sheet.shape[0] // 3] = True
    ink = find_ink(photograph(sheet), inside, InkSettings())
    assert ink.binary.shape == pytest.approx(np.array([sheet.shape[0] // 3, sheet.shape[1]]) * ink.scale, abs=2)
    nothing = find_ink(photograph(sheet), np.zeros(sheet.shape, bool), InkSettings())
    assert nothing.binary.max() == 0
