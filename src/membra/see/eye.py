"""The learned eye: for every pixel of a photograph how likely it is ink, and how likely it is writing surface.

It also says, for every cell of 16 pixels, which way the writing stands and how high its letters are. It runs through
ONNX Runtime in tiles, so that memory does not grow with the photograph. docs/eyes.md says what it has learnt from.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.errors import Invalid, MembraError
from membra.see.orientation import Orientation
from membra.see.session import network_bytes, open_session

CELL = 8  # px, cells over which the neighbourhood's light is measured
NEAR_CELLS = 17  # cells, the side of the neighbourhood: 136 px, five letters of 24 px
NEAR = 0.05  # of full light, the spread of a neighbourhood counts as at least so much
STRIDE = 16  # px to a cell of the fields; sizes are brought to multiples of it
TILE = 640  # px, looked at at once: 100 MB of memory
OVERLAP = 64  # px of a tile at each side that only help to see the rest
READY = Path(__file__).with_name("eye.onnx")  # the eye that comes with membra
ORIENTATION = Path(__file__).with_name("orientation.onnx")  # and the network that tells how letters stand

Network = TypeVar("Network")


@dataclass(frozen=True)
class EyeSettings:
    """How the eye is used."""

    first: int = 640  # px, longest side of the first look
    read_at: float = 28.0  # px, letters' height at the second look
    min_first: float = 11.0  # px, letters' height below which the first look is taken again, larger
    min_plate: float = 17.0  # px, the same where there are several pieces, which have to be told apart
    min_height: float = 11.0  # px in the photograph; lower letters cannot be told from grain
    max_scale: float = 2.5  # how far small letters are enlarged; beyond it there is nothing to see
    max_pixels: int = 40_000_000  # of a second look
    max_looks: int = 3  # at a piece, until scale and turn agree with what is seen
    as_it_lies: float = 0.1  # by how much another turn must look more upright (0 to 1) where none is known
    ink: float = 0.4  # probability from which on a pixel is ink
    doubted: float = 0.8  # the same where the writing stands no way that can be told: it may be none
    pale: float = 0.5  # mean contrast of the paler ink over that of the darker, below which it is the other side's
    two_groups: float = 0.87  # share of the variance of contrast between dark and pale; less: it fades by degrees
    min_dark: int = 10  # components of dark ink that there must be, to call the rest the other side's
    whole: float = 0.9  # share of a letter's box that must be on the sheet: a tear aslant takes corners, leaves letters
    enough: int = 12  # whole letters; a fragment with fewer is described from letters that the tear has cut as well
    surface: float = 0.35  # probability of surface, around a pixel, below which ink is not believed


@dataclass(frozen=True)
class Look:
    """What the eye sees of a picture (h, w, 3). Probabilities are bytes, 255 for certain."""

    ink: NDArray[np.uint8]  # (h, w)
    surface: NDArray[np.uint8]  # (h, w)
    turn: NDArray[np.float32]  # (2, rows, columns) cosine and sine of the writing's angle, shorter where it is unsure
    height: NDArray[np.float32]  # (rows, columns) px of a letter, where there is ink; cells of STRIDE px


class Eye:
    """The network, and the one that tells how letters stand.

    `digest` is the SHA-256 of their ONNX bytes: other eyes see other letters.
    """

    def __init__(self, onnx: bytes, *, orientation: Orientation | None = None, threads: int = 0) -> None:
        """From ONNX bytes; `threads` = 0 takes every core. Without `orientation` letters are not asked."""
        self._session = open_session(onnx, threads)
        if self._session.names != ["photograph", "maps", "fields"] or not self._can_see():
            raise Invalid("this model does not turn a photograph into maps and fields: not an eye of membra")
        self.orientation = orientation
        self.digest = _digest_of(onnx, orientation.onnx if orientation else b"")

    def _can_see(self) -> bool:
        """Whether a trial gives probabilities and fields of the right size: the names of a model promise little."""
        rows, columns = 2, 3
        try:
            blank = np.zeros((1, 3, rows * STRIDE, columns * STRIDE), np.float32)
            maps, fields = self._session.run(None, {"photograph": blank})
            sized = maps.shape == (1, 2, *blank.shape[2:]) and fields.shape == (1, 3, rows, columns)
            return bool(sized and np.isfinite(fields).all() and ((maps >= 0) & (maps <= 1)).all())
        except Exception:  # ONNX Runtime has no common base class for its errors
            return False

    def look(self, picture: NDArray[np.uint8]) -> Look:
        """What is seen of an RGB picture (h, w, 3), as it is; it is at its best with letters of 24 px."""
        rows, columns = picture.shape[:2]
        high, wide = (-(-side // STRIDE) * STRIDE for side in (rows, columns))
        ink, surface = np.zeros((high, wide), np.uint8), np.zeros((high, wide), np.uint8)
        fields = np.zeros((3, high // STRIDE, wide // STRIDE), np.float32)
        for down in _spans(high):
            for across in _spans(wide):
                self._tile(picture, down, across, ink, surface, fields)
        turn, height = fields[:2], 24 * np.exp2(np.clip(fields[2], -3, 3))
        return Look(ink[:rows, :columns], surface[:rows, :columns], turn, height)

    def _tile(
        self,
        picture: NDArray[np.uint8],
        down: tuple[int, int, int, int],
        across: tuple[int, int, int, int],
        ink: NDArray[np.uint8],
        surface: NDArray[np.uint8],
        fields: NDArray[np.float32],
    ) -> None:
        """Look at one tile, and keep its middle."""
        (top, bottom, first, last), (left, right, begin, end) = down, across
        part = picture[top:bottom, left:right]
        missing = (bottom - top - part.shape[0], right - left - part.shape[1])
        if any(missing):  # beyond the picture it goes on as at its edge
            part = np.asarray(cv2.copyMakeBorder(part, 0, missing[0], 0, missing[1], cv2.BORDER_REPLICATE), np.uint8)
        values = np.ascontiguousarray(part.transpose(2, 0, 1)[None], np.float32) / np.float32(255)
        maps, cells = self._session.run(None, {"photograph": values})
        kept = (slice(first - top, last - top), slice(begin - left, end - left))
        ink[first:last, begin:end] = np.rint(maps[0, 0][kept] * 255)
        surface[first:last, begin:end] = np.rint(maps[0, 1][kept] * 255)
        rows, columns = slice(first // STRIDE, last // STRIDE), slice(begin // STRIDE, end // STRIDE)
        fields[:, rows, columns] = cells[0][
            :,
            rows.start - top // STRIDE : rows.stop - top // STRIDE,
            columns.start - left // STRIDE : columns.stop - left // STRIDE,
        ]


def ready_eye() -> Eye:
    """The eye that comes with membra, opened once in a process, with as many threads as OpenCV has there."""
    return _opened(cv2.getNumThreads())


@lru_cache(maxsize=2)
def _opened(threads: int) -> Eye:
    return open_eye(READY, ORIENTATION, threads=threads)


def open_eye(path: Path, orientation: Path | None = None, *, threads: int = 0) -> Eye:
    """The eye in a file, and the network of `orientation` in another; refused by their content if they are none."""
    tells = _from_file(orientation, partial(Orientation, threads=threads)) if orientation else None
    return _from_file(path, partial(Eye, orientation=tells, threads=threads))


def _from_file(path: Path, make: Callable[[bytes], Network]) -> Network:
    content = network_bytes(path)
    try:
        return make(content)
    except MembraError as error:
        raise Invalid("{file}: {why}; install membra again", file=path, why=error) from None


@lru_cache(maxsize=1)
def ready_digest() -> str:
    """SHA-256 of the eye that comes with membra."""
    return _digest_of(network_bytes(READY), network_bytes(ORIENTATION))


def _digest_of(*networks: bytes) -> str:
    return hashlib.sha256(b"".join(networks)).hexdigest()


def _spans(side: int) -> list[tuple[int, int, int, int]]:
    """How `side` px (a multiple of STRIDE) are cut into tiles: from, to, and from, to of what is kept of it."""
    if side <= TILE:
        return [(0, side, 0, side)]
    step = TILE - 2 * OVERLAP
    spans = []
    for first in range(0, side, step):
        last = min(first + step, side)
        start, stop = max(0, first - OVERLAP), min(side, last + OVERLAP)
        spans.append((start, stop, first, last))
    return spans
