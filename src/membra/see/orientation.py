"""Which way letters stand, told from their ink alone, letter by letter.

The eye tells the angle of the writing from the photograph, cell by cell. Where hands slant, or where little is left of
their letters, its cells disagree, and now and then they agree on the wrong way. This second, small network sees only
the ink that was found, brought to one height: no camera, no sheet, no light. It gives each letter with its
neighbours a probability for every direction of the circle; those of a piece are multiplied, and the eye's with them.
"""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.errors import Invalid
from membra.see.session import open_session

SIDE = 48  # px of a window, as the network sees it
REACH = 1.4  # letter heights from a letter's middle to the edge of its window
DIRECTIONS = 24  # that the circle is divided into, each of 15 degrees
MAX_LETTERS = 32  # that vote; more would tell no more
AS_MANY = 12.0  # letters that vote as if each knew nothing of the others: all are of one hand, and err alike
EYE = 2.0  # how much the eye's word weighs, were its cells all agreed, in logarithms of probability
UPRIGHT = 1.5  # how much it weighs that most photographs are taken upright

Floats = NDArray[np.float32]


class Orientation:
    """The network, and the `onnx` bytes that it was opened from."""

    def __init__(self, onnx: bytes, *, threads: int = 0) -> None:
        """From ONNX bytes; `threads` = 0 takes every core."""
        self._session = open_session(onnx, threads)
        if self._session.names != ["windows", "directions"] or not self._can_tell():
            raise Invalid("this model does not tell which way letters stand: not an orientation network of membra")
        self.onnx = onnx

    def _can_tell(self) -> bool:
        """Whether a trial gives logarithms of probabilities: the names of a model promise little."""
        try:
            (told,) = self._session.run(None, {"windows": np.zeros((2, 1, SIDE, SIDE), np.float32)})
            return told.shape == (2, DIRECTIONS) and bool(np.allclose(np.exp(told).sum(axis=1), 1, atol=1e-3))
        except Exception:  # ONNX Runtime has no common base class for its errors
            return False

    def votes(self, windows: NDArray[np.uint8]) -> Floats:
        """(n, DIRECTIONS) logarithms of the probability that the ink in windows (n, SIDE, SIDE) stands turned by each.

        Each window is asked as it is and upside down, and the two answers are averaged: they err apart.
        """
        if not len(windows):
            return np.zeros((0, DIRECTIONS), np.float32)
        both = np.concatenate([windows, windows[:, ::-1, ::-1]])[:, None].astype(np.float32) / np.float32(255)
        (told,) = self._session.run(None, {"windows": both})
        plain, turned = np.split(told, 2)
        return np.asarray((plain + np.roll(turned, DIRECTIONS // 2, axis=1)) / 2, np.float32)


def windows_of(
    ink: NDArray[np.uint8], centres: NDArray[np.float64], height: float, most: int = MAX_LETTERS
) -> NDArray[np.uint8]:
    """(n, SIDE, SIDE) round windows of `ink` (h, w), whose letters are `height` px high, about `centres` (n, 2) x, y.

    At most `most`, evenly spread over those that are given.
    """
    some = np.linspace(0, len(centres) - 1, min(len(centres), most)).round().astype(int)
    reach = REACH * height
    scale = SIDE / (2 * reach)
    small = cv2.resize(ink, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if ink.size else ink
    half = SIDE // 2
    padded = np.pad(small, half)
    found = np.zeros((len(some), SIDE, SIDE), np.uint8)
    for window, (x, y) in zip(found, np.rint(centres[some] * scale).astype(int), strict=True):
        across, down = int(np.clip(x, 0, small.shape[1])), int(np.clip(y, 0, small.shape[0]))
        window[:] = padded[down : down + SIDE, across : across + SIDE]
    return found * _round()


def standing(votes: Floats, off: float, sure: float, laid: float = 0.0) -> tuple[float, float]:
    """Degrees counter-clockwise by which letters with these `votes` (n, DIRECTIONS) stand turned, and how certain that
    is: 1 where no other direction is likely.

    `off` and `sure` are the eye's word for it (`turn.direction`), of a view that was laid turned clockwise by `laid`.
    The posterior is that of letters that know nothing of each other, tempered to AS_MANY of them, times von Mises
    distributions about the eye's angle and about the photograph's own; its mean direction and length are returned
    (K. Mardia, P. Jupp, "Directional Statistics", 2000).
    """
    around = np.arange(DIRECTIONS) * (2 * np.pi / DIRECTIONS)
    logits = EYE * sure * np.cos(around - np.deg2rad(off)) + UPRIGHT * np.cos(around + np.deg2rad(laid))
    if len(votes):
        logits = logits + votes.mean(axis=0) * min(len(votes), AS_MANY)
    likely = np.exp(logits - logits.max())
    mean = (likely * np.exp(1j * around)).sum() / likely.sum()
    return float(np.degrees(np.angle(mean))), float(np.abs(mean))


@lru_cache(maxsize=1)
def _round() -> NDArray[np.uint8]:
    """(SIDE, SIDE) 1 within the circle: the corners would tell how a window was turned."""
    across = np.arange(SIDE) - (SIDE - 1) / 2
    return np.asarray(np.hypot(across, across[:, None]) <= SIDE / 2, np.uint8)
