"""The API: a readable reference, stable names, unknown parameters rejected; and the scripts of the docs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

from fastapi import FastAPI
from fastapi.testclient import TestClient

from membra.show.web.app import create_app
from membra.show.web.schema import parameters_of, routes_of
from membra.store.collection import Collection

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "api.md"
SCRIPTS = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
A, B = "images/0001.jpg", "images/0002.jpg"


def test_every_operation_has_a_group_a_sentence_and_an_id_that_stays(client: TestClient) -> None:
    schema = client.get("/api/openapi.json").json()
    assert all(path.startswith("/api/") for path in schema["paths"])
    found = {}
    for path, ways in schema["paths"].items():
        for method, one in ways.items():
            assert one["tags"] != ["Others"], path
            assert len(one["summary"].split()) > 2, path
            found[one["operationId"]] = (method, path)
    assert {"get_collection", "get_candidates", "post_verdicts", "post_verdicts_undo", "get_inbox"} <= set(found)
    limits = {path for path, ways in schema["paths"].items() if "limit" in json.dumps(ways.get("get", {}))}
    assert {f"/api/{name}" for name in ("collection", "candidates", "proposals", "verdicts", "inbox")} <= limits
    assert schema["components"]["schemas"]["Given"]["properties"]["says"]["enum"] == [
        "join",
        "same-hand",
        "unsure",
        "no",
    ]


def test_what_is_refused_is_what_the_schema_does_not_have(client: TestClient) -> None:
    schema, app = client.get("/api/openapi.json").json()["paths"], cast(FastAPI, client.app)
    for path, ways in schema.items():
        for method, one in ways.items():
            said = {each["name"] for each in one.get("parameters", []) if each["in"] == "query"}
            route = next(r for r in routes_of(app) if r.path == path and method.upper() in (r.methods or ()))
            assert parameters_of(route) == said, (method, path)
    assert client.get("/api/map", params={"at": A, "by": "x"}).status_code == 422


def test_the_reference_can_be_read(client: TestClient) -> None:
    page = client.get("/api").text
    for said in (
        "GET /api/candidates",
        "get_inbox",
        "nearest first",
        "join | same-hand | unsure | no",
        "number of entries per page",
    ):
        assert said in page, said
    assert "/api/collection" in client.get("/?q=8C1").text  # each page links to its JSON, with the known parameters
    for url in ("/?q=8C1&page=1", f"/compare?a={A}&b={B}&word=2&walk=candidates", f"/fragment?id={A}&word=1"):
        twin = re.search(r'href="([^"]+)">This page as JSON', client.get(url).text)
        assert twin
        assert client.get(twin[1].replace("&amp;", "&")).status_code == 200, twin[1]


def test_slips_of_the_pen_are_refused(client: TestClient) -> None:
    answer = client.get("/api/candidates", params={"id": A, "limt": 3})
    assert answer.status_code == 422
    assert answer.json()["values"]["name"] == "limt"
    assert "limit" in answer.json()["error"]
    assert len(client.get("/api/candidates", params={"id": A, "limit": 3}).json()["candidates"]) == 3
    assert len(client.get("/api/collection", params={"limit": 2}).json()["fragments"]) == 2
    missing = client.post("/api/verdicts", json={"a": A, "b": B, "says": "join", "by": "x"})
    assert missing.status_code == 403
    assert "X-Membra-Token" in missing.json()["error"]


def test_verdicts_are_spelt_as_in_the_shell(writer: TestClient) -> None:
    for says in ("same-hand", "same hand"):
        assert (
            writer.post("/api/verdicts", json={"a": A, "b": B, "says": says, "by": "x"}).json()["says"] == "same hand"
        )


def test_the_scripts_of_the_docs_do_what_they_say(own_server: str, own_shelf: Path, tmp_path: Path) -> None:
    collection = Collection.open(own_shelf)
    described = [entry.fragment.id for entry in collection.entries() if not entry.refused]
    with collection.writing() as writer:
        writer.annotate({id: {"library": ("Cambridge", "Oxford")[at % 2]} for at, id in enumerate(described)})
    script = tmp_path / "pairs.py"
    script.write_text(SCRIPTS[0], encoding="utf-8")
    done = subprocess.run([sys.executable, script, own_server], capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.splitlines()
    assert 0 < len(lines) <= 10
    assert all("Cambridge" in line and "Oxford" in line and "T-S 8C" in line for line in lines)
    asked = f'print(ask(CandidatesPage, "candidates", {own_server!r}, id={A!r}).candidates[0].card.name)'
    typed = f"{SCRIPTS[1]}\nfrom membra.show.web.models import CandidatesPage\n{asked}\n"
    script.write_text(typed, encoding="utf-8")
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=True).stdout
    assert said.startswith("T-S 8C")


def test_manifests_name_the_server_as_others_reach_it(shelf: Path, cache: Path) -> None:
    app = create_app(shelf, cache=cache, base_url="https://example.org/membra")
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        for url in (f"/export/manifest?a={A}&b={B}", f"/export/group/manifest?id={A}&id={B}"):
            text = client.get(url).text
            assert json.loads(text)["id"].startswith("https://example.org/membra/export/")
            assert "127.0.0.1" not in text
