"""Downloads the images of a IIIF source, once, into a folder, with shelfmark, rights and attribution."""

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
_FRESH = 24 * 3600.0  # seconds: a manifest younger than this is not requested again
_MAX_FAILURES = 5  # consecutive failures of a host after which this run sends it no further request


@dataclass(frozen=True)
class Download:
    """Where a IIIF source's images are stored, and how they are requested.

    `images` is a folder beside the collection, not in it: a collection is written atomically and can be deleted and
    indexed again, while images that took hours to fetch remain. With its table the folder is a source itself.
    """

    images: Path
    allow_private: bool = False  # also fetch from this machine and its network
    max_side: int = 4000  # px, the longer side requested: letters of 40 px and more on a page of forty lines
    manners: Manners = field(default_factory=Manners)
    progress: Progress | None = None
    lost: list[tuple[str, str]] = field(default_factory=list)  # output: URL and reason of what yields no fragment


def iiif_fragments(source: str, download: Download) -> list[Fragment]:
    """Return the fragments of a manifest or collection (URL or file), and fetch the images that are not there yet.

    An image that cannot be fetched becomes a fragment with `refused`; the next run requests it again, and no image that
    has arrived. Raises `MembraError` where the source itself cannot be read or has no images.
    """
    download.images.mkdir(parents=True, exist_ok=True)
    may = anywhere if download.allow_private else is_public
    with (
        exclusive_lock(download.images / ".lock", download.images),
        Web(manners=download.manners, may=may) as web,
    ):
        for part in download.images.rglob(".*.part"):
            part.unlink(missing_ok=True)  # left by a run that was killed while writing
        documents = _DocumentCache(download.images / ".documents", web)
        document = documents.load(source) if is_url(source) else _of_file(Path(source), download.manners)
        canvases, lost = read_canvases(document, source, documents.load)
        download.lost.extend(lost)
        if not canvases:
            if lost:
                raise NotFound(
                    "no images were found in {source} ({part}: {why}); give the URL of a IIIF manifest or collection",
                    source=source,
                    part=lost[0][0],
                    why=lost[0][1],
                )
            raise NotFound(
                "no images were found in {source}; give the URL of a IIIF manifest or collection", source=source
            )
        fragments = _fetch_all(canvases, download, web, documents)
        _write_table(download.images / TABLE, fragments)
    return fragments


class _DocumentCache:
    """Stores manifests and info.json with the images, so that a run after a kill requests none of them twice."""

    def __init__(self, folder: Path, web: Web) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.web = web

    def load(self, url: str) -> Any:
        """Return the JSON value at `url`, from the cache while it is fresh or the server reports it as unchanged."""
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


def _fetch_all(canvases: Sequence[Canvas], download: Download, web: Web, documents: _DocumentCache) -> list[Fragment]:
    found: dict[str, Fragment] = {}
    failures: Counter[str] = Counter()
    for done, canvas in enumerate(canvases, start=1):
        id = fragment_id(canvas)
        path = download.images / id
        reason: str = ""
        if id not in found and not path.exists():
            host = re.sub(r"^\w+://([^/]*).*", r"\1", canvas.service or canvas.image)
            try:
                if failures[host] >= _MAX_FAILURES:
                    raise Refused(
                        "not requested, because {host} failed {count} times in a row; run the command again later",
                        host=host,
                        count=_MAX_FAILURES,
                    )
                content = _image(canvas, download, web, documents)
                path.parent.mkdir(exist_ok=True)
                atomic_write(path, content)
                log.info("fetched %s, %d bytes", id, len(content))
                failures[host] = 0
            except Refused as error:
                reason = error.message
                log.info("not fetched: %s: %s", id, reason)
                failures[host] += isinstance(error, NotFetched) and error.later
        described = (canvas.shelfmark, canvas.label, canvas.manifest, canvas.id, canvas.rights, canvas.attribution)
        values = (*described, canvas.service, canvas.api, canvas.image)
        found.setdefault(id, Fragment(id, path, dict(zip(COLUMNS, values, strict=True)), reason))
        if download.progress:
            download.progress(done, len(canvases))
    return list(found.values())


def fragment_id(canvas: Canvas) -> str:
    """Return `shelfmark/label-digest.jpg`: readable, safe as a path for any manifest, the same in every run."""
    suffix = Path(canvas.image.partition("?")[0]).suffix.lower() if not canvas.service else ".jpg"
    ending = suffix if suffix in IMAGE_SUFFIXES else ".jpg"
    one = _digest(f"{canvas.manifest}\n{canvas.id}\n{canvas.service or canvas.image}")[:12]
    return f"{_name(canvas.shelfmark) or 'iiif'}/{_name(canvas.label) or 'image'}-{one}{ending}"


_OTHER_SIZE = (400, 404, 405, 410, 413, 414, 422, 501)  # status codes after which another size is tried


def _image(canvas: Canvas, download: Download, web: Web, documents: _DocumentCache) -> bytes:
    """Fetch the image of a canvas, complete and decodable, from one of its URLs, or assembled from tiles."""
    refusal: Refused | None = None
    for urls in _alternatives(canvas, download.max_side, documents):
        try:
            if isinstance(urls, Grid):
                return _from_tiles(urls, download.images / ".tiles", web)
            return _first(urls, web)[0]
        except NotFetched as error:
            refusal = error if isinstance(urls, Grid) else refusal or error
            if error.answered not in _OTHER_SIZE:
                break  # the failure does not depend on the size
    raise refusal or Refused(
        "the server offers only tiles, or only sizes beyond its own limits; ask the library for the image"
    )


def _alternatives(canvas: Canvas, max_side: int, documents: _DocumentCache) -> "Sequence[Grid | tuple[str, ...]]":
    """List the sources of the image, the best first: URLs, or a grid of tiles where that has the higher resolution."""
    if not canvas.service:
        return [(canvas.image,)]
    try:
        info = documents.load(f"{canvas.service}/info.json")
    except NotFetched as error:
        if canvas.image and error.answered in (404, 410, 501):
            return [(canvas.image,)]  # no such service; the manifest's own URL of the image may work
        raise
    service = read_service(info, canvas.service)
    whole = [(url,) for url in image_urls(service, max_side)]
    grid = plan_tiles(service, max_side)
    listed = max((width for width, height in service.sizes if allowed(service, width, height)), default=0)
    if grid is None or grid.width <= listed:
        return whole
    # Static services list the sizes of thumbnails; only a URL of the full image is better than tiles.
    full = [(url,) for url in image_urls(replace(service, sizes=()), max_side)]
    return [*full, grid, *(one for one in whole if one not in full)]


def _from_tiles(grid: Grid, folder: Path, web: Web) -> bytes:
    """Assemble an image from tiles. Tiles are kept until it is complete, so that a run after a kill resumes."""
    folder.mkdir(exist_ok=True)
    form = 0  # index of the URL form that worked for the last tile, which is tried first for the next

    def fetch(urls: tuple[str, ...]) -> bytes:
        nonlocal form
        file = folder / _digest(urls[0])
        if not file.exists():
            preferred = urls[form % len(urls)]
            content, url = _first([preferred, *(one for one in urls if one != preferred)], web)
            form = urls.index(url)
            atomic_write(file, content)
        return file.read_bytes()

    content = assemble(grid, fetch)
    for tile in grid.tiles:
        (folder / _digest(tile.urls[0])).unlink(missing_ok=True)
    return content


def _first(urls: Sequence[str], web: Web) -> tuple[bytes, str]:
    """Return the content of the first URL that the server has, and that URL."""
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
    """Return the bytes if they decode as an image: not a web page with a captcha, and not a truncated image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(BytesIO(fetched.body), formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Refused(
                        "{address}: the image is too large ({width} x {height} pixels)",
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
        human = Message("a web page (perhaps a CAPTCHA)")
        what = human if page else Message("an unknown format")
        raise NotFetched(
            "the server sent {what} instead of an image; open the URL in a browser, or run the command again later",
            url=url,
            what=what,
            later=True,
        ) from None
    return fetched.body


def _of_file(path: Path, manners: Manners) -> Any:
    try:
        if path.stat().st_size > manners.document_bytes:
            raise Invalid(
                "{file}: not a manifest, because it is larger than {megabytes} MB",
                file=path,
                megabytes=f"{manners.document_bytes / 1e6:g}",
            )
        return read_json(path.read_bytes(), str(path), manners.depth)
    except OSError as error:
        raise Unreadable("{file} cannot be read ({why}); check the path", file=path, why=system_says(error)) from None


def _write_table(path: Path, fragments: Sequence[Fragment]) -> None:
    """Write the images of this and earlier runs as a CSV, with which the folder is a source itself.

    Columns that a person has added to it, such as `join`, stay.
    """
    rows = {row["image"]: row for row in (read_table(path, ("image",)) if path.exists() else [])}
    rows |= {f.id: {**rows.get(f.id, {}), "image": f.id, **f.columns} for f in fragments if not f.refused}
    names = list(dict.fromkeys(("image", *COLUMNS, *(name for row in rows.values() for name in row))))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(names)
    writer.writerows([escape_cell(row.get(name, "")) for name in names] for row in rows.values())
    atomic_write(path, ("\ufeff" + text.getvalue()).encode())


def _name(text: str) -> str:
    """Reduce text to letters, digits, dots and hyphens of any script, at most 80 bytes, safe as a file name."""
    kept = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("._-")
    return kept.encode()[:80].decode("utf-8", "ignore").strip("._-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
