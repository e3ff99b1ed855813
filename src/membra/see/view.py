"""Rotates a piece upright and runs the eye on it until scale and rotation converge."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import Eye, EyeSettings, Look
from membra.see.fixes import Fixes, GivenRotation, without_painted
from membra.see.geometry import Mask, Matrix, from_look, shrunk, upright
from membra.see.turn import SURE, along_lines, direction, in_lines, ink_by_cell, letter_height

FAR = 25.0  # degrees of rotation above which writing counts as rotated
SLANT = 5.0  # degrees, the eye's error for slanting letters
TILT = 2.0  # degrees of remaining rotation, above which another look is taken
TOO_LOW, TOO_HIGH = 0.75, 1.35  # letter height over `read_at`; outside this range another look is taken


@dataclass(frozen=True)
class Piece:
    """A piece as the first look found it, with the eye, settings and corrections to read it."""

    photograph: NDArray[np.uint8]  # (h, w, 3) RGB
    within: Mask  # mask of the piece in the first look
    scale: float  # of the first look
    ink: Mask  # its ink there
    eye: Eye
    settings: EyeSettings
    fixes: Fixes = ()

    def high(self, height: float) -> float:
        """Clip a letter `height` in px of the first look to the minimum that can be distinguished from grain."""
        return max(height, self.settings.min_height * self.scale)

    def along(self, angle: float, height: float) -> float:
        """Return the angle near `angle` at which its ink forms the sharpest lines."""
        return along_lines(self.ink, angle, height)


@dataclass(frozen=True)
class View:
    """A piece rotated by some angle and scaled, with the eye's output for it."""

    angle: float  # degrees clockwise by which the piece was rotated
    matrix: Matrix  # (2, 3) from the photograph to the view
    picture: NDArray[np.uint8]  # (h, w, 3)
    look: Look
    inside: Mask  # (h, w) mask of the piece
    off: float  # degrees counter-clockwise, the remaining rotation of the writing
    sure: float  # 0 to 1, length of the mean direction
    height: float  # px, letter height; 0 where there is no ink

    @property
    def uprightness(self) -> float:
        """How upright the writing is, -1 to 1."""
        return self.sure * float(np.cos(np.deg2rad(self.off)))


def settled(piece: Piece, angle: float, height: float, sure: float) -> tuple[View, float]:
    """Look at a `piece` until scale and rotation converge; returns the last view, and the greatest certainty of all.

    Starts from the first look's estimates: the rotation `angle`, its certainty `sure`, and the letter `height` in px of
    that look. Each look corrects the estimates of the one before, at a better scale and rotation.
    """
    view = lay(piece, piece.along(angle, height), height, sure)
    sure = max(sure, view.sure)
    for _ in range(piece.settings.max_looks - 1):
        turn, size = still_turned(view, sure), view.height / piece.settings.read_at
        seen = piece.high(height * size)
        if not view.height or (turn == 0 and _as_high(piece, size, seen, height, sure)):
            break
        height = seen
        view = lay(piece, view.angle + turn, height, sure)
        sure = max(sure, view.sure)
    return view, sure


def lay_as_given(piece: Piece, said: GivenRotation, height: float) -> View:
    """Rotate the piece to the angle that a person gave, and look at it until the scale converges."""
    angle = said.angle if said.exact else piece.along(said.angle, height)
    return laid_at(piece, angle, height, SURE)


def laid_at(piece: Piece, angle: float, height: float, sure: float) -> View:
    """Rotate the piece by a known `angle`, and look at it until the scale converges."""
    view = lay(piece, angle, height, sure)
    for _ in range(piece.settings.max_looks - 1):
        size = view.height / piece.settings.read_at
        seen = piece.high(height * size)
        if not view.height or _as_high(piece, size, seen, height, sure):
            break
        height = seen
        view = lay(piece, angle, height, sure)
    return view


def _as_high(piece: Piece, size: float, seen: float, height: float, sure: float) -> bool:
    """Return whether no other look is needed for letters at `size` times the height `read_at`."""
    as_large = _factor(piece, seen, sure) == _factor(piece, height, sure)
    return TOO_LOW < size < TOO_HIGH or as_large


def still_turned(view: View, sure: float) -> float:
    """Return the remaining rotation of a view in degrees counter-clockwise; 0 where it is small or uncertain.

    `sure` is the greatest certainty of all looks so far. The eye determines which way is up, but may take slanting
    letters for rotated ones; the text lines determine the exact rotation.
    """
    if not view.height or abs(view.off) <= SLANT or view.sure <= max(SURE, 0.8 * sure):
        return 0.0
    ink = (view.look.ink > 127) & view.inside
    turn = along_lines(ink, view.off, view.height)
    far = abs(view.off) > FAR  # so far that lines cannot decide: they are as sharp upside down
    better = far or in_lines(ink, turn, view.height) > in_lines(ink, 0.0, view.height)
    return turn if better and abs(turn) > TILT else 0.0


def lay(piece: Piece, angle: float, height: float, sure: float) -> View:
    """Rotate the `piece` clockwise by `angle`, scale it for letters of `height` px in the first look, and look at it.

    `sure` is the certainty of the rotation; it limits the enlargement.
    """
    factor = _factor(piece, height, sure)
    matrix, size = upright(piece.within, piece.scale, angle, factor, piece.settings.max_pixels)
    small, rest = shrunk(piece.photograph, matrix)
    picture = cv2.warpAffine(small, rest, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    look = without_painted(piece.eye.look(np.asarray(picture, np.uint8)), piece.fixes, matrix)
    within = piece.within.astype(np.uint8)
    inside = cv2.warpAffine(within, from_look(matrix, piece.scale), size, flags=cv2.INTER_NEAREST) > 0
    weight = ink_by_cell(look, inside)
    off, sure = direction(look, weight)
    return View(angle, matrix, np.asarray(picture, np.uint8), look, inside, off, sure, letter_height(look, weight))


def _factor(piece: Piece, height: float, sure: float) -> float:
    """Return the scale, relative to the photograph, for a piece whose letters are `height` px high in the first look.

    Above 1 only if `sure` is at least SURE: marks without a common orientation may be grain, and are many.
    """
    settings = piece.settings
    return min(settings.max_scale if sure >= SURE else 1.0, settings.read_at * piece.scale / height)
