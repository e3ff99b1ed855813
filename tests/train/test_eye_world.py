"""The eye's training samples: gathered items survive storage, and the truth of samples is right."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from membra import scribes
from membra.see.eye import READY, ready_eye
from membra.see.turn import along_lines, direction, ink_by_cell
from membra.train.eye_material import (
    LETTER,
    UNKNOWN,
    Item,
    drawn_height,
    inked,
    pages,
    plates,
    read_material,
    trusted,
    write_material,
)
from membra.train.eye_sheet import SIDE, take_apart
from membra.train.eye_world import Sample, World

SEEDS = range(60)


@pytest.fixture(scope="module")
def world(items: list[Item]) -> World:
    return World([take_apart(item) for item in items])


@pytest.fixture(scope="module")
def samples(world: World) -> list[Sample]:
    return [world.sample(seed) for seed in SEEDS]


def light(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.float64)


def around(ink: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (h, w) pixels near ink without ink."""
    wide, near = (cv2.dilate(ink.astype(np.uint8), np.ones((side, side), np.uint8)) > 0 for side in (9, 3))
    return np.asarray(wide & ~near)


def degrees(one: float, other: float) -> float:
    return abs((one - other + 180) % 360 - 180)


def test_material_is_read_as_it_was_written(items: list[Item], tmp_path: Path) -> None:
    write_material(items, tmp_path / "material.npz")
    found = read_material(tmp_path / "material.npz")
    assert [(item.source, item.upright) for item in found] == [(item.source, item.upright) for item in items]
    for one, other in zip(found, items, strict=True):
        assert np.array_equal(one.ink, other.ink)
        assert np.array_equal(one.surface, other.surface)
        assert np.abs(one.picture.astype(int) - other.picture).mean(axis=(0, 1)).max() < 6, "JPEG, colour by colour"


def test_crops_of_pages_have_the_ink_that_is_on_them(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    camera = replace(scribes.camera(5), background="white", letter_height=46.0)
    page = scribes.fragment(scribes.hand(5), camera, letters=260, seed=5, turn=0.0)
    (tmp_path / "images" / "page.jpg").write_bytes(page.jpeg)
    (tmp_path / "images" / "text.jpg").write_text("no picture")
    found = list(pages(tmp_path, "hebrew", per_page=2))
    assert len(found) == 2
    for item in found:
        assert (item.source, item.upright) == ("hebrew", True)
        assert (item.surface == 255).all()
        assert set(np.unique(item.ink).tolist()) <= {0, UNKNOWN, 255}
        assert drawn_height(item.ink) == pytest.approx(LETTER, rel=0.3)
        ink = item.ink == 255
        assert light(item.picture)[ink].mean() < light(item.picture)[around(item.ink > 0)].mean() - 40


def test_ink_drawn_by_hand_and_plates_without(tmp_path: Path) -> None:
    for name in ("images", "ink", "parchment"):
        (tmp_path / name).mkdir()
    camera = replace(scribes.camera(6), letter_height=64.0)
    one = scribes.fragment(scribes.hand(6), camera, letters=30, seed=6, turn=0.0)
    for name in ("dibco-1", "dss-1"):
        (tmp_path / "images" / f"{name}.jpg").write_bytes(one.jpeg)
        cv2.imwrite(str(tmp_path / "ink" / f"{name}.png"), np.where(one.ink, 255, 0).astype(np.uint8))
    cv2.imwrite(str(tmp_path / "parchment" / "dss-1.png"), np.where(one.surface, 255, 0).astype(np.uint8))
    page, piece = inked(tmp_path)
    assert [(item.source, item.upright) for item in (page, piece)] == [("dibco", True), ("dss", False)]
    assert (page.surface == 255).all()
    for item in (page, piece):
        assert drawn_height(item.ink) == pytest.approx(LETTER, rel=0.25)
        share = cv2.resize(one.ink.astype(np.float32), item.ink.shape[::-1], interpolation=cv2.INTER_AREA)
        assert ((share > 0.5) == (item.ink == 255)).mean() > 0.99
    assert (piece.surface == 255).mean() == pytest.approx(one.surface.mean(), abs=0.02)
    (plate,) = plates([tmp_path / "images" / "dss-1.jpg"], "plates")
    assert max(plate.picture.shape) <= 900
    assert (plate.ink == UNKNOWN).all()
    assert (plate.surface == UNKNOWN).all()


def test_pale_components_and_those_of_no_letters_are_not_trusted() -> None:
    picture, ink = np.full((300, 400, 3), 210, np.uint8), np.zeros((300, 400), np.uint8)
    for number in range(30):
        y, x = 20 + number // 6 * 50, 20 + number % 6 * 55
        picture[y : y + 30, x : x + 10] = 170 if number < 3 else 60
        ink[y : y + 30, x : x + 10] = 255
    found = trusted(picture, ink)
    assert found is not None
    assert (found[20:50, 20:30] == UNKNOWN).all(), "it may shine through from the other side"
    assert (found[220:250, 20:30] == 255).all()
    assert trusted(picture, np.where(np.arange(400) < 180, ink, 0).astype(np.uint8)) is None, "too few letters"
    grain = (np.random.default_rng(0).random(ink.shape) < 0.05) * np.uint8(255)
    assert trusted(picture, np.maximum(ink, grain)) is None


def test_a_sheet_is_ink_and_paper(items: list[Item]) -> None:
    sheet = take_apart(items[0])
    ink = sheet.ink == 255
    inside = cv2.erode((sheet.surface == 255).astype(np.uint8), np.ones((25, 25), np.uint8)) > 0
    bare, beside = light(sheet.paper)[ink & inside], light(sheet.picture)[around(sheet.ink > 0) & inside]
    assert abs(bare.mean() - beside.mean()) < 15, "no ink is left on the paper"
    assert light(sheet.picture)[ink].mean() < beside.mean() - 40
    assert sheet.depth[ink].mean() > 150
    assert not sheet.depth[cv2.dilate(ink.astype(np.uint8), np.ones((5, 5), np.uint8)) == 0].any()
    unknown = take_apart(items[3])
    assert (unknown.ink == UNKNOWN).all()
    assert {0, 255} <= set(np.unique(unknown.surface).tolist()), "told by light, where it is not known"


def test_a_sample_is_what_it_says(samples: list[Sample]) -> None:
    known = 0
    for sample in samples:
        assert sample.picture.shape == (SIDE, SIDE, 3)
        for mask in (sample.ink, sample.surface):
            assert mask.shape == (SIDE, SIDE)
            assert mask.dtype == np.uint8
            assert set(np.unique(mask).tolist()) <= {0, UNKNOWN, 255}
        assert sample.sources <= {"drawn", "dibco", "dss", "plates"}
        assert sample.sources
        if not np.isnan(sample.height):
            assert 7 <= sample.height <= 90
        if not np.isnan(sample.angle):
            known += 1
            assert -4 <= sample.angle <= 4, "radians"
    assert 20 <= known < len(samples)


def test_the_same_seed_the_same_sample_another_seed_another(world: World, samples: list[Sample]) -> None:
    for seed in (3, 41):
        again = world.sample(seed)
        assert np.array_equal(again.picture, samples[seed].picture)
        assert np.array_equal(again.ink, samples[seed].ink)
        assert repr((again.angle, again.height)) == repr((samples[seed].angle, samples[seed].height))
    assert len({sample.picture.tobytes() for sample in samples}) == len(samples)


def test_ink_is_darker_than_what_is_around_it(samples: list[Sample]) -> None:
    darker = []
    for sample in samples:
        ink, beside = sample.ink == 255, around(sample.ink > 0) & (sample.surface == 255)
        if ink.sum() > 800 and beside.sum() > 300:
            darker.append(light(sample.picture)[beside].mean() - light(sample.picture)[ink].mean())
    assert len(darker) > 30
    assert np.mean(np.array(darker) > 20) > 0.95


def test_there_is_no_ink_beside_the_surface(samples: list[Sample]) -> None:
    on = [(sample.surface[sample.ink == 255] != 0).mean() for sample in samples if (sample.ink == 255).any()]
    assert min(on) > 0.95
    blank = [sample for sample in samples if np.isnan(sample.height)]
    assert len(blank) >= 5
    assert not any((sample.ink == 255).any() for sample in blank)


def written(samples: list[Sample]) -> list[Sample]:
    """Return the samples with many letters and a known angle."""
    return [one for one in samples if not np.isnan(one.angle) and (one.ink == 255).sum() > 3000 and one.height < 45]


def test_lines_run_along_the_angle_and_letters_have_the_height(samples: list[Sample]) -> None:
    off, high = [], []
    for sample in written(samples):
        ink, angle = sample.ink == 255, float(np.degrees(sample.angle))
        off.append(abs(along_lines(ink, angle + 4, sample.height) - angle))
        back = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), -angle, 1.0)
        laid = cv2.warpAffine(np.where(ink, 255, 0).astype(np.uint8), back, (SIDE, SIDE))
        high.append(drawn_height(np.asarray(laid, np.uint8)) / sample.height)
    assert len(off) >= 15
    assert np.median(off) < 1.1
    assert np.median(high) == pytest.approx(1.0, abs=0.15)


@pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")
def test_the_eye_that_learnt_from_such_a_world_sees_the_same_angle(samples: list[Sample]) -> None:
    off = []
    for sample in written(samples):
        look = ready_eye().look(sample.picture)
        off.append(degrees(direction(look, ink_by_cell(look))[0], float(np.degrees(sample.angle))))
    assert np.median(off) < 8


def test_a_sample_is_made_from_its_sources_and_nothing_else(items: list[Item]) -> None:
    """Otherwise an eye tested on one of them would have been trained on it."""
    other = {
        source: World(
            [
                take_apart(replace(item, picture=255 - item.picture) if item.source == source else item)
                for item in mixed(items)
            ]
        )
        for source in ("hebrew", "drawn")
    }
    world = World([take_apart(item) for item in mixed(items)])
    for seed in range(100):
        sample = world.sample(seed)
        for source, changed in other.items():
            if source not in sample.sources:
                assert np.array_equal(changed.sample(seed).picture, sample.picture), (seed, source)


def mixed(items: list[Item]) -> list[Item]:
    """The items with a second source of clean pages."""
    return [*items, replace(items[1], source="hebrew")]
