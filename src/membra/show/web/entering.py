"""The page to which a person's own link leads, and the way out. Only where the server knows people by their links."""

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from membra.show.web.parameters import WITH_FORM_TOKEN, Person, Text
from membra.show.web.render import Render
from membra.show.web.safety import COOKIE, ENTER, ENTERING, own_key
from membra.store.verdicts import same_person


class EnterPage(BaseModel):
    """Who somebody is here; or whom a link would make her, and who she is before."""

    name: str
    asked: bool = Field(description="whether it takes her yes")
    before: str = Field(description="who she is in this browser; empty where that is not known")


def add_routes(app: FastAPI, render: Render) -> None:
    """`/enter?key=` is let in by the gate, and remembered where that replaces nobody; here it is said as whom, or
    asked."""

    def page(request: Request, person: str) -> Response:
        # A page, and no redirection: what a link from elsewhere leads to is not sent the cookie that it has just set.
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
            return page(request, person)  # led here by another site, the browser had not said who she is
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
    """Who somebody is in this browser, where a link would make her another person."""
    entering = _entering(request)
    return person if entering and not same_person(person, entering) else ""
