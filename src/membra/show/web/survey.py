"""The survey: a query and up to eight of its candidates at once, at one letter height, moved together."""

from collections.abc import Sequence

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from membra.show.evidence import match_words, matched_heights
from membra.show.web.candidates import candidates_page
from membra.show.web.desk import Desk, Item
from membra.show.web.models import Candidate, Surveyed, SurveyPage
from membra.show.web.pages import shown_of
from membra.show.web.parameters import Hide, Id, Page, Upload
from membra.show.web.render import Render

AT_ONCE = 8  # candidates: as many as can be told apart on one screen


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """The page and its JSON twin."""

    @app.get("/survey", response_class=HTMLResponse)
    def survey(request: Request, a: Id = "", upload: Upload = "", hide: Hide = [], screen: Page = 1) -> Response:  # noqa: B006
        return render(request, "survey.html", survey_page(desk, desk.item(a, upload), hide, screen))

    @app.get("/api/survey")
    def survey_(a: Id = "", upload: Upload = "", hide: Hide = [], screen: Page = 1) -> SurveyPage:  # noqa: B006
        return survey_page(desk, desk.item(a, upload), hide, screen)


def survey_page(desk: Desk, item: Item, hide: Sequence[str] = (), screen: int = 1) -> SurveyPage:
    """The candidates of one screen, each with its photograph."""
    found = candidates_page(desk, item, hide, screen, AT_ONCE)
    return SurveyPage(
        query=shown_of(desk, item, desk.description(item)),
        hide=list(hide),
        screen=found.screen,
        screens=found.screens,
        candidates=[_surveyed(desk, item, candidate) for candidate in found.candidates],
    )


def _surveyed(desk: Desk, item: Item, candidate: Candidate) -> Surveyed:
    other = desk.item(candidate.card.id)
    one, two = desk.description(item), desk.description(other)
    heights = matched_heights(one, two, match_words(one, two, desk.holding().collection.recipe.bag))
    return Surveyed(candidate=candidate, shown=shown_of(desk, other, two), height=round(heights[1], 2))
