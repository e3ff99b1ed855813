"""Decoding: whatever the file's mode or turn, the array is what a person sees; what is no image is refused."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from membra.errors import Refused
from membra.see.photograph import grey, read_photograph

# A picture without symmetry: white, with a dark corner at the top left and a grey one at the top right.
PICTURE = np.full((24, 40), 255, dtype=np.uint8)
PICTURE[:12, :10] = 0
PICTURE[:6, 30:] = 120


def saved(path: Path, image: Image.Image, **options: object) -> Path:
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
    # One bit a pixel cannot hold the grey corner: dithering leaves it grey only on average.
    assert looks_the_same(path, 30 if mode == "1" else 12)


def test_transparency_is_shown_over_white(tmp_path: Path) -> None:
    ink = np.zeros((24, 40, 4), dtype=np.uint8)
    ink[..., :3] = PICTURE[..., None]
    ink[..., 3] = np.where(PICTURE == 255, 0, 255)
    ink[..., :3][PICTURE == 255] = 0  # black where nothing is seen
    assert looks_the_same(saved(tmp_path / "cut.png", Image.fromarray(ink)))


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turn(tmp_path: Path, suffix: str, orientation: int) -> None:
    """Stored turned away, tagged with the way back: seen upright."""
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
    assert looks_the_same(saved(tmp_path / f"turned.{suffix}", stored, exif=exif))


def test_the_first_page_of_a_tiff(tmp_path: Path) -> None:
    pages = [Image.fromarray(PICTURE), Image.new("L", (40, 24), 0)]
    assert looks_the_same(saved(tmp_path / "pages.tif", pages[0], save_all=True, append_images=pages[1:]))


def huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 20_000, 10_000, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return head + struct.pack(">I", 9) + b"IDAT" + b"\0" * 13


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.jpg", b"", "not a readable image"),
        ("text.jpg", b"shalom", "not a readable image"),
        ("script.jpg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a readable image"),
        ("letter.jpg", b"%PDF-1.7\n", "not a readable image"),
        ("program.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a readable image"),
        ("object.jpg", b"\x80\x04\x95\x00", "not a readable image"),
        ("huge.png", huge_png(), "pixels"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_image_is_refused_by_name(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Refused, match=said) as error:
        read_photograph(path)
    assert str(error.value).startswith(name)
    assert str(tmp_path) not in str(error.value)


def test_a_truncated_image_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "whole.png", Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 90), np.uint8)))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(Refused, match="not a readable image"):
        read_photograph(path)


def test_a_lost_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gone"):
        read_photograph(tmp_path / "lost.jpg")
