"""Tests of the orientation network: votes of single letters, combined with the eye's estimate."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from membra import scribes
from membra.errors import MembraError
from membra.see.eye import ORIENTATION, READY, open_eye
from membra.see.geometry import along_axes
from membra.see.glyphs import PATCH, Glyphs
from membra.see.letters import LetterSettings
from membra.see.orientation import AS_MANY, DIRECTIONS, MAX_LETTERS, SIDE, Orientation, standing, windows_of
from membra.see.read import CERTAIN, letter_windows
from membra.see.reading import Reading

FAR_ABOVE = -12.0  # log of a negligible probability


@pytest.fixture(scope="module")
def network() -> Orientation:
    return Orientation(ORIENTATION.read_bytes(), threads=1)


def votes_for(direction: int, letters: int, sharp: float = 1.0) -> np.ndarray:
    """Return votes of letters that all favour one direction, and to a lesser degree its neighbours."""
    apart = np.abs((np.arange(DIRECTIONS) - direction + DIRECTIONS // 2) % DIRECTIONS - DIRECTIONS // 2)
    logits = sharp * np.maximum(-2.0 * apart, FAR_ABOVE)
    return np.tile(logits - np.log(np.exp(logits).sum()), (letters, 1)).astype(np.float32)


def strokes(seed: int = 0) -> np.ndarray:
    """Draw a page of short strokes (400, 600)."""
    draw, page = np.random.default_rng(seed), np.zeros((400, 600), np.uint8)
    for x, y, down, across in draw.integers((20, 20, -18, -18), (580, 380, 18, 18), (120, 4)).tolist():
        cv2.line(page, (x, y), (x + across, y + down), 255, 4)
    return page


@given(off=st.floats(-179.0, 179.0), sure=st.floats(0.05, 1.0))
def test_without_letters_the_eyes_word_stands(off: float, sure: float) -> None:
    """The prior for upright photographs does not contradict it: the view was rotated by the eye's estimate."""
    angle, certain = standing(np.zeros((0, DIRECTIONS), np.float32), off, sure, -off)
    assert abs((angle - off + 180) % 360 - 180) < 2.0
    assert 0.0 < certain < 1.0


def test_what_nobody_knows_is_taken_for_upright_but_not_for_certain() -> None:
    angle, certain = standing(np.zeros((0, DIRECTIONS), np.float32), 0.0, 0.0, 90.0)
    assert angle == pytest.approx(-90.0)
    assert certain < CERTAIN


@given(direction=st.integers(0, DIRECTIONS - 1), letters=st.integers(4, 200))
def test_letters_that_agree_are_believed(direction: int, letters: int) -> None:
    angle, certain = standing(votes_for(direction, letters), 0.0, 0.0)
    assert abs((angle - direction * 15.0 + 180) % 360 - 180) < 2.0
    assert certain > 0.9


def test_a_sure_eye_and_doubting_letters_and_the_other_way_round() -> None:
    doubting = votes_for(12, 10, sharp=0.05)
    assert abs(standing(doubting, 0.0, 0.9)[0]) < 20.0
    assert abs(standing(votes_for(12, 10), 0.0, 0.3)[0]) > 160.0


def test_who_contradict_each_other_are_not_certain() -> None:
    torn = np.concatenate([votes_for(6, 10), votes_for(18, 10)])
    assert standing(torn, 0.0, 0.0)[1] < 0.5


def test_many_letters_count_as_some() -> None:
    """Letters of one hand have correlated errors: a hundred count as much as AS_MANY."""
    few, many = (standing(votes_for(3, count, sharp=0.1), 0.0, 0.0)[1] for count in (int(AS_MANY), 100))
    assert few == pytest.approx(many)
    assert standing(votes_for(3, 1, sharp=0.1), 0.0, 0.0)[1] < few


@pytest.mark.parametrize("quarter", [1, 2, 3])
def test_a_turned_page_has_turned_windows(quarter: int) -> None:
    page = strokes()
    centres = np.random.default_rng(1).uniform((60, 60), (540, 340), (20, 2)).round()
    upright = windows_of(page, centres, 40.0)
    # np.rot90 rotates counter-clockwise
    x, y = centres.T
    high, wide = page.shape
    turned = {1: (y, wide - x), 2: (wide - x, high - y), 3: (high - y, x)}[quarter]
    found = windows_of(np.ascontiguousarray(np.rot90(page, quarter)), np.column_stack(turned), 40.0)
    expected = np.rot90(upright, quarter, axes=(1, 2))
    near = [np.corrcoef(one.ravel(), other.ravel())[0, 1] for one, other in zip(found, expected, strict=True)]
    assert np.median(near) > 0.9  # up to rounding of half a pixel
    assert np.median([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(found, upright, strict=True)]) < 0.5


def test_windows_of_the_smallest_pages() -> None:
    one = windows_of(np.full((3, 2), 255, np.uint8), np.array([[1.0, 1.0]]), 40.0)
    assert one.shape == (1, SIDE, SIDE)
    assert one.any()
    assert windows_of(np.zeros((0, 0), np.uint8), np.zeros((0, 2)), 40.0).shape == (0, SIDE, SIDE)
    assert len(windows_of(strokes(), np.full((500, 2), 50.0), 40.0)) == MAX_LETTERS


def test_what_is_upside_down_is_voted_upside_down(network: Orientation) -> None:
    windows = windows_of(strokes(), np.random.default_rng(2).uniform((60, 60), (540, 340), (30, 2)), 40.0)
    upright, turned = network.votes(windows), network.votes(np.ascontiguousarray(windows[:, ::-1, ::-1]))
    assert np.allclose(np.roll(upright, DIRECTIONS // 2, axis=1), turned, atol=1e-4)
    assert network.votes(windows[:0]).shape == (0, DIRECTIONS)


@pytest.mark.parametrize("seed", [3, 8])
def test_drawn_letters_say_by_which_quarter_they_are_turned(network: Orientation, seed: int) -> None:
    """The network that ships counts as all of membra does: counter-clockwise from upright."""
    camera = replace(scribes.camera(seed), letter_height=40.0)
    drawn = scribes.fragment(scribes.hand(seed), camera, letters=40, seed=seed, turn=0.0)
    ink = np.where(drawn.ink, np.uint8(255), np.uint8(0))
    windows = windows_of(ink, drawn.boxes[:, :2] + drawn.boxes[:, 2:] / 2, 40.0)
    for quarter in range(4):
        turned = np.ascontiguousarray(np.rot90(windows, quarter, axes=(1, 2)))
        told, certain = standing(network.votes(turned), 0.0, 0.0, -90.0 * quarter)
        assert abs((told - 90.0 * quarter + 180) % 360 - 180) < 20.0
        assert certain > CERTAIN


@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0, 200.0])
def test_windows_are_about_the_letters_of_a_reading(angle: float) -> None:
    """However its boxes lie in the photograph, from which they are found again in the upright ink."""
    ink, centres = np.zeros((300, 500), np.uint8), np.array([(80.0, 60.0), (250.0, 150.0), (400.0, 240.0)])
    boxes = np.array([(x - 12, y - 20, 24, 40) for x, y in centres.astype(int).tolist()], np.int32)
    for number, (x, y, wide, high) in enumerate(boxes.tolist()):
        ink[y : y + high, x : x + 6 * (number + 1)] = 255
        ink[y : y + 6, x : x + wide] = 255
    back = np.asarray(cv2.getRotationMatrix2D((250, 150), angle, 0.5), np.float64)
    back[:, 2] += (100, 200)
    laid = along_axes(boxes, back, (900, 900, 3))
    glyphs = Glyphs(laid, np.zeros((len(laid), PATCH, PATCH), np.uint8), {})
    found = letter_windows(Reading(glyphs, ink=ink, matrix=back))
    expected = windows_of(ink, centres, LetterSettings().height)
    near = [np.corrcoef(one.ravel(), other.ravel())[0, 1] for one, other in zip(found, expected, strict=True)]
    assert min(near) > 0.8  # boxes are in whole pixels of the photograph


def model(*nodes: Any, **constants: Any) -> bytes:
    """ONNX bytes of a network from `windows` to `directions`."""
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("windows", TensorProto.FLOAT, ("n", 1, SIDE, SIDE))],
        [helper.make_tensor_value_info("directions", TensorProto.FLOAT, None)],
        initializer=[numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return bytes(made.SerializeToString())


def test_a_network_whose_answers_are_no_probabilities_is_refused() -> None:
    """Though its values have the right names: what it says of letters would be believed."""
    flat = helper.make_node("Flatten", ["windows"], ["flat"])
    some = helper.make_node("Slice", ["flat", "begin", "end", "axis"], ["some"])
    told = helper.make_node("LogSoftmax", ["some"], ["directions"], axis=1)
    plain = helper.make_node("Identity", ["some"], ["directions"])
    first: dict[str, Any] = {"begin": [0], "end": [DIRECTIONS], "axis": [1]}
    Orientation(model(flat, some, told, **first))
    for other in (model(flat, some, plain, **first), model(flat, some, told, **first | {"end": [DIRECTIONS // 2]})):
        with pytest.raises(MembraError, match="does not tell which way letters stand"):
            Orientation(other)


def test_another_network_is_refused(tmp_path: Path) -> None:
    for content in (b"", READY.read_bytes(), ORIENTATION.read_bytes()[:-100]):
        path = tmp_path / "other.onnx"
        path.write_bytes(content)
        with pytest.raises(MembraError, match=r"other\.onnx.*install membra again"):
            open_eye(READY, path)
