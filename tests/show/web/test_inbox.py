"""The inbox page: one pair per screen, a key decides and goes on, and decided pairs do not come back."""

import html
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from membra.find.neighbours import neighbours
from membra.show.web import inbox as page
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Pair = tuple[str, str]


def pairs(client: TestClient, **more: object) -> list[Pair]:
    return [(pair["a"]["id"], pair["b"]["id"]) for pair in asked(client, limit=500, **more)["pairs"]]


def asked(client: TestClient, **more: object) -> dict[str, Any]:
    """Return the JSON twin once it is ready."""
    for _ in range(100):
        found = client.get("/api/inbox", params=more).json()  # type: ignore[arg-type]
        if found.get("ready", True):
            break
        time.sleep(0.1)
    return dict(found)


def post(client: TestClient, pair: Pair, says: str, **more: str) -> str:
    sent = {"a": pair[0], "b": pair[1], "says": says, "by": "Rivka", "token": client.headers["x-membra-token"], **more}
    answer = client.post("/inbox", data=sent, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def shown(client: TestClient, url: str = "/inbox") -> Pair:
    text = client.get(url).text
    ends = [text.split(f'name="{end}" value="')[1].split('"')[0] for end in "ab"]
    return html.unescape(ends[0]), html.unescape(ends[1])


def test_a_decision_leads_to_the_next_pair(writer: TestClient) -> None:
    first = pairs(writer)
    assert len(first) > 5
    assert all(a < b for a, b in first)
    assert shown(writer) == first[0]
    assert post(writer, first[0], "no", across="collection", done="3") == "/inbox?across=collection&done=4"
    assert first[0] not in pairs(writer)
    assert shown(writer) == pairs(writer)[0]


@pytest.mark.parametrize("digits", [19, 5000])
def test_numbers_of_any_length_are_answered(writer: TestClient, own_shelf: Path, digits: int) -> None:
    first, number = pairs(writer)[0], "9" * digits
    assert post(writer, first, "no", done=number) == "/inbox?done=1"
    form = {"token": writer.headers["x-membra-token"], "number": number, "by": "Rivka", "done": number}
    assert writer.post("/inbox/undo", data=form).status_code == 404
    assert [verdict.undone for verdict in Verdicts.open(own_shelf).history()] == [False]


def test_skipped_comes_last_and_put_aside_not_at_all_until_it_is_asked_for(writer: TestClient) -> None:
    writer.cookies.set("membra-by", "Rivka")
    first = pairs(writer)
    assert post(writer, first[0], "skip") == "/inbox"
    assert shown(writer) == first[1]
    post(writer, first[1], "later")
    assert shown(writer) == first[2]
    assert shown(writer, "/inbox?pile=1") == first[1]
    while rest := [pair for pair in pairs(writer) if pair not in first[:2]]:  # deciding a pair can open another
        for pair in rest:
            post(writer, pair, "unsure")
    assert shown(writer) == first[0]
    assert set(pairs(writer)) == set(first[:2])  # the API ignores postponed pairs


def test_what_was_skipped_before_the_first_name_stays_skipped(writer: TestClient) -> None:
    first = pairs(writer)
    post(writer, first[0], "skip", by="")
    post(writer, first[1], "later", by=" ")
    post(writer, first[2], "no")  # the answer sets the cookie
    assert writer.cookies["membra-by"] == "Rivka"
    assert shown(writer) == next(pair for pair in pairs(writer) if pair not in first[:3])
    assert shown(writer, "/inbox?pile=1") == first[1]
    writer.cookies.clear()
    assert shown(writer) == first[0], "who comes next without a name begins anew"


def test_a_name_in_small_letters_is_the_same_person(writer: TestClient) -> None:
    first = pairs(writer)
    post(writer, first[0], "later")
    post(writer, first[1], "later", by="rivka ")
    assert "Put aside (2)" in writer.get("/inbox").text
    post(writer, first[2], "later", by="Dov")
    assert "Put aside (1)" in writer.get("/inbox").text


def test_undo_shows_the_pair_again(writer: TestClient) -> None:
    writer.cookies.set("membra-by", "Rivka")
    first = pairs(writer)
    post(writer, first[0], "join")
    text = writer.get("/inbox").text
    number = text.split('name="number" value="')[1].split('"')[0]
    sent = {"number": number, "by": "Rivka", "token": writer.headers["x-membra-token"], "done": "1"}
    back = writer.post("/inbox/undo", data=sent, follow_redirects=False).headers["location"]
    assert shown(writer, back) == first[0]
    assert pairs(writer) == first
    assert writer.post("/inbox/undo", data={**sent, "number": "x"}).status_code == 404


def test_bad_requests(writer: TestClient) -> None:
    first = pairs(writer)[0]
    sent = {"a": first[0], "b": first[1], "says": "no", "by": "Rivka"}
    assert writer.post("/inbox", data=sent).status_code == 403
    token = {"token": writer.headers["x-membra-token"]}
    assert writer.post("/inbox", data={**sent, **token, "says": "perhaps"}).status_code == 422
    assert writer.post("/inbox", data={**sent, **token, "b": "nowhere.jpg"}).status_code == 404
    assert writer.post("/inbox", data={**sent, **token, "by": ""}).status_code == 422
    assert writer.get("/api/inbox", params={"across": "no such"}).status_code == 422
    assert "no such" in writer.get("/inbox?across=no+such").text
    assert pairs(writer)[0] == first


def test_filters(client: TestClient) -> None:
    found = asked(client, across="collection", limit=500)["pairs"]
    crossed = [pair["a"]["columns"].get("collection") != pair["b"]["columns"].get("collection") for pair in found]
    assert crossed == sorted(crossed, reverse=True)
    assert {pair["crosses"] for pair in found} == {True, False}
    found = asked(client, exclude_same="collection", limit=500)["pairs"]
    assert all(pair["a"]["columns"]["collection"] != pair["b"]["columns"]["collection"] for pair in found)
    assert client.get("/api/inbox", params={"limit": 0}).status_code == 422


def test_a_large_collection_is_not_compared_while_somebody_waits(
    writer: TestClient, own_shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "SMALL", 3)
    shutil.rmtree(own_shelf / "neighbours", ignore_errors=True)  # another test may have created them
    found = asked(writer)
    assert "membra neighbours" in found["problem"]
    collection = Collection.open(own_shelf)
    neighbours(collection)
    assert pairs(writer)
    collection.remove(["images/few.jpg"])
    found = asked(writer)
    assert found["pairs"]
    assert "has changed" in found["note"]


def test_it_is_the_first_page_while_something_waits(writer: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(writer)
    monkeypatch.setattr(page.Inbox, "waits", lambda *_: True)
    assert writer.get("/", follow_redirects=False).headers["location"] == "/inbox"
    assert 'class="cards"' in writer.get("/?show=all").text
    monkeypatch.undo()
    while rest := [pair for pair in asked(writer, limit=500)["pairs"] if pair["probability"] >= 0.2]:
        for pair in rest:
            post(writer, (pair["a"]["id"], pair["b"]["id"]), "no")
    assert 'class="cards"' in writer.get("/").text


def test_by_keyboard_on_a_hebrew_layout(own_server: str, own_shelf: Path, browser: "Browser", scripts: None) -> None:
    """J H U N are key positions, not letters: no field, layout or second press decides a pair that was not shown."""
    verdicts = Verdicts.open(own_shelf)
    tab: Page = browser.new_page()
    tab.goto(f"{own_server}/inbox?lang=he&across=collection")
    tab.wait_for_selector(".inbox", timeout=60_000)

    def press(code: str, letter: str) -> None:
        before = tab.inner_text("h1")
        tab.evaluate(
            "([code, key]) => document.body.dispatchEvent(new KeyboardEvent('keydown', {code, key, bubbles: true}))",
            [code, letter],
        )
        tab.wait_for_function("before => document.querySelector('h1')?.innerText !== before", arg=before)

    name = tab.locator("input[name=by]")
    tab.locator("input[name=note]").press_sequentially("join n u h")
    tab.locator("input[name=note]").press("Enter")
    assert verdicts.history() == []
    name.fill("רבקה")
    name.press("Enter")
    assert verdicts.history() == []
    asked = [tab.inner_text("h1")]
    for code, letter in (("KeyJ", "ח"), ("KeyN", "מ"), ("KeyH", "י"), ("KeyU", "ו")):
        press(code, letter)
        asked.append(tab.inner_text("h1"))
    assert [v.says for v in verdicts.history()] == ["join", "no", "same hand", "unsure"]
    assert verdicts.history()[0].note == "join n u h"
    assert {v.by for v in verdicts.history()} == {"רבקה"}
    assert len(set(asked)) == 5
    assert "across=collection" in tab.url
    press("KeyZ", "ז")
    assert [v.undone for v in verdicts.history()][:4] == [False, False, False, True]
    assert tab.inner_text("h1") == asked[3]
    tab.close()


def test_a_second_key_decides_nothing_though_the_page_is_still_loading(
    own_server: str, own_shelf: Path, browser: "Browser", scripts: None
) -> None:
    tab: Page = browser.new_page()
    tab.goto(f"{own_server}/inbox")
    tab.wait_for_selector(".inbox", timeout=60_000)
    tab.locator("input[name=by]").fill("Rivka")
    before = tab.inner_text("h1")
    tab.evaluate(
        """() => {
          const press = (code) => document.body.dispatchEvent(new KeyboardEvent("keydown", { code, bubbles: true }));
          press("KeyJ");
          dispatchEvent(new PageTransitionEvent("pageshow"));  // the page is loaded only now
          press("KeyN");
        }"""
    )
    tab.wait_for_function("before => document.querySelector('h1')?.innerText !== before", arg=before)
    assert [verdict.says for verdict in Verdicts.open(own_shelf).history()] == ["join"]
    tab.close()
