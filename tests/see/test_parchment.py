"""Tests of the foreground mask against drawn truth: all tables, with objects beside the fragment."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import scenes
from membra import scribes
from membra.scribes.photograph import BACKGROUNDS
from membra.see.parchment import ParchmentSettings, find_parchment


def overlap(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    return float((found & truth).sum() / (found | truth).sum())


@pytest.mark.parametrize("ruler", [False, True])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_the_fragment_is_found_on_every_table(background: str, ruler: bool) -> None:
    for seed in (40, 41):
        one = scenes.drawn(seed, background, ruler=ruler)
        found = find_parchment(one.image, ParchmentSettings())
        assert overlap(found, one.mask) > 0.95
        assert not (found & one.ruler).any()


@pytest.mark.parametrize("colour", [scenes.WOOD, scenes.LINEN, scenes.GREEN_CLOTH])
def test_the_fragment_is_found_on_a_table_with_a_texture(colour: tuple[int, int, int]) -> None:
    one = scenes.drawn(42, "white")
    assert overlap(find_parchment(scenes.on_texture(one, colour), ParchmentSettings()), one.mask) > 0.95


def test_low_contrast_is_enough() -> None:
    """The sheet differs from the table by four grey levels, less than the illumination varies over the picture."""
    draw = np.random.default_rng(0)
    rows, columns = np.mgrid[:400, :500]
    truth = (rows - 200) ** 2 / 150**2 + (columns - 250) ** 2 / 190**2 < 1
    light = 225 + 12 * columns / 500 - np.where(truth, 4, 0)
    blue = np.where(truth, -8, 0)  # parchment is slightly yellow
    image = np.clip(np.stack([light, light, light + blue], axis=2) + draw.normal(0, 1.5, (400, 500, 1)), 0, 255)
    assert overlap(find_parchment(image.astype(np.uint8), ParchmentSettings()), truth) > 0.95


def test_holes_are_left_out() -> None:
    one = scenes.drawn(43, "blue")
    rows, columns = np.mgrid[: one.mask.shape[0], : one.mask.shape[1]]
    middle = [int(np.median(indices)) for indices in np.nonzero(one.mask)]
    hole = (rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 < 25**2
    image = np.where(hole[..., None], np.median(one.image[~one.mask], axis=0).astype(np.uint8), one.image)
    found = find_parchment(image, ParchmentSettings())
    assert found[hole].mean() < 0.02
    assert overlap(found, one.mask & ~hole) > 0.95


def test_two_pieces_of_one_material_are_joined() -> None:
    first, second = scenes.drawn(44, "grey", letters=60), scenes.drawn(44, "grey", letters=30)
    image, both = scenes.beside(first, second)
    assert overlap(find_parchment(image, ParchmentSettings()), both) > 0.95


def test_a_crumb_is_left_out() -> None:
    """A piece smaller than a fifth of the larger one is not kept."""
    first = scenes.drawn(45, "grey", letters=90)
    crumb = scribes.fragment(scribes.hand(45), replace(scribes.camera(45), background="grey"), letters=4, seed=45)
    image, both = scenes.beside(first, crumb)
    found = find_parchment(image, ParchmentSettings())
    assert overlap(found[:, : first.image.shape[1]], both[:, : first.image.shape[1]]) > 0.95
    assert not found[:, first.image.shape[1] :].any()


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_label_is_left_out(background: str) -> None:
    one = scenes.drawn(46, background)
    image, card = scenes.with_label(one)
    found = find_parchment(image, ParchmentSettings())
    assert not (found & card).any()
    assert overlap(found[: one.mask.shape[0]], one.mask) > 0.95


@pytest.mark.parametrize("background", ["blue", "black", "white"])  # on grey this tape is too similar to the sheet
def test_tape_is_left_out(background: str) -> None:
    one = scenes.drawn(46, background)
    image, tape = scenes.with_tape(one)
    found = find_parchment(image, ParchmentSettings())
    assert found[tape].mean() < 0.1
    assert found[one.mask].mean() > 0.93


def test_a_page_without_background_is_all_fragment() -> None:
    for seed in (1, 2, 3):
        one = scribes.fragment(scribes.hand(seed), scribes.camera(seed), letters=200, seed=seed)
        rows, columns = np.nonzero(one.mask)
        middle = (
            slice(int(np.quantile(rows, 0.3)), int(np.quantile(rows, 0.7))),
            slice(int(np.quantile(columns, 0.3)), int(np.quantile(columns, 0.7))),
        )
        assert find_parchment(np.ascontiguousarray(one.image[middle]), ParchmentSettings()).mean() > 0.95


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (5, 4), (900, 8)])
def test_any_size_has_an_answer(shape: tuple[int, int]) -> None:
    found = find_parchment(np.full((*shape, 3), 90, np.uint8), ParchmentSettings())
    assert found.shape == shape
    assert found.all()  # one colour: no background, so the mask is all True


def test_the_paper_looks_everywhere() -> None:
    one = scenes.drawn(1, letters=20)
    assert find_parchment(one.image, ParchmentSettings(find=False)).all()
