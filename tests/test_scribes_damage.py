"""Damaged fragments at any rotation: every kind of damage has its effect, and the truth stays right."""

from collections import Counter
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from membra.scribes import Camera, Damage, Drawn, camera, damage, fragment, hand
from membra.scribes.damage import KINDS, RARE
from membra.scribes.film import CAPTURES

Mask = NDArray[np.bool_]

# a neutral camera, so that two pictures differ only by the damage
CLEAN = replace(camera(0), letter_height=32.0, noise=0.0, blur=0.3, sharpening=0.0, quality=95, background="black")
# kinds that only mark the sheet, kinds that only remove ink, and kinds that only affect the surroundings
ON_SHEET = (
    "cracks", "creases", "fibres", "stains", "mould", "flaking", "darkening", "show_through", "ruling", "points",
    "stamp",
)  # fmt: skip
ON_INK = ("abrasion", "fading")
BESIDE = ("tissue",)
WHOLE_PICTURE = ("light", "grain")


def only(kind: str, strength: float) -> Damage:
    """Return damage of one kind only."""
    strengths: dict[str, Any] = {kind: strength}
    return replace(Damage(), **strengths)


def draw(
    seed: int, damage: Damage | None, turn: float | None = None, camera: Camera = CLEAN, letters: int = 35
) -> Drawn:
    return fragment(hand(seed), camera, letters=letters, seed=seed, damage=damage, turn=turn)


@pytest.fixture(scope="module")
def whole() -> list[Drawn]:
    return [draw(seed, Damage()) for seed in range(4)]


@pytest.fixture(scope="module")
def mixed() -> list[Drawn]:
    turns = np.random.default_rng(0).uniform(0.0, 360.0, 12).tolist()
    return [draw(seed, damage(seed), turns[seed], camera(seed)) for seed in range(12)]


def test_damage_is_a_mixture() -> None:
    some = [damage(seed) for seed in range(600)]
    assert damage(7) == some[7]
    present = Counter(kind for one in some for kind in KINDS if getattr(one, kind) > 0.0)
    for kind in KINDS:
        low, high = (0.04, 0.13) if kind in RARE else (0.27, 0.48)
        assert low < present[kind] / 600 < high, kind
        strengths = [getattr(one, kind) for one in some if getattr(one, kind) > 0.0]
        assert 0.1 < min(strengths) < 0.3
        assert 0.85 < max(strengths) <= 1.0
    assert min(sum(getattr(one, kind) > 0.0 for kind in KINDS) for one in some) >= 2
    assert {one.capture for one in some} == set(CAPTURES)


def test_no_damage_is_no_damage(whole: list[Drawn]) -> None:
    plain = draw(2, None)
    assert plain.jpeg == whole[2].jpeg
    assert plain.letters == whole[2].letters
    assert np.array_equal(plain.mask, plain.surface)
    assert np.abs(plain.boxes - whole[2].boxes).max() <= 2
    assert len(plain.points) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_shows_where_it_should_and_nowhere_else(kind: str, whole: list[Drawn]) -> None:
    changed_somewhere = 0
    for seed, before in enumerate(whole):
        after = draw(seed, only(kind, 0.8))
        changed = np.abs(after.image.astype(int) - before.image.astype(int)).max(axis=2) > 20
        changed_somewhere += int(changed.sum() > 100)
        # the camera's blur and the blocks of the JPEG spread a change over some pixels
        if kind in ON_SHEET:
            assert not (changed & ~_wider(before.mask, 5)).any()
            assert np.array_equal(after.mask, before.mask)
        elif kind in ON_INK:
            assert not (changed & ~_wider(before.ink, 9)).any()
        elif kind in BESIDE:
            assert not (changed & ~_wider(~before.mask, 5)).any()
            assert np.array_equal(after.surface, before.surface)
        elif kind in ("fraying", "edge_shadow"):
            inside = cv2.distanceTransform(before.mask.astype(np.uint8), cv2.DIST_L2, 5)
            outside = cv2.distanceTransform((~before.mask).astype(np.uint8), cv2.DIST_L2, 5)
            # fraying also moves the sheet's brown rim and the shadow on the table
            assert not (changed & (np.maximum(inside, outside) > 1.5 * CLEAN.letter_height)).any()
        elif kind in ("holes", "break_through"):
            assert after.mask.sum() < before.mask.sum()
            assert not (after.mask & ~before.mask).any()
        elif kind in WHOLE_PICTURE:
            assert np.array_equal(after.mask, before.mask)
        again = draw(seed, only(kind, 0.8))
        assert again.jpeg == after.jpeg
    assert changed_somewhere >= 3


def test_one_kind_leaves_the_others_as_they_were() -> None:
    alone, beside = draw(1, Damage(cracks=0.8)), draw(1, Damage(cracks=0.8, stamp=0.9, tissue=0.7, grain=0.3))
    clean = draw(1, Damage())
    cracked = clean.image.astype(int).sum(axis=2) - alone.image.astype(int).sum(axis=2) > 200
    assert cracked.sum() > 50
    assert beside.image[cracked].mean() < 0.6 * clean.image[cracked].mean()


def test_truth_is_consistent(mixed: list[Drawn]) -> None:
    inside = total = 0
    for one in mixed:
        assert one.image.shape == (*one.mask.shape, 3)
        assert one.boxes.shape == (len(one.letters), 4)
        assert not (one.surface & ~one.mask).any()
        assert not (one.ink & ~one.surface).any()
        boxed = np.zeros(one.mask.shape, bool)
        for x, y, width, height in one.boxes.tolist():
            assert min(x, y) >= 0
            assert min(width, height) > 0
            part = one.ink[y : y + height, x : x + width]
            assert part.shape == (height, width), "inside the picture"
            assert part.mean() > 0.05
            # tight: visible ink on all four sides
            assert part[0].any()
            assert part[-1].any()
            assert part[:, 0].any()
            assert part[:, -1].any()
            assert one.surface[y : y + height, x : x + width].mean() > 0.6
            boxed[y : y + height, x : x + width] = True
        inside, total = inside + int((one.ink & boxed).sum()), total + int(one.ink.sum())
        for x, y, width, height in one.points.tolist():
            assert one.surface[y : y + height, x : x + width].any()
    # the rest are letters cut by the edge or mostly worn away
    assert inside > 0.75 * total


def test_ink_is_dark_and_surface_is_the_sheet() -> None:
    for seed in range(3):
        one = draw(seed, Damage(tape=0.8, tissue=0.8, cracks=0.5))
        grey = cv2.cvtColor(one.image, cv2.COLOR_RGB2GRAY).astype(float)
        inner = cv2.erode(one.ink.astype(np.uint8), np.ones((3, 3))).astype(bool)
        bare = cv2.erode((one.surface & ~one.ink).astype(np.uint8), np.ones((5, 5))).astype(bool)
        assert np.median(grey[inner]) + 60.0 < np.median(grey[bare])


@pytest.mark.parametrize("turn", [0.0, 33.0, 90.0, 180.0, 271.0])
def test_the_angle_is_the_angle(turn: float) -> None:
    upright, turned = (draw(3, Damage(points=0.5), angle) for angle in (0.0, turn))
    assert turned.angle == pytest.approx(turn)
    assert upright.letters == turned.letters
    # rotated back, box centres are the same except for the picture's origin
    radians = np.deg2rad(turned.angle)
    back = np.array([[np.cos(radians), -np.sin(radians)], [np.sin(radians), np.cos(radians)]])
    first, second = (one.boxes[:, :2] + one.boxes[:, 2:] / 2.0 for one in (upright, turned))
    apart = second @ back.T - first
    # slanted letters have other bounds when rotated, so single centres deviate
    assert np.abs(apart - np.median(apart, axis=0)).max() < 0.3 * CLEAN.letter_height
    if turn % 90 == 0:
        assert np.abs(apart - np.median(apart, axis=0)).max() < 3.0
    # and the ink forms lines again
    for wrong in (-20.0, 20.0):
        assert _lines(turned.ink, turned.angle) > 1.3 * _lines(turned.ink, turned.angle + wrong)


def test_the_angle_without_a_turn_is_the_cameras() -> None:
    one = draw(5, None, camera=camera(5))
    off = (one.angle - camera(5).turn + 180.0) % 360.0 - 180.0
    assert 0.0 <= one.angle < 360.0
    assert abs(off) < 2.5


def test_turn_alone_keeps_the_words() -> None:
    plain, turned = draw(2, None, camera=camera(2)), draw(2, None, 205.0, camera(2))
    assert abs(len(plain.letters) - len(turned.letters)) <= 3
    assert turned.angle == 205.0
    assert not np.array_equal(plain.image.shape, turned.image.shape) or plain.jpeg != turned.jpeg


def test_what_cannot_be_seen_is_no_letter(whole: list[Drawn]) -> None:
    for kind in ("fading", "abrasion", "flaking", "crossing", "holes", "break_through"):
        lost = 0
        for seed, before in enumerate(whole):
            after = draw(seed, only(kind, 1.0))
            assert set(_middles(after.boxes)) <= {spot for x, y in _middles(before.boxes) for spot in _about(x, y)}
            lost += len(before.letters) - len(after.letters)
        assert lost >= 2, kind


def test_a_pieces_parts_stay_one(whole: list[Drawn]) -> None:
    for seed in range(4):
        broken = draw(seed, Damage(break_through=0.9))
        count, parts = cv2.connectedComponents(broken.mask.astype(np.uint8))
        sizes = np.sort(np.bincount(parts[broken.mask])[1:])
        assert count >= 3
        assert sizes[-2] > 0.1 * broken.mask.sum(), "two large parts"
        gap = whole[seed].mask & ~broken.mask
        assert cv2.distanceTransform(gap.astype(np.uint8), cv2.DIST_L2, 3).max() < 0.5 * CLEAN.letter_height
        assert len(broken.letters) > 0.5 * len(whole[seed].letters)


def test_points_are_no_letters(whole: list[Drawn]) -> None:
    for seed, before in enumerate(whole):
        after = draw(seed, Damage(points=1.0))
        assert after.letters == before.letters
        assert np.array_equal(after.ink, before.ink)
        assert len(after.points) > 0.4 * len(after.letters)
        for x, y, width, height in after.points.tolist():
            at = (slice(y, y + height), slice(x, x + width))
            assert max(width, height) < 0.75 * CLEAN.letter_height
            assert after.image[at].min() < 0.75 * np.median(before.image[before.surface])


def test_captures() -> None:
    pictures = {capture: draw(1, Damage(capture=capture)) for capture in CAPTURES}
    for capture, one in pictures.items():
        spread = np.abs(one.image.astype(int) - one.image.mean(axis=2, keepdims=True)).mean()
        assert (spread > 3.0) == (capture == "colour")
        ink, bare = (float(np.median(one.image[part])) for part in (one.ink, one.surface & ~_wider(one.ink, 5)))
        assert (ink > bare) == (capture == "negative")
        table = float(np.median(one.image[~_wider(one.mask, 25)]))
        if capture == "infrared":
            assert table < 40.0
    letters = {one.letters for one in pictures.values()}
    assert len(letters) == 1


def _wider(mask: Mask, pixels: int) -> Mask:
    return cv2.dilate(mask.astype(np.uint8), np.ones((2 * pixels + 1, 2 * pixels + 1))).astype(bool)


def _lines(ink: Mask, angle: float) -> float:
    """Return how much rows of the picture, rotated back by `angle`, differ in ink."""
    side = int(np.hypot(*ink.shape)) + 2
    matrix = np.asarray(cv2.getRotationMatrix2D((ink.shape[1] / 2.0, ink.shape[0] / 2.0), -angle, 1.0), float)
    matrix[:, 2] += ((side - ink.shape[1]) / 2.0, (side - ink.shape[0]) / 2.0)
    rows = cv2.warpAffine(ink.astype(np.float32), matrix, (side, side)).sum(axis=1)
    return float((np.diff(cv2.GaussianBlur(rows[:, None], (1, 5), 2.0)[:, 0]) ** 2).sum())


def _middles(boxes: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return the box centres in cells of half a letter."""
    cell = CLEAN.letter_height / 2
    return [(int((x + w / 2) // cell), int((y + h / 2) // cell)) for x, y, w, h in boxes.tolist()]


def _about(x: int, y: int) -> list[tuple[int, int]]:
    return [(x + right, y + down) for right in (-1, 0, 1) for down in (-1, 0, 1)]
