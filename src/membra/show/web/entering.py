"""Signing in by a personal link, and signing out. Only if the server identifies people by links."""

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from membra.show.web.parameters import WITH_FORM_TOKEN, Person, Text
from membra.show.web.render import Render
from membra.show.web.safety import COOKIE, ENTER, ENTERING, own_key
from membra.store.verdicts import same_person


class EnterPage(BaseModel):
    """The signed-in person; or the person of the opened link, and who was signed in before."""

    name: str
    asked: bool = Field(description="whether to ask the person for confirmation")
    before: str = Field(description="name of the person signed in before, if it is another one; else empty")


def add_routes(app: FastAPI, render: Render) -> None:
    """Add the sign-in routes. The gate accepts `/enter?key=` and sets the cookie if no other person is signed in; these
    routes show who is signed in, or ask for confirmation."""

    def page(request: Request, person: str) -> Response:
        # A page, not a redirect: after a cross-site link, browsers do not send the new cookie with the redirect.
        entering = _entering(request)
        data = EnterPage(name=entering or person, asked=bool(entering), before=_before(request, person))
        response = render(request, "enter.html", data)
        response.headers["cache-control"] = "no-store"
        return response

    @app.get(ENTER, response_class=HTMLResponse)
    def enter(request: Request, person: Person) -> Response:
        return page(request, person)

    @app.post(ENTER, response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def become(request: Request, person: Person, before: Text = "") -> Response:
        if _before(request, person) != before:
            return page(request, person)  # on a cross-site request the browser had not sent the cookie
        response = RedirectResponse(ENTER, 303)
        if _entering(request):
            response.headers.append("set-cookie", render.guard.cookie(own_key(request.scope)))
        return response

    @app.post("/leave", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def leave() -> Response:
        response = RedirectResponse(ENTER, 303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _entering(request: Request) -> str:
    return str(request.scope.get(ENTERING, ""))


def _before(request: Request, person: str) -> str:
    """Return who is signed in if the link is of another person, else ""."""
    entering = _entering(request)
    return person if entering and not same_person(person, entering) else ""
