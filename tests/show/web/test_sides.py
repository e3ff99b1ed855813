"""Sides of one leaf share a card among candidates; in the API every fragment stays separate."""

import html
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from membra.find.ranking import Hit
from membra.show.web.sides import leads_of
from membra.sources.fragment import Fragment
from membra.store.collection import Collection

QUERY, FEW = "images/0001.jpg", "images/few.jpg"


def hit(id: str, rank: int) -> Hit:
    return Hit(rank, id, id, float(rank))


def test_the_nearest_side_leads() -> None:
    leaves = dict.fromkeys("rv", ("r", "v"))
    assert leads_of(leaves, [hit("x", 1), hit("v", 2), hit("r", 3)]) == {"x": "x", "v": "v", "r": "v"}
    assert leads_of(leaves, [hit("r", 9), hit("v", 2)]) == {"r": "v", "v": "v"}, "in whatever order they are shown"
    assert leads_of({}, []) == {}


@pytest.fixture
def leaf(writer: TestClient, own_shelf: Path) -> list[str]:
    """The second and the fourth candidate are recto and verso, and one with hardly any letters is the cover."""
    ids = [one["card"]["id"] for one in listed(writer)]
    sides = {ids[1]: "recto", ids[3]: "verso", FEW: "edge"}
    collection = Collection.open(own_shelf)
    known = {entry.fragment.id: entry.fragment for entry in collection.entries()}
    collection.add(
        [
            Fragment(
                id, known[id].path, {**known[id].columns, "shelfmark": "Or. 7", "leaf": "3", "side": side, "join": ""}
            )
            for id, side in sides.items()
        ]
    )
    return [ids[1], ids[3], FEW]


def listed(client: TestClient, **more: str) -> list[dict]:  # type: ignore[type-arg]
    found: list[dict] = client.get("/api/candidates", params={"id": QUERY, **more}).json()["candidates"]  # type: ignore[type-arg]
    return found


def test_one_card_and_the_same_ranks(writer: TestClient, leaf: list[str]) -> None:
    recto, verso, edge = leaf
    found = listed(writer)
    assert [one["rank"] for one in found] == list(range(1, len(found) + 1)), "nobody's rank changes, and nobody is lost"
    by_id = {one["card"]["id"]: one for one in found}
    assert {id: one["side_of"] for id, one in by_id.items() if one["side_of"]} == {verso: recto, edge: recto}
    sides = by_id[recto]["sides"]
    assert [(side["card"]["id"], side["rank"]) for side in sides] == [(verso, 4), (edge, by_id[edge]["rank"])]
    assert all(one["sides"] == [] for id, one in by_id.items() if id != recto)
    cards = cards_in(writer.get(f"/candidates?id={QUERY}").text)
    assert len(cards) == len(found) - 2
    own = next(card for card in cards if "Or. 7 recto" in card)
    assert "verso" in own
    assert [compared(link) for link in re.findall(r'href="(/compare[^"]+)"', own)] == leaf


def test_a_side_that_is_filtered_out_is_on_the_card_without_a_rank(writer: TestClient, leaf: list[str]) -> None:
    recto, verso, _ = leaf
    writer.post("/api/verdicts", json={"a": QUERY, "b": verso, "says": "no", "by": "x"})
    lead = next(one for one in listed(writer, hide="decided") if one["card"]["id"] == recto)
    said = {side["card"]["id"]: (side["rank"], side["verdict"]) for side in lead["sides"]}
    assert said[verso] == (None, "no")


def test_a_side_says_who_decided_and_what_was_noted_of_it(writer: TestClient, leaf: list[str]) -> None:
    recto, verso, _ = leaf
    for by, says in (("Rivka", "join"), ("David", "no")):
        writer.post("/api/verdicts", json={"a": QUERY, "b": verso, "says": says, "by": by})
    writer.post("/api/notes", json={"id": verso, "tags": ["ruled twice"], "by": "Rivka"})
    lead = next(one for one in listed(writer) if one["card"]["id"] == recto)
    side = next(one for one in lead["sides"] if one["card"]["id"] == verso)
    assert side["verdict"] == "disputed"
    assert {(one["by"], one["says"]) for one in side["said"]} == {("Rivka", "join"), ("David", "no")}
    assert side["card"]["tags"] == ["ruled twice"]
    page = writer.get(f"/candidates?id={QUERY}").text
    own = next(
        card for card in re.findall(r'<li class="card.*?(?=<li class="card|</ol>)', page, re.S) if "7 recto" in card
    )
    assert all(said in own for said in ("Rivka", "David", "ruled twice"))


def test_next_goes_from_card_to_card(writer: TestClient, leaf: list[str]) -> None:
    recto, verso, _ = leaf
    order = [one["card"]["id"] for one in listed(writer)]
    onward = next(id for id in order[4:] if id not in leaf)
    third = writer.get("/api/compare", params={"a": QUERY, "b": order[2]}).json()
    assert (third["previous"], third["next"]) == (recto, onward)
    here = writer.get("/api/compare", params={"a": QUERY, "b": verso}).json()
    assert (here["previous"], here["next"], here["rank"]) == (order[2], onward, 4)


def test_next_goes_to_the_side_that_leads_where_the_nearest_is_hidden(writer: TestClient, leaf: list[str]) -> None:
    recto, verso, _ = leaf
    writer.post("/api/verdicts", json={"a": QUERY, "b": recto, "says": "no", "by": "x"})
    cards = [one["card"]["id"] for one in listed(writer, hide="decided") if not one["side_of"]]
    assert cards[2] == verso
    for id, around in ((cards[1], (cards[0], verso)), (verso, (cards[1], cards[3])), (recto, tuple(cards[:2]))):
        pair = writer.get("/api/compare", params={"a": QUERY, "b": id, "hide": "decided"}).json()
        assert (pair["previous"], pair["next"]) == around


def test_among_what_is_like_a_group(writer: TestClient, leaf: list[str]) -> None:
    other = next(one["card"]["id"] for one in listed(writer) if one["card"]["id"] not in leaf)
    asked = f"id={QUERY}&id={other}"
    found = {one["card"]["id"]: one for one in writer.get(f"/api/group?{asked}").json()["candidates"]}
    led = [id for id in leaf if not found[id]["side_of"]]
    assert len(led) == 1
    assert {side["card"]["id"] for side in found[led[0]]["sides"]} == set(leaf) - set(led)
    text = writer.get(f"/group?{asked}").text.split('id="more"')[1]
    assert text.count('<li class="card">') == len(found) - 2


def cards_in(page: str) -> list[str]:
    return re.findall(r'<li class="card.*?(?=<li class="card|</ol>)', page, re.S)


def compared(link: str) -> str:
    return parse_qs(urlsplit(html.unescape(link)).query)["b"][0]
