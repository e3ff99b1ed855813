"""Manifests in the styles of five libraries, in both versions of the Presentation API.

Only the structure is theirs: how labels, languages, shelfmarks, rights and image services are encoded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from library import Library


@dataclass(frozen=True)
class Style:
    """The conventions of one library."""

    path: str  # of a manifest, by version
    name: str  # of an image, by number
    image: int  # the version of its Image API; 0 is version 2 at level 0
    title: Any
    shelfmark: tuple[Any, Any]  # label and value of the metadata
    rights: str
    owner: Any
    views: tuple[Any, Any]
    choice: bool = False  # the image is one of several (multispectral)

    expected: tuple[str, str] = ("", "")  # shelfmark and attribution as membra stores them


STYLES = {
    "cambridge": Style(
        "/iiif/MS-TS-00008-C-00001/v{version}", "MS-TS-00008-C-00001-000-0000{n}.jp2", 2,
        "Cambridge Genizah: letter (T-S 8C1.1)", ("Classmark", "Cambridge, University Library, T-S 8C1.1"),
        "https://creativecommons.org/licenses/by-nc/3.0/",
        "Provided by <a target='_blank' href=\"https://library.example/\">Cambridge University Library</a>."
        "<br>Zooming image © Cambridge University Library, All rights reserved.<script>alert(1)</script>",
        ("1r", "1v"),
        expected=(
            "Cambridge, University Library, T-S 8C1.1",
            "Provided by Cambridge University Library. Zooming image © Cambridge University Library, "
            "All rights reserved.",
        ),
    ),
    "gallica": Style(
        "/iiif/ark:/12148/btv1b10000001x/v{version}/manifest.json", "f{n}", 1,
        "Fragments de la Bible hébraïque", ("Shelfmark", "Bibliothèque nationale de France, Hébreu 1489"),
        "https://gallica.bnf.fr/html/und/conditions-dutilisation-des-contenus-de-gallica",
        "Bibliothèque nationale de France", ("NP", "NP"),
        expected=("Bibliothèque nationale de France, Hébreu 1489", "Bibliothèque nationale de France"),
    ),
    "bodleian": Style(
        "/iiif/manifest/2a1bb0b5-1a5c.json?version={version}", "0a5e7b1c-{n}", 2,
        {"en": ["Bodleian Library MS. Heb. d. 42"]}, ({"en": ["Shelfmark"]}, {"en": ["MS. Heb. d. 42"]}),
        "https://creativecommons.org/licenses/by-nc/4.0/",
        {"en": ["<span>Photo: © <em>Bodleian Libraries</em>, University of Oxford</span>"]}, ("fol. 1r", "fol. 1v"),
        choice=True,
        expected=("MS. Heb. d. 42", "Photo: © Bodleian Libraries, University of Oxford"),
    ),
    "nli": Style(
        "/IIIFv21/DOCID/PNX_MANUSCRIPTS990000001/manifest?v={version}", "FL12000000{n}", 0,
        {"he": ["קטע מתלמוד בבלי"]},
        ({"en": ["Call Number"], "he": ["סימן המדף"]}, {"he": ["Ms. Heb. 8°5238"]}),
        "http://rightsstatements.org/vocab/CNE/1.0/",
        {"he": ["הספרייה הלאומית של ישראל"], "en": ["The National Library of Israel"]}, ("תמונה 1", "תמונה 2"),
        expected=("Ms. Heb. 8°5238", "The National Library of Israel"),
    ),
    "princeton": Style(
        "/concern/scanned_resources/71a8-{version}/manifest", "iiif%2Faa%2Fbb%2F{n}%2Fintermediate_file", 3,
        {"none": ["Judaeo-Arabic letter"]}, ({"en": ["Call number"]}, {"none": ["Garrett Hebrew MS. 5"]}),
        "http://rightsstatements.org/vocab/NKC/1.0/", {"en": ["Princeton University Library"]}, ("1", "2"),
        expected=("Garrett Hebrew MS. 5", "Princeton University Library"),
    ),
}  # fmt: skip


def put(library: Library, style: Style, version: int) -> str:
    """Publish a manifest with two views at the library; return its URL."""
    path = style.path.format(version=version)
    names = [style.name.format(n=n) for n in (1, 2)]
    make = two if version == 2 else three
    library.documents[path] = make(library, style, f"{library.url}{path}", names)
    return f"{library.url}{path}"


def fill(library: Library, pictures: Sequence[Path]) -> list[list[str]]:
    """Publish every style's manifest in both versions, with two of `pictures` each; return the URLs by style."""
    urls = []
    for index, style in enumerate(STYLES.values()):
        for n in (1, 2):
            library.images[style.name.format(n=n).replace("%2F", "/")] = pictures[2 * index + n - 1]
        urls.append([put(library, style, version) for version in (2, 3)])
    return urls


def two(library: Library, style: Style, url: str, names: list[str]) -> dict[str, Any]:
    label, value = style.shelfmark
    service_version = style.image
    canvases = []
    for index, (name, view) in enumerate(zip(names, style.views, strict=True), start=1):
        base = library.service(service_version, name)
        profile = {
            1: "http://library.stanford.edu/iiif/image-api/1.1/compliance.html#level2",
            3: "level2",
            0: "http://iiif.io/api/image/2/level0.json",
        }.get(service_version, "http://iiif.io/api/image/2/level2.json")
        resource: dict[str, Any] = {
            "@id": f"{base}/full/full/0/default.jpg", "@type": "dctypes:Image", "format": "image/jpeg",
            "service": {"@id": base, "profile": profile,
                        "@context": f"http://iiif.io/api/image/{service_version or 2}/context.json"},
        }  # fmt: skip
        if style.choice:
            other = {"@id": f"{url}/infrared", "@type": "dctypes:Image"}
            resource = {"@type": "oa:Choice", "default": resource, "item": [other]}
        image = {"@type": "oa:Annotation", "motivation": "sc:painting", "resource": resource}
        canvases.append(
            {"@id": f"{url}/canvas/{index}", "@type": "sc:Canvas", "label": _spoken(view), "images": [image]}
        )
    return {
        "@context": "http://iiif.io/api/presentation/2/context.json", "@id": url, "@type": "sc:Manifest",
        "label": _spoken(style.title), "attribution": _spoken(style.owner), "license": style.rights,
        "metadata": [{"label": "Title", "value": "?"}, {"label": _spoken(label), "value": _spoken(value)}],
        "sequences": [{"@type": "sc:Sequence", "canvases": canvases}],
    }  # fmt: skip


def three(library: Library, style: Style, url: str, names: list[str]) -> dict[str, Any]:
    label, value = style.shelfmark
    canvases = []
    for index, (name, view) in enumerate(zip(names, style.views, strict=True), start=1):
        base, canvas = library.service(style.image, name), f"{url}/canvas/{index}"
        kind = {"id": base, "type": "ImageService3", "profile": "level2"}
        if style.image < 3:
            profile = "http://iiif.io/api/image/2/level1.json" if style.image != 1 else "level2"
            kind = {"@id": base, "@type": f"ImageService{style.image or 2}", "profile": profile}
        body: dict[str, Any] = {"id": f"{base}/full/max/0/default.jpg", "type": "Image", "service": [kind]}
        if style.choice:
            body = {"type": "Choice", "items": [body, {"id": f"{url}/infrared", "type": "Image"}]}
        annotation = {"id": f"{canvas}/a", "type": "Annotation", "motivation": "painting", "body": body,
                      "target": canvas}  # fmt: skip
        page = {"id": f"{canvas}/p", "type": "AnnotationPage", "items": [annotation]}
        canvases.append({"id": canvas, "type": "Canvas", "label": _mapped(view), "items": [page]})
    return {
        "@context": "http://iiif.io/api/presentation/3/context.json", "id": url, "type": "Manifest",
        "label": _mapped(style.title), "rights": style.rights,
        "requiredStatement": {"label": {"en": ["Attribution"]}, "value": _mapped(style.owner)},
        "metadata": [{"label": _mapped(label), "value": _mapped(value)}],
        "items": canvases,
    }  # fmt: skip


def _spoken(text: Any) -> Any:
    """Return a version 2 value: a string, or texts with their languages."""
    if isinstance(text, str):
        return text
    found = [{"@value": words, "@language": language} for language, all in text.items() for words in all]
    return found if len(found) > 1 else found[0]


def _mapped(text: Any) -> Any:
    return {"none": [text]} if isinstance(text, str) else text
