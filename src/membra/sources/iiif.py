"""Reads IIIF manifests and collections, Presentation 2 and 3, into canvases: label, shelfmark, rights and image.

The reader is tolerant, because published manifests vary: a missing label or a wrong type affects only that value. The
two versions differ in names more than in structure, so one reader handles both.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

from membra.errors import NotFetched, Refused
from membra.messages import Message

Load = Callable[[str], Any]  # the URL of a document to its JSON value; raises `Refused`

# Metadata labels that libraries use for the shelfmark, in order of preference, compared without case.
_SHELFMARKS = (
    *("shelfmark", "shelf mark", "classmark", "call number", "call no", "shelf locator", "location", "cote"),
    *("signatur", "signatura", "segnatura", "collocazione", "סימן המדף", "סימן מדף", "מספר מדף", "סימול", "identifier"),
)
_LONGEST = 500  # characters, to which a label or a statement is truncated


@dataclass(frozen=True)
class Limits:
    """Upper limits for one source."""

    canvases: int = 100_000
    documents: int = 20_000  # manifests and collections
    nesting: int = 12  # collections within collections


@dataclass(frozen=True)
class Canvas:
    """One view of a manuscript. Texts are plain and on one line; empty where the manifest gives none."""

    id: str
    label: str
    manifest: str  # URL of the manifest
    shelfmark: str
    rights: str  # URL of a licence
    attribution: str  # text that must be shown with the image
    image: str  # URL of the image itself, or empty
    service: str  # URL of its image service, or empty
    api: str  # version of the Image API of the service according to the manifest: 1, 2 or 3; empty without a service


@dataclass(frozen=True)
class _Inherited:
    """Values that nested resources inherit: a canvas has its manifest's rights unless it names its own."""

    rights: str = ""
    attribution: str = ""


def read_canvases(
    document: Any, url: str, load: Load, *, limits: Limits | None = None
) -> tuple[list[Canvas], list[tuple[str, str]]]:
    """Return the canvases of a manifest, or of every manifest of a collection, in order, and what could not be read.

    The second list holds the URL and the reason of each document that could not be loaded, and of each canvas without
    an image. A document is read once, so that a collection may contain itself. Raises `Refused` for too many documents
    or canvases.
    """
    walk = _Walk(load, limits or Limits())
    found = list(walk.through(document, url, _Inherited(), 0))
    return found, walk.lost


class _Walk:
    """A traversal of nested collections that visits each document once."""

    def __init__(self, load: Load, limits: Limits) -> None:
        self.load = load
        self.limits = limits
        self.lost: list[tuple[str, str]] = []
        self._seen: set[str] = set()
        self._canvases = 0

    def through(self, document: Any, url: str, inherited: _Inherited, nesting: int) -> Iterator[Canvas]:
        self._see(url)
        if not isinstance(document, dict):
            self.lost.append((url, Message("neither a IIIF manifest nor a collection")))
            return
        inherited = _inherit(document, inherited)
        kind = str(_get(document, "type", "@type"))
        if "Collection" in kind:
            for page in self._pages(document):
                within = _inherit(page, inherited)
                for part in _parts(page):
                    yield from self._into(part, within, nesting)
        elif "Manifest" in kind or _list(document.get("sequences")) or _list(document.get("items")):
            for canvas in _canvases(document, _text(_get(document, "id", "@id")) or url, inherited):
                self._canvases += 1
                if self._canvases > self.limits.canvases:
                    raise Refused(
                        "{address}: more than {count} images; give its parts one by one",
                        address=url,
                        count=self.limits.canvases,
                    )
                if canvas.image or canvas.service:
                    yield canvas
                else:
                    self.lost.append((canvas.id or url, Message("no image on this canvas")))
        else:
            reason = Message("neither a IIIF manifest nor a collection; give the URL of the manifest itself")
            self.lost.append((url, reason))

    def _into(self, part: Any, inherited: _Inherited, nesting: int) -> Iterator[Canvas]:
        """Visit a part of a collection, which is embedded in it or named by its URL."""
        url = _url_of(part)
        if not url or url in self._seen:
            return  # a cycle of collections, or a manifest listed twice
        if nesting == self.limits.nesting:
            self.lost.append((url, Message("collections nested more than {depth} deep", depth=nesting)))
            return
        for document in self._loaded(part, url):
            yield from self.through(document, url, inherited, nesting + 1)

    def _pages(self, collection: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield a collection and the pages of a long one (`first`, then each `next`), which are not nested deeper."""
        waiting = [collection]
        while waiting:
            page = waiting.pop()
            yield page
            for part in (page.get("next"), page.get("first")):
                url = _url_of(part)
                if url and url not in self._seen:
                    waiting += [_dict(document) for document in self._loaded(part, url)]

    def _loaded(self, part: Any, url: str) -> list[Any]:
        """Return the document of a part, embedded or loaded; none if that fails, with the reason in `lost`."""
        self._see(url)
        if isinstance(part, dict) and any(part.get(key) for key in ("first", "next", "sequences", *_PARTS)):
            return [part]
        try:
            return [self.load(url)]
        except NotFetched as error:
            self.lost.append((url, error.reason if error.url == url else error.message))
            return []

    def _see(self, url: str) -> None:
        """Note that a document is read; raise `Refused` where these are too many."""
        self._seen.add(url)
        if len(self._seen) > self.limits.documents:
            raise Refused(
                "{address}: more than {count} manifests; give them a few at a time",
                address=url,
                count=self.limits.documents,
            )


_PARTS = ("items", "members", "collections", "manifests")  # of a collection, in either version


def _parts(collection: dict[str, Any]) -> list[Any]:
    """List the parts that a collection, or a page of it, names itself."""
    return [part for key in _PARTS for part in _list(collection.get(key))]


def _url_of(part: Any) -> str:
    return part if isinstance(part, str) else _text(_get(_dict(part), "id", "@id"))


def _canvases(manifest: dict[str, Any], url: str, inherited: _Inherited) -> Iterator[Canvas]:
    sequences = _list(manifest.get("sequences"))  # version 2; further sequences are other orders of the same
    items = _list(_dict(sequences[0]).get("canvases")) if sequences else _list(manifest.get("items"))
    title = _text(manifest.get("label"))
    common = Canvas("", "", url, _shelfmark(manifest) or title, "", "", "", "", "")
    for number, item in enumerate(map(_dict, items), start=1):
        own = _inherit(item, inherited)
        canvas = replace(
            common,
            id=_text(_get(item, "id", "@id")),
            label=_text(item.get("label")) or str(number),
            shelfmark=_shelfmark(item) or common.shelfmark,
            rights=own.rights,
            attribution=own.attribution,
        )
        bodies = list(_bodies(item))
        if not bodies:
            yield canvas
        for count, body in enumerate(bodies, start=1):
            more = f" ({count})" if count > 1 else ""
            rights = _inherit(body, own)
            service, api = _service(body)
            yield replace(
                canvas,
                label=canvas.label + more,
                image=_url(_get(body, "id", "@id")),
                service=service,
                api=api,
                rights=rights.rights,
                attribution=rights.attribution,
            )


def _bodies(canvas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the images painted on a canvas. Of a choice of several, the first, which is the default."""
    annotations = list(map(_dict, _list(canvas.get("images"))))
    for page in map(_dict, _list(canvas.get("items"))):
        annotations += map(_dict, _list(page.get("items")))
    for annotation in annotations:
        if "painting" not in str(annotation.get("motivation") or "painting").lower():
            continue
        for body in _list(annotation.get("body") or annotation.get("resource")):
            image = _first(_dict(body), depth=3)
            kind = str(_get(image, "type", "@type"))
            if image and not re.search("Text|Video|Sound|Audio|Model", kind):
                yield image


def _first(body: dict[str, Any], depth: int) -> dict[str, Any]:
    kind = str(_get(body, "type", "@type"))
    inner: Any = None
    if "Choice" in kind:
        inner = body.get("default") or body.get("items") or body.get("item")
    elif "Specific" in kind:
        inner = body.get("source") or body.get("full")
    if inner is None or depth == 0:
        return body
    chosen = next(iter(_list(inner)), None)
    return {"id": chosen} if isinstance(chosen, str) else _first(_dict(chosen), depth - 1)


def _service(body: dict[str, Any]) -> tuple[str, str]:
    """Return the image service's URL and version; other services (search, authentication) are skipped by their type."""
    for service in map(_dict, _list(body.get("service"))):
        words = " ".join(str(service.get(key, "")) for key in ("type", "@type", "profile", "@context"))
        if re.search(r"ImageService|image-api|/image/|^\s*level[0-2]\s*$", words):
            old = re.search(r"ImageService1|image/1|image-api/(?:1|compliance|conformance)", words)
            new = re.search(r"ImageService3|image/3", words)
            url = _url(_get(service, "id", "@id")).removesuffix("/info.json").rstrip("/")
            return url, "3" if new else "1" if old else "2"
    return "", ""


def _inherit(resource: dict[str, Any], outer: _Inherited) -> _Inherited:
    statement = _dict(resource.get("requiredStatement")).get("value") or resource.get("attribution")
    rights = resource.get("rights") or resource.get("license")
    return _Inherited(_text(rights) or outer.rights, _text(statement) or outer.attribution)


def _shelfmark(resource: dict[str, Any]) -> str:
    found: dict[str, str] = {}
    for pair in map(_dict, _list(resource.get("metadata"))):
        value = _text(pair.get("value"))
        for name in _texts(pair.get("label")):
            found.setdefault(name.casefold().strip(" :."), value)
    return next((found[name] for name in _SHELFMARKS if found.get(name)), "")


def _text(value: Any) -> str:
    """Return the texts of a value of either version, on one line and in one language."""
    return "; ".join(dict.fromkeys(_texts(_one_language(value))))[:_LONGEST]


def _one_language(value: Any) -> Any:
    """Select texts without a language first, then English, else the first language."""
    if isinstance(value, dict) and "@value" not in value:
        return next((value[key] for key in ("none", "@none", "en") if value.get(key)), None) or value
    if isinstance(value, list):
        spoken = {str(item.get("@language")): item for item in reversed(value) if isinstance(item, dict)}
        if len(spoken) > 1:
            return spoken.get("en") or next(item for item in value if isinstance(item, dict))
    return value


def _texts(value: Any) -> list[str]:
    """Return every text in a value: a string, `@value`, a language map, or a list of any of these."""
    if isinstance(value, str | int | float):
        plain = " ".join(_plain(str(value)).split())
        return [plain] if plain else []
    if isinstance(value, dict):
        if "@value" in value:
            return _texts(value["@value"])
        named = _get(value, "id", "@id")
        inner = [named] if named else [item for items in value.values() for item in _list(items)]
        return [text for item in inner if isinstance(item, str) for text in _texts(item)]
    return [text for item in _list(value) for text in _texts(item) if not isinstance(item, list)]


def _plain(text: str) -> str:
    """Return the text of a statement, which may be HTML, without scripts and control characters."""
    if "<" in text and ">" in text:
        reader = _PlainText()
        try:
            reader.feed(text)
            reader.close()
            text = "".join(reader.parts)
        except AssertionError:  # so html.parser says that `<![` opens no known section
            text = re.sub("<[^>]*>", " ", text)
    return "".join(character if character.isprintable() else " " for character in text)


class _PlainText(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style")
        if tag in ("br", "p", "div", "li"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style") and self._silent > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def _get(resource: dict[str, Any], *keys: str) -> Any:
    return next((resource[key] for key in keys if resource.get(key)), "")


def _url(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]
