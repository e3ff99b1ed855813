"""The eye: a segmentation network that gives, for every pixel, the probability of ink and of writing surface.

It also estimates the orientation of the writing and the letter height, once per cell of 16 x 16 px. It runs through
ONNX Runtime in tiles, so that memory does not grow with the photograph. docs/eyes.md describes its training data.
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

CELL = 8  # px, side of the cells over which local brightness is measured
NEAR_CELLS = 17  # cells, side of the neighbourhood: 136 px, five letters of 24 px
NEAR = 0.05  # of full scale, added to the standard deviation of a neighbourhood as its floor
STRIDE = 16  # px per cell of the fields; picture sizes are padded to multiples of it
TILE = 640  # px, side of a tile: 100 MB of memory
OVERLAP = 64  # px at each side of a tile that are context only, and whose output is discarded
READY = Path(__file__).with_name("eye.onnx")  # the eye that ships with membra
ORIENTATION = Path(__file__).with_name("orientation.onnx")  # the orientation network that ships with membra

Network = TypeVar("Network")


@dataclass(frozen=True)
class EyeSettings:
    """How the eye is run on a photograph, and which of its output is used."""

    first: int = 640  # px, longest side of the photograph in the first look
    read_at: float = 28.0  # px, letter height in the second look
    min_first: float = 11.0  # px, letter height below which the first look is repeated at a larger scale
    min_plate: float = 17.0  # px, the same for a photograph of several pieces, which have to be separated
    min_height: float = 11.0  # px in the photograph; lower letters cannot be distinguished from grain
    max_scale: float = 2.5  # upper bound of the enlargement of small letters; more shows no further detail
    max_pixels: int = 40_000_000  # of a second look
    max_looks: int = 3  # per piece, until scale and rotation converge
    as_it_lies: float = 0.1  # by how much more upright (0 to 1) a rotation must score than none, where it is unknown
    ink: float = 0.4  # probability from which a pixel is ink
    doubted: float = 0.8  # the same where the orientation is unknown: it may be no writing
    pale: float = 0.5  # mean contrast of pale over dark ink, below which the pale ink is from the other side
    two_groups: float = 0.87  # share of the contrast's variance between dark and pale; less: ink that fades gradually
    min_dark: int = 10  # components of dark ink that are needed to attribute the pale ones to the other side
    whole: float = 0.9  # share of a glyph's box that must be on the sheet: an oblique tear cuts corners of the box only
    enough: int = 12  # whole glyphs; a fragment with fewer is described with the glyphs that the tear has cut, too
    surface: float = 0.35  # mean probability of surface around a pixel, below which ink is ignored


@dataclass(frozen=True)
class Look:
    """The eye's output for a picture (h, w, 3). Probabilities are scaled to 0 to 255."""

    ink: NDArray[np.uint8]  # (h, w) probability
    surface: NDArray[np.uint8]  # (h, w) probability
    turn: NDArray[np.float32]  # (2, rows, columns) cosine and sine of the writing's angle, shorter where uncertain
    height: NDArray[np.float32]  # (rows, columns) letter height in px, where there is ink; cells of STRIDE px


class Eye:
    """The segmentation network, with the orientation network where there is one.

    `digest` is the SHA-256 of the ONNX bytes of both: other networks find other glyphs.
    """

    def __init__(self, onnx: bytes, *, orientation: Orientation | None = None, threads: int = 0) -> None:
        """Open ONNX bytes; `threads` = 0 uses every core. Without `orientation`, the eye alone gives the rotation."""
        self._session = open_session(onnx, threads)
        if self._session.names != ["photograph", "maps", "fields"] or not self._passes_trial():
            raise Invalid("this model is not an eye of membra: it does not turn a photograph into maps and fields")
        self.orientation = orientation
        self.digest = _digest_of(onnx, orientation.onnx if orientation else b"")

    def _passes_trial(self) -> bool:
        """Return whether a trial run gives probabilities and fields of the right shape: names alone prove little."""
        rows, columns = 2, 3
        try:
            blank = np.zeros((1, 3, rows * STRIDE, columns * STRIDE), np.float32)
            maps, fields = self._session.run(None, {"photograph": blank})
            sized = maps.shape == (1, 2, *blank.shape[2:]) and fields.shape == (1, 3, rows, columns)
            return bool(sized and np.isfinite(fields).all() and ((maps >= 0) & (maps <= 1)).all())
        except Exception:  # ONNX Runtime has no common base class for its errors
            return False

    def look(self, picture: NDArray[np.uint8]) -> Look:
        """Run the network on an RGB picture (h, w, 3) at its own scale; accuracy is best at letters of 24 px."""
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
        """Run the network on one tile, and write the output of its middle into `ink`, `surface` and `fields`."""
        (top, bottom, first, last), (left, right, begin, end) = down, across
        part = picture[top:bottom, left:right]
        missing = (bottom - top - part.shape[0], right - left - part.shape[1])
        if any(missing):  # beyond the picture, replicate its edge
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
    """Return the eye that ships with membra, opened once per process, with the number of threads that OpenCV uses."""
    return _opened(cv2.getNumThreads())


@lru_cache(maxsize=2)
def _opened(threads: int) -> Eye:
    return open_eye(READY, ORIENTATION, threads=threads)


def open_eye(path: Path, orientation: Path | None = None, *, threads: int = 0) -> Eye:
    """Open the eye of one file and the orientation network of another; raises `Invalid` where either is none."""
    network = _from_file(orientation, partial(Orientation, threads=threads)) if orientation else None
    return _from_file(path, partial(Eye, orientation=network, threads=threads))


def _from_file(path: Path, make: Callable[[bytes], Network]) -> Network:
    content = network_bytes(path)
    try:
        return make(content)
    except MembraError as error:
        raise Invalid("{file}: {why}; install membra again", file=path, why=error) from None


@lru_cache(maxsize=1)
def ready_digest() -> str:
    """Return the SHA-256 of the eye that ships with membra, its orientation network included."""
    return _digest_of(network_bytes(READY), network_bytes(ORIENTATION))


def _digest_of(*networks: bytes) -> str:
    return hashlib.sha256(b"".join(networks)).hexdigest()


def _spans(side: int) -> list[tuple[int, int, int, int]]:
    """Cut `side` px (a multiple of STRIDE) into tiles: start and stop of each, and start and stop of what is kept."""
    if side <= TILE:
        return [(0, side, 0, side)]
    step = TILE - 2 * OVERLAP
    spans = []
    for first in range(0, side, step):
        last = min(first + step, side)
        start, stop = max(0, first - OVERLAP), min(side, last + OVERLAP)
        spans.append((start, stop, first, last))
    return spans
