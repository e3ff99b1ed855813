"""Corrections from a fragment's page: each is stored first, then the photograph is described again."""

import threading
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import FastAPI, Form, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from membra.errors import Conflict, Invalid, NotFound
from membra.show.web import fields
from membra.show.web.desk import Desk
from membra.show.web.models import CorrectionLine, Sentence
from membra.show.web.pages import correction_line, corrections_of
from membra.show.web.parameters import (
    SIGNS,
    WITH_FORM_TOKEN,
    WITH_TOKEN,
    EntryNumber,
    Id,
    Person,
    Signature,
    Text,
    signed,
)
from membra.show.web.render import Render
from membra.sources.fix import box_in, numbers_in, points_in, shapes_in
from membra.store.collection import Collection
from membra.store.correct import Corrected, correct
from membra.store.corrections import Corrections

Long = Annotated[str, Form(max_length=400_000)]
Point = tuple[float, float]
Box = tuple[float, float, float, float]
DESCRIBE = "whether to describe the photograph again at once"


class Shape(BaseModel):
    """A region to paint out."""

    points: list[Point] = Field(
        max_length=20_000, description="corners of a polygon; two points are opposite corners of a rectangle"
    )
    brush: int = Field(0, ge=0, le=10_000, description="width in px of a stroke along the points; 0 for a polygon")


class Fixing(BaseModel):
    """Corrections to make, in pixels of the photograph as displayed."""

    id: str = Field(
        max_length=4096, description="id of a fragment; that of a photograph of several pieces means all of them"
    )
    by: str = Field("", description=SIGNS)
    note: str = Field("", description=fields.NOTE)
    turn: float | None = Field(
        None, description="degrees clockwise by which to rotate the photograph to set it upright"
    )
    up: Literal["top", "right", "bottom", "left"] | None = Field(
        None, description="side of the photograph that the tops of the letters face"
    )
    crop: Box | None = Field(None, description="x, y, width, height of the part to keep")
    paint_out: list[Shape] = Field([], max_length=5_000, description="regions without writing")
    drop_letters: list[int | Box] = Field(
        [], max_length=20_000, description="letters to discard, by index from 0 or by x, y, width, height"
    )
    split: list[Point] = Field(
        [], max_length=20_000, description="two points of a line that cuts the piece, or a polygon around one part"
    )
    join: list[str] = Field([], max_length=1_000, description="ids of pieces to merge with this one")
    pieces: Literal["one", "auto"] | None = Field(
        None, description="one: the photograph is one piece; auto: it is split automatically"
    )
    describe: bool = Field(True, description=DESCRIBE)


class FixUndo(BaseModel):
    """A correction to undo."""

    number: int = Field(description="number of the correction")
    by: str = Field("", description=SIGNS)
    describe: bool = Field(True, description=DESCRIBE)


class Fixed(BaseModel):
    """The result of corrections. All entries of `corrections` are stored."""

    corrections: list[CorrectionLine] = Field(description="the entries written")
    fragments: list[str] = Field(description="ids of the fragments that the photograph shows now, in reading order")
    described: bool = Field(description="whether the photograph was described again")
    problem: Sentence = Field(description="why it was not, if `describe` was set; empty otherwise")


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the routes of corrections, JSON and forms. They run one at a time: describing uses every processor."""
    one_at_a_time = threading.Lock()

    def change(id: str, **asked: Any) -> Corrected:
        collection = Collection.open(desk.path)
        entry = collection.entry(id)
        if entry:
            desk.item(entry.fragment.id)  # raises if its image is a link out of the collection
        if not asked.get("describe", True):
            return correct(collection, id, **asked)
        with one_at_a_time:
            done = correct(collection, id, **asked)
        desk.holding(newest=True)
        return done

    def undone(number: int) -> str:
        """Return the photograph of correction `number`."""
        found = next((one for one in Corrections.open(desk.path).history() if one.number == number), None)
        if found is None:
            raise NotFound("there is no correction {number}; the history lists the numbers", number=number)
        return found.photograph

    @app.get("/api/corrections")
    def history(id: Id = "") -> list[CorrectionLine]:
        item = desk.item(id)
        assert item.entry
        return corrections_of(desk, item.entry)[0]

    @app.post("/api/corrections", dependencies=[WITH_TOKEN])
    def give(given: Fixing, person: Person) -> Fixed:
        asked = {**given.model_dump(exclude={"id"}), "by": signed(person, given.by)}
        return _fixed(change(given.id, **asked))

    @app.post("/api/corrections/undo", dependencies=[WITH_TOKEN])
    def undo(given: FixUndo, person: Person) -> Fixed:
        id, by = undone(given.number), signed(person, given.by)
        return _fixed(change(id, undo=given.number, by=by, describe=given.describe))

    @app.post("/corrections", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def give_(
        by: Signature,
        id: Text = "",
        note: Text = "",
        turn: Text = "",
        up: Text = "",
        crop: Text = "",
        paint_out: Long = "",
        drop_letters: Long = "",
        split: Long = "",
        pieces: Text = "",
        join: Annotated[list[str], Form(max_length=1_000)] = [],  # noqa: B006
        seen: Annotated[int, Form()] = 0,
    ) -> Response:
        entry = desk.holding(newest=True).by_id.get(id)
        if entry and drop_letters.strip() and entry.number != seen:  # its letters were renumbered
            raise Conflict(
                "This fragment was described again since the page was loaded; reload the page and repeat your change"
            )
        asked = {
            "turn": _degrees(turn) if turn.strip() else None,
            "up": up or None,
            "crop": box_in(crop) if crop.strip() else None,
            "paint_out": shapes_in(paint_out),
            "drop_letters": numbers_in(drop_letters),
            "split": points_in(split) if split.strip() else (),
            "join": join,
            "pieces": pieces or None,
        }
        done = change(id, by=by, note=note, **asked)
        return render.remember(_leads_to(done, id), by)

    @app.post("/corrections/undo", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def undo_(by: Signature, number: EntryNumber = -1, id: Text = "") -> Response:
        return _leads_to(change(undone(number), undo=number, by=by), id)

    @app.post("/corrections/describe", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def describe(id: Text = "") -> Response:
        return _leads_to(change(id, by=""), id)


def _leads_to(done: Corrected, id: str) -> Response:
    """Redirect to the fragment's page, or, if it no longer exists, to that of its photograph's first fragment."""
    there = id if id in done.fragments else next(iter(done.fragments), id)
    return RedirectResponse(f"/fragment?id={quote(there)}", 303)


def _fixed(done: Corrected) -> Fixed:
    return Fixed(
        corrections=[correction_line(entry, entry.sha256) for entry in done.entries],
        fragments=done.fragments,
        described=done.described,
        problem=done.problem,
    )


def _degrees(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid("{text} is not an angle; write degrees, e.g. 90", text=repr(text[:40])) from None
