"""Renders the pages of a PDF once into a folder, from which they are read like other photographs."""

import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from membra.errors import MembraError, Refused, system_says
from membra.files import atomic_write
from membra.messages import Message
from membra.sources.fragment import Fragment

DPI = 300  # of a rendered page: letters of 2 mm are 24 px high
MAX_PAGES = 2000
MAX_PIXELS = 60_000_000  # of a rendered page: A2 at 300 dpi is 35 million
_POINTS = 72  # PDF points per inch


def pdf_fragments(id: str, path: Path, folder: Path | None) -> Iterator[Fragment]:
    """Yield a fragment for each page, `leaf.pdf/001.jpg` and so on, rendered into `folder` unless it is there already.

    Without a folder, or where the file cannot be read, one fragment with the reason in `refused`.
    """
    try:
        if folder is None:
            raise Refused("{file}: only `membra index` reads PDF files; save the pages as images instead", file=id)
        yield from _pages(id, path, folder)
    except MembraError as error:
        yield Fragment(id, path, refused=error.message)
    except OSError as error:
        yield Fragment(id, path, refused=Message("{file}: not a readable PDF ({why})", file=id, why=system_says(error)))


def _pages(id: str, path: Path, folder: Path) -> Iterator[Fragment]:
    import pypdfium2

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    into = folder / f"pdf-{digest[:24]}"  # by content: a changed file is rendered again
    into.mkdir(parents=True, exist_ok=True)
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise Refused("{file}: not a readable PDF ({why})", file=id, why=" ".join(str(error).split())) from None
    try:
        if len(document) > MAX_PAGES:
            raise Refused(
                "{file}: a PDF can have at most {most} pages, not {count}", file=id, most=MAX_PAGES, count=len(document)
            )
        for number in range(1, len(document) + 1):
            image = into / f"{number:03d}.jpg"
            page = f"{id}/{number:03d}.jpg"
            try:
                if not image.exists():
                    atomic_write(image, _drawn(document[number - 1]))
                yield Fragment(page, image)
            except (pypdfium2.PdfiumError, ValueError, MemoryError) as error:
                why = " ".join(str(error).split())[:200] or type(error).__name__
                yield Fragment(page, image, refused=Message("{file}: not a readable PDF ({why})", file=page, why=why))
    finally:
        document.close()


def _drawn(page: "pypdfium2.PdfPage") -> bytes:  # type: ignore[name-defined]  # noqa: F821
    """Render a page as JPEG, at lower resolution where it would have more than MAX_PIXELS."""
    width, height = page.get_size()
    if not (width > 0 and height > 0):
        raise ValueError("a page without a size")
    scale = min(DPI / _POINTS, (MAX_PIXELS / (width * height)) ** 0.5)
    content = BytesIO()
    page.render(scale=scale).to_pil().convert("RGB").save(content, "JPEG", quality=95)
    return content.getvalue()
