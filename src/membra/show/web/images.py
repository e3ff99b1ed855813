"""Pictures of the pages: thumbnails, deep-zoom tiles, strips of letters; made on demand and cached on disk."""

import hashlib
import math
import os
import shutil
import tempfile
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from platformdirs import user_cache_path

from membra.errors import Refused
from membra.show.strips import cut_letter, encoded, strip
from membra.show.upright import upright_view
from membra.sources.photograph import displayed_size, read_photograph

TILE = 512  # px, side of a tile
SMALL, WHOLE = 320, 1600  # px, longer side of a thumbnail, and of the picture on pages without script
LETTER = 44  # px, letter height in a strip
MAX_LETTERS = 12  # in a strip
BETWEEN = "#b3a899"  # colour between letters, for light and dark pages
_KEPT_PIXELS = 100_000_000  # of decoded photographs in memory: two large ones and 300 MB
_KEPT_BYTES = 2_000_000_000  # of the cache on disk; above it the oldest pictures are deleted
_EIGHT_BIT = ("L", "RGB", "YCbCr", "CMYK", "P", "1")


@dataclass(frozen=True)
class Size:
    """The displayed size of a photograph and its tile pyramid: each level is half the size of the next."""

    width: int
    height: int
    least: int  # the level that fits into one tile
    most: int  # the level at full size


@dataclass(frozen=True)
class Standing:
    """How a photograph is shown: upright, all of it or one piece."""

    angle: float | None = None  # rotation of the writing, degrees counter-clockwise; None: not rotated
    outline: tuple[tuple[int, int], ...] = ()  # of a piece

    @property
    def name(self) -> str:
        """Part of the file name in the cache."""
        return f"-{_digest((self.angle, self.outline))}" if self.angle or self.outline else ""


AS_IT_IS = Standing()


class Pictures:
    """The pictures of photographs, by path. They are made again when a photograph changes on disk."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache / "pictures"
        self.cache.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._seeing = threading.Lock()
        self._reading: dict[str, threading.Lock] = {}
        self._photographs: OrderedDict[str, NDArray[np.uint8]] = OrderedDict()
        self._sizes: dict[str, Size] = {}

    def size(self, path: Path) -> Size:
        """Return the displayed size, read from the header alone; raise `Refused` if it is no image."""
        key = _key(path)
        if key not in self._sizes:
            self._sizes[key] = _pyramid(*displayed_size(path))
        return self._sizes[key]

    def small(self, path: Path, stands: Standing = AS_IT_IS) -> bytes:
        """Return a thumbnail as JPEG."""
        return self._kept(path, f"small-{SMALL}{stands.name}.jpg", lambda: _upright(path, SMALL, stands))

    def whole(self, path: Path, stands: Standing = AS_IT_IS) -> bytes:
        """Return the whole photograph or piece at screen size as JPEG."""
        return self._kept(path, f"whole-{WHOLE}{stands.name}.jpg", lambda: _upright(path, WHOLE, stands))

    def seen(self, path: Path, key: object, draw: Callable[[NDArray[np.uint8]], Image.Image]) -> bytes:
        """Return the photograph with its overlay as JPEG; `key` has the other inputs of `draw`."""

        def one_at_a_time() -> Image.Image:
            with self._seeing:  # reading a photograph uses every processor
                return draw(self._photograph(path))

        return self._kept(path, f"seen-{_digest(key)}.jpg", one_at_a_time)

    def tile(self, path: Path, level: int, x: int, y: int) -> bytes | None:
        """Return one tile as JPEG; None if it does not exist."""
        size = self.size(path)
        if not size.least <= level <= size.most:
            return None
        factor = 2 ** (size.most - level)
        left, top = x * TILE * factor, y * TILE * factor
        if x < 0 or y < 0 or left >= size.width or top >= size.height:
            return None

        def cut() -> Image.Image:
            photograph = self._photograph(path)
            part = photograph[top : top + TILE * factor, left : left + TILE * factor]
            image = Image.fromarray(np.ascontiguousarray(part))
            return image.reduce(factor) if factor > 1 else image

        return self._kept(path, f"{level}_{x}_{y}.jpg", cut)

    def letters(self, path: Path, boxes: Sequence[Sequence[int]], letter_height: float, angle: float | None) -> bytes:
        """Return letters side by side, upright at one height, as JPEG. `boxes`: x, y, width, height each."""
        shown = [tuple(int(value) for value in box) for box in boxes[:MAX_LETTERS]]
        name = _digest((shown, round(letter_height, 2), angle, LETTER, BETWEEN))

        def cut() -> Image.Image:
            photograph = self._photograph(path)
            return strip(
                [cut_letter(photograph, box, letter_height, height=LETTER, angle=angle) for box in shown],
                gap=4,
                paper=BETWEEN,
            )

        return self._kept(path, f"letters-{name}.jpg", cut)

    def tidy(self) -> None:
        """Delete the oldest pictures if the cache is above its limit."""
        folders = [folder for folder in self.cache.glob("*/*") if folder.is_dir()]
        sized = [
            (folder.stat().st_mtime, sum(f.stat().st_size for f in folder.iterdir()), folder) for folder in folders
        ]
        total = sum(size for _, size, _ in sized)
        for _, size, folder in sorted(sized, key=lambda one: one[0]):
            if total <= _KEPT_BYTES:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total -= size

    def _photograph(self, path: Path) -> NDArray[np.uint8]:
        """Return the decoded photograph; concurrent requests share one decoding."""
        key = _key(path)
        with self._lock:
            reading = self._reading.setdefault(key, threading.Lock())
        with reading:
            with self._lock:
                if key in self._photographs:
                    self._photographs.move_to_end(key)
                    return self._photographs[key]
            photograph = read_photograph(path)
            with self._lock:
                self._photographs[key] = photograph
                while (
                    len(self._photographs) > 1 and sum(p.size // 3 for p in self._photographs.values()) > _KEPT_PIXELS
                ):
                    self._photographs.popitem(last=False)
                self._reading.pop(key, None)
        return photograph

    def _kept(self, path: Path, name: str, make: Callable[[], Image.Image]) -> bytes:
        """Return a picture from the cache, or make and cache it. An unwritable cache only costs time."""
        key = _key(path)
        file = self.cache / key[:2] / key / name
        try:
            return file.read_bytes()
        except OSError:
            pass
        content = encoded(make())
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=file.parent, suffix=".part")
            with os.fdopen(handle, "wb") as whole:
                whole.write(content)
            Path(beside).replace(file)
        except OSError:
            pass
        return content


def cache_folder() -> Path:
    """Return the folder of cached pictures: the user's cache, or a temporary folder if that is not writable."""
    folder = user_cache_path("membra", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.gettempdir()) / "membra"


def _key(path: Path) -> str:
    """Return a key of a photograph's content from its path, modification time and size."""
    try:
        there = path.stat()
    except OSError:
        raise Refused("{file}: the file is gone", file=path.name) from None
    return hashlib.sha256(f"{path}\0{there.st_mtime_ns}\0{there.st_size}".encode(errors="surrogatepass")).hexdigest()[
        :24
    ]


def _pyramid(width: int, height: int) -> Size:
    most = max(1, width, height) - 1
    levels = most.bit_length()  # 2^levels >= the longer side
    fits = max(0, levels - (TILE.bit_length() - 1))  # halvings until it fits into one tile
    return Size(width, height, levels - fits, levels)


def _digest(key: object) -> str:
    return hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _upright(path: Path, side: int, stands: Standing) -> Image.Image:
    """Return the photograph or piece upright within a square of `side` px, decoded no larger than needed."""
    if not (stands.angle or stands.outline):
        return _reduced(path, side)
    size = displayed_size(path)
    view = upright_view(size, stands.angle, np.array(stands.outline, np.int32).reshape(-1, 2)).within(side)
    reduced = _reduced(path, math.ceil(max(size) * min(1.0, view.scale)))
    return view.draw(np.asarray(reduced), max(reduced.size) / max(size))


def _reduced(path: Path, side: int) -> Image.Image:
    """Return the photograph within a square of `side` px; JPEGs are decoded at reduced size, which is far faster."""
    displayed_size(path)  # raises if it is too large
    try:
        with warnings.catch_warnings(), path.open("rb") as file:
            warnings.simplefilter("ignore")
            with Image.open(file, formats=("JPEG",)) as image:
                if image.mode in _EIGHT_BIT:
                    image.draft("RGB", (side, side))
                    turned = ImageOps.exif_transpose(image).convert("RGB")
                    turned.thumbnail((side, side), Image.Resampling.LANCZOS)
                    return turned
    except Exception:  # no JPEG, or a damaged one: `read_photograph` below reports the error
        pass
    whole = Image.fromarray(read_photograph(path))
    whole.thumbnail((side, side), Image.Resampling.LANCZOS)
    return whole
