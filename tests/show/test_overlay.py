"""The overlay: ink is coloured, everything outside the surface is dimmed, the arrow points up, and it is legible."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from membra.see.reading import Reading
from membra.show import overlay
from membra.show.overlay import Piece, draw_overlay, in_words, numbered, plain_view, with_legend
from membra.show.upright import upright_view
from readings import glyphs_of, square, written_page

ANGLES = [0.0, 30.0, 90.0, 200.0]


def near(picture: NDArray[np.uint8], colour: tuple[int, int, int], within: int = 30) -> NDArray[np.bool_]:
    return np.asarray(np.abs(picture.astype(int) - colour).max(axis=2) <= within)


@pytest.mark.parametrize("angle", ANGLES)
def test_what_is_drawn_lies_where_it_was_seen(angle: float) -> None:
    image, reading = written_page(angle)
    view = plain_view(image)
    assert max(view.width, view.height) == overlay.MIN_SIDE
    picture = np.asarray(draw_overlay(image, [Piece(reading)], view))
    middles = reading.glyphs.boxes[:, :2] + reading.glyphs.boxes[:, 2:] / 2
    for x, y in view.points(middles).astype(int):  # dark ink, with a share of its colour
        red, green, blue = picture[y, x].astype(int)
        assert red > green > blue
        assert red > 100
    low, far = view.points(reading.outline).min(axis=0), view.points(reading.outline).max(axis=0)
    beyond = np.concatenate([picture[: int(low[1]) - 60], picture[int(far[1]) + 30 :]])
    assert beyond.size == 0 or np.median(beyond) < 60
    assert near(picture, overlay.SURFACE).sum() > 500
    assert near(picture, overlay.LETTER).sum() > 200
    assert near(picture, overlay.LINE).sum() > 100


def test_without_an_outline_all_of_it_is_surface() -> None:
    image = np.full((200, 200, 3), 180, np.uint8)
    picture = np.asarray(
        draw_overlay(image, [Piece(Reading(glyphs_of(np.zeros((0, 4), np.int32))))], plain_view(image))
    )
    assert (picture[400:] == 180).all()
    beside = Reading(glyphs_of(np.zeros((0, 4), np.int32)), outline=square(20, 20, 80))
    picture = np.asarray(draw_overlay(image, [Piece(beside)], plain_view(image)))
    assert picture[-10, -10, 0] < 120
    assert (picture[250, 250] == 180).all()


@pytest.mark.parametrize("angle", ANGLES)
def test_the_arrow_points_where_the_writings_up_is(angle: float) -> None:
    """In the photograph as displayed; and straight up in an upright view."""
    image, reading = written_page(angle)
    for view, up in (
        (plain_view(image), (-np.sin(np.radians(angle)), -np.cos(np.radians(angle)))),
        (upright_view((image.shape[1], image.shape[0]), angle).scaled(4), (0.0, -1.0)),
    ):
        rows, columns = np.nonzero(near(np.asarray(draw_overlay(image, [Piece(reading)], view)), overlay.ARROW, 10))
        points = np.stack([columns, rows], axis=1).astype(float)
        along = (points - points.mean(axis=0)) @ up
        across = (points - points.mean(axis=0)) @ (-up[1], up[0])
        assert np.ptp(along) > 1.3 * np.ptp(across)
        assert abs(across[along > np.quantile(along, 0.95)]).mean() < 3  # a pointed tip
        front, back = (np.abs(across[part]).max() for part in (along > 0.2 * along.max(), along < 0.2 * along.min()))
        assert front > 1.5 * back


def test_a_piece_that_is_not_understood_says_so() -> None:
    image, reading = written_page()
    known = np.asarray(draw_overlay(image, [Piece(reading)], plain_view(image)))
    lost = np.asarray(draw_overlay(image, [Piece(replace(reading, angle=None))], plain_view(image)))
    assert near(lost, overlay.ARROW, 10).sum() < 0.5 * near(known, overlay.ARROW, 10).sum()
    doubted = np.asarray(draw_overlay(image, [Piece(reading, note="few letters, doubtful")], plain_view(image)))
    assert near(doubted, overlay.SURFACE, 10).sum() == 0
    assert near(doubted, overlay.DOUBT, 10).sum() > 300
    assert "orientation uncertain" in in_words(Piece(replace(reading, angle=None)))
    assert in_words(Piece(reading, 3)) == "piece 3: 12 letters 34 px high, turned by 0°, legibility 0.90"


def test_pieces_with_letters_are_numbered_where_there_are_several() -> None:
    letters, blank = Reading(glyphs_of(np.ones((3, 4), np.int32))), Reading(glyphs_of(np.zeros((0, 4), np.int32)))
    assert [piece.number for piece in numbered([letters, blank, letters], ["", "", ""])] == [1, 0, 2]
    assert [piece.number for piece in numbered([blank, letters], ["", ""])] == [0, 0]


@pytest.mark.parametrize("size", [(1, 1), (40, 3), (60, 9000), (5200, 4100)])
def test_photographs_of_every_size_can_be_drawn(size: tuple[int, int]) -> None:
    image = np.full((*size, 3), 128, np.uint8)
    reading = Reading(glyphs_of(np.array([(0, 0, 1, 1)], np.int32)), angle=7.0, ink=np.full((3, 3), 255, np.uint8))
    pieces = numbered([reading] * 14, [""] * 14)
    drawn = with_legend(draw_overlay(image, pieces, plain_view(image)), "a name " * 50, pieces)
    assert max(drawn.size) >= overlay.MIN_SIDE
    assert max(drawn.width, drawn.height) < overlay.MAX_SIDE + 1000


def test_the_legend_is_below_the_picture() -> None:
    image = Image.new("RGB", (1000, 600), "black")
    drawn = np.asarray(with_legend(image, "leaf.jpg", [Piece(written_page()[1])]))
    assert (drawn[:600] == 0).all()
    for colour in (overlay.SURFACE, overlay.INK, overlay.LINE, overlay.LETTER, overlay.ARROW, overlay.DOUBT):
        assert near(drawn[600:], colour, 0).sum() > 50
