"""A join as a IIIF Presentation 3 manifest: each fragment is a canvas, its matched letters are Web Annotations."""

import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from membra.errors import Invalid, Refused
from membra.files import atomic_write
from membra.show.evidence import Evidence, best_shown, explain_in
from membra.show.holding import Holding, name_of
from membra.show.picture import thumbnail
from membra.show.strips import encoded
from membra.sources.photograph import read_photograph
from membra.store.collection import Collection, Entry
from membra.store.verdicts import Verdict, Verdicts, by_pair

CONTEXT = "http://iiif.io/api/presentation/3/context.json"
SMALL = 320  # px, longer side of a thumbnail
SHOWN = 12  # kinds of letters that are annotated per pair

# The values that the specification allows for `rights`, each with `http:`; other licences become metadata text.
_RIGHTS = re.compile(r"https?://(creativecommons\.org/(?:licenses|publicdomain)/.+|rightsstatements\.org/vocab/.+)")


def write_manifest(
    collection: Collection,
    pairs: Sequence[tuple[str, str]],
    out: Path,
    *,
    url: str | None = None,
    ids: Sequence[str] = (),
) -> tuple[dict[str, Any], Path | None]:
    """Write the manifest of these pairs for publication at `url`; return it, and its folder of images if there is one.

    `ids`: the fragments to show, also those that are in no pair; default: those of the pairs.
    Images that no library serves are written into that folder as displayed, to be published beside the manifest.
    """
    if out.suffix.lower() != ".json":
        raise Invalid("{file} must end in .json", file=out)
    url = url or f"http://localhost:8080/{quote(out.name)}"
    folder = out.with_name(f"{out.stem}.images")
    beside = f"{url.rpartition('/')[0]}/{quote(folder.name)}"
    written = []

    def picture(entry: Entry) -> str:
        folder.mkdir(exist_ok=True)
        name = f"{_stem(entry)}.jpg"
        atomic_write(folder / name, encoded(Image.fromarray(read_photograph(entry.fragment.path)), quality=92))
        written.append(name)
        return f"{beside}/{name}"

    def small(entry: Entry) -> str:
        if _served(entry):  # its library serves thumbnails, though few are upright
            return ""
        stem, outline = _stem(entry), holding.piece_outline(entry.fragment.id)
        folder.mkdir(exist_ok=True)
        atomic_write(folder / f"{stem}-small.jpg", encoded(thumbnail(entry.fragment.path, SMALL, entry.angle, outline)))
        return f"{beside}/{stem}-small.jpg"

    holding = Holding(collection)
    evidence = [explain_in(holding, a, b) for a, b in pairs]
    wanted = {frozenset(pair) for pair in pairs}
    said = Verdicts.open(collection.path).pairs()
    verdicts = [verdict for ends, pair in said.items() if frozenset(ends) in wanted for verdict in pair.each]
    document = manifest(holding.by_id, evidence, verdicts, url=url, picture=picture, small=small, ids=ids)
    atomic_write(out, json.dumps(document, ensure_ascii=False, indent=1).encode())
    return document, folder if written else None


def manifest(
    entries: Mapping[str, Entry],
    evidence: Sequence[Evidence],
    verdicts: Sequence[Verdict],
    *,
    url: str,
    picture: Callable[[Entry], str],
    small: Callable[[Entry], str],
    ids: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the manifest of the fragments `ids`, by default those of `evidence`, for publication at `url`.

    Each is a canvas; `evidence` adds the letters. One whose photograph cannot be read is named in the metadata, with
    the reason; if there is no other, that reason is raised. A fragment that came from a library is shown from that
    library's image service; `picture` returns the URL of any other. A canvas has the size of the photograph as membra
    read it, so that boxes of letters fit; `small` returns the URL of an upright thumbnail, or "".
    """
    if not re.match(r"https?://[^\s#]+$", url):
        raise Invalid("{address} is not a valid URL of a manifest; give one that begins with https://", address=url)
    ids = ids or list(dict.fromkeys(id for one in evidence for id in (one.a, one.b)))
    names = {id: _plain(name_of(entries[id])) for id in ids}
    canvases = {id: f"{url}/canvas/{number}" for number, id in enumerate(ids, start=1)}
    owed = dict.fromkeys(filter(None, (entries[id].fragment.columns.get("attribution", "") for id in ids)))
    items: list[dict[str, Any]] = []
    unread: dict[str, Refused] = {}
    for id in ids:
        try:
            items.append(_canvas(entries[id], canvases[id], names, evidence, picture, small))
        except Refused as reason:
            unread[id] = reason
    if not items:  # a manifest needs a canvas
        raise unread[ids[0]]
    compared = ", compared by membra" if evidence else ""
    hidden = [_plain(f"{_apart(names[id])}: {reason}") for id, reason in unread.items()]
    document: dict[str, Any] = {
        "@context": CONTEXT,
        "id": url,
        "type": "Manifest",
        "label": {"none": [" + ".join(map(_apart, names.values()))]},
        "summary": {"en": [f"{len(ids)} fragments that may come from one manuscript{compared}."]},
        "metadata": [*_figures(evidence, names), *_decided(verdicts, names)],
        "behavior": ["individuals"],
        "items": items,
    }
    if hidden:
        document["metadata"].append(_pair("Not shown", *hidden))
    if owed:
        document["requiredStatement"] = _pair("Attribution", *map(_plain, owed))
    return document


def _canvas(
    entry: Entry,
    canvas: str,
    names: Mapping[str, str],
    evidence: Sequence[Evidence],
    picture: Callable[[Entry], str],
    small: Callable[[Entry], str],
) -> dict[str, Any]:
    height, width = read_photograph(entry.fragment.path).shape[:2]
    columns = entry.fragment.columns
    image = {
        "id": f"{canvas}/image",
        "type": "Annotation",
        "motivation": "painting",
        "body": _body(entry, picture, width, height),
        "target": canvas,
    }
    document: dict[str, Any] = {
        "id": canvas,
        "type": "Canvas",
        "label": {"none": [names[entry.fragment.id]]},
        "height": height,
        "width": width,
        "items": [{"id": f"{canvas}/page", "type": "AnnotationPage", "items": [image]}],
    }
    labels = {"Shelfmark": "shelfmark", "Label": "label", "Canvas": "canvas", "Licence": "rights"}
    metadata = [_pair(label, _plain(columns[key])) for label, key in labels.items() if columns.get(key)]
    document["metadata"] = [_pair("Fragment", _plain(entry.fragment.id)), *metadata, *_seen(entry)]
    if upright := small(entry):
        document["thumbnail"] = [{"id": upright, "type": "Image", "format": "image/jpeg"}]
    if rights := _RIGHTS.fullmatch(columns.get("rights", "")):
        document["rights"] = f"http://{rights[1]}"
    if columns.get("attribution"):
        document["requiredStatement"] = _pair("Attribution", _plain(columns["attribution"]))
    if re.match(r"https?://\S+$", columns.get("manifest", "")):
        document["seeAlso"] = [{"id": columns["manifest"], "type": "Dataset", "format": "application/ld+json"}]
    pages = [_letters(one, entry.fragment.id, canvas, names, n) for n, one in enumerate(evidence, start=1)]
    if marked := [page for page in pages if page["items"]]:
        document["annotations"] = marked
    return document


def _seen(entry: Entry) -> list[dict[str, Any]]:
    """Return metadata on the rotation of the writing and on doubt whether there is any."""
    turned = "upright orientation uncertain" if entry.angle is None else f"{entry.angle:.0f}° counter-clockwise"
    doubtful = "little reliable writing was found" if entry.doubtful else ""
    labels = {"Piece": str(entry.fragment.piece or ""), "Writing turned by": turned, "Doubtful": doubtful}
    return [_pair(label, text) for label, text in labels.items() if text]


def _letters(one: Evidence, id: str, canvas: str, names: Mapping[str, str], number: int) -> dict[str, Any]:
    """Return the annotation page of `id`'s canvas: one annotation per letter that matches the pair's other fragment."""
    page = f"{canvas}/letters/{number}"
    annotations: dict[str, Any] = {"id": page, "type": "AnnotationPage", "items": []}
    if id not in (one.a, one.b):
        return annotations
    other, boxes = (one.b, one.boxes_a) if id == one.a else (one.a, one.boxes_b)
    for kind, match in enumerate(best_shown(one.matches, SHOWN), start=1):
        letters = match.letters_a if id == one.a else match.letters_b
        counts = len(match.letters_a), len(match.letters_b)
        here, there = counts if id == one.a else counts[::-1]
        said = f"Kind {kind}", f"{there} in {_apart(names[other])}; distance {match.distance:.3f}"
        for count, letter in enumerate(letters, start=1):
            x, y, width, height = boxes[letter].tolist()
            text = f"{said[0]}, letter {count} of {here}; {said[1]}"
            annotations["items"].append(
                {
                    "id": f"{page}/{kind}/{count}",
                    "type": "Annotation",
                    "motivation": "commenting",  # viewers list these beside the image
                    "body": {"type": "TextualBody", "value": text, "format": "text/plain", "language": "en"},
                    "target": f"{canvas}#xywh={x},{y},{width},{height}",
                }
            )
    return annotations


def _body(entry: Entry, picture: Callable[[Entry], str], width: int, height: int) -> dict[str, Any]:
    columns = entry.fragment.columns
    service, version = columns.get("service", ""), columns.get("image_api", "")
    body: dict[str, Any] = {"type": "Image", "format": "image/jpeg", "width": width, "height": height}
    if _served(entry):
        # The size that the service delivered: many do not deliver `full`.
        size = f"{width},{height}" if version == "3" else f"{width},"
        quality = "native" if version == "1" else "default"
        # Version 3 of the Presentation API names older services by `@id`.
        new = {"id": service, "type": "ImageService3", "profile": "level1"}
        old = {
            "@id": service,
            "@type": f"ImageService{version}",
            "profile": {
                "1": "http://library.stanford.edu/iiif/image-api/1.1/compliance.html#level1",
                "2": "http://iiif.io/api/image/2/level1.json",
            }.get(version),
        }
        offered = [new if version == "3" else old]
        return {"id": f"{service}/full/{size}/0/{quality}.jpg", **body, "service": offered}
    return {"id": picture(entry), **body}


def _served(entry: Entry) -> bool:
    """Return whether a library serves the photograph by the IIIF Image API."""
    columns = entry.fragment.columns
    return bool(re.match(r"https?://\S+$", columns.get("service", ""))) and columns.get("image_api") in ("1", "2", "3")


def _stem(entry: Entry) -> str:
    """Return the file name, without suffix, of an image in the folder beside the manifest."""
    return hashlib.sha256(entry.fragment.id.encode("utf-8", "replace")).hexdigest()[:16]


def _figures(evidence: Sequence[Evidence], names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        _pair(
            "Compared",
            f"{_apart(names[one.a])} and {_apart(names[one.b])}: distance {one.distance:.4f} ({one.method})"
            + (f", candidate {one.rank}" if one.rank else ""),
        )
        for one in evidence
    ]


def _decided(verdicts: Sequence[Verdict], names: Mapping[str, str]) -> list[dict[str, Any]]:
    divided = [pair for pair in by_pair(verdicts).values() if pair.disputed]
    metadata = [
        _pair("Disputed", _plain(" and ".join(_apart(names.get(id, id)) for id in (p.a, p.b)))) for p in divided
    ]
    for v in verdicts:
        note = f": {v.note}" if v.note else ""
        pair = " and ".join(_apart(names.get(id, id)) for id in (v.a, v.b))
        who = f"{pair}: {v.says} ({_apart(v.by)}, {v.at}){note}"
        metadata.append(_pair("Verdict", _plain(who)))
    return metadata


def _pair(label: str, *values: str) -> dict[str, Any]:
    return {"label": {"en": [label]}, "value": {"none": [_said(value) for value in values]}}


def _apart(name: str) -> str:
    """Isolate a name within a sentence, so that right-to-left letters in it do not reorder the rest."""
    return f"\u2068{name}\u2069"


def _plain(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _said(text: str) -> str:
    """Escape a text between < and >, which viewers would interpret as HTML."""
    return f"<span>{html.escape(text)}</span>" if text.startswith("<") and text.endswith(">") else text
