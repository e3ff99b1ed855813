"""Decodes photographs safely: known formats only, by content, within a size limit, with EXIF orientation applied."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from pillow_heif import register_heif_opener

from membra.errors import Refused, system_says
from membra.messages import Message

# Recognised by content, whatever the file name. Formats that can hold programs or links (EPS, PDF, SVG) are excluded.
FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "JPEG2000", "PPM", "HEIF")

register_heif_opener(thumbnails=False)  # the format of telephones

# Checked on the header, before decoding. 120 megapixels is a 10,000 x 12,000 scan: 360 MB decoded.
MAX_PIXELS = 120_000_000


def read_photograph(path: Path) -> NDArray[np.uint8]:
    """Decode an image as displayed: (height, width, 3) RGB, rotated by its EXIF orientation.

    The first page of a TIFF; transparency over white; 16 bits scaled to 8. Raises `Refused` with the reason.
    """
    try:
        # From an open file: given a path, Pillow 13 memory-maps uncompressed TIFFs and ignores their orientation.
        with _quiet(), path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            check_size(image, path.name)
            return np.asarray(_as_rgb(ImageOps.exif_transpose(image)))
    except Exception as error:  # Pillow's decoders raise nearly any type on damaged files
        raise refusal(path.name, error) from None


def displayed_size(path: Path) -> tuple[int, int]:
    """Return width and height after EXIF rotation, from the header alone. Raises `Refused`."""
    try:
        with _quiet(), path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            check_size(image, path.name)
            width, height = image.size
            # Of a TIFF, Pillow gives the rotated size already.
            turned = image.format != "TIFF" and image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        return (height, width) if turned else (width, height)
    except Exception as error:  # Pillow raises nearly any type on damaged files
        raise refusal(path.name, error) from None


def check_size(image: Image.Image, name: str) -> None:
    """Raise `Refused` for an opened, not yet decoded image whose header gives more than MAX_PIXELS."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise Refused(
            "{file}: {width} x {height} pixels are more than the {megapixels} megapixels that membra "
            "reads; scale it down",
            file=name,
            width=width,
            height=height,
            megapixels=MAX_PIXELS // 1_000_000,
        )


def refusal(name: str, error: Exception) -> Refused:
    """Convert an exception of a decoder to `Refused`, with one sentence."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Image.DecompressionBombError):
        return Refused("{file}: too many pixels; scale it down", file=name)
    if isinstance(error, FileNotFoundError):
        return Refused("{file}: the file is gone", file=name)
    # The text of an OSError contains the file's path, which must not appear on a page: only its reason is used.
    if isinstance(error, UnidentifiedImageError):
        why: str = Message("unknown format")
    elif isinstance(error, OSError) and error.strerror:
        why = system_says(error)
    else:
        why = " ".join(str(error).split())[:200] or type(error).__name__
    return Refused("{file}: not a readable image ({why}); save it as JPEG, PNG or TIFF", file=name, why=why)


def grey(photograph: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luminance (height, width) of an RGB photograph, by the weights of ITU-R 601."""
    return np.asarray(Image.fromarray(photograph).convert("L"))


@contextmanager
def _quiet() -> Iterator[None]:
    # Pillow warns of unusual metadata and of sizes below MAX_PIXELS: the user can act on neither.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image).astype(np.float64)
        # 16-bit scans fill 0..65535; some writers store 8-bit values in wide integers.
        scale = 255.0 / 65535.0 if values.max(initial=0) > 255 else 1.0
        return Image.fromarray(np.clip(np.rint(values * scale), 0, 255).astype(np.uint8)).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        opaque = image.convert("RGBA")
        paper = Image.new("RGBA", opaque.size, "white")
        return Image.alpha_composite(paper, opaque).convert("RGB")
    return image.convert("RGB")
