"""Decode a photograph safely: only known formats, by content, within a size limit, as it is displayed."""

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

# By content, whatever the file is called. Formats with programs or links inside (EPS, PDF, SVG) are not here.
FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "JPEG2000", "PPM", "HEIF")

register_heif_opener(thumbnails=False)  # what telephones write

# Known from the header alone. 120 megapixels is a 10,000 x 12,000 scan: 360 MB decoded.
MAX_PIXELS = 120_000_000


def read_photograph(path: Path) -> NDArray[np.uint8]:
    """The image as a person sees it: (height, width, 3) RGB, turned as its EXIF tag says.

    The first page of a TIFF; transparency over white; 16 bits scaled to 8. Raises `Refused` with the reason.
    """
    try:
        # Through a file of our own: given a path, Pillow 13 maps uncompressed TIFFs into memory and forgets their turn.
        with _quiet(), path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            check_size(image, path.name)
            return np.asarray(_as_rgb(ImageOps.exif_transpose(image)))
    except Exception as error:  # Pillow's decoders raise nearly any type on damaged files
        raise refusal(path.name, error) from None


def displayed_size(path: Path) -> tuple[int, int]:
    """Width and height after the turn that the EXIF tag asks for, from the header alone. Raises `Refused`."""
    try:
        with _quiet(), path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            check_size(image, path.name)
            width, height = image.size
            turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        return (height, width) if turned else (width, height)
    except Exception as error:  # Pillow raises nearly any type on damaged files
        raise refusal(path.name, error) from None


def check_size(image: Image.Image, name: str) -> None:
    """Refuse an image that is opened and not yet decoded, where its header claims more than can be read."""
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
    """What a decoder raised, as one sentence."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Image.DecompressionBombError):
        return Refused("{file}: too many pixels; scale it down", file=name)
    if isinstance(error, FileNotFoundError):
        return Refused("{file}: the file is gone", file=name)
    # What the system says of a file names its place, which is nobody's business beyond this machine.
    if isinstance(error, UnidentifiedImageError):
        why: str = Message("unknown format")
    elif isinstance(error, OSError) and error.strerror:
        why = system_says(error)
    else:
        why = " ".join(str(error).split())[:200] or type(error).__name__
    return Refused("{file}: not a readable image ({why}); save it as JPEG, PNG or TIFF", file=name, why=why)


def grey(photograph: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luminance (height, width) of an RGB photograph, by the weights of ITU-R 601."""
    return np.asarray(Image.fromarray(photograph).convert("L"))


@contextmanager
def _quiet() -> Iterator[None]:
    # Pillow warns of odd metadata and of sizes below our own limit: nothing the user can act on.
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
