"""The orientation network: estimates the rotation of writing from its ink alone, letter by letter.

The eye estimates the angle of the writing from the photograph, cell by cell. Where a hand slants, or where little of
the letters is preserved, its cells disagree, and occasionally they agree on a wrong angle. This second, small network
takes only the binary ink, scaled to one letter height, and so does not depend on camera, sheet or light. For a window
around each letter it gives a probability for every direction of the circle; the probabilities of a piece are combined
with each other and with the eye's estimate.
"""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.errors import Invalid
from membra.see.session import open_session

SIDE = 48  # px, side of a window of the network
REACH = 1.4  # letter heights from a letter's centre to the edge of its window
DIRECTIONS = 24  # bins of the circle, 15 degrees each
MAX_LETTERS = 32  # letters whose votes are used; more do not improve the estimate
AS_MANY = 12.0  # upper bound of the number of independent votes: letters of one hand have correlated errors
EYE = 2.0  # concentration of the eye's von Mises distribution when all its cells agree, in log probability
UPRIGHT = 1.5  # concentration of the prior that a photograph is taken upright, in log probability

Floats = NDArray[np.float32]


class Orientation:
    """The network, and the `onnx` bytes that it was opened from."""

    def __init__(self, onnx: bytes, *, threads: int = 0) -> None:
        """Open ONNX bytes; `threads` = 0 uses every core."""
        self._session = open_session(onnx, threads)
        if self._session.names != ["windows", "directions"] or not self._passes_trial():
            raise Invalid(
                "this model is not an orientation network of membra: it does not tell which way letters stand"
            )
        self.onnx = onnx

    def _passes_trial(self) -> bool:
        """Return whether a trial run gives log probabilities of the right shape: names alone prove little."""
        try:
            (found,) = self._session.run(None, {"windows": np.zeros((2, 1, SIDE, SIDE), np.float32)})
            return found.shape == (2, DIRECTIONS) and bool(np.allclose(np.exp(found).sum(axis=1), 1, atol=1e-3))
        except Exception:  # ONNX Runtime has no common base class for its errors
            return False

    def votes(self, windows: NDArray[np.uint8]) -> Floats:
        """Return the log probability (n, DIRECTIONS) of each rotation for the ink in windows (n, SIDE, SIDE).

        The network runs on each window as it is and upside down, and the two outputs are averaged, since their errors
        differ.
        """
        if not len(windows):
            return np.zeros((0, DIRECTIONS), np.float32)
        both = np.concatenate([windows, windows[:, ::-1, ::-1]])[:, None].astype(np.float32) / np.float32(255)
        (found,) = self._session.run(None, {"windows": both})
        plain, turned = np.split(found, 2)
        return np.asarray((plain + np.roll(turned, DIRECTIONS // 2, axis=1)) / 2, np.float32)


def windows_of(
    ink: NDArray[np.uint8], centres: NDArray[np.float64], height: float, most: int = MAX_LETTERS
) -> NDArray[np.uint8]:
    """Cut circular windows (n, SIDE, SIDE) from `ink` (h, w), whose letters are `height` px high, around `centres`.

    `centres` are (m, 2) x, y; at most `most` of them are used, evenly spaced.
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
    """Return the rotation of letters in degrees counter-clockwise, and its certainty, 0 to 1.

    `votes` (n, DIRECTIONS) are log probabilities. `off` and `sure` are the eye's estimate (`turn.direction`) for a view
    that was rotated clockwise by `laid` degrees. The posterior is the product of the votes as independent, tempered to
    at most AS_MANY of them, and of von Mises distributions about the eye's angle and about the photograph's upright.
    The direction and the length of its mean are returned (K. Mardia, P. Jupp, "Directional Statistics", 2000).
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
    """Return a (SIDE, SIDE) mask, 1 within the circle: corners would reveal the rotation of a window."""
    across = np.arange(SIDE) - (SIDE - 1) / 2
    return np.asarray(np.hypot(across, across[:, None]) <= SIDE / 2, np.uint8)
