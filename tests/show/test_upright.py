"""Rotated photographs are shown upright, with their boxes and letters."""

import numpy as np
import pytest

from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.scribes import camera, fragment, hand
from membra.show.evidence import letter_height
from membra.show.strips import cut_letter
from membra.show.upright import rim_colour, upright_sizes, upright_view
from turning import turned

ONE = fragment(hand(3), camera(3), letters=40, seed=3)
ANGLES = [0.0, 12.0, 33.0, 90.0, 180.0, 205.0, 270.0, 300.0]


@pytest.mark.parametrize("angle", ANGLES)
def test_a_turned_photograph_is_shown_as_it_was(angle: float) -> None:
    image, boxes, _ = turned(ONE.image, ONE.boxes, angle)
    view = upright_view((image.shape[1], image.shape[0]), angle)
    shown = np.asarray(view.draw(image)).astype(int)
    high, wide = ONE.image.shape[:2]
    top, left = round((view.height - high) / 2), round((view.width - wide) / 2)
    assert np.abs(shown[top : top + high, left : left + wide] - ONE.image).mean() < 6  # half a pixel of error gives 4
    frames = view.frames(boxes)
    assert np.abs(frames[:, 2:] - ONE.boxes[:, 2:]).max() < 2 + 3 * (angle % 90 > 0)  # boxes are integers
    middles = frames[:, :2] + frames[:, 2:] / 2 - (left, top)
    assert np.abs(middles - ONE.boxes[:, :2] - ONE.boxes[:, 2:] / 2).max() < 1.5


def test_of_letters_that_lie_across_only_the_size_is_known() -> None:
    """At 45 degrees tall and wide letters have the same box: the middle is taken, and all sides stay positive."""
    boxes = np.array([(0, 0, 40, 40), (0, 0, 41, 40), (0, 0, 3, 40)])
    sizes = upright_sizes(boxes, 45.0)
    assert np.abs(sizes[0] - 40 / np.sqrt(2)).max() < 1e-9
    assert np.abs(sizes[1] - sizes[0]).max() < 1
    assert sizes.min() > 0
    assert upright_sizes(np.zeros((0, 4), int), 45.0).shape == (0, 2)


def test_a_piece_is_cut_out_of_its_photograph() -> None:
    piece = np.array([(100, 50), (300, 50), (300, 150), (100, 150)], np.int32)
    view = upright_view((1000, 400), 0.0, piece)
    assert (view.width, view.height) == (208, 108)
    assert view.points(piece)[0].tolist() == [4, 4]
    quarter = upright_view((1000, 400), 90.0, piece)
    assert (quarter.width, quarter.height) == (108, 208)
    assert max(view.within(104).width, view.within(104).height) == 104
    at_the_edge = upright_view((300, 150), 0.0, piece)  # clipped to the photograph
    assert at_the_edge.points(np.array([(300, 150)])).round().tolist() == [[at_the_edge.width, at_the_edge.height]]


def test_what_lies_beyond_the_photograph_has_its_rims_colour() -> None:
    image = np.full((60, 90, 3), (10, 90, 200), np.uint8)
    image[20:40, 20:40] = 255
    assert rim_colour(image) == (10, 90, 200)
    shown = np.asarray(upright_view((90, 60), 45.0).draw(image))
    assert shown[0, 0].tolist() == [10, 90, 200]
    assert shown[shown.shape[0] // 2, :, 0].max() > 200


def test_a_photograph_that_was_shrunk_beforehand_gives_the_same_view() -> None:
    view = upright_view((ONE.image.shape[1], ONE.image.shape[0]), 30.0).within(200)
    half = np.ascontiguousarray(ONE.image[: ONE.image.shape[0] // 2 * 2 : 2, : ONE.image.shape[1] // 2 * 2 : 2])
    small = np.asarray(view.draw(half, 0.5)).astype(int)
    assert np.abs(np.asarray(view.draw(ONE.image)).astype(int) - small).mean() < 8


@pytest.mark.parametrize("angle", [15.0, 90.0, 180.0, 311.0])
def test_letters_are_cut_upright(angle: float) -> None:
    image, boxes, _ = turned(ONE.image, ONE.boxes, angle)
    high = float(np.median(ONE.boxes[:, 3]))
    alike: list[float] = []
    unturned: list[float] = []
    for box, upright in zip(boxes, ONE.boxes, strict=True):
        expected = cut_letter(ONE.image, upright, high)
        for found, angles in ((alike, angle), (unturned, None)):
            cut = cut_letter(image, box, high, angle=angles).resize(expected.size)
            pixels = [np.asarray(picture.convert("L"), float).ravel() for picture in (expected, cut)]
            found.append(float(np.corrcoef(pixels)[0, 1]))
    assert np.median(alike) > 0.9
    assert np.median(unturned) < 0.7


def test_a_letters_height_is_the_measured_one_or_that_of_the_boxes() -> None:
    boxes = np.array([(0, 0, 30, 10), (50, 0, 30, 14)], np.int32)
    bag = Bag(np.eye(2), np.array([1, 1]), np.array([0, 1]), 0.0)
    embeddings = np.eye(2, dtype=np.float32)
    assert letter_height(Description(boxes, embeddings, bag)) == 12
    assert letter_height(Description(boxes, embeddings, bag, angle=90.0)) == 30
    assert letter_height(Description(boxes, embeddings, bag, angle=90.0, letter_height=25.0)) == 25
    assert letter_height(Description(boxes[:0], embeddings[:0], bag)) == 0
