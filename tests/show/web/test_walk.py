"""The comparison says of a candidate what its card says, and Back and Next walk the page of candidates."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from membra.find.probability import Refinement
from membra.show import holding
from membra.show.web import candidates

QUERY = "images/0001.jpg"


def listed(client: TestClient, **more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/candidates", params={"id": QUERY, **more}).json()["candidates"]
    return found


def compared(client: TestClient, id: str, **more: str) -> dict[str, Any]:
    pair: dict[str, Any] = client.get("/api/compare", params={"a": QUERY, "b": id, **more}).json()
    return pair


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat a collection of more than three fragments as large, in which a first search finds four."""
    for module in (holding, candidates):
        monkeypatch.setattr(module, "NEAR", 4)
        monkeypatch.setattr(module, "SMALL", 3)
    monkeypatch.setattr(candidates, "likelihood_of", lambda _: (Refinement(), False))


@pytest.mark.parametrize(
    "filters", [{"hide": "known"}, {"hide": "decided", "sort": "name"}, {"keep": "same:collection"}]
)
def test_a_filtered_candidate_of_a_large_collection_has_the_values_of_its_card(
    writer: TestClient, large: None, filters: dict[str, str]
) -> None:
    found = listed(writer, **filters)
    assert found
    for one in found:
        pair, names = compared(writer, one["card"]["id"], **filters), ("rank", "distance", "likelihood")
        assert [pair[name] for name in names] == [one[name] for name in names]
    # also once it is decided, which takes it off the list
    last = max(found, key=lambda one: int(one["rank"]))
    writer.post("/api/verdicts", json={"a": QUERY, "b": last["card"]["id"], "says": "no", "by": "x"})
    assert compared(writer, last["card"]["id"], **filters)["rank"] == last["rank"]


@pytest.mark.parametrize("sort", ["", "name"])
def test_back_and_next_walk_the_undecided(writer: TestClient, monkeypatch: pytest.MonkeyPatch, sort: str) -> None:
    everyone = [one["card"]["id"] for one in listed(writer)]
    for index in (0, 1, 2, 4):
        writer.post("/api/verdicts", json={"a": QUERY, "b": everyone[index], "says": "no", "by": "x"})
    monkeypatch.setattr(candidates, "A_SCREEN", 1)
    monkeypatch.setattr(candidates, "SCREENS", 4)  # four candidates on the page
    filters = {"hide": "decided", "sort": sort}
    shown = [one["card"]["id"] for one in listed(writer, **filters)]
    assert sorted(shown) == sorted(everyone[index] for index in (3, 5, 6, 7))
    for before, id, after in zip([None, *shown], shown, [*shown[1:], None], strict=False):
        pair = compared(writer, id, **filters)
        assert (pair["previous"], pair["next"]) == (before, after)
    if not sort:
        for index, around in ((0, (None, shown[0])), (4, (shown[0], shown[1])), (9, (shown[3], None))):
            pair = compared(writer, everyone[index], **filters)  # decided, or beyond the page: in its place
            assert (pair["previous"], pair["next"]) == around


def test_beyond_the_first_search_is_after_the_last(writer: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = [one["card"]["id"] for one in listed(writer)]
    monkeypatch.setattr(candidates, "NEAR", 4)
    monkeypatch.setattr(candidates, "A_SCREEN", 1)
    pair = compared(writer, everyone[8])  # three candidates on the page
    assert (pair["previous"], pair["next"], pair["rank"]) == (everyone[2], None, 9)
