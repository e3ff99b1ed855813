"""Tests from looks to readings: with a stub eye whose output is known, and with the one that ships."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import scenes
from membra import scribes
from membra.see.eye import READY, STRIDE, Eye, EyeSettings, Look, ready_eye
from membra.see.geometry import along_axes, outline_of, upright
from membra.see.glyphs import PATCH, Glyphs
from membra.see.letters import LetterSettings, find_lines
from membra.see.orientation import DIRECTIONS, Orientation
from membra.see.own_side import own_side
from membra.see.read import component_height, first_look, legibility, read_pieces, trusted_ink
from membra.see.reading import Reading
from turning import turned

SETTINGS, LETTERS = EyeSettings(), LetterSettings()
INK, SHEET, GROUND = 30, 200, 255  # grey levels: no interpolated value between two of them counts as ink
SURE, UNSURE = 1.0, 0.1  # length of a direction
HEIGHT = 30  # px, height of a drawn letter
SHIPPED = pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")

Picture = NDArray[np.uint8]
Boxes = NDArray[np.int32]
Mask = NDArray[np.bool_]


class StubEye(Eye):
    """A stub eye to which dark pixels are ink and white ones background. Each of its `replies` gives, for one look, the
    rotation of the writing (degrees), the letter height (px) and the certainty; the last repeats for further looks.
    """

    orientation: Orientation | None = None

    def __init__(self, *replies: tuple[float, float, float]) -> None:
        self.replies = replies
        self.pictures: list[Picture] = []

    def look(self, picture: Picture) -> Look:
        angle, height, sure = self.replies[min(len(self.pictures), len(self.replies) - 1)]
        self.pictures.append(picture)
        light = picture.mean(axis=2)
        ink, surface = light < (INK + SHEET) / 2, light < (SHEET + GROUND) / 2
        cells = tuple(-(-side // STRIDE) for side in light.shape)
        turn = np.empty((2, *cells), np.float32)
        turn[0], turn[1] = sure * np.cos(np.deg2rad(angle)), sure * np.sin(np.deg2rad(angle))
        as_bytes = [np.where(mask, 250, 5).astype(np.uint8) for mask in (ink, surface)]
        return Look(as_bytes[0], as_bytes[1], turn, np.full(cells, height, np.float32))


def read(picture: Picture, *replies: tuple[float, float, float]) -> Reading:
    """Read a picture as one piece, with a stub eye of these replies."""
    return read_pieces(picture, StubEye(*replies), SETTINGS, LETTERS, "one")[0]


def page(count: int = 24, *, high: int = 320, wide: int = 420) -> tuple[Picture, Boxes]:
    """Draw a sheet (high, wide, 3) with letters of unambiguous orientation; also return their boxes (n, 4)."""
    picture, boxes = np.full((high, wide, 3), SHEET, np.uint8), []
    for number in range(count):
        x, y = 40 + number % 6 * 55, 40 + number // 6 * 62
        picture[y : y + HEIGHT, x : x + 8] = INK
        picture[y : y + 7, x : x + 26] = INK
        if number % 2:
            picture[y + 14 : y + 20, x : x + 18] = INK
        boxes.append((x, y, 26, HEIGHT))
    return picture, np.array(boxes, np.int32).reshape(-1, 4)


def apart(one: float, other: float) -> float:
    """Return the degrees between two angles."""
    return abs((one - other + 180) % 360 - 180)


def matched(boxes: Boxes, truth: Boxes) -> list[int]:
    """Return, for each of the true boxes, the index of the nearest of `boxes`."""
    centres, middles = (part[:, :2] + part[:, 2:] / 2 for part in (boxes, truth))
    return [int(np.argmin(np.linalg.norm(centres - middle, axis=1))) for middle in middles]


@pytest.mark.parametrize("angle", [0.0, 8.0, 90.0, 137.0, 180.0, 250.0, 270.0, 355.0])
def test_a_turned_page_is_read_upright(angle: float) -> None:
    picture, boxes = page()
    straight = read(picture, (0.0, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE))
    picture, boxes, _ = turned(picture, boxes, angle)
    one = read(picture, (angle, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE))
    assert one.angle is not None
    assert apart(one.angle, angle) < 1
    assert one.letter_height == pytest.approx(HEIGHT, abs=1.5)
    assert len(one.glyphs) == len(boxes)
    assert scenes.found(one.glyphs.boxes, boxes).all()
    found = one.glyphs.patches[matched(one.glyphs.boxes, boxes)].astype(int)
    truth = straight.glyphs.patches[matched(straight.glyphs.boxes, page()[1])]
    assert np.abs(found - truth).mean() < 20, "letters in the patches stand upright"


@pytest.mark.parametrize("angle", [0.0, 25.0, 90.0, 200.0])
def test_ink_and_lines_can_be_laid_back_on_the_photograph(angle: float) -> None:
    picture, boxes, _ = turned(*page(), angle)
    one = read(picture, (angle, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE))
    rows, columns = np.nonzero(one.ink)
    laid = np.column_stack([columns, rows]) @ one.matrix[:, :2].T + one.matrix[:, 2]
    x, y = np.rint(laid).astype(int).T
    assert (picture[y, x, 0] < (INK + SHEET) / 2).mean() > 0.85
    assert len(one.lines) == 4
    across = one.lines[:, 2:] - one.lines[:, :2]
    for dx, dy in across.tolist():
        assert apart(np.degrees(np.arctan2(-dy, dx)), angle) < 3, "from its left end to its right"
    ends = one.lines.reshape(-1, 2)
    middles = boxes[:, :2] + boxes[:, 2:] / 2
    assert np.linalg.norm(ends[:, None] - middles[None], axis=2).min(axis=1).max() < HEIGHT


def test_a_first_look_that_was_wrong_is_mended_by_the_second() -> None:
    picture, boxes, _ = turned(*page(), 180.0)
    upside_down = read(picture, (0.0, HEIGHT, SURE), (180.0, SETTINGS.read_at, SURE), (0.0, SETTINGS.read_at, SURE))
    assert upside_down.angle is not None
    assert apart(upside_down.angle, 180.0) < 1
    assert scenes.found(upside_down.glyphs.boxes, boxes).all()
    eye = StubEye((180.0, HEIGHT / 2, SURE), (0.0, 2 * SETTINGS.read_at, SURE), (0.0, SETTINGS.read_at, SURE))
    found = read_pieces(picture, eye, SETTINGS, LETTERS, "one")[0]
    first, second = (max(one.shape) for one in eye.pictures[1:])
    assert second == pytest.approx(first / 2, rel=0.05), "letters were twice as high as it had been told"
    assert found.letter_height == pytest.approx(HEIGHT, abs=2)


def test_a_little_turn_at_the_second_look_changes_nothing() -> None:
    eye = StubEye((0.0, HEIGHT, SURE), (20.0, SETTINGS.read_at, SURE))
    found = read_pieces(page()[0], eye, SETTINGS, LETTERS, "one")[0]
    assert len(eye.pictures) == 2
    assert found.angle is not None
    assert apart(found.angle, 0.0) < 1


def test_lines_tell_by_how_much_the_second_look_is_still_turned() -> None:
    picture, boxes, _ = turned(*page(), 30.0)
    eye = StubEye((46.0, HEIGHT, SURE), (-9.0, SETTINGS.read_at, SURE), (4.0, SETTINGS.read_at, SURE))
    found = read_pieces(picture, eye, SETTINGS, LETTERS, "one")[0]
    assert len(eye.pictures) == 3
    assert found.angle is not None
    assert apart(found.angle, 30.0) < 1
    assert scenes.found(found.glyphs.boxes, boxes).all()


def test_an_eye_that_is_never_content_is_asked_three_times() -> None:
    eye = StubEye((0.0, HEIGHT, SURE), (0.0, 1.4 * SETTINGS.read_at, SURE))
    read_pieces(page()[0], eye, SETTINGS, LETTERS, "one")
    assert len(eye.pictures) == 1 + SETTINGS.max_looks
    eye = StubEye((0.0, 12.0, SURE), (0.0, 12.0, SURE))  # at the maximum scale
    read_pieces(page()[0], eye, replace(SETTINGS, max_scale=1.5), LETTERS, "one")
    assert len(eye.pictures) == 2


def test_a_look_at_a_piece_is_no_larger_than_the_limit() -> None:
    """So that memory does not grow with the photograph: letters of it are read smaller."""
    few = replace(SETTINGS, max_pixels=60_000)
    for angle in (0.0, 90.0):
        eye = StubEye((angle, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE))
        (found,) = read_pieces(turned(*page(), angle)[0], eye, few, LETTERS, "one")
        sizes = [one.shape[0] * one.shape[1] for one in eye.pictures[1:]]
        assert sizes
        assert max(sizes) < 1.2 * few.max_pixels, "and a margin"
        assert len(found.glyphs) == len(page()[1])


def test_what_may_be_grain_is_not_enlarged() -> None:
    """Small writing is; what stands no way may be none, and there is a lot of it."""
    picture, _ = page()
    for sure, factor in ((SURE, SETTINGS.max_scale), (UNSURE, 1.0)):
        eye = StubEye((0.0, 8.0, sure), (0.0, 8.0 * factor, sure))
        read_pieces(picture, eye, SETTINGS, LETTERS, "one")
        assert max(eye.pictures[1].shape) == pytest.approx(factor * max(picture.shape), abs=20)


def test_letters_of_the_other_side_are_not_read() -> None:
    """Dark letters are this side's, and as many that are half as dark shine through."""
    picture, boxes = page(wide=760)
    dark = picture < SHEET
    picture[dark] = 0
    picture[:, 370:][dark[:, :390]] = 112
    found = read(picture, (0.0, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE)).glyphs.boxes
    assert len(found) == len(boxes)
    assert scenes.found(found, boxes).all()


def test_writing_that_stands_no_way_has_no_angle_and_no_legibility() -> None:
    picture, _ = page()
    sure, unsure = (read(picture, (0.0, HEIGHT, how), (0.0, SETTINGS.read_at, how)) for how in (SURE, UNSURE))
    assert unsure.angle is None
    assert unsure.legibility < 1e-6
    assert sure.angle is not None
    assert sure.legibility > 0.6


def test_what_stands_no_way_is_read_as_it_lies_unless_another_turn_looks_upright() -> None:
    picture, _ = page()
    height = SETTINGS.read_at
    eye = StubEye((90.0, HEIGHT, 0.2), (60.0, height, 0.2), (60.0, height, 0.2), (0.0, height, 0.2))
    lying = read_pieces(picture, eye, SETTINGS, LETTERS, "one")[0]
    assert lying.angle is None
    assert np.abs(np.diff(lying.lines.reshape(-1, 2, 2)[:, :, 1], axis=1)).max() < HEIGHT / 2, "lines run across"
    turned_by = StubEye((90.0, HEIGHT, 0.2), (0.0, height, 0.3), (90.0, height, 0.2))
    standing = read_pieces(picture, turned_by, SETTINGS, LETTERS, "one")[0]
    assert standing.angle is None
    assert np.abs(np.diff(standing.lines.reshape(-1, 2, 2)[:, :, 0], axis=1)).max() < HEIGHT / 2, "lines run down"


def test_a_turn_that_only_a_look_at_it_as_it_lies_shows_is_known() -> None:
    height = SETTINGS.read_at
    found = read(page()[0], (90.0, HEIGHT, 0.2), (60.0, height, 0.2), (0.0, height, 0.6))
    assert found.angle is not None
    assert apart(found.angle, 0.0) < 1


class StubOrientation(Orientation):
    """A stub orientation network: `answers` in degrees, one for each reading; the last repeats."""

    def __init__(self, *answers: float) -> None:
        self.answers = list(answers)
        self.calls = 0

    def votes(self, windows: NDArray[np.uint8]) -> NDArray[np.float32]:
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        around = np.arange(DIRECTIONS) * (2 * np.pi / DIRECTIONS)
        logits = 6 * np.cos(around - np.deg2rad(answer))
        return np.tile(logits - np.log(np.exp(logits).sum()), (len(windows), 1)).astype(np.float32)


def read_with_votes(letters: StubOrientation, *replies: tuple[float, float, float]) -> Reading:
    """Read a page with a stub eye of these replies, and a stub orientation network."""
    eye = StubEye(*replies)
    eye.orientation = letters
    return read_pieces(page()[0], eye, SETTINGS, LETTERS, "one")[0]


def test_letters_turn_a_piece_that_the_eye_reads_wrongly() -> None:
    height = SETTINGS.read_at
    letters = StubOrientation(-90.0, 0.0)
    found = read_with_votes(letters, (90.0, HEIGHT, 0.5), (0.0, height, 0.5))
    assert letters.calls == 2, "before and after it was turned"
    assert found.angle is not None
    assert apart(found.angle, 0.0) < 12.1  # lines are searched up to 12 degrees from it
    assert np.abs(np.diff(found.lines.reshape(-1, 2, 2)[:, :, 1], axis=1)).max() < HEIGHT / 2, "lines run across"


def test_letters_that_ask_for_another_turn_once_they_are_turned_are_not_believed() -> None:
    letters = StubOrientation(180.0)
    found = read_with_votes(letters, (0.0, HEIGHT, 0.5), (0.0, SETTINGS.read_at, 0.5))
    assert letters.calls == 2
    assert found.angle is not None, "by the eye's word"
    assert apart(found.angle, 0.0) < 12.1
    unsure = read_with_votes(StubOrientation(180.0), (0.0, HEIGHT, 0.2), (0.0, SETTINGS.read_at, 0.2))
    assert unsure.angle is None


def test_letters_make_a_turn_known_that_the_eye_is_not_sure_of() -> None:
    found = read_with_votes(StubOrientation(0.0), (0.0, HEIGHT, 0.2), (0.0, SETTINGS.read_at, 0.2))
    assert found.angle is not None
    assert apart(found.angle, 0.0) < 12.1


def test_where_the_eye_is_all_but_sure_letters_are_not_asked() -> None:
    letters = StubOrientation(180.0)
    found = read_with_votes(letters, (0.0, HEIGHT, 0.95), (0.0, SETTINGS.read_at, 0.95))
    assert letters.calls == 0
    assert found.angle is not None
    assert apart(found.angle, 0.0) < 12.1


def test_a_sheet_without_ink() -> None:
    picture, _ = page(0)
    one = read(picture, (0.0, HEIGHT, SURE))
    assert len(one.glyphs) == 0
    assert one.glyphs.patches.shape == (0, PATCH, PATCH)
    assert (one.angle, one.legibility, one.letter_height) == (None, 0.0, 0.0)


def test_letters_that_the_tear_has_cut_are_left_out_if_enough_are_whole() -> None:
    for rows, left_out in ((4, True), (2, False)):
        picture, boxes = page(6 * rows)
        y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
        away = (x + y - 270) / np.sqrt(2)  # px from an oblique tear
        picture[away < 0] = GROUND
        found = read(picture, (0.0, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE)).glyphs
        corners = boxes[:, :2, None] + boxes[:, 2:, None] * np.array([0, 1])
        nearest, farthest = ((corners[:, :, end].sum(axis=1) - 270) / np.sqrt(2) for end in (0, 1))
        whole, cut = boxes[nearest > 8], boxes[(nearest < -12) & (farthest > 20)]
        assert len(cut) >= 2
        assert (len(whole) >= SETTINGS.enough) == left_out
        assert scenes.found(found.boxes, whole).all()
        on_tear = sum(bool((part < 0).mean() > 1 - SETTINGS.whole) for part in _under(found.boxes, away))
        assert (on_tear == 0) == left_out
        assert (found.dropped.get("cut off", 0) >= len(cut)) == left_out


def test_a_tear_that_takes_the_corner_of_a_box_leaves_the_letter() -> None:
    plain, boxes = page()
    y, x = np.mgrid[: plain.shape[0], : plain.shape[1]]
    corners: list[bool] = []
    for reach in range(360, 620, 2):
        away = (reach - x - y) / np.sqrt(2)  # px from an oblique tear, on the side where these letters have no ink
        picture = plain.copy()
        picture[away < 0] = GROUND
        found = read(picture, (0.0, HEIGHT, SURE), (0.0, SETTINGS.read_at, SURE)).glyphs
        lost = np.array([(part < 0).mean() for part in _under(boxes, away)])
        corners += scenes.found(found.boxes, boxes[(lost > 0.01) & (lost < 0.04)]).tolist()
    assert len(corners) >= 8
    assert np.mean(corners) >= 0.8


def _under(boxes: Boxes, field: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [field[y + 3 : y + high - 3, x + 3 : x + wide - 3] for x, y, wide, high in boxes.tolist()]


def test_pieces_are_read_one_by_one_and_chips_follow() -> None:
    one, _ = page(12, high=200, wide=380)
    picture = np.full((520, 900, 3), GROUND, np.uint8)
    picture[20:220, 500:880] = one
    picture[280:480, 10:390] = one
    picture[60:85, 100:125] = SHEET  # a chip
    eye = StubEye((0.0, HEIGHT * 640 / 900, SURE), (0.0, SETTINGS.read_at, SURE))
    found = read_pieces(picture, eye, SETTINGS, LETTERS)
    assert [len(reading.glyphs) for reading in found] == [12, 12, 0]
    for reading, (x, y) in zip(found, ((690, 120), (200, 380), (112, 72)), strict=True):
        assert cv2.pointPolygonTest(reading.outline, (x, y), False) > 0
    assert (found[0].glyphs.boxes[:, 0] >= 500).all()
    assert (found[1].glyphs.boxes[:, 1] >= 280).all()
    assert (found[2].angle, found[2].legibility) == (None, 0.0)


def large(count: int = 24) -> Picture:
    """Draw a page of 2000 px."""
    return np.asarray(cv2.copyMakeBorder(page(count)[0], 0, 1000, 0, 1580, cv2.BORDER_REPLICATE), np.uint8)


def test_the_first_look_is_taken_again_if_letters_are_low() -> None:
    for height, sides in ((16.0, [640]), (8.0, [640, 1600]), (4.0, [640, 2000]), (10.5, [640, 1280])):
        eye = StubEye((0.0, height, 0.9), (0.0, 20.0, SURE))
        _, scale, pieces = first_look(large(), eye, SETTINGS, "one")
        assert [max(one.shape) for one in eye.pictures] == sides
        assert scale == pytest.approx(sides[-1] / 2000)
        assert pieces.count == 1


def test_of_several_looks_the_one_with_most_writing_is_kept() -> None:
    eye = StubEye((0.0, 8.0, 0.9), (0.0, 20.0, UNSURE))
    look, scale, _ = first_look(large(), eye, SETTINGS, "one")
    assert len(eye.pictures) > 1
    assert scale == 640 / 2000
    assert look.ink.shape[1] == 640


def test_a_small_photograph_is_looked_at_as_it_is() -> None:
    eye = StubEye((0.0, HEIGHT, SURE))
    look, scale, _ = first_look(page()[0], eye, SETTINGS, "one")
    assert scale == 1.0
    assert look.ink.shape == page()[0].shape[:2]
    assert len(eye.pictures) == 1


def test_a_photograph_without_ink_is_looked_at_larger_and_smaller() -> None:
    eye = StubEye((0.0, HEIGHT, SURE))
    look, scale, pieces = first_look(large(0), eye, SETTINGS)
    assert [max(one.shape) for one in eye.pictures] == [640, 1280, 2000, 800]
    assert look.ink.shape == eye.pictures[0].shape[:2]
    assert (scale, pieces.count) == (640 / 2000, 1)


def seen(ink: NDArray[np.uint8], surface: NDArray[np.uint8]) -> Look:
    cells = tuple(-(-side // STRIDE) for side in ink.shape)
    return Look(ink, surface, np.zeros((2, *cells), np.float32), np.full(cells, 28, np.float32))


def test_ink_away_from_the_surface_is_not_believed() -> None:
    ink, surface = np.zeros((60, 120), np.uint8), np.zeros((60, 120), np.uint8)
    ink[10:50, 20:23] = ink[10:50, 90:93] = 200
    surface[:, :60] = 255
    inside = np.ones(ink.shape, bool)
    found = trusted_ink(seen(ink, surface), inside, SETTINGS)
    assert np.array_equal(found[:, :60], ink[:, :60])
    assert not found[:, 60:].any()
    surface[:] = 255
    assert np.array_equal(trusted_ink(seen(ink, surface), inside, SETTINGS), ink)
    inside[:, 60:] = False
    assert np.array_equal(trusted_ink(seen(ink, surface), inside, SETTINGS), found), "nor what is outside of the piece"


def strewn(lights: list[float]) -> tuple[Picture, NDArray[np.uint8]]:
    """Draw a sheet with one stroke of each of these grey levels; also return its ink."""
    view = np.full((320, 480, 3), 200, np.uint8)
    ink = np.zeros(view.shape[:2], np.uint8)
    for number, light in enumerate(lights):
        y, x = 20 + number // 10 * 60, 20 + number % 10 * 45
        view[y : y + 26, x : x + 10] = round(light)
        ink[y : y + 26, x : x + 10] = 240
    return view, ink


def kept(view: Picture, ink: NDArray[np.uint8], light: NDArray[np.bool_]) -> float:
    """Return the share of the ink under the mask `light` that is kept."""
    found = own_side(view, np.full_like(ink, 255), ink, SETTINGS)
    assert set(np.unique(found[ink > 0]).tolist()) <= {0, 240}
    assert not found[ink == 0].any()
    return float((found[light] > 0).mean())


def test_pale_ink_of_the_other_side_is_left_out() -> None:
    draw = np.random.default_rng(2)
    for sheet in (np.uint8(0), np.uint8(255)):  # a negative as well
        lights = [*draw.uniform(30, 50, 25), *draw.uniform(150, 165, 20)]
        view, ink = strewn(list(draw.permutation(lights)))
        dark, pale = (ink > 0) & (view[..., 0] < 100), (ink > 0) & (view[..., 0] > 100)
        view = view ^ sheet
        assert kept(view, ink, dark) == 1.0
        assert kept(view, ink, pale) == 0.0


def test_ink_that_fades_by_degrees_is_kept() -> None:
    view, ink = strewn(list(np.random.default_rng(3).permutation(np.linspace(30, 170, 45))))
    assert kept(view, ink, ink > 0) == 1.0


@pytest.mark.parametrize(("dark", "pale"), [(4, 30), (9, 5), (40, 0), (0, 40)])
def test_few_dark_letters_or_all_alike_say_nothing_of_the_other_side(dark: int, pale: int) -> None:
    view, ink = strewn([40.0] * dark + [160.0] * pale)
    assert kept(view, ink, ink > 0) == 1.0


def test_what_lies_on_no_surface_does_not_say_how_light_the_sheet_is() -> None:
    view, ink = strewn([40.0] * 20 + [112.0] * 20)
    surface = np.asarray(cv2.dilate(ink, np.ones((13, 13), np.uint8)), np.uint8)
    view[surface == 0] = 110  # a table as dark as the paler ink
    assert np.array_equal(own_side(view, surface, ink, SETTINGS) > 0, ink > 0), "paler by half, not by more"


def strokes(*heights: int) -> Mask:
    ink = np.zeros((200, 20 * len(heights) + 20), bool)
    for number, height in enumerate(heights):
        ink[20 : 20 + height, 10 + 20 * number : 18 + 20 * number] = True
    return ink


def test_the_height_of_letters_by_their_components() -> None:
    alone = component_height(strokes(*[30] * 90), 28.0)
    assert alone == pytest.approx(30.0, abs=0.2)
    assert component_height(strokes(*[30] * 90, *[2] * 20), 28.0) == alone, "specks do not count"
    assert component_height(strokes(*[30] * 90, *[150] * 4), 28.0) == alone, "nor what runs over several lines"
    even = component_height(strokes(*[20] * 45, *[32] * 45), 28.0)
    assert even == pytest.approx((20**20 * 32**32) ** (1 / 52), rel=0.01), "each counts by its ink"


def test_what_the_eye_expects_counts_as_six_letters() -> None:
    assert component_height(strokes(*[32] * 6), 28.0) == pytest.approx((28 * 32) ** 0.5)
    for ink in (strokes(), strokes(*[11] * 9), strokes(*[62] * 9), strokes(*[2] * 90)):
        assert component_height(ink, 28.0) == 28.0


def test_the_height_does_not_jump() -> None:
    """Neither with the scale of the look, nor where half of the letters have ascenders."""
    letters = [19] * 40 + [34] * 24
    low, high = (component_height(strokes(*letters), expected) for expected in (26.0, 32.0))
    assert low == pytest.approx(high, rel=0.03)
    twice = component_height(strokes(*(2 * height for height in letters)), 56.0)
    assert twice == pytest.approx(2 * component_height(strokes(*letters), 28.0), rel=1e-6)
    more, fewer = (component_height(strokes(*[19] * n, *[34] * (64 - n)), 28.0) for n in (39, 43))
    assert fewer < more < 1.05 * fewer


angles = st.floats(-720, 720)


@given(angles, st.floats(0.2, 1.0), st.floats(0.2, 2.5), st.integers(0, 2**32))
@settings(deadline=None)
def test_a_piece_is_laid_upright(angle: float, scale: float, factor: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    within = np.zeros((90, 120), bool)
    top, left = draw.integers(0, 60, 2)
    within[top : top + 25, left : left + 40] = True
    matrix, (wide, high) = upright(within, scale, angle, factor, SETTINGS.max_pixels)
    # the direction of writing maps to the right, and upwards maps to up
    turn = np.deg2rad(angle)
    along, above = np.array([np.cos(turn), -np.sin(turn)]), np.array([-np.sin(turn), -np.cos(turn)])
    np.testing.assert_allclose(matrix[:, :2] @ along, [factor, 0], atol=1e-9)
    np.testing.assert_allclose(matrix[:, :2] @ above, [0, -factor], atol=1e-9)
    rows, columns = np.nonzero(within)
    laid = np.column_stack([columns, rows]) / scale @ matrix[:, :2].T + matrix[:, 2]
    assert (laid >= 7.9).all()
    assert (laid <= np.array([wide, high]) - 7.9).all()
    assert wide - np.ptp(laid[:, 0]) == pytest.approx(16.5, abs=0.6), "with a margin all around, and no more"
    assert high - np.ptp(laid[:, 1]) == pytest.approx(16.5, abs=0.6)


def test_a_large_piece_is_not_enlarged_beyond_the_limit() -> None:
    matrix, (wide, high) = upright(np.ones((200, 300), bool), 0.5, 30.0, 2.0, 40_000)
    assert wide * high < 50_000
    assert np.hypot(matrix[0, 0], matrix[0, 1]) < 0.5


@given(angles, st.floats(0.5, 2.5), st.integers(0, 2**32))
@settings(deadline=None)
def test_a_box_of_upright_ink_lies_where_it_was(angle: float, factor: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    within = np.ones((200, 300), bool)
    matrix, _ = upright(within, 1.0, angle, factor, SETTINGS.max_pixels)
    centre, size = np.array([draw.uniform(60, 240), draw.uniform(60, 140)]), draw.uniform(8, 24, 2)
    at = matrix[:, :2] @ centre + matrix[:, 2]
    box = np.rint([[*(at - factor * size / 2), *(factor * size)]]).astype(np.int32)
    back = np.asarray(cv2.invertAffineTransform(matrix), np.float64)
    (found,) = along_axes(box, back, (200, 300, 3))
    low, reach = found[:2], found[2:]
    assert np.abs(low + reach / 2 - centre).max() < 2.5
    turn = np.deg2rad(angle)
    spread = np.abs([[np.cos(turn), np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ size
    assert np.abs(reach - spread).max() < 4


def test_boxes_stay_within_the_photograph() -> None:
    boxes = np.array([[-5, -5, 20, 20], [90, 40, 30, 30], [200, 200, 9, 9]], np.int32)
    found = along_axes(boxes, np.eye(2, 3), (50, 100, 3))
    assert found.tolist() == [[0, 0, 15, 15], [90, 40, 10, 10], [99, 49, 1, 1]]
    assert along_axes(boxes[:0], np.eye(2, 3), (50, 100, 3)).shape == (0, 4)


def test_the_outline_of_a_piece_is_in_the_photographs_pixels() -> None:
    within = np.zeros((50, 80), bool)
    assert outline_of(~within, 0.5).shape == (0, 2), "all of it has none"
    within[10:30, 20:60] = True
    within[40, 70] = True  # a speck beside it
    outline = outline_of(within, 0.5)
    assert outline.dtype == np.int32
    assert np.abs(outline.min(axis=0) - (40, 20)).max() <= 1
    assert np.abs(outline.max(axis=0) - (120, 60)).max() <= 1


def test_lines_from_the_top() -> None:
    upper = [(10, 12, 20, 30), (60, 8, 20, 30), (150, 10, 25, 34)]
    lower = [(40, 80, 20, 30), (90, 84, 20, 26)]
    boxes = np.array(upper + lower, np.int32)
    for seed in range(4):
        found = find_lines(np.random.default_rng(seed).permutation(boxes), 30.0)
        np.testing.assert_allclose(found, [[10, 27, 175, 27], [40, 96, 110, 96]], atol=1.5)
    assert find_lines(boxes[:0], 30.0).shape == (0, 4)


def glyphs(count: int) -> Glyphs:
    return Glyphs(np.zeros((count, 4), np.int32), np.zeros((count, PATCH, PATCH), np.uint8), {})


def test_legibility_grows_with_letters_and_falls_with_disagreement() -> None:
    ink = np.zeros((64, 64), np.uint8)
    ink[10:20] = 255
    surface = np.full_like(ink, 255)
    certain, doubtful = seen(ink, surface), seen(np.where(ink > 0, 150, 0).astype(np.uint8), surface)
    assert legibility(certain, glyphs(8), 1.0) == pytest.approx(0.5)
    assert legibility(certain, glyphs(0), 1.0) == 0.0
    assert legibility(seen(np.zeros_like(ink), surface), glyphs(8), 1.0) == 0.0
    by_letters = [legibility(certain, glyphs(count), 1.0) for count in (1, 4, 8, 40, 400)]
    by_agreement = [legibility(certain, glyphs(40), sure) for sure in (0.1, 0.2, 0.3, 0.4)]
    assert by_letters == sorted(set(by_letters))
    assert by_agreement == sorted(set(by_agreement))
    assert max(*by_letters, *by_agreement) < 1
    assert legibility(doubtful, glyphs(8), 1.0) < 0.4


@pytest.fixture(scope="module")
def leaf() -> scribes.Drawn:
    camera = replace(scribes.camera(8), letter_height=26.0, background="grey")
    return scribes.fragment(scribes.hand(8), camera, letters=80, seed=8, turn=0.0)


@pytest.fixture(scope="module")
def straight(leaf: scribes.Drawn) -> Reading:
    return read_pieces(leaf.image, ready_eye(), SETTINGS, LETTERS, "one")[0]


@SHIPPED
def test_boxes_lie_on_true_ink(leaf: scribes.Drawn, straight: Reading) -> None:
    share = np.array([leaf.ink[y : y + high, x : x + wide].mean() for x, y, wide, high in straight.glyphs.boxes])
    assert len(share) >= 50
    assert (share > 0.15).mean() > 0.97
    white = straight.glyphs.patches.mean(axis=(1, 2)) / 255
    assert ((white > 0.05) & (white < 0.6)).mean() > 0.95, "ink is white in the patches, and the sheet black"


@SHIPPED
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_letters_of_a_turned_fragment_are_the_same(leaf: scribes.Drawn, straight: Reading, quarters: int) -> None:
    turned_leaf = np.ascontiguousarray(np.rot90(leaf.image, quarters))
    one = read_pieces(turned_leaf, ready_eye(), SETTINGS, LETTERS, "one")[0]
    assert len(one.glyphs) == pytest.approx(len(straight.glyphs), rel=0.1)
    expected = turned(leaf.image, straight.glyphs.boxes, 90.0 * quarters)[1]
    same = scenes.found(one.glyphs.boxes, expected)
    assert same.mean() > 0.85
    pairs = np.array(matched(one.glyphs.boxes, expected))
    alike = [
        np.corrcoef(first.ravel(), second.ravel())[0, 1]
        for first, second in zip(straight.glyphs.patches[same], one.glyphs.patches[pairs[same]], strict=True)
    ]
    assert np.mean(alike) > 0.85
