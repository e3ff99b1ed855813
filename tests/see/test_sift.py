"""Tests of SIFT on ink: unit rows, reproducible, and upright descriptors that depend on rotation."""

import cv2
import numpy as np
import pytest

from membra.see.sift import SiftSettings, sift


def writing(angle: float = 0.0) -> np.ndarray:
    page = np.zeros((300, 300), np.uint8)
    for line in range(60, 260, 50):
        cv2.putText(page, "abgdh zxy", (50, line), cv2.FONT_HERSHEY_COMPLEX, 1.0, 255, 3)
    turn = cv2.getRotationMatrix2D((150, 150), angle, 1)
    return np.asarray(cv2.warpAffine(page, turn, (300, 300)), np.uint8)


def test_rows_are_root_sift() -> None:
    found = sift(writing(), SiftSettings())
    assert len(found) > 50
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(len(found)), abs=1e-5)
    assert np.array_equal(found, sift(writing(), SiftSettings()))


def test_upright_descriptors_feel_a_turn() -> None:
    """By nearest descriptors: after a quarter turn the upright ones are further apart than rotation-invariant ones."""

    def away(upright: bool) -> float:
        a, b = (sift(writing(angle), SiftSettings(upright=upright)) for angle in (0.0, 90.0))
        return float((2 - 2 * (a @ b.T).max(axis=1)).mean())

    assert away(upright=True) > 1.2 * away(upright=False)


def test_nothing_on_a_blank_page_and_no_more_than_asked() -> None:
    assert sift(np.zeros((80, 80), np.uint8), SiftSettings()).shape == (0, 128)
    assert sift(np.zeros((0, 0), np.uint8), SiftSettings()).shape == (0, 128)
    assert len(sift(writing(), SiftSettings(max_descriptors=20))) == 20
