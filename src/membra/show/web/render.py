"""Rendering of pages: templates, language, light or dark theme, links."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote, unquote, urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel

from membra import __version__
from membra.show.facts import editable, facts_of, label_of, ordered, turn_of
from membra.show.web.desk import Desk
from membra.show.web.groups import spring
from membra.show.web.parameters import person_of
from membra.show.web.safety import Guard
from membra.show.web.schema import twin_of
from membra.show.web.take import Ending
from membra.show.web.translations import LANGUAGES, say
from membra.store.verdicts import SAYS, same_person

NAME = "membra-by"  # cookie: author of the last verdict in this browser
_YEAR = 365 * 24 * 3600
_THEMES = ("auto", "light", "dark")
_OLD_CODES = {"iw": "he"}  # an old code for Hebrew


class Render:
    """Renders a template with a page's data."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self.desk = desk
        self.guard = guard
        # Autoescape: file names and shelfmarks are untrusted text.
        self.templates = Environment(
            loader=FileSystemLoader(Path(__file__).with_name("templates")),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(link=self.link, says=SAYS, spring=spring, languages=LANGUAGES)
        self.templates.globals.update(
            facts=facts_of, label=label_of, ordered=ordered, editable=editable, turn_of=turn_of
        )
        self.templates.globals.update(drawn=drawn, middle=middle, endings=get_args(Ending), version_of=self.version_of)
        self.templates.tests["same_person"] = same_person
        vendor = Path(__file__).with_name("vendor")
        self.scripts = {name: (vendor / f"{name}.js").is_file() for name in ("openseadragon", "htmx")}

    def __call__(self, request: Request, template: str, data: BaseModel, *, status: int = 200, **more: Any) -> Response:
        """Render the page; a language or theme in the URL is stored in a cookie."""
        language = _chosen(request, "lang", LANGUAGES, preferred(request.headers.get("accept-language", "")))
        theme = _chosen(request, "theme", _THEMES, "auto")
        html = self.templates.get_template(template).render(
            data=data,
            request_url=_own_url(request),
            json_url=twin_of(request, _own_url(request)),
            t=lambda text, **values: say(text, language, **values),
            language=language,
            theme=theme,
            direction=LANGUAGES[language].direction,
            token=self.guard.token,
            collection=self.desk.path.name,
            scripts=self.scripts,
            version=__version__,
            person=person_of(request),
            unread=self.desk.unread,
            **{"by": self.by(request), **more},
        )
        response = HTMLResponse(html.encode("utf-8", "replace"), status)
        for name, value in (("lang", language), ("theme", theme)):
            if name in request.query_params:
                response.set_cookie(f"membra-{name}", value, max_age=_YEAR, samesite="strict")
        return response

    def link(self, path: str, **parameters: Any) -> str:
        """Return a URL. That of a picture has the picture's version, so that no cached one is older than its page."""
        if path.startswith("/image/"):
            parameters["v"] = self.version_of(str(parameters.get("id", "")), str(parameters.get("upload", "")))
        return link(path, **parameters)

    def version_of(self, id: str, upload: str = "") -> int:
        """Return a number that changes whenever a fragment is described again; 0 for an unknown fragment."""
        if upload:
            return 1  # an upload has a unique name and never changes
        entry = self.desk.holding().by_id.get(id)
        if entry is None:
            return 0
        return zlib.crc32(repr((entry.number, entry.sha256, entry.glyphs, *entry.measured.values())).encode()) or 1

    def by(self, request: Request) -> str:
        """Return the user's name: the signed-in person, or the name typed last."""
        return person_of(request) or plain_text(unquote(request.cookies.get(NAME, "")))[:200]

    def remember(self, response: Response, by: str) -> Response:
        """Store the author's name in a cookie, so that it is typed only once."""
        if self.guard.people or not by.strip():
            return response
        response.set_cookie(NAME, quote(by.strip()[:200]), max_age=_YEAR, samesite="strict", httponly=True)
        return response


def link(path: str, **parameters: Any) -> str:
    """Return a URL with its parameters; empty ones are left out, lists are repeated."""
    kept = [(name, value) for name, value in parameters.items() if value not in (None, "", [], 0)]
    return f"{path}?{urlencode(kept, doseq=True)}" if kept else path


def drawn(outline: Sequence[tuple[int, int]]) -> str:
    """Return a closed line through points as an SVG path."""
    return f"M{' '.join(f'{x},{y}' for x, y in outline)}Z" if outline else ""


def middle(outline: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the centre of the bounding box of points, for a label."""
    xs, ys = zip(*outline, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def safe_return(url: str) -> str:
    """Return a URL of this server to go back to; any other URL becomes the first page."""
    local = url.startswith("/") and not url.startswith(("//", "/\\"))
    return quote(url, safe="/?&=%+,:~-._") if local and url.isprintable() else "/"


def plain_text(text: str) -> str:
    """Return text that can be encoded: lone surrogates, which some clients send, become question marks."""
    return text.encode("utf-8", "replace").decode()


def preferred(accepted: str) -> str:
    """Return the available language that the header Accept-Language prefers; English if there is none.

    >>> preferred("he-IL,he;q=0.9,en-US;q=0.8"), preferred("de, he;q=0.3, en;q=0.5"), preferred(""), preferred("iw")
    ('he', 'en', 'en', 'he')
    """
    liked: list[tuple[float, str]] = []
    for part in accepted[:1000].split(","):
        name, _, weight = part.partition(";")
        code = name.strip().lower().partition("-")[0]
        try:
            share = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        liked.append((share, _OLD_CODES.get(code, code)))
    known = [(share, code) for share, code in liked if code in LANGUAGES and share > 0]
    # `max` returns the first of equal ones.
    return max(known, key=lambda one: one[0])[1] if known else next(iter(LANGUAGES))


def _chosen(request: Request, name: str, among: Any, default: str) -> str:
    value = request.query_params.get(name) or request.cookies.get(f"membra-{name}", "")
    return value if value in among else default


def _own_url(request: Request) -> str:
    """Return this page's URL without language, theme and key, as base of language and theme links."""
    kept = [(k, v) for k, v in request.query_params.multi_items() if k not in ("lang", "theme", "key")]
    path = request.url.path if request.method == "GET" else "/"
    return f"{path}?{urlencode(kept, errors='replace')}" if kept else path
