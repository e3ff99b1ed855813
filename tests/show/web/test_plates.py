"""Pieces of one photograph on the pages: each has its own page, and exports name the piece."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from factories import plate, random_encoder, see_plates, slip
from membra.describe import recipe as recipes
from membra.show.web.app import create_app
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.index import index

IDS = ["plate.png#1", "plate.png#2", "plate.png#3"]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recipes, "see", see_plates)
    source = tmp_path / "source"
    source.mkdir()
    (source / "plate.png").write_bytes(plate(1, 2, 3))
    (source / "a.png").write_bytes(slip(1))
    return index(fragments(source), tmp_path / "C", encoder=random_encoder())[0].path


@pytest.fixture
def client(path: Path, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(path, cache=tmp_path / "cache"), base_url="http://127.0.0.1:8000") as opened:
        opened.headers["x-membra-token"] = opened.get("/api/token").json()["token"]
        yield opened


def test_every_page_knows_a_piece_by_its_id(client: TestClient) -> None:
    listed = client.get("/api/collection").json()["fragments"]
    assert [card["id"] for card in listed] == ["a.png", *IDS]
    for id in IDS:
        page = client.get("/fragment", params={"id": id})
        assert page.status_code == 200
        assert "%23" in page.text  # in every link
        assert client.get("/api/fragment", params={"id": id}).json()["card"]["letters"] == 8
        found = client.get("/api/candidates", params={"id": id}).json()["candidates"]
        assert len(found) == 3
        assert client.get("/image/letters", params={"id": id, "at": "0,1"}).status_code == 200
        hidden = client.get("/api/candidates", params={"id": id, "hide": "same:photograph"}).json()["candidates"]
        assert [one["card"]["id"] for one in hidden] == ["a.png"]
    both = {"a": IDS[0], "b": IDS[1]}
    assert client.get("/compare", params=both).status_code == 200
    assert client.get("/api/fragment", params={"id": "plate.png"}).status_code == 404
    manifest = client.get("/export/manifest", params=both)
    assert manifest.status_code == 200
    canvases = [canvas["id"] for canvas in json.loads(manifest.content)["items"]]
    assert len(set(canvases)) == 2
    assert client.get("/export/dossier", params=both).status_code == 200


def test_a_dropped_plate_is_looked_at_and_added(client: TestClient, path: Path) -> None:
    files = {"image": ("two.png", plate(5, 6), "image/png")}
    dropped = client.post("/api/candidates", files=files).json()
    assert len(dropped["candidates"]) == 4
    added = client.post("/api/add", params={"upload": dropped["upload"]}).json()
    assert added["id"] == "added/two.png#2"  # the more legible
    ids = [entry.fragment.id for entry in Collection.open(path).entries()]
    assert ids[-2:] == ["added/two.png#1", "added/two.png#2"]
