"""The page to which a person's own link leads, and the way out. Only where the server knows people by their links."""

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel

from membra.show.web.parameters import WITH_FORM_TOKEN, Person
from membra.show.web.render import Render
from membra.show.web.safety import COOKIE, ENTER


class EnterPage(BaseModel):
    """Who somebody is here."""

    name: str


def add_routes(app: FastAPI, render: Render) -> None:
    """`/enter?key=` is let in and remembered by the gate; here it is only said as whom."""

    @app.get(ENTER, response_class=HTMLResponse)
    def enter(request: Request, person: Person) -> Response:
        # A page, and no redirection: what a link from elsewhere leads to is not sent the cookie that it has just set.
        response = render(request, "enter.html", EnterPage(name=person))
        response.headers["cache-control"] = "no-store"
        return response

    @app.post("/leave", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def leave() -> Response:
        response = RedirectResponse(ENTER, 303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response
