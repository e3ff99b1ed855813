"""From photograph to glyphs where photographs are bad: rows 13 to 17 of what the program must survive."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import scenes
from membra import scribes
from membra.describe.recipe import MEMBRA, see
from membra.scribes.photograph import BACKGROUNDS
from membra.see.fragment import Fragment, fragments
from membra.see.glyphs import Glyphs, cut_glyphs
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.see.photograph import read_photograph


def glyphs(image: NDArray[np.uint8]) -> Glyphs:
    parchment = find_parchment(image, MEMBRA.parchment)
    return cut_glyphs(find_ink(image, parchment, MEMBRA.ink), MEMBRA.glyphs)


@pytest.mark.parametrize("ruler", [False, True])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_boxes_lie_on_the_fragment_and_letters_are_found(background: str, ruler: bool) -> None:
    """99 % of the boxes inside the fragment, 90 % of its letters found, on every table, with and without ruler."""
    lies, seen = [], []
    for seed, letters in ((50, 40), (51, 150)):
        one = scenes.drawn(seed, background, letters, ruler)
        found = glyphs(one.image)
        lies.extend(scenes.inside(found.boxes, one.mask) >= 0.9)
        seen.extend(scenes.found(found.boxes, one.boxes))
        assert not len(found) or scenes.inside(found.boxes, one.ruler).max() == 0
    assert np.mean(lies) >= 0.99
    assert np.mean(seen) >= 0.9


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_no_boxes_on_tape_or_labels(background: str) -> None:
    one = scenes.drawn(52, background)
    for image, extra in (scenes.with_tape(one), scenes.with_label(one)):
        mask = np.pad(one.mask, ((0, image.shape[0] - one.mask.shape[0]), (0, 0)))
        found = glyphs(image)
        assert (scenes.inside(found.boxes, mask) >= 0.9).mean() >= 0.97
        assert (scenes.inside(found.boxes, extra) > 0.5).sum() == 0
        assert scenes.found(found.boxes, one.boxes).mean() >= 0.85


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_light_text_on_dark(background: str) -> None:
    one = scenes.drawn(53, background)
    found = glyphs(scenes.light_on_dark(one))
    assert (scenes.inside(found.boxes, one.mask) >= 0.9).mean() >= 0.99
    assert scenes.found(found.boxes, one.boxes).mean() >= 0.85


@pytest.mark.parametrize("colour", [scenes.WOOD, scenes.LINEN, scenes.GREEN_CLOTH])
def test_tables_with_a_texture(colour: tuple[int, int, int]) -> None:
    one = scenes.drawn(54, "white")
    found = glyphs(scenes.on_texture(one, colour))
    assert (scenes.inside(found.boxes, one.mask) >= 0.9).mean() >= 0.99
    assert scenes.found(found.boxes, one.boxes).mean() >= 0.85


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_resolution_changes_little(factor: float) -> None:
    agree, counts = [], []
    for seed in (55, 56, 57):
        one = scenes.drawn(seed, "blue", 80)
        how = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        scaled = np.asarray(cv2.resize(one.image, None, fx=factor, fy=factor, interpolation=how), np.uint8)
        once, again = glyphs(one.image), glyphs(scaled)
        counts.append(len(again) / len(once))
        agree.extend(scenes.found(np.rint(again.boxes / factor).astype(np.int32), once.boxes))
    assert np.abs(np.array(counts) - 1).max() <= 0.1
    assert np.mean(agree) >= 0.9


@pytest.mark.parametrize("quarters", [1, 3])
def test_text_turned_by_a_quarter_is_told(quarters: int) -> None:
    for seed in (58, 59):
        one = scenes.drawn(seed, "grey", 80)
        assert not glyphs(one.image).turned
        assert glyphs(np.ascontiguousarray(np.rot90(one.image, quarters))).turned


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_lie_on_the_letters_as_displayed(tmp_path: Path, suffix: str, orientation: int) -> None:
    one = scenes.drawn(60, "blue", 40)
    upright = Image.fromarray(one.image)
    # How a camera stores what is to be displayed upright: the inverse of what the tag asks for.
    stored = {
        1: upright,
        2: upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: upright.transpose(Image.Transpose.ROTATE_180),
        4: upright.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        7: upright.transpose(Image.Transpose.TRANSVERSE),
        8: upright.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    tags = Image.Exif()
    tags[0x0112] = orientation
    path = tmp_path / f"turned.{suffix}"
    stored.save(path, exif=tags, **({"quality": 95} if suffix == "jpg" else {}))
    found = see(Fragment("turned", path), MEMBRA)
    assert scenes.found(found.boxes, one.boxes).mean() >= 0.9


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "I;16"])
def test_boxes_are_right_in_every_mode(tmp_path: Path, mode: str) -> None:
    one = scenes.drawn(61, "black", 40)
    picture = Image.fromarray(one.image)
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    else:
        picture = picture.convert(mode)
    path = tmp_path / "picture.tif"
    picture.save(path)
    assert scenes.found(see(Fragment("picture", path), MEMBRA).boxes, one.boxes).mean() >= 0.85


def test_few_letters_are_described_from_what_there_is() -> None:
    for seed, letters in ((62, 1), (63, 7), (64, 7)):
        one = scribes.fragment(scribes.hand(seed), scribes.camera(seed), letters=letters, seed=seed)
        found = glyphs(one.image)
        if len(one.letters):
            assert 1 <= len(found) <= 4 * len(one.letters) + 8
    single = np.repeat(scribes.word(scribes.hand(3), "א", height=70)[..., None], 3, axis=2)
    assert len(glyphs(single)) == 1


def test_nothing_written_gives_no_glyphs() -> None:
    draw = np.random.default_rng(1)
    blank = np.full((500, 400, 3), 226, np.uint8)
    grain = np.clip(226 + draw.normal(0, 4, (500, 400, 1)), 0, 255).repeat(3, axis=2).astype(np.uint8)
    clouds = cv2.GaussianBlur(draw.normal(0, 1, (500, 400, 3)), (0, 0), 25)
    landscape = np.asarray(128 + 100 * clouds / np.abs(clouds).max(), np.uint8)
    solid = np.full((500, 400, 3), (45, 34, 28), np.uint8)
    for picture in (blank, grain, landscape, solid):
        assert len(glyphs(picture)) == 0


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
    """A sample, to save time: `benchmarks/see.py` goes through all."""
    for fragment in fragments(shared / "data" / name / "fragments.csv")[::40]:
        found = see(fragment, MEMBRA)
        assert len(found) >= 5
        assert not found.turned


@pytest.mark.shared
@pytest.mark.parametrize("name", ["hebrew-pages", "latin-pages"])
def test_pages_without_background_keep_their_letters(shared: Path, name: str) -> None:
    for fragment in fragments(shared / "data" / name / "fragments.csv")[::30]:
        assert int(fragment.columns["letters"]) < 100 or len(see(fragment, MEMBRA)) >= 50


# Where rulers, charts and labels lie in these photographs, in shares of height and width: top, bottom, left, right.
BESIDE = {
    "plate1094_005_recto_ir": [(0.0, 0.17, 0.0, 1.0), (0.83, 1.0, 0.0, 1.0), (0.2, 0.75, 0.8, 1.0)],
    "plate1101_005_recto_ir": [(0.0, 0.17, 0.0, 1.0), (0.83, 1.0, 0.0, 1.0), (0.2, 0.75, 0.88, 1.0)],
    "plate1108_003_recto_ir": [(0.0, 0.17, 0.0, 1.0), (0.83, 1.0, 0.0, 1.0), (0.2, 0.75, 0.74, 1.0)],
    "plate124_001": [(0.0, 0.22, 0.0, 1.0)],
    "plate124_004": [(0.0, 0.12, 0.0, 0.7)],
    "plate690_004": [(0.0, 0.37, 0.0, 1.0)],
}


@pytest.mark.shared
@pytest.mark.parametrize("name", sorted(BESIDE))
def test_no_boxes_on_ruler_chart_label_or_tape(shared: Path, name: str) -> None:
    image = read_photograph(shared / "data" / "photographs" / f"{name}.jpg")
    boxes = glyphs(image).boxes
    assert len(boxes) >= 20
    x, y = (boxes[:, 0] + boxes[:, 2] / 2) / image.shape[1], (boxes[:, 1] + boxes[:, 3] / 2) / image.shape[0]
    for top, bottom, left, right in BESIDE[name]:
        assert not ((top <= y) & (y < bottom) & (left <= x) & (x < right)).any()
