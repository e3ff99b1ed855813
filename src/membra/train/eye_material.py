"""The eye's training material, gathered from folders of images into one file.

Each item is an RGB picture with letters about `LETTER` px high and two masks of its size, ink and writing surface:
0, 255, and 128 where the truth is unknown. The ink of clean pages is found with Sauvola's threshold, which is right on
such pages; the ink of damaged pages was drawn by hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from membra import scribes
from membra.errors import MembraError
from membra.see.ink import InkSettings, find_ink
from membra.sources.photograph import read_photograph

LETTER = 32.0  # px, letter height in gathered pictures
SIDE = 448  # px, of a crop of a page
PALE = 0.45  # of the median contrast; paler components may be ink showing through from the other side
SPECKS = 0.12  # share of a crop's ink in specks, above which the threshold has found grain, not ink
MIN_LETTERS = 20  # components of letter size that a crop needs
UNKNOWN = 128  # in a mask: unknown, ignored in training

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Item:
    """One training picture with its masks."""

    picture: Picture  # (h, w, 3) RGB
    ink: Picture  # (h, w) 0, 255, or UNKNOWN
    surface: Picture  # (h, w) 0, 255, or UNKNOWN
    source: str  # data set; an eye tested on it must not be trained on it
    upright: bool  # whether the writing is upright, so that its rotation can be trained


def pages(folder: Path, source: str, *, per_page: int, step: int = 1) -> Iterator[Item]:
    """Yield crops of clean pages with ink from Sauvola's threshold; uses every `step`-th image."""
    for number, path in enumerate(sorted((folder / "images").iterdir())[::step]):
        try:
            photograph = read_photograph(path)
        except MembraError:
            continue
        found = find_ink(photograph, np.ones(photograph.shape[:2], bool), InkSettings())
        if found.letter_height < 8:
            continue
        scale = LETTER / found.letter_height
        picture = _scaled(photograph, scale)
        ink = _fitted(found.binary, picture)
        generator = np.random.default_rng((number, len(source)))
        for crop in _crops(ink, per_page, generator):
            own = trusted(picture[crop], ink[crop])
            if own is not None:
                yield Item(picture[crop], own, np.full_like(own, 255), source, True)


def inked(folder: Path) -> Iterator[Item]:
    """Yield damaged pages with hand-drawn ink masks, and blank pieces, whose masks are empty."""
    for path in sorted((folder / "images").iterdir()):
        source = path.stem.split("-")[0]
        photograph = read_photograph(path)
        ink = np.asarray(cv2.imread(str(folder / "ink" / f"{path.stem}.png"), cv2.IMREAD_GRAYSCALE), np.uint8)
        letters = drawn_height(ink)
        # blank pieces and scraps with one or two letters are from the scrolls, with letters about 70 px high
        scale = LETTER / (letters if letters else 70.0) if source not in ("dss", "verso") else LETTER / 66.0
        scale = min(scale, 1.25)
        picture = _scaled(photograph, scale)
        surface = np.full(picture.shape[:2], 255 if letters and source not in ("dss", "verso") else UNKNOWN, np.uint8)
        parchment = folder / "parchment" / f"{path.stem}.png"
        if parchment.exists():
            mask = np.asarray(cv2.imread(str(parchment), cv2.IMREAD_GRAYSCALE), np.uint8)
            surface = np.where(_fitted(mask, picture) > 127, 255, 0).astype(np.uint8)
        yield Item(picture, _fitted(ink, picture), surface, source, source not in ("dss", "verso"))


def drawn(count: int) -> Iterator[Item]:
    """Yield synthetic pages, whose ink is known to the pixel."""
    for seed in range(count):
        camera = replace(scribes.camera(seed), letter_height=LETTER)
        one = scribes.fragment(scribes.hand(70_000 + seed), camera, letters=220, seed=seed, turn=0.0)
        middle = [slice(max(0, (side - SIDE) // 2), (side - SIDE) // 2 + SIDE) for side in one.ink.shape]
        cut = (middle[0], middle[1])
        ink, surface = (np.where(mask[cut], 255, 0).astype(np.uint8) for mask in (one.ink, one.surface))
        yield Item(np.ascontiguousarray(one.image[cut]), ink, surface, "drawn", True)


def plates(paths: list[Path], source: str) -> Iterator[Item]:
    """Yield photographs of real pieces with unknown ink and surface, used as ground for other ink."""
    for path in paths:
        photograph = read_photograph(path)
        picture = _scaled(photograph, min(1.0, 900 / max(photograph.shape)))
        unknown = np.full(picture.shape[:2], UNKNOWN, np.uint8)
        yield Item(picture, unknown, unknown, source, False)


def trusted(picture: Picture, ink: Picture) -> Picture | None:
    """Return Sauvola's ink (h, w) with pale, long and large components UNKNOWN, or None if it is unreliable."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats((ink > 127).astype(np.uint8), connectivity=8)
    wide, high, area = (
        stats[:, column].astype(float) for column in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA)
    )
    area[0] = 0
    total = area.sum()
    specks = area < 14
    letters = (high > 0.4 * LETTER) & (high < 3 * LETTER) & (area > 40)
    letters[0] = False
    if letters.sum() < MIN_LETTERS or area[specks].sum() > SPECKS * total or not 0.02 < total / ink.size < 0.3:
        return None
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    away = cv2.dilate(ink, np.ones((5, 5), np.uint8)) == 0
    weight = cv2.blur(away.astype(np.float32), (65, 65))
    paper = cv2.blur(grey * away, (65, 65)) / np.maximum(weight, 1e-3)
    depth = np.bincount(labels.ravel(), (paper - grey).ravel(), len(area)) / np.maximum(stats[:, cv2.CC_STAT_AREA], 1)
    typical = float(np.median(depth[letters]))
    doubtful = (depth < PALE * typical) | (wide > 9 * high) | (high > 7 * LETTER) | (wide > 14 * LETTER)
    doubtful |= (wide < 2) & (high < 2)
    doubtful[0] = False
    kept = np.where(ink > 127, np.uint8(255), np.uint8(0))
    kept[specks[labels]] = 0
    kept[doubtful[labels] & ~specks[labels]] = UNKNOWN
    return kept


def drawn_height(ink: Picture) -> float:
    """Return the area-weighted median height in px of the components of a mask; 0 if it is empty."""
    _, _, stats, _ = cv2.connectedComponentsWithStats((ink > 127).astype(np.uint8))
    height, area = stats[1:, cv2.CC_STAT_HEIGHT], stats[1:, cv2.CC_STAT_AREA]
    if not len(height):
        return 0.0
    order = np.argsort(height)
    return float(height[order][np.searchsorted(np.cumsum(area[order]), area.sum() / 2)])


def write_material(items: list[Item], out: Path) -> None:
    """Write one `.npz`: pictures as JPEG and masks as PNG, concatenated, with their end offsets. No pickle."""
    blobs: list[bytes] = []
    for item in items:
        blobs.append(_encoded(".jpg", item.picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 84]))
        blobs.append(_encoded(".png", item.ink, [cv2.IMWRITE_PNG_COMPRESSION, 9, cv2.IMWRITE_PNG_BILEVEL, 0]))
        blobs.append(_encoded(".png", item.surface, [cv2.IMWRITE_PNG_COMPRESSION, 9]))
    np.savez(
        out,
        data=np.frombuffer(b"".join(blobs), np.uint8),
        ends=np.cumsum([len(blob) for blob in blobs]),
        sources=np.array([item.source for item in items]),
        upright=np.array([item.upright for item in items]),
    )


def read_material(path: Path) -> list[Item]:
    """Read a file of `write_material`."""
    with np.load(path, allow_pickle=False) as archive:
        data, ends, sources, upright = (archive[name] for name in ("data", "ends", "sources", "upright"))
    starts = np.concatenate([[0], ends[:-1]])
    pictures = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    items = []
    for number, (source, stands) in enumerate(zip(sources.tolist(), upright.tolist(), strict=True)):
        picture, ink, surface = pictures[3 * number : 3 * number + 3]
        items.append(
            Item(
                picture=np.ascontiguousarray(np.asarray(cv2.imdecode(picture, cv2.IMREAD_COLOR), np.uint8)[..., ::-1]),
                ink=np.asarray(cv2.imdecode(ink, cv2.IMREAD_GRAYSCALE), np.uint8),
                surface=np.asarray(cv2.imdecode(surface, cv2.IMREAD_GRAYSCALE), np.uint8),
                source=source,
                upright=bool(stands),
            )
        )
    return items


def _encoded(kind: str, picture: Picture, options: list[int]) -> bytes:
    return bytes(cv2.imencode(kind, np.ascontiguousarray(picture), options)[1].tobytes())


def _scaled(picture: Picture, scale: float) -> Picture:
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, size, interpolation=how), np.uint8)


def _fitted(mask: Picture, picture: Picture) -> Picture:
    """Resize a mask to the picture's size, with values 0 and 255."""
    size = (picture.shape[1], picture.shape[0])
    return np.where(cv2.resize(mask, size, interpolation=cv2.INTER_AREA) > 127, 255, 0).astype(np.uint8)


def _crops(ink: Picture, count: int, generator: np.random.Generator) -> list[tuple[slice, slice]]:
    """Return `count` crops: each is the one with the most ink of four drawn at random."""
    rows, columns = ink.shape
    found = []
    for _ in range(count):
        draws = []
        for _ in range(4):
            top, left = (int(generator.integers(max(1, side - SIDE + 1))) for side in (rows, columns))
            crop = (slice(top, min(top + SIDE, rows)), slice(left, min(left + SIDE, columns)))
            draws.append((float((ink[crop] > 127).mean()), crop))
        found.append(max(draws, key=lambda draw: min(draw[0], 0.12))[1])
    return found
