"""Notes, tags and bookmarks of fragments, from a fragment's page or as JSON; and the undo of metadata edits."""

from dataclasses import asdict
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import FastAPI, Form, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from membra.errors import Invalid, NotFound
from membra.show.web import fields
from membra.show.web.desk import Desk
from membra.show.web.models import AnnotationLine, Undo
from membra.show.web.pages import LINES, page_of
from membra.show.web.parameters import (
    SIGNS,
    WITH_FORM_TOKEN,
    WITH_TOKEN,
    EntryNumber,
    Id,
    Limit,
    Page,
    Person,
    Signature,
    Text,
    check_own,
    signed,
)
from membra.show.web.render import Render, safe_return
from membra.store.annotations import BOOKMARK, NOTE, Annotation, Annotations, by_fragment
from membra.store.note import note

Long = Annotated[str, Form(max_length=20_000)]


class NotesPage(BaseModel):
    """Notes, tags, bookmarks and edits of all fragments, or of one, newest first."""

    found: int = Field(description="number of entries on all pages")
    page: int = Field(description=fields.PAGE)
    pages: int = Field(description=fields.PAGES)
    tags: dict[str, int] = Field(description="every tag of the collection, with its number of fragments")
    history: list[AnnotationLine]


class Noted(BaseModel):
    """Notes, tags and bookmarks to add to a fragment."""

    id: str = Field(
        max_length=4096, description="id of a fragment; that of a photograph of several pieces means all of them"
    )
    by: str = Field("", description=SIGNS)
    text: str = Field("", description="a note")
    tags: list[str] = Field([], max_length=100, description="tags to add")
    untag: list[str] = Field([], max_length=100, description="tags to remove, whoever added them")
    bookmark: bool | None = Field(
        None, description="true: add this person's bookmark; false: remove it; null: leave it"
    )


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the routes, as JSON and as forms."""

    def keep(id: str, by: str, text: str, tags: list[str], untag: list[str], bookmark: bool | None) -> list[Annotation]:
        desk.photograph_of(id)
        return note(desk.holding().collection, id, by=by, text=text, tags=tags, untag=untag, bookmark=bookmark)

    def take_back(number: int, person: str, by: str) -> Annotation:
        given = Annotations.open(desk.path).entry(number)
        if given.kind in (NOTE, BOOKMARK):  # tags and metadata are shared by all
            check_own(person, given.by)
        known = desk.on_photograph(given.photograph)
        if not known:
            raise NotFound("There is no fragment of that name in this collection")
        (undo,) = note(desk.holding().collection, known[0], by=signed(person, by), undo=number)
        desk.holding(newest=True)
        return undo

    @app.get("/api/notes")
    def history(id: Id = "", page: Page = 1, limit: Limit = LINES) -> NotesPage:
        photograph = desk.photograph_of(id) if id else None
        found = Annotations.open(desk.path).history(photograph)
        if photograph is not None and id != photograph:
            found = by_fragment(found, {photograph: desk.on_photograph(photograph)}).get(id, [])
        shown, page, pages = page_of(found[::-1], page, limit)
        lines = [annotation_line(one) for one in shown]
        return NotesPage(found=len(found), page=page, pages=pages, tags=desk.tags(), history=lines)

    @app.post("/api/notes", dependencies=[WITH_TOKEN])
    def give(given: Noted, person: Person) -> list[AnnotationLine]:
        by = signed(person, given.by)
        written = keep(given.id, by, given.text, given.tags, given.untag, given.bookmark)
        return [annotation_line(one) for one in written]

    @app.post("/api/notes/undo", dependencies=[WITH_TOKEN])
    def undo(given: Undo, person: Person) -> AnnotationLine:
        return annotation_line(take_back(given.number, person, given.by))

    @app.post("/notes", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def give_(
        by: Signature,
        id: Text = "",
        text: Long = "",
        tag: Text = "",
        untag: Text = "",
        bookmark: Literal["", "yes", "no"] = Form(""),
        back: Text = "",
    ) -> Response:
        desk.photograph_of(id)
        tags, off = [one for one in tag.split(",") if one.strip()], [untag] if untag else []
        if not (text.strip() or tags or off or bookmark):
            raise Invalid("There is nothing to save; write a note or a tag")
        keep(id, by, text, tags, off, {"yes": True, "no": False}.get(bookmark))
        return render.remember(RedirectResponse(safe_return(back or f"/fragment?id={quote(id)}"), 303), by)

    @app.post("/notes/undo", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def undo_(person: Person, number: EntryNumber = -1, id: Text = "", by: Text = "") -> Response:
        by = take_back(number, person, by).by
        return render.remember(RedirectResponse(f"/fragment?id={quote(id)}#said", 303), by)


def annotation_line(entry: Annotation) -> AnnotationLine:
    return AnnotationLine(**asdict(entry))
