"""Tests of decoding: for any image mode and orientation the array is the displayed image; other files are rejected."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from membra.errors import Refused
from membra.sources.photograph import displayed_size, grey, read_photograph

# A picture without symmetry: white, with a dark corner at the top left and a grey one at the top right.
PICTURE = np.full((24, 40), 255, dtype=np.uint8)
PICTURE[:12, :10] = 0
PICTURE[:6, 30:] = 120


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def looks_the_same(path: Path, tolerance: int = 12) -> bool:
    seen = read_photograph(path)
    assert seen.dtype == np.uint8
    assert seen.shape == (24, 40, 3)
    return bool(np.abs(grey(seen).astype(int) - PICTURE).mean() < tolerance)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "CMYK", "1", "I;16"])
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
def test_modes(tmp_path: Path, mode: str, suffix: str) -> None:
    if suffix == "jpg" and mode not in ("L", "RGB", "CMYK"):
        pytest.skip("JPEG does not know this mode")
    if suffix == "png" and mode == "CMYK":
        pytest.skip("PNG does not know this mode")
    image = Image.fromarray(PICTURE)
    image = Image.fromarray(PICTURE.astype(np.uint16) * 257) if mode == "I;16" else image.convert(mode)
    path = saved(tmp_path / f"picture.{suffix}", image)
    # One bit per pixel cannot represent the grey corner: dithering keeps it grey only on average.
    assert looks_the_same(path, 30 if mode == "1" else 12)


def test_transparency_is_shown_over_white(tmp_path: Path) -> None:
    ink = np.zeros((24, 40, 4), dtype=np.uint8)
    ink[..., :3] = PICTURE[..., None]
    ink[..., 3] = np.where(PICTURE == 255, 0, 255)
    ink[..., :3][PICTURE == 255] = 0  # black where the image is transparent
    assert looks_the_same(saved(tmp_path / "cut.png", Image.fromarray(ink)))


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turn(tmp_path: Path, suffix: str, orientation: int) -> None:
    """An image stored rotated, with the EXIF tag that reverses it, is displayed upright."""
    away = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.T,
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(a, 2).T,
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(away(PICTURE)))
    path = tmp_path / f"turned.{suffix}"
    assert looks_the_same(saved(path, stored, exif=exif))
    assert displayed_size(path) == read_photograph(path).shape[1::-1]


def test_the_first_page_of_a_tiff(tmp_path: Path) -> None:
    pages = [Image.fromarray(PICTURE), Image.new("L", (40, 24), 0)]
    assert looks_the_same(saved(tmp_path / "pages.tif", pages[0], save_all=True, append_images=pages[1:]))


def test_a_lost_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gone"):
        read_photograph(tmp_path / "lost.jpg")
