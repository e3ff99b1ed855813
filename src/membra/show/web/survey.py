"""The survey: a query and up to eight candidates at once, at one letter height, moved together."""

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from membra.errors import MembraError
from membra.show.evidence import match_words, matched_heights
from membra.show.web.candidates import EVERYTHING, candidates_page
from membra.show.web.desk import Desk, Item
from membra.show.web.filters import Filtered, Filters
from membra.show.web.models import Candidate
from membra.show.web.pages import shown_of
from membra.show.web.parameters import Id, Page, Upload
from membra.show.web.render import Render
from membra.show.web.view_models import Surveyed, SurveyPage

AT_ONCE = 8  # candidates that can be told apart on one screen


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the page and its JSON twin."""

    @app.get("/survey", response_class=HTMLResponse)
    def survey(request: Request, filters: Filtered, a: Id = "", upload: Upload = "", screen: Page = 1) -> Response:
        return render(request, "survey.html", survey_page(desk, desk.item(a, upload), filters, screen))

    @app.get("/api/survey")
    def survey_(filters: Filtered, a: Id = "", upload: Upload = "", screen: Page = 1) -> SurveyPage:
        return survey_page(desk, desk.item(a, upload), filters, screen)


def survey_page(desk: Desk, item: Item, filters: Filters = EVERYTHING, screen: int = 1) -> SurveyPage:
    """Return the candidates of one screen, each with its photograph."""
    found = candidates_page(desk, item, filters, screen, AT_ONCE)
    return SurveyPage(
        query=shown_of(desk, item, desk.description(item)),
        filters=filters.parameters,
        screen=found.screen,
        screens=found.screens,
        candidates=[_surveyed(desk, item, candidate) for candidate in found.candidates],
    )


def _surveyed(desk: Desk, item: Item, candidate: Candidate) -> Surveyed:
    """Return a candidate with its photograph, or with the reason why there is none."""
    try:
        other = desk.item(candidate.card.id)
        one, two = desk.description(item), desk.description(other)
        heights = matched_heights(one, two, match_words(one, two, desk.holding().collection.recipe.bag))
        shown = shown_of(desk, other, two)
    except MembraError as error:  # e.g. the file is gone: the others can still be surveyed
        return Surveyed(candidate=candidate, shown=None, problem=error.message, height=0.0)
    return Surveyed(candidate=candidate, shown=shown, problem="", height=round(heights[1], 2))
