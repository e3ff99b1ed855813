"""A IIIF source as fragments: its images, fetched once into a folder, with shelfmark, rights and attribution."""

import csv
import hashlib
import json
import re
import time
import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from PIL import Image

from membra.errors import Invalid, NotFetched, NotFound, Refused, Unreadable, system_says
from membra.files import atomic_write, exclusive_lock
from membra.messages import Message
from membra.progress import Progress, log
from membra.sources.cells import escape_cell
from membra.sources.fetch import Fetched, Manners, Web, anywhere, is_public, read_json
from membra.sources.fragment import IMAGE_SUFFIXES, Fragment, is_url
from membra.sources.iiif import Canvas, read_canvases
from membra.sources.image_api import allowed, image_urls, read_service
from membra.sources.photograph import FORMATS, MAX_PIXELS
from membra.sources.tables import read_table
from membra.sources.tiles import Grid, assemble, plan_tiles

COLUMNS = ("shelfmark", "label", "manifest", "canvas", "rights", "attribution", "service", "image_api", "address")
TABLE = "fragments.csv"
_FRESH = 24 * 3600.0  # seconds: a manifest younger than this is not asked for again
_GIVEN_UP = 5  # images in a row that a host refuses before it is left alone for this run


@dataclass(frozen=True)
class Download:
    """Where a IIIF source's images go, and how they are asked for.

    `images` is a folder beside the collection, not in it: a collection appears whole or not at all and can be thrown
    away and made anew, while what took hours to fetch stays. With its table it is a source itself.
    """

    images: Path
    allow_private: bool = False  # also from this machine and its network
    max_side: int = 4000  # px, the longer side asked for: letters of 40 px and more on a page of forty lines
    manners: Manners = field(default_factory=Manners)
    progress: Progress | None = None
    lost: list[tuple[str, str]] = field(default_factory=list)  # filled: what has no image to refuse, and why


def iiif_fragments(source: str, download: Download) -> list[Fragment]:
    """The fragments of a manifest or collection (URL or file), their images fetched unless they are there.

    An image that cannot be had becomes a fragment with `refused`; the next run asks for it again, and for nothing
    that has come. Raises `MembraError` where the source itself cannot be read or shows nothing.
    """
    download.images.mkdir(parents=True, exist_ok=True)
    may = anywhere if download.allow_private else is_public
    with (
        exclusive_lock(download.images / ".lock", download.images),
        Web(manners=download.manners, may=may) as web,
    ):
        for part in download.images.rglob(".*.part"):
            part.unlink(missing_ok=True)  # of a run that was killed while it wrote
        shelf = _Shelf(download.images / ".documents", web)
        document = shelf.load(source) if is_url(source) else _of_file(Path(source), download.manners)
        canvases, lost = read_canvases(document, source, shelf.load)
        download.lost.extend(lost)
        if not canvases:
            if lost:
                raise NotFound(
                    "{source} shows no images ({part}: {why}); give the address of a IIIF manifest or collection",
                    source=source,
                    part=lost[0][0],
                    why=lost[0][1],
                )
            raise NotFound("{source} shows no images; give the address of a IIIF manifest or collection", source=source)
        fragments = _fetch_all(canvases, download, web, shelf)
        _write_table(download.images / TABLE, fragments)
    return fragments


class _Shelf:
    """Manifests and info.json as they came, kept with the images: a run after a kill asks for none of them twice."""

    def __init__(self, folder: Path, web: Web) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.web = web

    def load(self, url: str) -> Any:
        """The JSON value at `url`: the kept one while it is fresh, or after the server said it has not changed."""
        file = self.folder / f"{_digest(url)}.json"
        kept = self._kept(file)
        depth = self.web.manners.depth
        if kept and time.time() - file.stat().st_mtime < _FRESH:
            return read_json(kept.body, url, depth)
        fetched = self.web.document(url, kept.marks if kept else None)
        if fetched.unchanged and kept:
            fetched = kept
        value = read_json(fetched.body, url, depth)
        head = json.dumps({"address": url, "marks": fetched.marks})
        atomic_write(file, head.encode() + b"\n" + fetched.body)
        return value

    def _kept(self, file: Path) -> Fetched | None:
        try:
            head, _, body = file.read_bytes().partition(b"\n")
            return Fetched(body, "", dict(json.loads(head)["marks"]))
        except (OSError, ValueError, KeyError):
            return None


def _fetch_all(canvases: Sequence[Canvas], download: Download, web: Web, shelf: _Shelf) -> list[Fragment]:
    found: dict[str, Fragment] = {}
    given_up: Counter[str] = Counter()
    for done, canvas in enumerate(canvases, start=1):
        id = fragment_id(canvas)
        path = download.images / id
        reason: str = ""
        if id not in found and not path.exists():
            host = re.sub(r"^\w+://([^/]*).*", r"\1", canvas.service or canvas.image)
            try:
                if given_up[host] >= _GIVEN_UP:
                    raise Refused(
                        "not asked: {host} failed {count} times in a row; run the command again later",
                        host=host,
                        count=_GIVEN_UP,
                    )
                content = _image(canvas, download, web, shelf)
                path.parent.mkdir(exist_ok=True)
                atomic_write(path, content)
                log.info("fetched %s, %d bytes", id, len(content))
                given_up[host] = 0
            except Refused as error:
                reason = error.message
                log.info("not fetched: %s: %s", id, reason)
                given_up[host] += isinstance(error, NotFetched) and error.later
        described = (canvas.shelfmark, canvas.label, canvas.manifest, canvas.id, canvas.rights, canvas.attribution)
        values = (*described, canvas.service, canvas.api, canvas.image)
        found.setdefault(id, Fragment(id, path, dict(zip(COLUMNS, values, strict=True)), reason))
        if download.progress:
            download.progress(done, len(canvases))
    return list(found.values())


def fragment_id(canvas: Canvas) -> str:
    """`shelfmark/label-digest.jpg`: readable, safe as a path whatever the manifest says, the same in every run."""
    suffix = Path(canvas.image.partition("?")[0]).suffix.lower() if not canvas.service else ".jpg"
    ending = suffix if suffix in IMAGE_SUFFIXES else ".jpg"
    one = _digest(f"{canvas.manifest}\n{canvas.id}\n{canvas.service or canvas.image}")[:12]
    return f"{_name(canvas.shelfmark) or 'iiif'}/{_name(canvas.label) or 'image'}-{one}{ending}"


_OTHER_SIZE = (400, 404, 405, 410, 413, 414, 422, 501)  # answers that only say that this size is not to be had


def _image(canvas: Canvas, download: Download, web: Web, shelf: _Shelf) -> bytes:
    """The bytes of a canvas's image, whole and readable: at one of its URLs, or put together from tiles."""
    refusal: Refused | None = None
    for urls in _ways(canvas, download.max_side, shelf):
        try:
            if isinstance(urls, Grid):
                return _from_tiles(urls, download.images / ".tiles", web)
            return _first(urls, web)[0]
        except NotFetched as error:
            refusal = error if isinstance(urls, Grid) else refusal or error
            if error.answered not in _OTHER_SIZE:
                break  # not this size's fault
    raise refusal or Refused("only tiles, or only sizes beyond the service's own limits; ask the library for the image")


def _ways(canvas: Canvas, max_side: int, shelf: _Shelf) -> "Sequence[Grid | tuple[str, ...]]":
    """The ways to have the image, the best first: URLs, or a grid of tiles where that is finer than the rest."""
    if not canvas.service:
        return [(canvas.image,)]
    try:
        info = shelf.load(f"{canvas.service}/info.json")
    except NotFetched as error:
        if canvas.image and error.answered in (404, 410, 501):
            return [(canvas.image,)]  # a service in name only; the manifest's own URL of the image may do
        raise
    service = read_service(info, canvas.service)
    whole = [(url,) for url in image_urls(service, max_side)]
    grid = plan_tiles(service, max_side)
    listed = max((width for width, height in service.sizes if allowed(service, width, height)), default=0)
    if grid is None or grid.width <= listed:
        return whole
    # Folders of files list the sizes of thumbnails; only a URL of the full image is better than tiles.
    full = [(url,) for url in image_urls(replace(service, sizes=()), max_side)]
    return [*full, grid, *(way for way in whole if way not in full)]


def _from_tiles(grid: Grid, folder: Path, web: Web) -> bytes:
    """An image from its tiles. Those that came are kept until it is whole: a run after a kill goes on where it was."""
    folder.mkdir(exist_ok=True)
    form = 0  # which of a tile's URLs the maker of this folder used: asked for first once it is known

    def fetch(urls: tuple[str, ...]) -> bytes:
        nonlocal form
        file = folder / _digest(urls[0])
        if not file.exists():
            usual = urls[form % len(urls)]
            content, url = _first([usual, *(one for one in urls if one != usual)], web)
            form = urls.index(url)
            atomic_write(file, content)
        return file.read_bytes()

    content = assemble(grid, fetch)
    for tile in grid.tiles:
        (folder / _digest(tile.urls[0])).unlink(missing_ok=True)
    return content


def _first(urls: Sequence[str], web: Web) -> tuple[bytes, str]:
    """What the first URL has that the server knows, and which it is."""
    refusal: NotFetched | None = None
    for url in urls:
        try:
            return _checked(web.image(url), url), url
        except NotFetched as error:
            refusal = refusal or error
            if error.answered not in _OTHER_SIZE:
                raise
    assert refusal
    raise refusal


def _checked(fetched: Fetched, url: str) -> bytes:
    """By content: a page that asks whether we are human is no image, and half an image is none either."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(BytesIO(fetched.body), formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Refused(
                        "{address}: {width} x {height} pixels are too many",
                        address=url,
                        width=image.width,
                        height=image.height,
                    )
                image.load()
    except Refused:
        raise
    except Exception:  # Pillow's decoders raise nearly any type
        start = fetched.body[:400].lstrip().lower()
        page = start.startswith(b"<") or "html" in fetched.kind
        human = Message("a web page (perhaps a question whether we are human)")
        what = human if page else Message("something else")
        raise NotFetched(
            "{what} instead of an image; try it in a browser, or run again later",
            url=url,
            what=what,
            later=True,
        ) from None
    return fetched.body


def _of_file(path: Path, manners: Manners) -> Any:
    try:
        if path.stat().st_size > manners.document_bytes:
            raise Invalid(
                "{file}: more than {megabytes} MB; this is no manifest",
                file=path,
                megabytes=f"{manners.document_bytes / 1e6:g}",
            )
        return read_json(path.read_bytes(), str(path), manners.depth)
    except OSError as error:
        raise Unreadable("{file} cannot be read ({why}); check the path", file=path, why=system_says(error)) from None


def _write_table(path: Path, fragments: Sequence[Fragment]) -> None:
    """The fetched images of this and earlier runs as a CSV: with it, the folder is a source of its own."""
    rows = {row["image"]: row for row in (read_table(path, ("image",)) if path.exists() else [])}
    rows |= {f.id: {"image": f.id, **f.columns} for f in fragments if not f.refused}
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["image", *COLUMNS])
    writer.writerows([escape_cell(row.get(name, "")) for name in ("image", *COLUMNS)] for row in rows.values())
    atomic_write(path, ("\ufeff" + text.getvalue()).encode())


def _name(text: str) -> str:
    """Letters, digits, dots and hyphens of any script, at most 80 bytes; never hidden, never a way out."""
    kept = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("._-")
    return kept.encode()[:80].decode("utf-8", "ignore").strip("._-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
