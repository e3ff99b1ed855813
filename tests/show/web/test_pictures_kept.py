"""A cached picture is never older than its page: browsers cache it as long as its URL has the same version."""

import re

from fastapi.testclient import TestClient

A = "images/0001.jpg"


def pictures(client: TestClient) -> dict[str, str]:
    """Return the URL of each kind of picture on a fragment's page, and of its thumbnail on the first page."""
    html = client.get("/", params={"show": "all"}).text + client.get("/fragment", params={"id": A}).text
    urls = [url.replace("&amp;", "&") for url in re.findall(r'(?:src|href)="(/image/[^"]+0001[^"]+)"', html)]
    return {url.partition("?")[0]: url for url in urls}


def test_a_correction_changes_the_pictures_at_once(writer: TestClient) -> None:
    before = pictures(writer)
    assert {"/image/small", "/image/whole", "/image/seen", "/image/letters"} <= set(before)
    kept = {url: writer.get(url) for url in before.values()}
    assert all(answer.headers["cache-control"] == "private, max-age=3600" for answer in kept.values())
    assert pictures(writer) == before, "what did not change stays with the browser"
    done = writer.post("/api/corrections", json={"id": A, "turn": 90, "by": "x"}).json()
    assert done["described"]
    after = pictures(writer)
    assert not set(after.values()) & set(before.values())
    for kind in ("/image/small", "/image/whole"):
        assert writer.get(after[kind]).content != kept[before[kind]].content, kind


def test_a_picture_without_a_version_is_asked_for_each_time(writer: TestClient) -> None:
    """Like in programs and manifests."""
    first = writer.get("/image/small", params={"id": A})
    assert first.headers["cache-control"] == "private, no-cache"
    same = writer.get("/image/small", params={"id": A}, headers={"if-none-match": first.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    writer.post("/api/corrections", json={"id": A, "turn": 90, "by": "x"})
    other = writer.get("/image/small", params={"id": A}, headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200
    assert other.content != first.content


def test_tiles_name_their_version_too(client: TestClient) -> None:
    html = client.get("/fragment", params={"id": A}).text
    assert re.search(r'"v": [1-9]\d*', html.replace("&#34;", '"'))


def test_every_page_names_the_version_of_its_pictures(writer: TestClient) -> None:
    """Pictures on cards, of agreeing letters, of compared photographs."""
    other = "images/0002.jpg"
    writer.post("/api/verdicts", json={"a": A, "b": other, "says": "join", "by": "x"})
    pages = ("/?show=all", f"/fragment?id={A}", f"/candidates?id={A}", f"/compare?a={A}&b={other}", "/verdicts")
    for page in (*pages, f"/group?id={A}", f"/map?at={A}", "/inbox"):
        urls = re.findall(r'(?:src|href)="(/image/[^"]+)"', writer.get(page).text)
        assert urls, page
        assert [url for url in urls if not re.search(r"[?;]v=[1-9]", url)] == [], page
