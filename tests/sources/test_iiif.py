"""Tests of manifests of both versions, in the styles of five libraries, and of malformed and hostile ones."""

from typing import Any

import pytest

import manifests
from library import Library
from membra.errors import NotFetched, Refused
from membra.sources.iiif import Canvas, Limits, read_canvases
from membra.sources.image_api import image_urls, read_service


def nothing(url: str) -> Any:
    raise NotFetched("the server returned status {status}", url=url, status="404 Not Found", answered=404)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", manifests.STYLES)
def test_five_libraries_in_two_versions(name: str, version: int) -> None:
    style = manifests.STYLES[name]
    library = Library(url="https://iiif.example")
    url = manifests.put(library, style, version)
    document = library.documents[style.path.format(version=version)]
    canvases, lost = read_canvases(document, url, nothing)
    assert lost == []
    first, second = canvases
    assert (first.shelfmark, first.attribution) == style.expected
    assert (first.label, second.label) == style.views
    assert (first.manifest, first.id, first.rights) == (url, f"{url}/canvas/1", style.rights)
    assert first.service == library.service(style.image, style.name.format(n=1))
    assert first.image.startswith(first.service)
    assert first.api == str(style.image or 2)


def p3(url: str, *bodies: Any, **more: Any) -> dict[str, Any]:
    page = {"type": "AnnotationPage", "items": [{"motivation": "painting", "body": body} for body in bodies]}
    canvas = {"id": f"{url}/c", "type": "Canvas", "items": [page]}
    return {"id": url, "type": "Manifest", "items": [canvas], **more}


def read_one(document: Any) -> list[Canvas]:
    return read_canvases(document, "https://x.example/m", nothing)[0]


def test_collections_are_walked_in_order_each_manifest_once_and_circles_end() -> None:
    image = {"id": "https://x.example/i.jpg", "type": "Image"}
    served = {
        "https://x.example/a": p3("https://x.example/a", image),
        "https://x.example/b": p3("https://x.example/b", image),
        "https://x.example/top": {
            "type": "Collection",
            "rights": "https://licence.example/",
            "items": [
                {"id": "https://x.example/inner", "type": "Collection"},
                {"id": "https://x.example/b", "type": "Manifest"},
                {"id": "https://x.example/gone", "type": "Manifest"},
                {"id": "https://x.example/a", "type": "Manifest"},
            ],
        },
        # Version 2 with other key names, paged; it refers to the collection that contains it.
        "https://x.example/inner": {"@type": "sc:Collection", "first": "https://x.example/inner?page=1"},
        "https://x.example/inner?page=1": {
            "@type": "sc:Collection",
            "manifests": [{"@id": "https://x.example/a", "@type": "sc:Manifest"}],
            "collections": [{"@id": "https://x.example/top", "@type": "sc:Collection"}],
            "members": [{"@id": "https://x.example/inner", "@type": "sc:Collection"}],
        },
    }
    asked = []

    def load(url: str) -> Any:
        asked.append(url)
        return served[url] if url in served else nothing(url)

    canvases, lost = read_canvases(served["https://x.example/top"], "https://x.example/top", load)
    assert [canvas.manifest[-1] for canvas in canvases] == ["a", "b"]
    assert {canvas.rights for canvas in canvases} == {"https://licence.example/"}
    assert lost == [("https://x.example/gone", "the server returned status 404 Not Found")]
    assert len(asked) == len(set(asked)) == 5


def test_a_collection_of_many_pages_is_read_to_its_end() -> None:
    top, pages = "https://x.example/top", 30
    served: dict[str, Any] = {}
    for number in range(pages):
        manifest = f"https://x.example/m{number}"
        served[manifest] = p3(manifest, {"id": "https://x.example/i.jpg", "type": "Image"})
        served[f"{top}?page={number}"] = {
            "type": "CollectionPage",
            "items": [{"id": manifest, "type": "Manifest"}],
            "next": f"{top}?page={number + 1}" if number + 1 < pages else f"{top}?page=0",
        }
    first = {"type": "Collection", "first": f"{top}?page=0"}
    canvases, lost = read_canvases(first, top, lambda url: served[url])
    assert [canvas.manifest for canvas in canvases] == [f"https://x.example/m{number}" for number in range(pages)]
    assert lost == []


def test_pages_count_as_documents() -> None:
    endless = (f"https://x.example/{number}" for number in range(10**6))

    def load(url: str) -> Any:
        return {"type": "Collection", "next": next(endless)}

    with pytest.raises(Refused, match="more than 50 manifests"):
        read_canvases(load(""), "https://x.example/top", load, limits=Limits(documents=50))


def test_several_images_on_one_canvas_are_told_apart() -> None:
    two = read_one(p3("https://x.example/m", {"id": "https://x.example/1.jpg"}, {"id": "https://x.example/2.jpg"}))
    assert [canvas.label for canvas in two] == ["1", "1 (2)"]


def test_images_wrapped_in_other_things() -> None:
    image = {"id": "https://x.example/1.jpg", "type": "Image"}
    wrapped = {"type": "SpecificResource", "source": {"type": "Choice", "items": [image]}}
    assert read_one(p3("https://x.example/m", wrapped))[0].image == "https://x.example/1.jpg"
    assert read_one(p3("https://x.example/m", {"type": "SpecificResource", "source": image["id"]}))[0].image
    text = {"type": "TextualBody", "value": "no image"}
    canvases, lost = read_canvases(p3("https://x.example/m", text), "https://x.example/m", nothing)
    assert (canvases, lost) == ([], [("https://x.example/m/c", "no image on this canvas")])


def test_search_and_login_services_are_not_image_services() -> None:
    login = {"@id": "https://x.example/login", "profile": "http://iiif.io/api/auth/1/login"}
    images = {"id": "https://x.example/i/", "type": "ImageService3", "profile": "level1"}
    body = {"id": "https://x.example/1.jpg", "type": "Image", "service": [login, images]}
    assert read_one(p3("https://x.example/m", body))[0].service == "https://x.example/i"
    assert read_one(p3("https://x.example/m", {**body, "service": login}))[0].service == ""


@pytest.mark.parametrize(
    "document",
    [
        None, 3, "text", [], {}, {"type": "Manifest"}, {"type": "Manifest", "items": "x"}, {"type": ["Manifest"]},
        {"type": "Manifest", "items": [None, 3, "x", [], {"items": {"items": {"body": 7}}}]},
        {"@type": "sc:Manifest", "sequences": [7]}, {"@type": "sc:Manifest", "sequences": {"canvases": {"images": 1}}},
        {"type": "Collection", "items": [None, 3, {}, {"id": 7}, {"id": ["x"]}]},
        {"type": "Manifest", "label": {"en": {"x": [1]}}, "metadata": [{"label": [[[]]], "value": {"@value": []}}],
         "items": [{"items": [{"items": [{"body": {"id": 5, "service": [[], 1, {"profile": {"x": 1}}]}}]}]}]},
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_said_so(document: Any) -> None:
    canvases, _ = read_canvases(document, "https://x.example/m", nothing)
    assert canvases == []


def test_texts_are_plain_and_in_one_line() -> None:
    body = {"id": "https://x.example/1.jpg"}
    statement = {"value": {"en": ["a\n<b>bold</b> &amp; <script>alert('x')</script>true\u0000"]}}
    found = read_one(p3("https://x.example/m", body, requiredStatement=statement, label={"en": ["x" * 9999]}))[0]
    assert found.attribution == "a bold & true"
    assert len(found.shelfmark) == 500


@pytest.mark.parametrize("label", ["Fragment <![1]> recto", "Fragment <![if !x]> recto", "Fragment <b> recto"])
def test_a_label_with_what_looks_like_markup_is_read(label: str) -> None:
    found = read_one(p3("https://x.example/m", {"id": "https://x.example/1.jpg"}, label={"en": [label]}))[0]
    assert found.shelfmark == "Fragment recto"


INFO = {"width": 6000, "height": 4000}


def asked(max_side: int = 3000, **info: Any) -> list[str]:
    urls = image_urls(read_service({**INFO, **info}, "https://i.example/1"), max_side)
    return [url.removeprefix("https://i.example/1/full/") for url in urls]


V2 = "http://iiif.io/api/image/2/level{}.json"
CONTEXT3 = {"@context": "http://iiif.io/api/image/3/context.json", "type": "ImageService3"}


@pytest.mark.parametrize(
    ("info", "first"),
    [
        ({"profile": [V2.format(2)]}, "3000,/0/default.jpg"),
        ({"profile": V2.format(1), "max_side": 9000}, "full/0/default.jpg"),
        ({"profile": [V2.format(2), {"maxWidth": 1500}]}, "1500,/0/default.jpg"),
        ({"profile": [V2.format(2), {"maxWidth": 3000, "maxHeight": 500}]}, "750,/0/default.jpg"),
        ({"profile": [V2.format(2), {"maxArea": 240_000}]}, "600,/0/default.jpg"),
        ({**CONTEXT3, "profile": "level2"}, "3000,2000/0/default.jpg"),
        ({**CONTEXT3, "profile": "level1", "max_side": 9000}, "max/0/default.jpg"),
        ({**CONTEXT3, "profile": "level2", "maxWidth": 900}, "900,600/0/default.jpg"),
        ({"profile": "http://library.stanford.edu/iiif/image-api/1.1/compliance.html#level2"}, "3000,/0/native.jpg"),
        ({"profile": [V2.format(0)], "sizes": [{"width": 750, "height": 500}, {"width": 1500, "height": 1000}]},
         "1500,/0/default.jpg"),
        ({"profile": [V2.format(0)], "sizes": [{"width": 4500, "height": 3000}]}, "4500,/0/default.jpg"),
        ({"profile": [V2.format(0), {"supports": ["sizeByW"]}]}, "3000,/0/default.jpg"),
        ({"profile": [V2.format(0)], "max_side": 6000}, "full/0/default.jpg"),
        ({}, "3000,/0/default.jpg"),
    ],
)  # fmt: skip
def test_the_best_size_within_the_limits(info: dict[str, Any], first: str) -> None:
    assert asked(**info)[0] == first


def test_only_tiles_are_nothing_and_no_size_beats_a_limit() -> None:
    assert asked(profile=[V2.format(0)], tiles=[{"width": 512, "scaleFactors": [1]}]) == []
    sizes = [{"width": width, "height": width * 2 // 3} for width in (750, 1500, 6000)]
    found = asked(profile=[V2.format(2), {"maxWidth": 1000}], sizes=sizes)
    assert found == ["1000,/0/default.jpg", "750,/0/default.jpg"]


@pytest.mark.parametrize("info", [None, [], {}, {"width": "x"}, {"width": -5, "height": 1e300}])
def test_an_odd_info_json_is_refused(info: Any) -> None:
    with pytest.raises(Refused, match="no width and height"):
        read_service(info, "https://i.example/1")
