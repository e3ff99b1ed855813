"""Several people in one workbench: personal links, a verdict per person, agreement and disagreement."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect

from membra.show.web.app import create_app
from membra.show.web.safety import COOKIE, Guard
from membra.store.collection import Collection
from membra.store.corrections import Corrections
from membra.store.note import note
from membra.store.people import People, people
from membra.store.placements import Placements
from membra.store.verdicts import Verdicts
from shelves import Enter, start

A, B, C = "images/0001.jpg", "images/0002.jpg", "images/0003.jpg"
LIES = {"x": 0, "y": 0, "turn": 0}


def says(client: TestClient, verdict: str, a: str = A, b: str = B, **more: str) -> Any:
    return client.post("/api/verdicts", json={"a": a, "b": b, "says": verdict, **more})


def test_who_opens_her_link_signs_with_her_name_and_no_other(enter: Enter, own_shelf: Path) -> None:
    rivka = enter("Rivka")
    assert says(rivka, "join").json()["by"] == "Rivka"
    for by in ("David", "somebody"):
        answer = says(rivka, "no", by=by)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert says(rivka, "join", by="rivka").json()["by"] == "Rivka"
    token = rivka.headers["x-membra-token"]
    form = {"a": A, "b": C, "says": "unsure", "token": token, "back": "/"}
    assert rivka.post("/verdicts", data={**form, "by": "David"}).status_code == 403
    assert rivka.post("/verdicts", data=form).status_code == 200
    assert rivka.post("/inbox", data={**form, "says": "no"}).status_code == 200
    assert rivka.post("/api/fit", json={"a": A, "b": B, "lies_a": LIES, "lies_b": LIES, "unit": "mm"}).is_success
    assert rivka.post("/api/corrections", json={"id": A, "turn": 90, "describe": False}).is_success
    assert {v.by for v in Verdicts.open(own_shelf).history()} == {"Rivka"}
    placed = Placements.open(own_shelf).of(A, B)
    assert placed
    assert placed.by == "Rivka"
    assert [entry.by for entry in Corrections.open(own_shelf).history()] == ["Rivka"]
    for url in (f"/compare?a={A}&b={B}", "/inbox", f"/fit?a={A}&b={B}", f"/fragment?id={A}"):
        html = rivka.get(url).text
        assert "Your name" not in html, url
        assert 'name="by" value="Rivka"' in html, url


def test_nobody_else_comes_in(enter: Enter, own_shelf: Path) -> None:
    stranger, rivka = enter(""), enter("Rivka")
    key = rivka.cookies[COOKIE]
    for url in ("/", "/api/collection", "/api/token", "/static/membra.css", "/image/small?id=" + A, "/enter"):
        assert stranger.get(url).status_code == 403, url
        assert stranger.get(url, headers={"x-membra-key": "x"}).status_code == 403, url
        assert rivka.get(url).status_code == 200, url
    assert stranger.get("/enter", params={"key": "wrong"}).status_code == 403
    assert stranger.get("/verdicts", params={"key": key}).status_code == 403, "a key is for the link alone"
    assert COOKIE not in stranger.cookies
    assert stranger.get("/api/token", headers={"x-membra-key": key}).status_code == 200, "for scripts"
    assert Verdicts.open(own_shelf).history() == []


def test_a_key_is_never_shown_and_the_cookie_is_for_this_server_alone(enter: Enter) -> None:
    rivka = enter("Rivka")
    key = rivka.cookies[COOKIE]
    answer = rivka.get("/enter", params={"key": key}, headers={"sec-fetch-site": "none"})
    assert "You are Rivka here" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age"))
    assert "referrer-policy" in answer.headers
    assert answer.headers.get_list("referrer-policy") == ["strict-origin"]
    for url in ("/enter", "/", "/verdicts", f"/compare?a={A}&b={B}", "/api/verdicts", f"/fragment?id={A}"):
        assert key not in rivka.get(url).text
    assert key not in answer.text
    token = rivka.headers["x-membra-token"]
    assert rivka.post("/leave", data={}).status_code == 403, "not without the token"
    rivka.post("/leave", data={"token": token})
    assert rivka.get("/").status_code == 403


@pytest.mark.parametrize("foreign", ["_xsrf=2|a|b", 'prefs={"theme":"dark"}', "x", "=;;=\xff", 'a="b', "é=ü"])
def test_cookies_of_others_on_the_same_host_lock_nobody_out(enter: Enter, foreign: str) -> None:
    key = enter("Rivka").cookies[COOKIE]
    for header in (f"{foreign}; {COOKIE}={key}", f"{COOKIE}={key}; {foreign}"):
        assert enter("").get("/verdicts", headers={b"cookie": header.encode("latin-1")}).status_code == 200, header
    assert enter("").get("/verdicts", headers={b"cookie": foreign.encode("latin-1")}).status_code == 403


def test_no_link_makes_somebody_another_person_unasked(enter: Enter) -> None:
    rivka, david = enter("Rivka"), enter("David")
    key, davids = rivka.cookies[COOKIE], {"key": david.cookies[COOKIE]}
    for site in ("none", "same-origin", "same-site", "cross-site", ""):
        page = rivka.get("/enter", params=davids, headers={"sec-fetch-site": site} if site else {})
        assert "set-cookie" not in page.headers, site
        assert "You are signed in as Rivka in this browser" in page.text, site
        assert "Enter as David" in page.text, site
        assert davids["key"] not in page.text, site
    token = {"token": rivka.headers["x-membra-token"]}
    assert rivka.post("/enter", params=davids, data={"before": "Rivka"}).status_code == 403, "not without the token"
    foreign = {"origin": "http://evil.example"}
    assert rivka.post("/enter", params=davids, data={**token, "before": "Rivka"}, headers=foreign).status_code == 403
    assert rivka.post("/enter", params={"key": "wrong"}, data=token).status_code == 403
    again = rivka.post("/enter", params=davids, data=token)
    assert "You are signed in as Rivka in this browser" in again.text, "who the page did not know of when it was asked"
    assert rivka.cookies[COOKIE] == key
    entered = rivka.post("/enter", params=davids, data={**token, "before": "Rivka"})
    assert "You are David here" in entered.text
    assert (rivka.cookies[COOKIE], str(entered.url)) == (davids["key"], "http://127.0.0.1:8000/enter")


def test_a_link_on_another_site_is_asked_about_since_the_cookie_is_not_sent_from_there(enter: Enter) -> None:
    key = enter("Rivka").cookies[COOKIE]
    for site in ("cross-site", ""):  # or a browser that does not send it, as without https
        stranger = enter("")
        page = stranger.get("/enter", params={"key": key}, headers={"sec-fetch-site": site} if site else {})
        assert "Enter as Rivka" in page.text
        assert COOKIE not in stranger.cookies
        assert stranger.get("/").status_code == 403
        token = re.search(r'name="token" value="([^"]+)"', page.text)
        assert token
        assert "You are Rivka here" in stranger.post("/enter", params={"key": key}, data={"token": token[1]}).text
        assert stranger.get("/").status_code == 200


def test_a_browser_stays_who_it_is_until_the_button_is_pressed(
    own_shelf: Path, cache: Path, tmp_path: Path, browser: Browser
) -> None:
    keys = people(tmp_path / "people.csv", add=["Rivka", "David"])
    process, url = start(own_shelf, cache, "--people", str(tmp_path / "people.csv"))
    try:
        page = browser.new_context().new_page()
        page.goto(f"{url}/enter?key={keys['Rivka']}")
        expect(page.get_by_role("heading", level=1)).to_have_text("You are Rivka here")
        page.goto(f'data:text/html,<a href="{url}/enter?key={keys["David"]}">a page of another site</a>')
        page.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Enter as David?")
        page.get_by_role("button", name="Enter as David").click()
        expect(page.locator("main")).to_contain_text("You are signed in as Rivka in this browser")
        page.goto(f"{url}/verdicts")
        expect(page.locator(".who")).to_contain_text("Rivka")
        page.goto(f"{url}/enter?key={keys['David']}")
        page.get_by_role("button", name="Enter as David").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("You are David here")
        page.get_by_role("button", name="Forget me in this browser").click()
        expect(page.locator("body")).to_contain_text("knows people by links of their own")
    finally:
        process.kill()
        process.communicate()


def test_a_verdict_is_taken_back_by_who_gave_it(enter: Enter) -> None:
    rivka, david = enter("Rivka"), enter("David")
    number = says(rivka, "join").json()["number"]
    token = david.headers["x-membra-token"]
    assert david.post("/api/verdicts/undo", json={"number": number}).status_code == 403
    assert david.post("/verdicts/undo", data={"number": number, "token": token}).status_code == 403
    assert david.post("/inbox/undo", data={"number": str(number), "token": token}).status_code == 403
    assert f'value="{number}"' not in david.get("/verdicts").text
    assert rivka.post("/api/verdicts/undo", json={"number": number}).json()["by"] == "Rivka"


def test_agreement_and_disagreement_are_seen_everywhere(enter: Enter) -> None:
    rivka, david, noa = enter("Rivka"), enter("David"), enter("נועה")
    says(rivka, "join")
    says(noa, "join", note="the same lamed")
    page = david.get("/api/compare", params={"a": B, "b": A}).json()
    assert (page["pair"]["says"], [v["by"] for v in page["pair"]["each"]]) == ("join", ["Rivka", "נועה"])
    assert david.get("/api/verdicts").json()["agreed"] == 1
    says(david, "no")
    page = david.get("/api/compare", params={"a": A, "b": B}).json()
    assert page["standing"] is None
    assert page["pair"]["says"] == "disputed"
    html = david.get("/compare", params={"a": A, "b": B}).text
    assert "⇄ disputed" in html
    assert all(f"<bdi>{name}</bdi>" in html for name in ("Rivka", "David", "נועה"))
    everything = david.get("/api/verdicts").json()
    assert everything["standing"] == {"join": 0, "same hand": 0, "unsure": 0, "no": 0}
    assert [(pair["a"], pair["b"]) for pair in everything["disputed"]] == [(A, B)]
    (found,) = [
        one for one in david.get("/api/candidates", params={"id": A}).json()["candidates"] if one["card"]["id"] == B
    ]
    assert found["verdict"] == "disputed"
    assert [voice["says"] for voice in found["said"]] == ["join", "join", "no"]
    own = david.get("/api/fragment", params={"id": A}).json()
    assert (own["verdicts"], own["group"], [pair["says"] for pair in own["pairs"]]) == ([], [], ["disputed"])
    for url in ("/verdicts", f"/fragment?id={A}", f"/candidates?id={A}"):
        assert "⇄ disputed" in david.get(url).text, url
    rows = david.get("/export/verdicts.json").json()["rows"]
    assert [(row["says"], row["people"]) for row in rows] == [("disputed", "Rivka: join; נועה: join; David: no")]
    dossier = david.get("/export/dossier", params={"a": A, "b": B}).text
    assert re.search(r"disputed.*Rivka.*David", dossier, re.DOTALL)


def test_a_disputed_pair_waits_in_the_inbox_for_the_others(enter: Enter) -> None:
    rivka, david, noa = enter("Rivka"), enter("David"), enter("נועה")
    first = rivka.get("/api/inbox").json()["pairs"][0]
    a, b = first["a"]["id"], first["b"]["id"]

    def waits(client: TestClient) -> list[bool]:
        pairs = client.get("/api/inbox", params={"limit": 100}).json()["pairs"]
        return [pair["disputed"] for pair in pairs if (pair["a"]["id"], pair["b"]["id"]) == (a, b)]

    says(rivka, "join", a, b)
    assert (waits(rivka), waits(david)) == ([], [])
    says(david, "no", a, b)
    assert (waits(rivka), waits(david)) == ([True], [])
    html = rivka.get("/inbox", params={"a": a, "b": b}).text
    assert "⇄ disputed" in html
    assert waits(noa) == [True]
    form = {"token": noa.headers["x-membra-token"], "a": a, "b": b, "says": "unsure"}
    assert noa.post("/inbox", data=form).status_code == 200
    assert waits(noa) == [], "she has answered, and is not asked again"
    says(rivka, "no", a, b)
    assert (waits(rivka), waits(david)) == ([], [])


def test_a_disputed_pair_keeps_its_proposal_open(enter: Enter) -> None:
    rivka, david = enter("Rivka"), enter("David")

    def proposals() -> dict[str, Any]:
        while not (found := rivka.get("/api/proposals").json())["ready"]:
            pass
        return dict(found)

    before = proposals()
    pairs = before["proposals"][0]["pairs"]
    for pair in pairs:
        says(rivka, "join", pair["a"], pair["b"])
    assert proposals()["found"] == before["found"] - 1
    says(david, "same-hand", pairs[0]["a"], pairs[0]["b"])
    after = proposals()
    assert after["found"] == before["found"]
    assert "disputed" in [pair["verdict"] for pair in after["proposals"][0]["pairs"]]


def test_without_people_nothing_is_taken_back_in_the_name_of_who_said_it(writer: TestClient) -> None:
    author = {"by": "Rivka"}
    writer.post("/api/notes", json={"id": A, "text": "mine", "tags": ["x"], **author}).raise_for_status()
    writer.post("/api/fragment", json={"id": A, "columns": {"library": "Oxford"}, **author}).raise_for_status()
    writer.post("/api/corrections", json={"id": A, "turn": 90, "describe": False, **author}).raise_for_status()
    laid = {"a": A, "b": B, "lies_a": LIES, "lies_b": LIES, "unit": "letters"}
    writer.post("/api/fit", json={**laid, **author}).raise_for_status()
    says(writer, "join", **author).raise_for_status()

    def names(url: str) -> set[tuple[str, ...]]:
        forms = re.findall(r"<form .*?</form>", writer.get(url).text, re.DOTALL)
        undoing = [form for form in forms if "/undo" in form or 'name="untag"' in form]
        return {tuple(re.findall(r'<input[^>]* name="by"[^>]*>', form)) for form in undoing}

    asked = '<input name="by" value="" required maxlength="200" autocomplete="name">'
    known = '<input type="hidden" name="by" value="David">'
    pages = (f"/fragment?id={A}", "/verdicts", f"/compare?a={A}&b={B}", f"/fit?a={A}&b={B}")
    for url in pages:
        assert names(url) == {(asked,)}, url
    token, number = writer.headers["x-membra-token"], writer.get("/api/notes").json()["history"][-1]["number"]
    writer.post("/notes/undo", data={"id": A, "number": number, "by": "David", "token": token}).raise_for_status()
    for url in pages:
        assert names(url) == {(known,)}, f"a name is typed once: {url}"


def test_names_in_other_capitals_and_spaces_are_one_person_on_pages_too(writer: TestClient) -> None:
    writer.post("/api/notes", json={"id": A, "text": "mine", "bookmark": True, "by": "Rivka Levi"}).raise_for_status()
    number = says(writer, "join", by="Rivka Levi").json()["number"]
    says(writer, "unsure", by="David").raise_for_status()
    writer.cookies.set("membra-by", "rivka%20%20levi")
    page = writer.get(f"/fragment?id={A}").text
    assert 'name="bookmark" value="no" aria-pressed="true"' in page
    assert "bookmarked by Rivka" not in re.sub(r"<[^>]*>", "", page)
    assert 'class="mark bookmark own"' in writer.get("/", params={"show": "all"}).text
    assert f'name="number" value="{number}"' in writer.get(f"/compare?a={A}&b={B}").text, "her own verdict"


def test_who_is_spelt_otherwise_in_the_file_of_people_takes_back_her_own(enter: Enter, own_shelf: Path) -> None:
    given = Verdicts.open(own_shelf).give(A, B, "join", by="RIVKA")
    (said,) = note(Collection.open(own_shelf), A, by="RIVKA", text="mine")
    rivka, david = enter("Rivka"), enter("David")
    for url, number in (("/verdicts", given.number), (f"/compare?a={A}&b={B}", given.number)):
        assert f'name="number" value="{number}"' in rivka.get(url).text, url
        assert f'name="number" value="{number}"' not in david.get(url).text, url
    undoing = rf'action="/notes/undo".*?name="number" value="{said.number}"'
    assert len(re.findall(undoing, rivka.get(f"/fragment?id={A}").text)) == 2, "beside the note and in the history"
    assert not re.findall(undoing, david.get(f"/fragment?id={A}").text)


def test_a_real_server_beyond_this_machine_asks_for_the_link(own_shelf: Path, cache: Path, tmp_path: Path) -> None:
    import urllib.error
    import urllib.request

    file = tmp_path / "people.txt"
    file.write_text("Rivka\n", encoding="utf-8")
    process, url = start(own_shelf, cache, "--host", "0.0.0.0", "--people", str(file))
    try:
        assert "key=" not in url
        assert process.stdout
        link = process.stdout.readline().strip().removeprefix("Rivka: ")
        assert link.startswith(f"{url}/enter?key=")
        here = link.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url.replace("0.0.0.0", "127.0.0.1"), timeout=60)
        with urllib.request.urlopen(here, timeout=60) as answer:
            assert "Rivka" in answer.read().decode()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("host", ["library.example", "127.0.0.1:8000"])  # passed on by the proxy, or replaced
def test_behind_a_proxy_people_sign_in_and_decide(own_shelf: Path, cache: Path, tmp_path: Path, host: str) -> None:
    file = tmp_path / "people.csv"
    key = people(file, add=["Rivka"])["Rivka"]
    guard = Guard(people=People(file), public="https://library.example/")
    with TestClient(create_app(own_shelf, guard=guard, cache=cache), base_url=f"http://{host}") as browser:
        assert browser.get("/").status_code == 403
        browser.headers["x-membra-key"] = key
        browser.headers["x-membra-token"] = browser.get("/api/token").json()["token"]
        browser.headers["sec-fetch-site"] = "same-origin"
        browser.headers["origin"] = "https://library.example"
        assert says(browser, "join").status_code == 200
        browser.headers["origin"] = "https://evil.example"
        assert says(browser, "join").status_code == 403


def test_without_people_a_proxys_name_admits_nobody(own_shelf: Path, cache: Path) -> None:
    guard = Guard(public="https://library.example/")
    with TestClient(create_app(own_shelf, guard=guard, cache=cache), base_url="http://library.example") as stranger:
        assert stranger.get("/").status_code == 403
