"""A piece of a photograph laid upright and looked at, again and again until scale and turn agree with what is seen."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import Eye, EyeSettings, Look
from membra.see.fixes import Fixes, Told, without_painted
from membra.see.geometry import Mask, Matrix, from_look, shrunk, upright
from membra.see.turn import SURE, along_lines, direction, in_lines, ink_by_cell, letter_height

FAR = 25.0  # degrees by which writing must be turned to be called turned
SLANT = 5.0  # degrees that the eye may take slanting letters to be turned by
TILT = 2.0  # degrees by which lines must be turned for another look to be worth it
TOO_LOW, TOO_HIGH = 0.75, 1.35  # times the height that letters are to be read at; beyond it they are looked at again


@dataclass(frozen=True)
class Piece:
    """A piece of a photograph as the first look found it, and who looks at it."""

    photograph: NDArray[np.uint8]  # (h, w, 3) RGB
    within: Mask  # where it is in the first look
    scale: float  # of the first look
    ink: Mask  # its ink there
    eye: Eye
    settings: EyeSettings
    fixes: Fixes = ()

    def high(self, height: float) -> float:
        """The letters' height in px of the first look, but not so low that they cannot be told from grain."""
        return max(height, self.settings.min_height * self.scale)

    def along(self, angle: float, height: float) -> float:
        """The angle near `angle` under which its ink falls into lines best."""
        return along_lines(self.ink, angle, height)


@dataclass(frozen=True)
class View:
    """A piece laid upright by some angle and looked at."""

    angle: float  # degrees by which it was turned clockwise
    matrix: Matrix  # (2, 3) from the photograph to the view
    picture: NDArray[np.uint8]  # (h, w, 3)
    look: Look
    inside: Mask  # (h, w) where the piece is
    off: float  # degrees by which the writing is still turned
    sure: float  # 0 to 1, how far it stands the same way
    height: float  # px of its letters, 0 where there is no ink

    @property
    def stands(self) -> float:
        """How far the writing stands upright, -1 to 1."""
        return self.sure * float(np.cos(np.deg2rad(self.off)))


def settled(piece: Piece, angle: float, height: float, sure: float) -> tuple[View, float]:
    """The view of a `piece` whose writing seems to stand turned by `angle`, `sure` of it, with letters `height` px high
    in the first look; and how sure its turn is by all looks.

    What one look says of scale and turn is checked by the next, which sees better.
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


def as_told(piece: Piece, said: Told, height: float) -> View:
    """The piece laid as a person says that it stands, and looked at until the scale agrees with what is seen."""
    angle = said.angle if said.exact else piece.along(said.angle, height)
    return laid_at(piece, angle, height, SURE)


def laid_at(piece: Piece, angle: float, height: float, sure: float) -> View:
    """The piece laid by an `angle` that is known, and looked at until the scale agrees with what is seen."""
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
    """Whether letters that are `size` times as high as they are to be read at need no other look."""
    as_large = _factor(piece, seen, sure) == _factor(piece, height, sure)
    return TOO_LOW < size < TOO_HIGH or as_large


def still_turned(view: View, sure: float) -> float:
    """Degrees counter-clockwise by which the writing of a view is still turned; 0 where that is little or unsure.

    `sure` is how far the writing stands the same way in all looks that there were. The eye tells which way is up, and
    may take slanting letters for turned ones: by how much they are turned, lines tell.
    """
    if not view.height or abs(view.off) <= SLANT or view.sure <= max(SURE, 0.8 * sure):
        return 0.0
    ink = (view.look.ink > 127) & view.inside
    turn = along_lines(ink, view.off, view.height)
    far = abs(view.off) > FAR  # so far that lines cannot tell: they are as sharp upside down
    better = far or in_lines(ink, turn, view.height) > in_lines(ink, 0.0, view.height)
    return turn if better and abs(turn) > TILT else 0.0


def lay(piece: Piece, angle: float, height: float, sure: float) -> View:
    """The `piece`, whose letters are `height` px high in the first look, laid upright and looked at."""
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
    """By how much a piece is enlarged whose letters are `height` px high in the first look.

    More than once only if it is `sure` to be writing: what stands anyhow may be grain, and there is a lot of it.
    """
    settings = piece.settings
    return min(settings.max_scale if sure >= SURE else 1.0, settings.read_at * piece.scale / height)
