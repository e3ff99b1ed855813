"""Damage layers: the properties of each, independent of the sheet."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from membra.scribes import grounds, mounts, wear

SHAPE = (260, 300)
SCALE = 30.0
LAYERS: dict[str, Callable[..., NDArray[Any]]] = {
    "cracks": wear.cracks,
    "creases": wear.creases,
    "fibres": wear.fibres,
    "holes": wear.holes,
    "stains": wear.stains,
    "mould": wear.mould,
    "abrasion": wear.abrasion,
    "fading": wear.fading,
    "flaking": wear.flaking,
}


def piece() -> NDArray[np.bool_]:
    mask = np.zeros(SHAPE, np.uint8)
    cv2.ellipse(mask, (150, 130), (80, 60), 20, 0, 360, 1, -1)
    return mask.astype(bool)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_follows_seed_and_strength(name: str) -> None:
    layer = LAYERS[name]

    def drawn(seed: int, strength: float) -> NDArray[np.float32]:
        return layer(SHAPE, SCALE, np.random.default_rng(seed), strength)

    for seed in range(4):
        one = drawn(seed, 0.7)
        assert one.shape == SHAPE
        assert one.dtype == (bool if name in ("holes", "flaking") else np.float32)
        assert -1.0 <= float(one.min()) <= float(one.max()) <= 1.0
        assert one.min() >= 0.0 or name in ("creases", "fibres"), "only relief has two signs"
        assert np.array_equal(one, drawn(seed, 0.7))
        assert not np.array_equal(one, drawn(seed + 10, 0.7))
        assert not drawn(seed, 0.0).any()
    weak, strong = (np.mean([np.abs(drawn(seed, strength)).mean() for seed in range(12)]) for strength in (0.2, 1.0))
    assert 0.0 < weak < strong


def test_cracks_are_thin_and_long() -> None:
    for seed in range(5):
        dark = (wear.cracks(SHAPE, SCALE, np.random.default_rng(seed), 0.8) > 0.3).astype(np.uint8)
        assert cv2.distanceTransform(dark, cv2.DIST_L2, 3).max() < 0.3 * SCALE
        _, _, facts, _ = cv2.connectedComponentsWithStats(dark)
        assert facts[1:, 2:4].max() > 1.5 * SCALE


def test_papyrus_runs_along_the_writing() -> None:
    def along(turn: float) -> float:
        grain = wear.fibres(SHAPE, SCALE, np.random.default_rng(1), 1.0, turn)
        down, across = np.abs(np.diff(grain, axis=0)).mean(), np.abs(np.diff(grain, axis=1)).mean()
        return float(down / across)

    assert along(0.0) > 1.2
    assert along(90.0) < 1.0 / 1.2


def test_edges_darken_at_edges_only() -> None:
    mask = piece()
    dark = wear.edge_shadow(mask, SCALE, np.random.default_rng(2), 0.9)
    outside = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 5)
    inside = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 5)
    assert dark[(outside > 0) & (outside < 3)].max() > 0.3
    assert dark[(inside > 0) & (inside < 3)].max() > 0.3
    assert dark[np.maximum(outside, inside) > 0.6 * SCALE].max() < 0.02
    assert not wear.edge_shadow(mask, SCALE, np.random.default_rng(2), 0.0).any()


def test_tissue_lies_about_the_piece() -> None:
    mask = piece()
    for seed in range(6):
        layer = mounts.tissue(mask, SCALE, np.random.default_rng(seed), 0.6)
        assert (mask & ~layer.area).mean() < 0.05 * mask.mean(), "the piece lies on its tissue"
        around = layer.area & ~mask
        assert around.sum() > 0.05 * mask.sum()
        cover = layer.cover[cv2.erode(layer.area.astype(np.uint8), np.ones((5, 5))).astype(bool)]
        assert 0.15 < cover.mean() < 0.85
        assert cover.std() > 0.08, "fibres"
        far = cv2.dilate(layer.area.astype(np.uint8), np.ones((9, 9))) == 0
        assert layer.cover[far].max(initial=0.0) < 0.01
    assert not mounts.tissue(mask, SCALE, np.random.default_rng(0), 0.0).area.any()


@pytest.mark.parametrize("kind", mounts.TAPES)
def test_tape_holds_the_piece(kind: str) -> None:
    mask = piece()
    off = 0
    for seed in range(12):
        layer = mounts.tape(mask, SCALE, np.random.default_rng(seed), 0.6, kind)
        assert (layer.area & mask).any()
        assert (layer.area & ~mask).any()
        frame = np.ones(SHAPE, bool)
        frame[1:-1, 1:-1] = False
        off += bool((layer.area & frame).any())
        inner = layer.cover[cv2.erode(layer.area.astype(np.uint8), np.ones((7, 7))).astype(bool)]
        assert (inner.mean() > mounts.OPAQUE) == (kind == "paper") or kind == "tissue"
    assert 5 <= off <= 12, "most strips run off the picture"
    across = mounts.tape(mask, SCALE, np.random.default_rng(3), 0.6, kind, crossing=True)
    count, _ = cv2.connectedComponents((mask & ~across.area).astype(np.uint8))
    assert count >= 3, "a crossing strip leaves the piece on both sides"


def test_a_stamp_has_a_rim_and_words() -> None:
    layer = mounts.stamp(SHAPE, SCALE, np.random.default_rng(4), 1.0)
    again = mounts.stamp(SHAPE, SCALE, np.random.default_rng(4), 1.0)
    assert np.array_equal(layer.cover, again.cover)
    rows, columns = np.nonzero(layer.area)
    assert 1.2 * SCALE < np.ptp(rows) < 7.0 * SCALE
    assert 1.2 * SCALE < np.ptp(columns) < 7.0 * SCALE
    count, _ = cv2.connectedComponents(layer.area.astype(np.uint8))
    assert count > 4
    laid = mounts.lay(np.full((*SHAPE, 3), 0.8, np.float32), layer)
    assert np.all(laid[~layer.area & (layer.cover == 0)] == np.float32(0.8))
    assert float(laid[layer.area].mean()) < 0.6


@pytest.mark.parametrize("name", grounds.TEXTURED)
def test_textured_grounds(name: str) -> None:
    one, other = (grounds.ground(name, SHAPE, SCALE, np.random.default_rng(seed)) for seed in (1, 2))
    assert one.shape == (*SHAPE, 3)
    assert 0.0 <= float(one.min()) <= float(one.max()) <= 1.0
    assert 0.005 < float(one.mean(axis=2).std()) < 0.2
    assert not np.array_equal(one, other)
