"""The server and its routes. A page and its JSON twin are made from the same data (`models.py`)."""

import hashlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, FastAPI, File, Header, Query, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from membra import __version__
from membra.errors import MembraError, NotFound
from membra.show.evidence import letter_height
from membra.show.web import (
    candidates,
    catalogue,
    entering,
    fit,
    fixing,
    groups,
    inbox,
    models,
    notes,
    pages,
    plane,
    survey,
    take,
    together,
)
from membra.show.web.desk import Desk, Item
from membra.show.web.filters import Filtered, Marked
from membra.show.web.images import AS_IT_IS, cache_folder
from membra.show.web.parameters import (
    WITH_FORM_TOKEN,
    WITH_TOKEN,
    EntryNumber,
    Id,
    Limit,
    Page,
    Person,
    Said,
    Signature,
    Text,
    Upload,
    signed,
)
from membra.show.web.problems import answer_problems
from membra.show.web.render import Render, plain_text, safe_return
from membra.show.web.safety import App, Gate, Guard, Scope, Send
from membra.show.web.schema import add_reference, known_only
from membra.show.web.view_models import ProposalsPage

Version = Annotated[
    int,
    Query(ge=0, description="version of the picture, so that browsers can cache it; 0: they revalidate it each time"),
]
Have = Annotated[str, Header(alias="if-none-match", include_in_schema=False)]
Short = Annotated[str, Query(max_length=1000)]
Words = Annotated[
    str, Query(description="search words, each in the id, a column or a tag; or a shelfmark in any spelling")
]
PROBLEMS: dict[int | str, dict[str, Any]] = {code: {"model": models.Problem} for code in (403, 404, 409, 413, 422, 503)}
KEPT, ASKED = "private, max-age=3600", "private, no-cache"  # cache policy of pictures with and without a version
# Placeholder for a picture that cannot be shown: a crossed-out sheet.
NO_PICTURE = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 240"><g fill="none" stroke="#8a8178" stroke-width="6">'
    b'<path d="M110 50h70l30 30v110h-100z"/><path d="M125 175l70-95"/></g></svg>'
)


def create_app(path: Path, *, guard: Guard | None = None, cache: Path | None = None, base_url: str = "") -> FastAPI:
    """Return the workbench of the collection in folder `path`, an application for any ASGI server.

    `base_url`: public URL of the server, for exported manifests; without it, the URL of the request is used.
    """
    desk = Desk(path, cache or cache_folder(), base_url)
    guard = guard or Guard()
    render = Render(desk, guard)
    waiting = inbox.Inbox(desk)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=desk.pictures.tidy, daemon=True).start()
        threading.Thread(target=_warm, args=(desk, waiting), daemon=True).start()  # ready before the first request
        yield
        desk.close()

    app = FastAPI(
        title="membra",
        version=__version__,
        description="The data of every page of the workbench, and its actions.",
        lifespan=running,
        docs_url=None,  # FastAPI's interactive pages load scripts from a CDN; the schema itself is served
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=PROBLEMS,
        dependencies=[Depends(known_only)],
    )
    app.state.guard = guard  # its token is checked in parameters.py
    app.add_middleware(Gate, guard=guard)
    app.add_middleware(Attended, desk=desk)
    _pages(app, desk, render, waiting)
    _images(app, desk)
    _exports(app, desk)
    _api(app, desk, guard)
    _acts(app, desk, render)
    survey.add_routes(app, desk, render)
    together.add_routes(app, desk, render, _file)
    inbox.add_routes(app, waiting, render)
    fit.add_routes(app, desk, render)
    plane.add_routes(app, desk, render)
    catalogue.add_routes(app, desk, render)
    fixing.add_routes(app, desk, render)
    notes.add_routes(app, desk, render)
    if guard.people:
        entering.add_routes(app, render)
    answer_problems(app, render)
    add_reference(app, render)
    app.mount("/static", StaticFiles(directory=Path(__file__).with_name("static")), name="static")
    vendor = Path(__file__).with_name("vendor")
    if vendor.is_dir():  # third-party scripts, installed by `make`; pages work without them
        app.mount("/vendor", StaticFiles(directory=vendor), name="vendor")
    return app


def _warm(desk: Desk, waiting: inbox.Inbox) -> None:
    waiting.begin()
    candidates.warm(desk)


class Attended:
    """Middleware that tells the desk which requests are in progress."""

    def __init__(self, app: App, desk: Desk) -> None:
        self.app, self.desk = app, desk

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        with self.desk.attending():
            return await self.app(scope, receive, send)


def _pages(app: FastAPI, desk: Desk, render: Render, waiting: inbox.Inbox) -> None:
    """Add the pages. Every URL can be bookmarked and sent to a colleague."""

    @app.get("/", response_class=HTMLResponse)
    def collection(
        request: Request,
        q: str = "",
        show: pages.Show = "all",
        page: Page = 1,
        keep: Marked = [],  # noqa: B006
    ) -> Response:
        if not request.query_params and waiting.waits(render.by(request)):  # pairs to decide on come first
            return RedirectResponse("/inbox", 307)
        return render(request, "collection.html", pages.collection_page(desk, q, show, page, keep=keep))

    @app.get("/fragment", response_class=HTMLResponse)
    def fragment(request: Request, id: Id = "", word: int = -1) -> Response:
        return render(request, "fragment.html", pages.fragment_page(desk, id), word=word)

    @app.get("/candidates", response_class=HTMLResponse)
    def candidates_(
        request: Request, filters: Filtered, id: Id = "", upload: Upload = "", screen: Page = 1
    ) -> Response:
        item = desk.item(id, upload)
        return render(request, "candidates.html", candidates.candidates_page(desk, item, filters, screen), item=item)

    @app.get("/compare", response_class=HTMLResponse)
    def compare(
        request: Request,
        filters: Filtered,
        a: Id = "",
        b: Id = "",
        upload: Upload = "",
        word: int = 0,
        walk: groups.Walk = "candidates",
    ) -> Response:
        data = candidates.compare_page(desk, desk.item(a, upload), desk.item(b), filters)
        around = groups.proposed_around(desk, a, b) if walk == "proposals" else None
        return render(request, "compare.html", data, word=word, filters=filters.parameters, walk=walk, around=around)

    @app.get("/proposals", response_class=HTMLResponse)
    def proposals(request: Request, page: Page = 1, show: groups.Which = "open") -> Response:
        return render(request, "proposals.html", groups.proposals_page(desk, page, show))

    @app.get("/verdicts", response_class=HTMLResponse)
    def verdicts(request: Request, page: Page = 1) -> Response:
        return render(request, "verdicts.html", pages.verdicts_page(desk, page))


def _images(app: FastAPI, desk: Desk) -> None:
    """Add the routes of pictures, by a fragment's id; a path is never taken from a request."""

    @app.get("/image/small", response_class=Response)
    def small(id: Id = "", upload: Upload = "", instead: bool = False, v: Version = 0, have: Have = "") -> Response:
        """A thumbnail. `instead`: a placeholder if there is none, for pages, which show the reason beside it."""
        try:
            item = desk.item(id, upload)
            return _jpeg(desk.pictures.small(item.path, desk.standing(item)), v, have)
        except (MembraError, OSError):
            if not instead:
                raise
            return Response(NO_PICTURE, media_type="image/svg+xml", headers={"cache-control": "no-store"})

    @app.get("/image/whole", response_class=Response)
    def whole(id: Id = "", upload: Upload = "", upright: bool = True, v: Version = 0, have: Have = "") -> Response:
        item = desk.item(id, upload)
        return _jpeg(desk.pictures.whole(item.path, desk.standing(item) if upright else AS_IT_IS), v, have)

    @app.get("/image/seen", response_class=Response)
    def seen(id: Id = "", upload: Upload = "", v: Version = 0, have: Have = "") -> Response:
        return _jpeg(pages.seen_picture(desk, desk.item(id, upload)), v, have)

    @app.get("/image/tile", response_class=Response)
    def tile(level: int, x: int, y: int, id: Id = "", upload: Upload = "", v: Version = 0, have: Have = "") -> Response:
        content = desk.pictures.tile(desk.item(id, upload).path, level, x, y)
        if content is None:
            raise NotFound("There is no such tile")
        return _jpeg(content, v, have)

    @app.get("/image/letters", response_class=Response)
    def letters(
        at: Annotated[
            str, Query(max_length=400, pattern=r"^\d{1,6}(,\d{1,6})*$", description="indices of letters, e.g. 3,17,22")
        ],
        id: Id = "",
        upload: Upload = "",
        high: Annotated[float, Query(ge=0, le=10_000, description="letter height in px; 0: as measured")] = 0,
        v: Version = 0,
        have: Have = "",
    ) -> Response:
        item = desk.item(id, upload)
        description = desk.description(item)
        indices = [int(index) for index in at.split(",")]
        if max(indices) >= len(description.boxes):
            raise NotFound("This fragment has no such letter")
        boxes = [description.boxes[index].tolist() for index in indices]
        content = desk.pictures.letters(item.path, boxes, high or letter_height(description), description.angle)
        return _jpeg(content, v, have)


def _exports(app: FastAPI, desk: Desk) -> None:
    """Add the routes of exports, with the content of `membra export`."""

    @app.get("/export/{what}.{ending}", response_class=Response)
    def table(what: take.What, ending: take.Ending) -> Response:
        return _file(take.table(desk, what, ending), f"{desk.path.name}-{what}.{ending}")

    @app.get("/export/dossier", response_class=Response)
    def dossier(a: Id = "", b: Id = "") -> Response:
        return _file(take.dossier(desk, desk.item(a), desk.item(b)), "dossier.html")

    @app.get("/export/manifest", response_class=Response)
    def manifest(request: Request, a: Id = "", b: Id = "") -> Response:
        content = take.manifest(desk, desk.item(a), desk.item(b), desk.base_of(request.base_url))
        return _file(content, "manifest.json")


def _api(app: FastAPI, desk: Desk, guard: Guard) -> None:
    """Add the JSON twin of every page."""

    @app.get("/api/collection")
    def collection(
        q: Words = "",
        show: pages.Show = "all",
        page: Page = 1,
        limit: Limit = pages.A_PAGE,
        keep: Marked = [],  # noqa: B006
    ) -> models.CollectionPage:
        return pages.collection_page(desk, q, show, page, limit, keep)

    @app.get("/api/fragment")
    def fragment(id: Id = "") -> models.FragmentPage:
        return pages.fragment_page(desk, id)

    @app.get("/api/candidates")
    def candidates_(
        filters: Filtered, id: Id = "", upload: Upload = "", screen: Page = 1, limit: Limit = candidates.A_SCREEN
    ) -> models.CandidatesPage:
        return candidates.candidates_page(desk, desk.item(id, upload), filters, screen, limit)

    @app.get("/api/compare")
    def compare(filters: Filtered, a: Id = "", b: Id = "", upload: Upload = "") -> models.ComparePage:
        return candidates.compare_page(desk, desk.item(a, upload), desk.item(b), filters)

    @app.get("/api/proposals")
    def proposals(page: Page = 1, show: groups.Which = "open", limit: Limit = groups.PROPOSALS) -> ProposalsPage:
        return groups.proposals_page(desk, page, show, limit)

    @app.get("/api/verdicts")
    def verdicts(page: Page = 1, limit: Limit = pages.LINES) -> models.VerdictsPage:
        return pages.verdicts_page(desk, page, limit)

    @app.get("/api/token")
    def token() -> models.Token:
        return models.Token(token=guard.token)

    @app.post("/api/verdicts", dependencies=[WITH_TOKEN])
    def give(given: models.Given, person: Person) -> models.VerdictLine:
        _both(desk, given.a, given.b)
        by, says = signed(person, given.by), given.says.replace("-", " ")
        return pages.line_of(desk, desk.verdicts.give(given.a, given.b, says, by=by, note=given.note))

    @app.post("/api/verdicts/undo", dependencies=[WITH_TOKEN])
    def undo(undo: models.Undo, person: Person) -> models.VerdictLine:
        return pages.line_of(desk, desk.take_back(undo.number, person, undo.by))

    @app.post("/api/candidates", dependencies=[WITH_TOKEN])
    def drop(image: Annotated[UploadFile, File()]) -> models.CandidatesPage:
        return candidates.candidates_page(desk, _dropped(desk, image))

    @app.post("/api/add", dependencies=[WITH_TOKEN])
    def add(upload: Upload, shelfmark: Short = "", library: Short = "") -> models.Card:
        id = desk.add(upload, known_of(shelfmark, library))
        return pages.card_of(desk.holding().entry(id), desk.marks())


def _acts(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the routes of forms. Each redirects to a page, so that reloading does not repeat the action."""

    def stands(request: Request, a: str, b: str, by: str, back: str) -> Response:
        """Answer with the pair's new verdict: the part of the page that htmx replaces, or the previous page."""
        if request.headers.get("hx-request") and a and b:
            data = candidates.compare_page(desk, desk.item(a), desk.item(b))
            return render.remember(render(request, "_verdict.html", data, by=by), by)
        return render.remember(RedirectResponse(safe_return(back), 303), by)

    @app.post("/verdicts", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def give(request: Request, said: Said, by: Signature, back: Text = "") -> Response:
        _both(desk, said.a, said.b)
        desk.verdicts.give(said.a, said.b, said.says, by=by, note=said.note)  # stored before the answer
        return stands(request, said.a, said.b, by, back)

    @app.post("/verdicts/undo", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def undo(
        request: Request,
        person: Person,
        number: EntryNumber = -1,
        by: Text = "",
        back: Text = "",
        a: Text = "",
        b: Text = "",
    ) -> Response:
        by = desk.take_back(number, person, by).by
        return stands(request, a, b, by, back)

    @app.post("/candidates", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def drop(image: Annotated[UploadFile, File()]) -> Response:
        return RedirectResponse(f"/candidates?upload={_dropped(desk, image).upload}", 303)

    @app.post("/add", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def add(upload: Text = "", shelfmark: Text = "", library: Text = "") -> Response:
        id = desk.add(upload, known_of(shelfmark, library))
        return RedirectResponse(f"/fragment?id={quote(id)}", 303)


def known_of(shelfmark: str, library: str) -> dict[str, str]:
    """Return the columns of an image that a user adds."""
    given = {"shelfmark": shelfmark, "library": library}
    return {name: plain_text(" ".join(text.split()))[:1000] for name, text in given.items() if text.strip()}


def _both(desk: Desk, a: str, b: str) -> None:
    """Raise `NotFound` unless both fragments exist."""
    desk.item(a), desk.item(b)


def _dropped(desk: Desk, image: UploadFile) -> Item:
    return desk.drop(plain_text(image.filename or "image")[-200:], image.file.read())


def _file(content: bytes, name: str) -> Response:
    """Return a file as an attachment, never displayed, so that its content cannot act with this origin's rights."""
    kinds = {
        "csv": "text/csv; charset=utf-8",
        "json": "application/json",
        "html": "text/html; charset=utf-8",
        "bib": "application/x-bibtex; charset=utf-8",
    }
    kind = kinds.get(name.rpartition(".")[2], "application/octet-stream")
    disposition = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(content, media_type=kind, headers={"content-disposition": disposition, "cache-control": "no-store"})


def _jpeg(content: bytes, version: int, have: str) -> Response:
    """Return a picture. Browsers keep one whose URL has a version; for others they ask each time whether it has
    changed, by its ETag."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers = {"cache-control": KEPT if version else ASKED, "etag": tag}
    if tag in have:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/jpeg", headers=headers)
