"""A catalogue joined on the page: its columns are guessed, shown, corrected and stored; one fragment edited."""

import re
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from openpyxl import Workbook

from membra.store.annotations import Annotations
from membra.store.collection import Collection
from membra.store.note import note
from shelves import Enter

A, B = "images/0001.jpg", "images/0002.jpg"


def workbook() -> bytes:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (
        ["Bilddatei", "Signatur", "Bibliothek", "Haus <script>"],
        ["0001.jpg", "Or. 1", "Oxford", "x"],
        ["nowhere.jpg", "Or. 2", "Oxford", ""],
    ):
        sheet.append(row)
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def test_a_table_is_looked_at_corrected_and_joined(writer: TestClient, own_shelf: Path) -> None:
    token = writer.headers["x-membra-token"]
    assert "/catalogue" in writer.get("/?page=1").text
    assert writer.get("/catalogue").status_code == 200
    page = writer.post("/catalogue", data={"token": token}, files={"table": ("Katalog.xlsx", workbook())})
    assert "2 rows, which match 1 fragments; 1 rows match no fragment" in page.text
    assert re.search(r'aria-label="Signatur">.*?<option value="shelfmark" selected', page.text)
    assert "<script>" not in page.text.split("<main")[1]
    assert Collection.open(own_shelf).entries()[1].fragment.columns["shelfmark"] == "T-S 8C2.1"  # unchanged so far
    key = str(page.url).partition("table=")[2]
    form = {"token": token, "table": key, "theirs": ["Bilddatei", "Signatur", "Bibliothek", "Haus <script>"]}
    form["ours"] = ["image", "shelfmark", "Bibliothek", "library"]
    done = writer.post("/catalogue/join", data=form)
    assert "its rows match 1 fragments" in done.text
    columns = writer.get("/api/fragment", params={"id": A}).json()["card"]["columns"]
    assert (columns["shelfmark"], columns["library"], columns["Bibliothek"]) == ("Or. 1", "x", "Oxford")
    assert Collection.open(own_shelf).mapping()["Haus <script>"] == "library"
    assert writer.get("/api/collection", params={"q": "or1"}).json()["found"] == 1


def test_a_table_by_the_api_and_what_is_none(writer: TestClient) -> None:
    said = writer.post("/api/catalogue?dry=yes", files={"table": ("k.xlsx", workbook())}).json()
    assert (said["matched"], said["updated"], said["mapping"]["Signatur"]) == (1, 0, "shelfmark")
    for content in (b"", b"PK\x03\x04 no zip", b"colour\nred\n"):
        answer = writer.post("/api/catalogue", files={"table": ("k.xlsx", content)})
        assert answer.status_code == 422
        assert "/tmp" not in answer.text
    assert writer.get("/catalogue?table=nothing").status_code == 404


def test_what_is_known_is_corrected_in_place(writer: TestClient) -> None:
    token = writer.headers["x-membra-token"]
    assert "Edit or add" in writer.get("/fragment", params={"id": A}).text
    form = {"token": token, "id": A, "name": ["shelfmark", "library"], "value": [" T-S 9.9 ", "Cambridge"], "by": "x"}
    page = writer.post("/fragment", data=form)
    assert "T-S 9.9" in page.text
    card = writer.post(
        "/api/fragment", json={"id": A, "columns": {"script": "square", "library": ""}, "by": "x"}
    ).json()
    assert (card["name"], card["columns"]["script"], card["columns"]["library"]) == ("T-S 9.9", "square", "")
    assert card["columns"]["join"]  # columns that were not sent stay
    assert writer.post("/api/fragment", json={"id": "nothing", "columns": {}, "by": "x"}).status_code == 404
    assert writer.post("/api/fragment", json={"id": A, "columns": {"x": "y" * 30_000}, "by": "x"}).status_code == 422


def loaded(client: TestClient) -> dict[str, Any]:
    """Return a fragment page's form as a browser sends it: no line breaks in text inputs, CRLF in text areas."""
    page = client.get("/fragment", params={"id": A}).text
    html = page.partition('<form action="/fragment"')[2].partition("</form>")[0]
    sent: dict[str, Any] = {"name": [], "was": [], "value": []}
    for kind, name, value in re.findall(r'<input( type="hidden")?[^>]* name="(\w+)" value="([^"]*)"', html):
        text = unescape(value).replace("\n", "\r\n" if kind else "")
        sent[name] = [*sent[name], text] if name in ("name", "was", "value") else text
    return sent


def typed(form: dict[str, Any], **columns: str) -> dict[str, Any]:
    values = [columns.get(name, value) for name, value in zip(form["name"], form["value"], strict=True)]
    return {**form, "value": values}


def test_an_edit_touches_no_column_but_those_that_were_typed_in(enter: Enter, own_shelf: Path) -> None:
    rivka, david = enter("Rivka"), enter("David")
    title = "Book of\nPsalms "  # as in a cell of a spreadsheet
    note(Collection.open(own_shelf), A, by="a table", columns={"library": "Paris", "title": title, "script": "?"})
    before, long_before = len(Annotations.open(own_shelf).history()), loaded(rivka)
    assert david.post("/fragment", data=typed(loaded(david), library="Cambridge")).status_code == 200
    assert rivka.post("/fragment", data=typed(long_before, script="square")).status_code == 200
    said = [(one.by, one.name, one.text) for one in Annotations.open(own_shelf).history()[before:]]
    assert said == [("David", "library", "Cambridge"), ("Rivka", "script", "square")]
    columns = rivka.get("/api/fragment", params={"id": A}).json()["card"]["columns"]
    assert (columns["library"], columns["script"], columns["title"]) == ("Cambridge", "square", title.strip())


def test_what_somebody_else_has_changed_meanwhile_is_not_overwritten(enter: Enter, own_shelf: Path) -> None:
    rivka, david = enter("Rivka"), enter("David")
    long_before = loaded(rivka)
    assert david.post("/fragment", data=typed(loaded(david), library="Cambridge")).status_code == 200
    late = rivka.post("/fragment", data=typed(long_before, library="Oxford", script="square"))
    assert late.status_code == 409
    assert "Another user has changed library since the page was loaded" in late.text
    said = [(one.by, one.name, one.text) for one in Annotations.open(own_shelf).history()]
    assert said == [("David", "library", "Cambridge")], "all of it or nothing"
    same = rivka.post("/fragment", data=typed(long_before, library="Cambridge", script="square"))
    assert same.status_code == 200, "both say the same"
    assert rivka.post("/fragment", data=typed(loaded(rivka), library="Oxford")).status_code == 200
    last = Annotations.open(own_shelf).history()[-1]
    assert (last.by, last.before, last.text) == ("Rivka", "Cambridge", "Oxford")
