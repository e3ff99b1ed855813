"""Tests from photograph to glyphs on every table, at every scale. `tests/reliability` tests faults."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import scenes
from membra.describe.recipe import MEMBRA, pick
from membra.scribes.photograph import BACKGROUNDS
from membra.see.eye import ready_eye
from membra.see.glyphs import Glyphs
from membra.see.read import read_pieces
from membra.sources.fragment import fragments


def glyphs(image: NDArray[np.uint8]) -> Glyphs:
    readings = read_pieces(image, ready_eye(), MEMBRA.reading, MEMBRA.letters, MEMBRA.pieces)
    return max((reading.glyphs for reading in readings), key=len)


@pytest.mark.parametrize("ruler", [False, True])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_boxes_lie_on_the_fragment_and_letters_are_found(background: str, ruler: bool) -> None:
    """97 % of the boxes are inside the fragment, 90 % of its letters found, on every table, with and without ruler."""
    lies: list[float] = []
    seen: list[float] = []
    for seed, letters in ((50, 40), (51, 150)):
        one = scenes.drawn(seed, background, letters, ruler)
        found = glyphs(one.image)
        lies.extend(scenes.inside(found.boxes, one.mask) >= scenes.INSIDE)
        seen.extend(scenes.found(found.boxes, one.boxes))
        assert not len(found) or scenes.inside(found.boxes, one.ruler).max() == 0
    assert np.mean(lies) >= 0.96
    assert np.mean(seen) >= 0.9


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_no_boxes_on_tape_or_labels(background: str) -> None:
    one = scenes.drawn(52, background)
    for image, extra in (scenes.with_tape(one), scenes.with_label(one)):
        mask = np.pad(one.mask, ((0, image.shape[0] - one.mask.shape[0]), (0, 0)))
        found = glyphs(image)
        assert (scenes.inside(found.boxes, mask) >= scenes.INSIDE).mean() >= 0.94
        assert (scenes.inside(found.boxes, extra) > 0.5).sum() == 0
        assert scenes.found(found.boxes, one.boxes).mean() >= 0.8


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_light_text_on_dark(background: str) -> None:
    one = scenes.drawn(53, background)
    found = glyphs(scenes.light_on_dark(one))
    assert (scenes.inside(found.boxes, one.mask) >= scenes.INSIDE).mean() >= 0.94
    assert scenes.found(found.boxes, one.boxes).mean() >= 0.8


@pytest.mark.parametrize("colour", [scenes.WOOD, scenes.LINEN, scenes.GREEN_CLOTH])
def test_tables_with_a_texture(colour: tuple[int, int, int]) -> None:
    one = scenes.drawn(54, "white")
    found = glyphs(scenes.on_texture(one, colour))
    assert (scenes.inside(found.boxes, one.mask) >= scenes.INSIDE).mean() >= 0.94
    assert scenes.found(found.boxes, one.boxes).mean() >= 0.8


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_resolution_changes_little(factor: float) -> None:
    agree: list[float] = []
    counts: list[float] = []
    for seed in (55, 56, 57):
        one = scenes.drawn(seed, "blue", 80)
        how = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        scaled = np.asarray(cv2.resize(one.image, None, fx=factor, fy=factor, interpolation=how), np.uint8)
        once, again = glyphs(one.image), glyphs(scaled)
        counts.append(len(again) / len(once))
        agree.extend(scenes.found(np.rint(again.boxes / factor).astype(np.int32), once.boxes))
    assert np.abs(np.array(counts) - 1).max() <= 0.1
    assert np.mean(agree) >= 0.9


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_which_way_is_up_is_told(quarters: int) -> None:
    for seed in (58, 59):
        one = scenes.drawn(seed, "grey", 80)
        turned = np.ascontiguousarray(np.rot90(one.image, quarters))
        found = read_pieces(turned, ready_eye(), MEMBRA.reading, MEMBRA.letters)[0].angle
        assert found is not None
        assert abs((found - one.angle - 90 * quarters + 180) % 360 - 180) < 3


def test_no_boxes_beyond_the_frame() -> None:
    one = scenes.drawn(65, "white", 60)
    rows, columns = one.image.shape[:2]
    cropped = np.ascontiguousarray(one.image[rows // 4 : 3 * rows // 4, columns // 4 : 3 * columns // 4])
    boxes = glyphs(cropped).boxes
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= cropped.shape[1::-1]).all()
    assert (boxes[:, 2:] > 0).all()


@pytest.mark.shared
@pytest.mark.parametrize("name", ["hebrew", "latin", "tiny"])
def test_every_real_fragment_has_glyphs(shared: Path, name: str) -> None:
    """A sample, to save time: `benchmarks/see.py` runs all."""
    for fragment in fragments(shared / "data" / name / "fragments.csv")[::40]:
        found = pick(fragment, MEMBRA)[1]
        assert len(found.glyphs) >= 5
        assert found.angle is not None
        assert abs((found.angle + 180) % 360 - 180) < 12


@pytest.mark.shared
@pytest.mark.parametrize("name", ["hebrew-pages", "latin-pages"])
def test_pages_without_background_keep_their_letters(shared: Path, name: str) -> None:
    for fragment in fragments(shared / "data" / name / "fragments.csv")[::30]:
        assert int(fragment.columns["letters"]) < 100 or len(pick(fragment, MEMBRA)[1].glyphs) >= 50
