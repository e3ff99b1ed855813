"""Exported manifests follow Presentation 3, and their annotations are on the letters."""

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from membra.errors import MembraError
from membra.show.evidence import explain
from membra.show.export import export
from membra.show.group import group_of, pairs_of
from membra.show.holding import Holding, name_of
from membra.show.iiif_export import write_manifest
from membra.sources.fragment import Fragment
from membra.sources.iiif import read_canvases
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts

RIGHTS = r"http://(creativecommons\.org/(licenses|publicdomain)|rightsstatements\.org/vocab)/.+"
COMMON = {"id", "type", "label", "metadata", "summary", "requiredStatement", "rights", "seeAlso", "behavior", "items"}
ALLOWED = {
    "Manifest": COMMON | {"@context"},
    "Canvas": COMMON | {"height", "width", "annotations", "thumbnail"},
    "AnnotationPage": {"id", "type", "items"},
    "Annotation": {"id", "type", "motivation", "body", "target"},
}
NEEDED = {
    "Manifest": {"@context", "id", "type", "label", "items"},
    "Canvas": {"id", "type", "height", "width", "items"},
    "AnnotationPage": {"id", "type", "items"},
    "Annotation": {"id", "type", "motivation", "target", "body"},
}


def problems(manifest: dict[str, Any]) -> list[str]:
    """Return a manifest's violations of the rules of Presentation 3 that membra uses."""
    found: list[str] = []
    ids: list[str] = []

    def check(good: object, what: str) -> None:
        if not good:
            found.append(what)

    def texts(value: Any, what: str) -> None:
        languages = isinstance(value, dict) and value and all(re.fullmatch(r"[a-zA-Z-]+", key) for key in value)
        check(languages, f"{what}: not by language")
        if languages:
            lists = all(isinstance(many, list) and all(isinstance(one, str) for one in many) for many in value.values())
            check(lists, f"{what}: not lists of texts")

    def resource(value: dict[str, Any], kind: str, canvas: str = "") -> None:
        name = f"{kind} {value.get('id')}"
        check(value.get("type") == kind, f"{name}: type {value.get('type')}")
        check(not NEEDED[kind] - set(value), f"{name}: lacks {NEEDED[kind] - set(value)}")
        check(not set(value) - ALLOWED[kind], f"{name}: has {set(value) - ALLOWED[kind]}")
        check(re.match(r"https?://", str(value.get("id"))), f"{name}: id is no address")
        ids.append(str(value.get("id")))
        for key in ("label", "summary"):
            if key in value:
                texts(value[key], f"{name} {key}")
        for pair in [
            *value.get("metadata", []),
            *([value["requiredStatement"]] if "requiredStatement" in value else []),
        ]:
            check(set(pair) == {"label", "value"}, f"{name}: metadata")
            for text in pair.values():
                texts(text, f"{name} metadata")
        check(re.fullmatch(RIGHTS, value.get("rights", "http://rightsstatements.org/vocab/x")), f"{name}: rights")
        check(set(value.get("behavior", [])) <= {"individuals"}, f"{name}: behaviour")
        for link in value.get("seeAlso", []):
            check({"id", "type"} <= set(link) and link["id"].startswith("http"), f"{name}: seeAlso")
        if kind == "Annotation":
            annotation(value, name, canvas)
        inner = {"Manifest": "Canvas", "Canvas": "AnnotationPage", "AnnotationPage": "Annotation"}.get(kind)
        for item in [*value.get("items", []), *value.get("annotations", [])] if inner else []:
            resource(item, str(inner), str(value["id"]) if kind == "Canvas" else canvas)
        if kind == "Canvas":
            check("#" not in str(value.get("id")), f"{name}: fragment in id")
            sizes = [value.get("height"), value.get("width")]
            check(all(isinstance(size, int) and size > 0 for size in sizes), f"{name}: size {sizes}")
            paint = [a for page in value.get("items", []) for a in page["items"]]
            check(all(a.get("motivation") == "painting" for a in paint), f"{name}: only painting in items")
            others = [a for page in value.get("annotations", []) for a in page["items"]]
            check(all(a.get("motivation") != "painting" for a in others), f"{name}: painting in annotations")

    def annotation(value: dict[str, Any], name: str, canvas: str) -> None:
        check(str(value.get("target")).partition("#")[0] == canvas, f"{name}: target is not its canvas")
        body = value.get("body", {})
        if body.get("type") == "TextualBody":
            check(isinstance(body.get("value"), str), f"{name}: no text")
        else:
            check({"id", "type"} <= set(body) and body["id"].startswith("http"), f"{name}: body")
            for service in body.get("service", []):
                new = {"id", "type", "profile"} <= set(service)
                old = {"@id", "@type", "profile"} <= set(service)
                check((new or old) and isinstance(service["profile"], str), f"{name}: service")

    check(manifest.get("@context") == "http://iiif.io/api/presentation/3/context.json", "context")
    resource(manifest, "Manifest")
    check(len(ids) == len(set(ids)), "ids are not unique")
    return found


@pytest.fixture(scope="module")
def pair(decided: Collection, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("pair") / "צירוף.json"
    ids = [entry.fragment.id for entry in decided.entries()]
    document, folder = write_manifest(decided, [(ids[0], ids[2])], out, url="https://me.example/iiif/join.json")
    assert json.loads(out.read_text(encoding="utf-8")) == document
    assert folder is not None
    return document, folder


def test_it_keeps_the_rules(pair: tuple[dict[str, Any], Path]) -> None:
    assert problems(pair[0]) == []


VALIDATE = """
const { Validator } = require("@hyperion-framework/validator");
const validator = new Validator();
const fine = validator.validateManifest(JSON.parse(require("fs").readFileSync(0)));
console.log(JSON.stringify(fine ? [] : validator.validators.manifest.errors));
"""


def by_schema(manifest: dict[str, Any]) -> list[Any]:
    """Return the errors of the official JSON schema of Presentation 3, from the validator on npm."""
    root = Path(__file__).parents[2]
    node = shutil.which("node")
    if node is None or not (root / "node_modules" / "@hyperion-framework").is_dir():
        pytest.skip("needs Node.js and `npm ci`, which `make test` runs where npm is")
    found = subprocess.run([node, "-e", VALIDATE], cwd=root, input=json.dumps(manifest), capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return list(json.loads(found.stdout))


def test_it_is_valid_by_the_schema(pair: tuple[dict[str, Any], Path]) -> None:
    assert by_schema(pair[0]) == []
    spoilt = json.loads(json.dumps(pair[0]))
    spoilt["items"][0]["height"] = "3"
    assert by_schema(spoilt) != []


def _drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["items"][0].pop(key)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: m.update(label="a text"),
        lambda m: m.update(id="urn:x"),
        lambda m: m["items"][0].update(rights="https://creativecommons.org/licenses/by/4.0/"),
        lambda m: m["items"][0].update(height="3"),
        lambda m: m["items"][1].update(id=m["items"][0]["id"]),
        lambda m: m["items"][0]["annotations"][0]["items"][0].update(target="https://elsewhere.example/#xywh=1,1,1,1"),
        lambda m: m["items"][0]["items"][0]["items"][0]["body"].pop("id"),
        lambda m: m.update(sequences=[]),
        _drop("items"),
        _drop("width"),
    ],
)
def test_the_rules_can_be_broken(pair: tuple[dict[str, Any], Path], spoil: Callable[[dict[str, Any]], None]) -> None:
    spoiled = copy.deepcopy(pair[0])
    spoil(spoiled)
    assert problems(spoiled)


def test_annotations_are_the_boxes_of_matched_letters(decided: Collection, pair: tuple[dict[str, Any], Path]) -> None:
    ids = [entry.fragment.id for entry in decided.entries()]
    evidence = explain(decided, ids[0], ids[2])
    for canvas, boxes, path in zip(
        pair[0]["items"], (evidence.boxes_a, evidence.boxes_b), (evidence.image_a, evidence.image_b), strict=True
    ):
        with Image.open(path) as image:
            assert (canvas["width"], canvas["height"]) == image.size
        known = {tuple(box) for box in boxes.tolist()}
        regions = [a["target"].rpartition("#xywh=")[2] for page in canvas["annotations"] for a in page["items"]]
        assert len(regions) > 5
        assert {tuple(map(int, region.split(","))) for region in regions} <= known


def test_a_library_keeps_serving_its_own_image_with_its_rights(pair: tuple[dict[str, Any], Path]) -> None:
    first, second = pair[0]["items"]
    body = first["items"][0]["items"][0]["body"]
    assert body["service"][0]["id"] == "https://library.example/image/3/a%2Fb"
    assert first["rights"] == "http://creativecommons.org/licenses/by-nc/4.0/"
    assert first["seeAlso"][0]["id"] == "https://library.example/manifest"
    # A viewer would interpret a value between < and > as HTML.
    assert first["requiredStatement"]["value"]["none"] == ["<span>&lt;script&gt;alert(1)&lt;/script&gt;</span>"]
    own = second["items"][0]["items"][0]["body"]
    assert own["id"].startswith("https://me.example/iiif/")
    whole, small = sorted(pair[1].iterdir(), key=lambda path: len(path.name))
    assert [len(canvas.get("thumbnail", [])) for canvas in (first, second)] == [0, 1]
    assert second["thumbnail"][0]["id"].endswith(f"/{small.name}")
    with Image.open(whole) as image:
        assert image.size == (second["width"], second["height"]) == (own["width"], own["height"])


def test_a_group_shows_every_pair_that_verdicts_join(decided: Collection, tmp_path: Path) -> None:
    ids = [entry.fragment.id for entry in decided.entries()]
    holding = Holding(decided)
    group = group_of(holding, Verdicts.open(decided.path).pairs(), [ids[2]])
    document, _ = write_manifest(decided, pairs_of(holding, group), tmp_path / "g.json")
    assert problems(document) == []
    assert len(document["items"]) == 3
    labels = [label for canvas in document["items"] for label in canvas["label"]["none"]]
    assert "כ״י ירושלים 5" in labels
    verdicts = [pair["value"]["none"][0] for pair in document["metadata"] if pair["label"]["en"] == ["Verdict"]]
    assert any("ש. לוי" in verdict for verdict in verdicts)
    middle = next(canvas for canvas in document["items"] if "כ״י" in canvas["label"]["none"][0])
    assert len(middle["annotations"]) == 2
    service = middle["items"][0]["items"][0]["body"]["service"][0]
    assert (service["@id"], service["@type"]) == ("https://library.example/image/1/a%2Fb", "ImageService1")


def test_a_side_without_letters_has_its_canvas(writer: TestClient, own_shelf: Path, tmp_path: Path) -> None:
    """A rejected photograph is in no pair, but can be shown; one that cannot be read is named, with the reason."""
    collection = Collection.open(own_shelf)
    images = {name: tmp_path / f"{name}.jpg" for name in ("blank", "bare", "lost", "torn")}
    for name in ("blank", "bare"):
        Image.new("RGB", (300, 200), "#d8cdb8").save(images[name])
    for name in ("lost", "torn"):
        images[name].write_text("this is no image")
    one = "images/0001.jpg"
    written = next(entry.fragment.path for entry in collection.entries() if entry.fragment.id == one)
    sides = [(one, "1"), ("blank", "1"), ("lost", "1"), ("bare", "2"), ("torn", "2"), ("lost too", "3"), ("gone", "3")]
    paths = {**images, one: written, "lost too": images["lost"], "gone": tmp_path / "gone.jpg"}
    collection.add(
        [
            Fragment(id, paths[id], {"shelfmark": "ENA 9", "leaf": leaf, "side": f"side {number}"})
            for number, (id, leaf) in enumerate(sides)
        ]
    )
    for id, shown, hidden in ((one, 2, 1), ("bare", 1, 1)):
        out = tmp_path / f"{shown}.json"
        assert export(collection, out, "iiif", group=id).count == shown
        own = json.loads(out.read_text(encoding="utf-8"))
        served = writer.get("/export/group/manifest", params={"id": id}).json()
        for document in (own, served):
            assert problems(document) == []
            assert len(document["items"]) == shown
            assert not any("annotations" in canvas for canvas in document["items"])
            assert document["summary"]["en"][0].endswith("one manuscript.")
            said = [one["value"]["none"] for one in document["metadata"] if one["label"]["en"] == ["Not shown"]]
            assert [len(each) for each in said] == [hidden]
            assert "not a readable image" in said[0][0]
    with pytest.raises(MembraError, match="not a readable image"):
        export(collection, tmp_path / "3.json", "iiif", group="lost too")
    assert not (tmp_path / "3.json").exists()
    assert writer.get("/export/group/manifest", params={"id": "gone"}).status_code == 422


def test_a_group_is_all_of_it_and_a_pair_just_the_two(own_shelf: Path, tmp_path: Path) -> None:
    collection = Collection.open(own_shelf)
    a, b, c = (f"images/000{number}.jpg" for number in (1, 2, 3))
    known = {entry.fragment.id: entry.fragment for entry in collection.entries()}
    collection.add(
        [
            Fragment(id, known[id].path, {"shelfmark": "ENA 9", "leaf": "1", "side": side})
            for id, side in ((a, "recto"), (b, "verso"))
        ]
    )
    assert export(collection, tmp_path / "pair.json", "iiif", pair=(a, c)).count == 2
    assert export(collection, tmp_path / "group.json", "iiif", group=[a, c]).count == 3
    with pytest.raises(MembraError, match="was not described"):
        export(collection, tmp_path / "no.json", "iiif", pair=(a, "images/broken.jpg"))


def test_what_goes_out_comes_in_again(pair: tuple[dict[str, Any], Path]) -> None:
    canvases, lost = read_canvases(pair[0], pair[0]["id"], load=lambda url: None)
    assert (len(canvases), lost) == (2, [])
    assert canvases[0].service == "https://library.example/image/3/a%2Fb"
    assert canvases[0].attribution == "<script>alert(1)</script>"
    assert canvases[0].rights == "http://creativecommons.org/licenses/by-nc/4.0/"


def test_the_sides_of_one_leaf_have_names_of_their_own(decided: Collection) -> None:
    entry = decided.entries()[0]
    names = []
    for label in ("1r", "1v"):
        columns = {**entry.fragment.columns, "label": label}
        names.append(name_of(replace(entry, fragment=replace(entry.fragment, columns=columns))))
    assert names == ["T-S 8C1.3 1r", "T-S 8C1.3 1v"]


def test_an_address_must_be_one(decided: Collection, tmp_path: Path) -> None:
    ids = [entry.fragment.id for entry in decided.entries()]
    for url in ("join.json", "ftp://me.example/x", "https://me.example/#x"):
        with pytest.raises(MembraError, match="not a valid URL"):
            write_manifest(decided, [(ids[0], ids[1])], tmp_path / "m.json", url=url)
    with pytest.raises(MembraError, match=r"must end in \.json"):
        write_manifest(decided, [(ids[0], ids[1])], tmp_path / "m.csv")
