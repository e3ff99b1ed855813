"""The routes, requested directly: data, safety, malformed requests. No answer is a 5xx, no name becomes a path."""

import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient

from membra.find.probability import Refinement
from membra.scribes import camera, fragment, hand
from membra.show.web import candidates
from membra.show.web.app import create_app
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts
from shelves import PAGES

ODD = 'images/ב"ג <script>alert(1)-script>.jpg'


@pytest.fixture(scope="module")
def pair(client: TestClient) -> tuple[str, str]:
    """Two fragments of one manuscript, the first with an odd name."""
    found = client.get("/api/candidates", params={"id": ODD}).json()["candidates"]
    return ODD, next(one["card"]["id"] for one in found if one["known"])


def test_every_fragment_is_on_the_first_page_in_natural_order(client: TestClient) -> None:
    data = client.get("/api/collection").json()
    assert [card["name"] for card in data["fragments"]] == [f"T-S 8C{number}.1" for number in range(1, 13)]
    assert data["coverage"] == {"described": 10, "few_letters": 1, "refused": 1, "doubtful": 0}
    assert "not a readable image" in next(card["refused"] for card in data["fragments"] if card["refused"])


@pytest.mark.parametrize(
    ("asked", "found"),
    [({"q": "8c1"}, 4), ({"q": "אוסף"}, 6), ({"show": "refused"}, 1), ({"show": "few"}, 1), ({"q": "nothing"}, 0)],
)
def test_fragments_are_found_by_any_column(client: TestClient, asked: dict[str, str], found: int) -> None:
    assert client.get("/api/collection", params=asked).json()["found"] == found


def test_a_page_beyond_the_last_is_the_last(client: TestClient) -> None:
    for page in (-5, 0, 10**30):
        assert client.get("/api/collection", params={"page": page}).json()["page"] == 1


def test_a_fragment_has_its_letters_and_words(client: TestClient) -> None:
    data = client.get("/api/fragment", params={"id": ODD}).json()
    letters = [index for word in data["words"] for index in word["letters"]]
    assert sorted(letters) == list(range(len(data["shown"]["boxes"]))) == list(range(data["card"]["letters"]))
    assert sum(word["share"] for word in data["words"]) == pytest.approx(1)


def test_a_refused_fragment_says_why(client: TestClient) -> None:
    answer = client.get("/fragment", params={"id": "images/broken.jpg"})
    assert answer.status_code == 200
    assert "not a readable image" in answer.text
    assert client.get("/candidates", params={"id": "images/broken.jpg"}).status_code == 422


def test_candidates_can_leave_out_known_joins_and_columns(client: TestClient) -> None:
    everything = client.get("/api/candidates", params={"id": ODD}).json()["candidates"]
    mates = [one["card"]["id"] for one in everything if one["known"]]
    assert mates
    without = client.get("/api/candidates", params={"id": ODD, "hide": "known"}).json()["candidates"]
    assert {one["card"]["id"] for one in without} == {one["card"]["id"] for one in everything} - set(mates)
    others = client.get("/api/candidates", params={"id": ODD, "hide": "same:collection"}).json()["candidates"]
    assert {one["card"]["columns"]["collection"] for one in others} == {"אוסף"}
    assert [one["rank"] for one in others] == sorted(one["rank"] for one in others)


def test_likelihoods_are_fitted_to_known_joins(client: TestClient) -> None:
    for _ in range(40):
        data = client.get("/api/candidates", params={"id": ODD}).json()
        if not data["learning"]:
            break
    assert data["calibration"]["joins"] >= 8
    likely = [one["likelihood"] for one in data["candidates"]]
    assert all(0 <= one <= 1 for one in likely)
    known = [one["likelihood"] for one in data["candidates"] if one["known"]]
    assert np.mean(known) > np.mean(likely)


def test_likelihoods_are_said_before_anything_is_known(own_shelf: Path, cache: Path) -> None:
    collection = Collection.open(own_shelf)
    bare = Collection.create(own_shelf.parent / "bare", encoder=collection.encoder(threads=1))
    bare.add([type(e.fragment)(e.fragment.id, e.fragment.path) for e in collection.entries() if not e.refused][:3])
    with TestClient(create_app(bare.path, cache=cache), base_url="http://localhost") as client:
        id = bare.entries()[0].fragment.id
        data = client.get("/api/candidates", params={"id": id}).json()
        assert data["calibration"] is None
        assert all(0 <= one["likelihood"] <= 1 for one in data["candidates"])
        assert "fitted to other manuscripts" in client.get("/candidates", params={"id": id}).text


def test_a_line_says_where_nothing_is_unusual_any_more(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "likelihood_of", lambda desk: (Refinement(shift=-50.0), False))
    below = client.get("/candidates", params={"id": ODD}).text
    assert below.count("No candidate below this line is unusually near.") == 1
    assert below.index("below this line") < below.index('<b class="rank">1</b>')
    assert "below this line" not in client.get("/candidates", params={"id": ODD, "sort": "name"}).text
    monkeypatch.setattr(candidates, "likelihood_of", lambda desk: (Refinement(shift=50.0), False))
    assert "below this line" not in client.get("/candidates", params={"id": ODD}).text


def test_the_comparison_has_letters_of_both(client: TestClient, pair: tuple[str, str]) -> None:
    data = client.get("/api/compare", params={"a": pair[0], "b": pair[1]}).json()
    assert data["rank"] >= 1
    assert 5 <= len(data["matches"]) <= 24
    for match in data["matches"]:
        assert max(match["letters_a"]) < len(data["a"]["boxes"])
        assert max(match["letters_b"]) < len(data["b"]["boxes"])


def test_every_page_and_its_twin_answer(client: TestClient, pair: tuple[str, str]) -> None:
    for page in PAGES:
        url = page.format(a=quote(pair[0]), b=quote(pair[1]))
        for language in ("en", "he"):
            answer = client.get(url, headers={"cookie": f"membra-lang={language}"})
            assert answer.status_code == 200, url
            assert f'lang="{language}"' in answer.text
        path, _, query = url.partition("?")
        twin = f"/api{'/collection' if path == '/' else path}?{query}"
        assert client.get(twin).status_code == 200, twin


def test_results_can_be_taken_away(client: TestClient, pair: tuple[str, str]) -> None:
    a, b = quote(pair[0]), quote(pair[1])
    for what in ("verdicts", "history", "joins", "fragments"):
        for ending, begins in (("csv", b"\xef\xbb\xbf"), ("xlsx", b"PK"), ("json", b"{")):
            answer = client.get(f"/export/{what}.{ending}")
            assert answer.status_code == 200
            assert answer.content.startswith(begins)
            assert answer.headers["content-disposition"].startswith("attachment")
    assert client.get("/export/passwords.csv").status_code == 404
    dossier = client.get(f"/export/dossier?a={a}&b={b}")
    assert dossier.headers["content-disposition"].startswith("attachment")
    assert len(dossier.content) < 3_000_000
    assert b"<script>alert" not in dossier.content
    manifest = client.get(f"/export/manifest?a={a}&b={b}").json()
    picture = manifest["items"][0]["items"][0]["items"][0]["body"]["id"]
    assert client.get(picture).headers["content-type"] == "image/jpeg"
    assert client.get(f"/export/dossier?a={a}&b=nothing").status_code == 404
    assert client.get(f"/export/dossier?a={a}&b={a}").status_code == 422


def test_what_is_too_long_or_of_unknown_length_is_not_read(writer: TestClient) -> None:
    assert writer.post("/candidates", headers={"content-length": "999999999999"}, content=b"x").status_code == 413
    assert writer.post("/candidates", content=iter([b"x"])).status_code == 411


def test_a_verdict_is_kept_shown_and_taken_back(writer: TestClient, own_shelf: Path) -> None:
    a, b = ODD, "images/0001.jpg"
    said = writer.post("/api/verdicts", json={"a": b, "b": a, "says": "same hand", "by": "רבקה", "note": "<b>why</b>"})
    assert said.status_code == 200
    assert [v.by for v in Verdicts.open(own_shelf).standing()] == ["רבקה"]
    for page in ("/verdicts", f"/compare?a={quote(a)}&b={b}", f"/fragment?id={b}"):
        text = writer.get(page).text
        assert "רבקה" in text
        assert "<b>why" not in text
    found = writer.get("/api/candidates", params={"id": a}).json()["candidates"]
    assert {one["verdict"] for one in found if one["card"]["id"] == b} == {"same hand"}
    hidden = writer.get("/api/candidates", params={"id": a, "hide": "decided"}).json()["candidates"]
    assert b not in [one["card"]["id"] for one in hidden]
    number = said.json()["number"]
    assert writer.post("/api/verdicts/undo", json={"number": number, "by": "x"}).status_code == 200
    assert writer.post("/api/verdicts/undo", json={"number": number, "by": "x"}).status_code == 422
    history = writer.get("/api/verdicts").json()["history"]
    assert [line["says"] for line in history] == ["undo", "same hand"]


def test_joins_make_groups_and_contradictions_are_reported(writer: TestClient) -> None:
    ids = ["images/0001.jpg", "images/0002.jpg", "images/0003.jpg"]
    for a, b, says in ((0, 1, "join"), (1, 2, "join"), (0, 2, "no")):
        writer.post("/api/verdicts", json={"a": ids[a], "b": ids[b], "says": says, "by": "x"})
    data = writer.get("/api/verdicts").json()
    assert [[card["id"] for card in group] for group in data["groups"]] == [ids]
    assert [(line["a"], line["b"]) for line in data["conflicts"]] == [(ids[0], ids[2])]
    assert "Contradictory" in writer.get("/verdicts").text
    found = writer.get("/api/candidates", params={"id": ids[0]}).json()["candidates"]
    assert {one["card"]["id"] for one in found if one["known"]} >= set(ids[1:])


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"a": "images/0001.jpg", "b": "nothing", "says": "join", "by": "x"}, 404),
        ({"a": "images/0001.jpg", "b": "images/0001.jpg", "says": "join", "by": "x"}, 422),
        ({"a": "images/0001.jpg", "b": "images/0002.jpg", "says": "yes", "by": "x"}, 422),
        ({"a": "images/0001.jpg", "b": "images/0002.jpg", "says": "join", "by": " "}, 422),
        ({"a": "images/0001.jpg", "b": "images/0002.jpg", "says": "join", "by": "x", "note": "\ud800"}, 422),
        ({"a": "\ud800", "b": "images/0002.jpg", "says": "join", "by": "x"}, 404),
        ({"a": "images/0001.jpg"}, 422),
        (7, 422),
    ],
)
def test_odd_verdicts_are_a_sentence(writer: TestClient, sent: Any, status: int) -> None:
    import json

    answer = writer.post("/api/verdicts", content=json.dumps(sent), headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_form_leads_back_to_a_page_of_this_server_only(writer: TestClient) -> None:
    form = {"a": "images/0001.jpg", "b": "images/0002.jpg", "says": "no", "by": "x"}
    form["token"] = writer.headers["x-membra-token"]
    for back, leads in (
        ("/verdicts", "/verdicts"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil", "/"),
        ("/a\r\nx: y", "/"),
    ):
        answer = writer.post("/verdicts", data={**form, "back": back}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, leads)


def test_a_dropped_image_is_compared_and_not_added(writer: TestClient, own_shelf: Path, drawn_shelf: Path) -> None:
    content = (drawn_shelf.parent / "images" / "0001.jpg").read_bytes()
    before = len(Collection.open(own_shelf).entries())
    data = writer.post("/api/candidates", files={"image": ("../../my leaf.jpg", content)}).json()
    assert data["candidates"][0]["card"]["id"] == "images/0001.jpg"
    assert data["candidates"][0]["distance"] == pytest.approx(0, abs=1e-3)
    assert len(Collection.open(own_shelf).entries()) == before
    upload = data["upload"]
    for url in (
        f"/candidates?upload={upload}",
        f"/compare?upload={upload}&b=images/0002.jpg",
        f"/image/small?upload={upload}",
    ):
        assert writer.get(url).status_code == 200
    added = writer.post(f"/api/add?upload={upload}").json()
    assert added["id"] == "added/my leaf.jpg"
    assert writer.get("/api/fragment", params={"id": added["id"]}).json()["card"]["letters"] > 10
    again = writer.post("/api/candidates", files={"image": ("my leaf.jpg", content)}).json()["upload"]
    assert writer.post(f"/api/add?upload={again}").json()["id"] == "added/my leaf-2.jpg"


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4 no image", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 50])
def test_what_is_no_image_gets_a_sentence(writer: TestClient, own_shelf: Path, content: bytes) -> None:
    answer = writer.post("/api/candidates", files={"image": ("leaf.jpg", content)})
    assert answer.status_code == 422
    assert answer.json()["error"]
    token = writer.headers["x-membra-token"]
    page = writer.post("/candidates", data={"token": token}, files={"image": ("leaf.jpg", content)})
    assert page.status_code == 422
    assert 'role="alert"' in page.text
    assert str(own_shelf.parent) not in page.text + answer.text


def test_what_changes_on_disk_is_seen(writer: TestClient, own_shelf: Path) -> None:
    before = writer.get("/api/collection").json()["found"]
    Collection.open(own_shelf).remove(["images/few.jpg"])
    assert writer.get("/api/collection").json()["found"] == before - 1
    assert writer.get("/fragment?id=images/few.jpg").status_code == 404


def test_a_photograph_that_is_gone_is_reported(writer: TestClient, own_shelf: Path, tmp_path: Path) -> None:
    from membra.sources.fragment import Fragment

    image = tmp_path / "gone.jpg"
    image.write_bytes(fragment(hand(5), camera(5), letters=30, seed=5).jpeg)
    Collection.open(own_shelf).add([Fragment("gone.jpg", image)])
    image.unlink()
    for url in ("/fragment?id=gone.jpg", "/candidates?id=gone.jpg", "/api/fragment?id=gone.jpg"):
        assert writer.get(url).status_code == 200
    for url in ("/image/small?id=gone.jpg", "/compare?a=gone.jpg&b=images/0001.jpg"):
        assert writer.get(url).status_code == 422


def test_several_people_at_once(writer: TestClient) -> None:
    wrong: list[Any] = []

    def work(who: int) -> None:
        for number in range(4):
            answers = [
                writer.get(f"/api/candidates?id=images/000{1 + (who + number) % 8}.jpg"),
                writer.post(
                    "/api/verdicts",
                    json={"a": "images/0001.jpg", "b": f"images/000{2 + who}.jpg", "says": "no", "by": f"{who}"},
                ),
            ]
            wrong.extend(answer.text for answer in answers if answer.status_code != 200)

    people = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert wrong == []
    assert writer.get("/api/verdicts").json()["found"] == 16


@pytest.mark.parametrize(
    ("url", "status", "code", "values"),
    [
        ("/api/fragment?id=nothing", 404, "not-found", {}),
        ("/api/compare?a=images/0001.jpg&b=images/0001.jpg", 422, "invalid", {}),
        ("/api/candidates?id=images/broken.jpg", 422, "refused", {"id": "images/broken.jpg", "why": None}),
        ("/api/collection?page=x", 422, "invalid", {"where": "page", "why": None}),
        ("/api/nowhere", 404, "not-found", {}),
        ("/api/add", 405, "method-not-allowed", {}),
    ],
)
def test_a_program_is_told_what_kind_of_error_it_is(
    client: TestClient, url: str, status: int, code: str, values: dict[str, str | None]
) -> None:
    answer = client.get(url)
    reported = answer.json()
    assert (answer.status_code, reported["code"], reported["values"].keys()) == (status, code, values.keys())
    assert all(reported["values"][name] == value for name, value in values.items() if value)
    assert all(str(value) in reported["error"] for value in reported["values"].values())


def test_the_kind_of_an_error_decides_its_status(writer: TestClient, own_shelf: Path) -> None:
    """And the collection's path is disclosed neither in the message nor in its values."""
    old = writer.post("/api/verdicts/undo", json={"number": 1, "by": "x"}, headers={"x-membra-token": "old"})
    assert (old.status_code, old.json()["code"]) == (403, "forbidden")
    (own_shelf / "verdicts.sqlite").write_bytes(b"no database at all" * 100)
    answer = writer.post("/api/verdicts/undo", json={"number": 1, "by": "x"})
    assert (answer.status_code, answer.json()["code"]) == (503, "damaged")
    assert answer.json()["values"]["file"] == "verdicts.sqlite"
    assert str(own_shelf.parent) not in answer.text


def test_nothing_is_changed_without_the_token(writer: TestClient) -> None:
    del writer.headers["x-membra-token"]
    routes = [
        path
        for schema in ("/api/openapi.json", "/api/pages.json")
        for path, ways in writer.get(schema).json()["paths"].items()
        if "post" in ways
    ]
    assert len(routes) > 15
    for path in routes:
        missing, old = writer.post(path), writer.post(path, data={"token": "old"}, headers={"x-membra-token": "old"})
        assert (missing.status_code, old.status_code) == (403, 403), path
        assert "token is missing" in missing.text, path
        assert "The server was restarted" in old.text, path
