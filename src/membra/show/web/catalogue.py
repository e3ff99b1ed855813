"""Metadata of fragments, joined from a table or edited by hand: pages, forms and their JSON."""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, File, Form, Query, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from membra.errors import Invalid, NotFound
from membra.show.web.desk import Desk
from membra.show.web.models import Card, Sentence
from membra.show.web.pages import card_of
from membra.show.web.parameters import SIGNS, WITH_FORM_TOKEN, WITH_TOKEN, Person, Signature, Text, signed
from membra.show.web.render import Render, plain_text
from membra.sources.columns import SYNONYMS
from membra.sources.tables import headers_of
from membra.store.catalogue import Catalogued, catalogue, mapping_for
from membra.store.note import MAX_COLUMNS, as_line, note

MAX_TABLES = 8  # kept between choosing and joining; the oldest is dropped first


class Joined(BaseModel):
    """The result of joining a table, or a preview of it."""

    mapping: dict[str, str] = Field(description="names of the table's columns, mapped to membra's")
    columns: list[str] = Field(description="columns that the fragments have from the table, by membra's names")
    rows: int = Field(description="number of rows of the table")
    matched: int = Field(description="number of fragments that match a row")
    updated: int = Field(description="number of these whose metadata changes")
    unmatched: int = Field(description="number of rows that match no fragment")
    examples: list[str] = Field(description="some of the unmatched rows, by image or shelfmark")


class CataloguePage(BaseModel):
    """A chosen table: the meaning of its columns, and how many rows match."""

    table: str = Field(description="key of the table; empty if none was chosen")
    name: str
    headers: list[str]
    ours: list[str] = Field(description="names of membra's columns")
    problem: Sentence = Field(description="why the table cannot be joined; empty if it can")
    would: Joined | None = Field(description="preview of the join; null if the table cannot be read")
    done: bool = Field(description="whether the table was joined")


class Known(BaseModel):
    """Metadata to set on a fragment."""

    id: str
    columns: dict[str, str] = Field(
        description="new values by column name; an empty value clears the column, other columns stay"
    )
    by: str = Field("", description=SIGNS)


class Tables:
    """Chosen tables that are not joined yet, in a folder that the server deletes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, tuple[str, Path]] = OrderedDict()

    def keep(self, name: str, content: bytes) -> str:
        if not content:
            raise Invalid("No table was chosen; choose a CSV, XLSX or ODS file")
        key = secrets.token_urlsafe(12)
        path = self._folder / f"table-{key}"
        path.write_bytes(content)
        self._kept[key] = (plain_text(name)[-200:], path)
        if len(self._kept) > MAX_TABLES:
            self._kept.popitem(last=False)[1][1].unlink(missing_ok=True)
        return key

    def of(self, key: str) -> tuple[str, Path]:
        if key not in self._kept:
            raise NotFound("That table is no longer available; choose it again")
        return self._kept[key]


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the page of a table, its join, and the edit of one fragment's metadata."""
    tables = Tables(desk.dropped_folder)

    @app.get("/catalogue", response_class=HTMLResponse)
    def look(request: Request, table: Annotated[str, Query(max_length=64)] = "", done: bool = False) -> Response:
        return render(request, "catalogue.html", catalogue_page(desk, tables, table, done))

    @app.post("/catalogue", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def choose(table: Annotated[UploadFile, File()]) -> Response:
        key = tables.keep(table.filename or "table", table.file.read())
        return RedirectResponse(f"/catalogue?table={key}", 303)

    @app.post("/catalogue/join", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def join(
        table: Text = "",
        theirs: Annotated[list[str], Form(max_length=500)] = [],  # noqa: B006
        ours: Annotated[list[str], Form(max_length=500)] = [],  # noqa: B006
    ) -> Response:
        mapping = {their: our for their, our in zip(theirs, ours, strict=False) if our}
        _join(desk, *tables.of(table), mapping)
        return RedirectResponse(f"/catalogue?table={quote(table)}&done=yes", 303)

    @app.post("/api/catalogue", dependencies=[WITH_TOKEN])
    def join_(
        table: Annotated[UploadFile, File()],
        dry: Annotated[bool, Query(description="only report what would be done, and change nothing")] = False,
    ) -> Joined:
        name, path = tables.of(tables.keep(table.filename or "table", table.file.read()))
        return Joined(**asdict(_join(desk, name, path, None, dry=dry)))

    @app.post("/fragment", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def correct(
        by: Signature,
        id: Text = "",
        name: Annotated[list[str], Form(max_length=MAX_COLUMNS)] = [],  # noqa: B006
        value: Annotated[list[str], Form(max_length=MAX_COLUMNS)] = [],  # noqa: B006
        was: Annotated[list[str], Form(max_length=MAX_COLUMNS)] = [],  # noqa: B006
    ) -> Response:
        know(desk, id, dict(zip(name, value, strict=False)), by, dict(zip(name, was, strict=False)))
        return render.remember(RedirectResponse(f"/fragment?id={quote(id)}", 303), by)

    @app.post("/api/fragment", dependencies=[WITH_TOKEN])
    def correct_(known: Known, person: Person) -> Card:
        return know(desk, known.id, known.columns, signed(person, known.by))


def know(desk: Desk, id: str, columns: dict[str, str], by: str, was: Mapping[str, str] | None = None) -> Card:
    """Set metadata of one fragment. It is stored on disk when this returns.

    A form sends all columns, with the value that each `was` when the page was loaded: only changed ones are set.
    """
    desk.item(id)
    before = was or {}
    typed = [name for name, value in columns.items() if name not in before or as_line(value) != as_line(before[name])]
    said = {plain_text(name): plain_text(columns[name]) for name in typed if name.strip()}
    if not by.strip():
        raise Invalid("a note, tag or other entry needs the name of its author")
    seen = {plain_text(name): plain_text(text) for name, text in before.items()}
    note(desk.holding().collection, id, by=by, columns=said, was=seen)
    return card_of(desk.holding(newest=True).entry(id), desk.marks())


def catalogue_page(desk: Desk, tables: Tables, key: str, done: bool) -> CataloguePage:
    """Return the preview of joining a table."""
    if not key:
        return CataloguePage(table="", name="", headers=[], ours=list(SYNONYMS), problem="", would=None, done=False)
    name, path = tables.of(key)
    collection = desk.holding().collection
    problem: str = ""
    headers: list[str] = []
    would: Joined | None = None
    try:
        headers = [header for header in headers_of(path) if header]
        would = Joined(**asdict(catalogue(collection, path, dry=True)))
    except Invalid as error:
        problem = error.replaced(file=name).message
        if headers:
            mapping = mapping_for(collection, path)
            would = Joined(mapping=mapping, columns=[], rows=0, matched=0, updated=0, unmatched=0, examples=[])
    return CataloguePage(
        table=key, name=name, headers=headers, ours=list(SYNONYMS), problem=problem, would=would, done=done
    )


def _join(desk: Desk, name: str, path: Path, mapping: dict[str, str] | None, *, dry: bool = False) -> Catalogued:
    try:
        return catalogue(desk.holding().collection, path, mapping=mapping, dry=dry)
    except Invalid as error:
        raise error.replaced(file=name) from None  # named as the user named it
