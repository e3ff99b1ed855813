"""The letters that the encoder is trained and tested on, and the folds of their manuscripts.

A *row* is a photograph, or a window of one: the smallest rectangle around a letter and its nearest ones, cut from the
photograph and processed like any image. Some windows are first artificially worn, torn, rotated and photographed again
(`scribes/recapture.py`). Rows of one manuscript share its `join` and its fold: every manuscript is in one fold, drawn
once and stored in `folds.csv`, and its rows are test queries only for encoders that have not seen it.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zlib import crc32

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from membra.see.reading import Reading

FOLDS = Path(__file__).parent / "folds.csv"
COUNT = 5  # folds
FRAGMENTS = ("hebrew", "latin", "tiny", "hands")  # sets with test queries; `hands` are crops of pages
PAGES = ("hebrew-pages", "latin-pages")  # uncut pages of the same manuscripts, by another camera
WINDOWS = (16, 30)  # letters
WORN = (20, 80)  # letters of a worn window, from and to
CAPTURES = 2  # worn windows per photograph: the first is a test query, both are trained on
ASTRAY = 15.0  # degrees; a window read with a larger rotation error is not a training example
# letters per row: enough for its hand without outweighing others, and few enough in all to be copied to a GPU machine
MAX_LETTERS = {"hebrew": 200, "latin": 160, "tiny": 200, "hands": 120, "hebrew-pages": 120, "latin-pages": 120}
ROOM = 1.25  # letters that a photograph needs for a window, as a multiple of the window's
MARGIN = 0.15  # letter heights around a window
WORN_MARGIN = 0.8  # around a window that is then torn


@dataclass(frozen=True)
class Letters:
    """Letters and the rows that they belong to.

    patches : (n, 64, 64) uint8
    owner : (n,) the row of each letter, ascending
    set, kind, join, leaf, source : (m,) per row; kind is `whole`, `page`, `16`, `30`, `worn` or `worn again`;
        source is the camera
    trained : (m,) whether it is a training example: not windows of `16` and `30`, which are parts of photographs that
        are, nor worn windows read at a wrong rotation
    fold : (m,) fold of its manuscript
    """

    patches: NDArray[np.uint8]
    owner: NDArray[np.int64]
    set: NDArray[np.str_]
    kind: NDArray[np.str_]
    join: NDArray[np.str_]
    leaf: NDArray[np.str_]
    source: NDArray[np.str_]
    trained: NDArray[np.bool_]
    fold: NDArray[np.int64]

    def of(self, row: int) -> NDArray[np.uint8]:
        first, last = np.searchsorted(self.owner, [row, row + 1])
        return self.patches[first:last]


_COLUMNS = ("set", "kind", "join", "leaf", "source", "trained")


@dataclass(frozen=True)
class _Row:
    set: str
    kind: str
    join: str
    leaf: str
    source: str
    trained: bool
    patches: NDArray[np.uint8]


def fold_of() -> dict[str, int]:
    """Return the fold of each manuscript."""
    with FOLDS.open(newline="") as file:
        return {row["join"]: int(row["fold"]) for row in csv.DictReader(file)}


def draw_folds(data: Path, seed: int = 2026) -> None:
    """Write `folds.csv`: the manuscripts of each set in random folds. Run once: a new draw changes every score."""
    dealt = []
    for number, name in enumerate(("hebrew", "latin", "hands")):
        with (data / name / "fragments.csv").open(newline="") as file:
            joins = sorted({row["join"] for row in csv.DictReader(file)})
        order = np.random.default_rng([seed, number]).permutation(len(joins))
        dealt += [(joins[at], position % COUNT) for position, at in enumerate(order.tolist())]
    with FOLDS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("join", "fold"), *sorted(dealt)])


def gather(data: Path, out: Path, windows: Sequence[int] = WINDOWS, captures: int = CAPTURES) -> Iterator[str]:
    """Cut the letters of every set and window into `out`; yield a line of progress per set.

    Fewer `windows` (letters of each) and `captures` (worn windows per photograph) take less time. Patches are stored
    with 8 grey levels, two pixels per byte, which compress well and suffice for training.
    """
    from membra.compare.threads import processors
    from membra.describe.workers import Workers
    from membra.sources.fragment import fragments

    rows: list[_Row] = []
    with Workers(processors()) as pool, TemporaryDirectory(prefix="membra-windows-") as folder:
        for name in (*FRAGMENTS, *PAGES):
            found = fragments(data / name / "fragments.csv")
            own_windows = windows if name in FRAGMENTS else ()
            cut = partial(_cut, name=name, windows=own_windows, captures=captures, folder=Path(folder))
            for own in pool.each(cut, list(enumerate(found)), None):
                rows += own if isinstance(own, list) else []
            yield f"{name}: {sum(len(row.patches) for row in rows)} letters of {len(rows)} rows so far"
    levels = np.concatenate([row.patches for row in rows]) >> 4
    flat = levels.reshape(len(levels), -1)
    table = {name: np.array([getattr(row, name) for row in rows]) for name in _COLUMNS}
    counts = np.array([len(row.patches) for row in rows])
    arrays: dict[str, Any] = {"packed": ((flat[:, ::2] << 4) | flat[:, 1::2]) & 0xEE, "counts": counts, **table}
    np.savez_compressed(out, **arrays)


def read(path: Path) -> Letters:
    """Read the letters that `gather` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        kept = {name: archive[name] for name in archive.files}
    packed, counts = kept.pop("packed"), kept.pop("counts")
    levels = np.stack([packed >> 4, packed & 15], axis=2).reshape(len(packed), 64, 64)
    folds = fold_of()
    fold = np.array([folds[join] for join in kept["join"].tolist()])
    return Letters((levels * 17).astype(np.uint8), np.repeat(np.arange(len(counts)), counts), fold=fold, **kept)


def thinned(known: Letters, rows: NDArray[np.int64], most: int | Sequence[int], seed: int) -> list[int]:
    """Choose at most `most` of `rows` per manuscript, of different leaves; return their indices in `rows`, ascending.

    0 keeps all; from a sequence, each manuscript's maximum is drawn with equal probability.
    """
    if most == 0:
        return list(range(len(rows)))
    kept: list[int] = []
    draw = np.random.default_rng(seed)
    for join in np.unique(known.join[rows]).tolist():
        count = most if isinstance(most, int) else int(draw.choice(most))
        own = draw.permutation(np.flatnonzero(known.join[rows] == join))
        first = np.sort(np.unique(known.leaf[rows[own]], return_index=True)[1])
        kept += own[first[:count]].tolist()
    return sorted(kept)


def _cut(numbered: tuple[int, object], *, name: str, windows: Sequence[int], captures: int, folder: Path) -> list[_Row]:
    """Return the rows of one photograph: its most legible piece, windows of each size, worn windows. For a worker."""
    from membra.describe.recipe import MEMBRA, pick
    from membra.sources.fragment import Fragment

    index, fragment = numbered
    assert isinstance(fragment, Fragment)
    own, leaf = fragment.columns["join"], fragment.columns["leaf"]
    source = fragment.columns.get("repository") or (own.split("-")[0] if name.startswith("latin") else "midrash")
    reading = pick(fragment, MEMBRA)[1]
    kind = "page" if name in PAGES else "whole"
    rows = [_Row(name, kind, own, leaf, source, True, _some(reading.glyphs.patches, MAX_LETTERS[name], index))]
    boxes = reading.glyphs.boxes
    path = folder / f"{name}-{index}.png"
    for count in windows:
        if len(boxes) < ROOM * count:
            continue
        picture = window(fragment.path, boxes, count, round(MARGIN * reading.letter_height), index)
        cv2.imwrite(str(path), picture)
        seen = pick(Fragment(path.name, path), MEMBRA)[1]
        rows.append(_Row(name, str(count), own, leaf, source, False, seen.glyphs.patches))
    for capture in range(captures if len(boxes) >= WORN[0] else 0):
        seen, right = _worn(fragment.path, reading, crc32(f"{name}-{index}-{capture}".encode()), path)
        rows.append(_Row(name, "worn again" if capture else "worn", own, leaf, source, right, seen.glyphs.patches))
    path.unlink(missing_ok=True)
    return rows


def _worn(photograph: Path, reading: "Reading", seed: int, path: Path) -> "tuple[Reading, bool]":
    """Read a window that was worn and photographed again; return also whether it was read at its true rotation."""
    from membra.describe.recipe import MEMBRA, pick
    from membra.scribes.recapture import recaptured
    from membra.sources.fragment import Fragment

    boxes = reading.glyphs.boxes
    count = min(len(boxes), int(np.random.default_rng(seed).integers(*WORN, endpoint=True)))
    margin = round(WORN_MARGIN * reading.letter_height)
    again = recaptured(window(photograph, boxes, count, margin, seed), reading.letter_height, seed)
    cv2.imwrite(str(path), again.picture)
    seen = pick(Fragment(path.name, path), MEMBRA)[1]
    off = None if seen.angle is None else (seen.angle - again.turn - (reading.angle or 0) + 180) % 360 - 180
    return seen, off is not None and abs(off) < ASTRAY and seen.legibility >= MEMBRA.min_legibility


def window(photograph: Path, boxes: NDArray[np.int32], count: int, margin: int, seed: int) -> NDArray[np.uint8]:
    """Cut (h, w, 3) the rectangle around a letter drawn by `seed` and the `count` - 1 letters nearest to it."""
    centres = boxes[:, :2] + boxes[:, 2:] / 2
    chosen = np.random.default_rng([count, seed]).integers(len(boxes))
    near = boxes[np.argsort(((centres - centres[chosen]) ** 2).sum(axis=1), kind="stable")[:count]]
    left, top = np.maximum(near[:, :2].min(axis=0) - margin, 0)
    right, bottom = (near[:, :2] + near[:, 2:]).max(axis=0) + margin
    picture = cv2.imread(str(photograph))
    assert picture is not None
    return np.ascontiguousarray(picture[top:bottom, left:right])


def _some(patches: NDArray[np.uint8], most: int, seed: int) -> NDArray[np.uint8]:
    if len(patches) <= most:
        return patches
    return patches[np.sort(np.random.default_rng(seed).choice(len(patches), most, replace=False))]
