"""The table: two fragments that users drag and rotate until their edges meet; placements are stored."""

from typing import Annotated

import numpy as np
from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from membra.errors import Invalid, NotFound
from membra.show.fit import Piece, draw_fit, lay, lies_of
from membra.show.strips import encoded
from membra.show.web.desk import Desk
from membra.show.web.parameters import WITH_FORM_TOKEN, WITH_TOKEN, EntryNumber, Id, Person, Signature, Text, signed
from membra.show.web.render import Render, link
from membra.show.web.view_models import FitPage, FitPiece, Place, Placed
from membra.store.placements import Lies, Placements

Number = Annotated[float, Form()]
AROUND = 0.35  # of the pieces' extent: margin of the table around them, for moving them


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the page, its JSON twin, the picture, and the routes that store a placement."""

    @app.get("/fit", response_class=HTMLResponse)
    def fit(request: Request, a: Id = "", b: Id = "") -> Response:
        return render(request, "fit.html", fit_page(desk, a, b))

    @app.get("/api/fit")
    def fit_(a: Id = "", b: Id = "") -> FitPage:
        return fit_page(desk, a, b)

    @app.get("/image/fit", response_class=Response)
    def picture(a: Id = "", b: Id = "") -> Response:
        first, second = _pair(desk, a, b)
        placement = Placements.open(desk.path).of(first, second)
        drawn = draw_fit(desk.holding(), placement) if placement else None
        if drawn is None:
            raise NotFound("These two fragments have not been laid on one table yet")
        return Response(encoded(drawn), media_type="image/jpeg", headers={"cache-control": "no-store"})

    @app.post("/api/fit", dependencies=[WITH_TOKEN])
    def place_(place: Place, person: Person) -> FitPage:
        _keep(desk, place, signed(person, place.by))
        return fit_page(desk, place.a, place.b)

    @app.post("/fit", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def place(
        by: Signature,
        a: Text = "",
        b: Text = "",
        unit: Text = "",
        x_a: Number = 0,
        y_a: Number = 0,
        turn_a: Number = 0,
        x_b: Number = 0,
        y_b: Number = 0,
        turn_b: Number = 0,
    ) -> Response:
        first, second = _pair(desk, a, b)
        lies = Lies(x_a, y_a, turn_a), Lies(x_b, y_b, turn_b)
        Placements.open(desk.path).place(first, second, *lies, unit=unit, by=by)
        return render.remember(RedirectResponse(link("/fit", a=a, b=b), 303), by)

    @app.post("/fit/undo", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def undo(by: Signature, a: Text = "", b: Text = "", number: EntryNumber = -1) -> Response:
        Placements.open(desk.path).undo(number, by=by)
        return RedirectResponse(link("/fit", a=a, b=b), 303)


def fit_page(desk: Desk, a: str, b: str) -> FitPage:
    """Return both fragments in their stored placement, or side by side."""
    first, second = _pair(desk, a, b)
    placement = Placements.open(desk.path).of(first, second)
    table = lay(desk.holding(), first, second, placement.unit if placement else None)
    # A placement in millimetres is unusable if the sizes are no longer known.
    kept = placement if placement and placement.unit == table.unit else None
    lies = lies_of(kept, first) if kept else table.beside()
    pieces = [_piece(piece, own) for piece, own in zip((table.a, table.b), lies, strict=True)]
    reach = np.array([(own.x, own.y) for own in lies])
    half = np.array([max(piece.size) / 2 for piece in (table.a, table.b)])[:, None]
    low, high = (reach - half).min(axis=0), (reach + half).max(axis=0)
    around = AROUND * float((high - low).max())
    x, y, wide, tall = np.concatenate([low - around / 2, high - low + around]).round(3).tolist()
    return FitPage(
        unit="mm" if table.unit == "mm" else "letters",
        a=pieces[0],
        b=pieces[1],
        box=(x, y, wide, tall),
        number=kept.number if kept else 0,
        by=kept.by if kept else "",
        at=kept.at if kept else "",
    )


def _piece(piece: Piece, lies: Lies) -> FitPiece:
    return FitPiece(
        id=piece.id,
        name=piece.name,
        width=piece.view.width,
        height=piece.view.height,
        outline=[(round(x, 1), round(y, 1)) for x, y in piece.outline.tolist()],
        middle=piece.middle,
        per_unit=piece.per_unit,
        pitch=piece.pitch,
        ruled=piece.ruled,
        disagrees=piece.disagrees,
        lies=Placed(x=round(lies.x, 4), y=round(lies.y, 4), turn=round(lies.turn, 3)),
    )


def _pair(desk: Desk, a: str, b: str) -> tuple[str, str]:
    if a == b:
        raise Invalid("A fragment cannot be compared with itself; choose another one")
    return desk.item(a).id, desk.item(b).id


def _keep(desk: Desk, place: Place, by: str) -> None:
    first, second = _pair(desk, place.a, place.b)
    lies = [Lies(one.x, one.y, one.turn) for one in (place.lies_a, place.lies_b)]
    Placements.open(desk.path).place(first, second, *lies, unit=place.unit, by=by)
