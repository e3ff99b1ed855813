"""The API schema and reference: stable operation ids, groups, one-line summaries, and the page /api."""

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from membra.errors import Invalid

if TYPE_CHECKING:
    from membra.show.web.render import Render

API = "/api/"
# The groups of the reference, in order of use, by path prefix.
TAGS = {
    "Fragments": ("/api/collection", "/api/fragment", "/api/add", "/api/catalogue", "/api/corrections", "/api/notes"),
    "Candidates": ("/api/candidates", "/api/compare", "/api/survey", "/api/fit", "/api/map"),
    "Pairs and groups": ("/api/inbox", "/api/proposals", "/api/group"),
    "Verdicts": ("/api/verdicts", "/api/token"),
}
OTHERS = "Others"
SUMMARIES = {
    "GET /api/collection": "List and search fragments",
    "GET /api/fragment": "Get a fragment: its letters, metadata, verdicts and corrections",
    "POST /api/add": "Add an uploaded photograph to the collection",
    "GET /api/candidates": "List the candidates for a fragment or an uploaded photograph, nearest first",
    "POST /api/candidates": "Upload a photograph and list its candidates",
    "GET /api/compare": "Compare two fragments: photographs, matching letters, verdicts",
    "GET /api/survey": "Get a fragment and up to eight of its candidates with their photographs",
    "GET /api/fit": "Get the placement of two fragments on one table",
    "POST /api/fit": "Store the placement of two fragments on one table",
    "GET /api/map": "Get the map of the collection, on which similar writing is near",
    "GET /api/map/points": "Get every fragment of the map, and the groups among them",
    "GET /api/map/column": "Get the value of a column for every fragment of the map",
    "GET /api/inbox": "List the undecided pairs that are most worth a decision",
    "GET /api/proposals": "List the proposed joins, closest first",
    "GET /api/group": "Get a group of fragments, and the fragments nearest to it",
    "GET /api/verdicts": "List all verdicts, newest first",
    "POST /api/verdicts": "Give a verdict on two fragments",
    "POST /api/verdicts/undo": "Undo a verdict of the history",
    "GET /api/token": "Get the token that every POST sends in the header X-Membra-Token",
    "POST /api/fragment": "Set metadata of a fragment: shelfmark, library, size",
    "GET /api/corrections": "List the corrections of a fragment's photograph, newest first",
    "POST /api/corrections": "Correct how a photograph is read, and describe it again",
    "POST /api/corrections/undo": "Undo a correction, and describe the photograph again",
    "GET /api/notes": "List notes, tags, bookmarks and metadata edits, newest first",
    "POST /api/notes": "Add a note, tags or a bookmark to a fragment",
    "POST /api/notes/undo": "Undo a note, tag, bookmark or metadata edit",
    "POST /api/catalogue": "Join a table to the fragments of the collection",
}


class ApiField(BaseModel):
    """A parameter, or a field of a request or an answer."""

    name: str
    kind: str
    says: str
    default: str
    needed: bool


class ApiOperation(BaseModel):
    """One operation."""

    id: str
    method: str
    path: str
    summary: str
    parameters: list[ApiField]
    sends: list[ApiField]
    answers: str
    fields: list[ApiField]


class ApiGroup(BaseModel):
    name: str
    operations: list[ApiOperation]


class ApiPage(BaseModel):
    """The reference of the API."""

    groups: list[ApiGroup]


def known_only(request: Request) -> None:
    """Reject unknown parameters of the API, so that a misspelt one is not silently ignored."""
    route = request.scope.get("route")
    if isinstance(route, APIRoute) and route.path.startswith(API):
        known = parameters_of(route)
        unknown = next((name for name in request.query_params if name not in known and name != "key"), None)
        if unknown is not None:
            raise Invalid(
                "unknown parameter {name}; the parameters are {names}", name=unknown[:60], names=sorted(known)
            )


def add_reference(app: FastAPI, render: "Render") -> None:
    """Name every API route, split the schema into API and pages, and add the page /api."""
    reference: list[ApiPage] = []

    @app.get("/api", response_class=HTMLResponse)
    def api(request: Request) -> Response:
        if not reference:
            reference.append(_page(app.openapi()))
        return render(request, "api.html", reference[0])

    @app.get("/api/pages.json", response_class=JSONResponse)
    def pages() -> dict[str, Any]:
        return schema_of(app, pages=True)

    for route in routes_of(app):
        if route.path.startswith(API):
            _name(route)
    app.openapi = lambda: schema_of(app)  # type: ignore[method-assign]


def schema_of(app: FastAPI, *, pages: bool = False) -> dict[str, Any]:
    """Return the schema of the API, or of the pages, pictures and forms."""
    kept: dict[bool, dict[str, Any]] = app.state.__dict__.setdefault("schemas", {})
    if pages not in kept:
        api = [route for route in routes_of(app) if route.path.startswith(API) and route.path != "/api/pages.json"]
        chosen = [route for route in routes_of(app) if route not in api] if pages else api
        kept[pages] = get_openapi(title=app.title, version=app.version, description=app.description, routes=chosen)
    return kept[pages]


def twin_of(request: Request, url: str) -> str:
    """Return the URL of a page's JSON twin, with its known parameters; "" if there is none."""
    path, _, asked = url.partition("?")
    path = f"/api{'/collection' if path == '/' else path}"
    twin = next(
        (route for route in routes_of(request.app) if route.path == path and "GET" in (route.methods or ())), None
    )
    if twin is None:
        return ""
    known = parameters_of(twin)
    kept = "&".join(part for part in asked.split("&") if part.partition("=")[0] in known)
    return f"{path}?{kept}" if kept else path


def routes_of(app: FastAPI) -> list[APIRoute]:
    return [route for route in app.routes if isinstance(route, APIRoute)]


def parameters_of(route: APIRoute) -> set[str]:
    """Return the names of a route's query parameters, read from the route, which is faster than its schema."""
    names: set[str] = set()
    parts = [route.dependant]
    while parts:
        part = parts.pop()
        names.update(field.alias for field in part.query_params)
        parts += part.dependencies
    return names


def _name(route: APIRoute) -> None:
    method = min(route.methods or {"GET"})
    route.operation_id = f"{method.lower()}_{route.path.removeprefix(API).replace('/', '_').replace('.', '_')}"
    route.summary = SUMMARIES.get(f"{method} {route.path}", route.summary)
    found = next((tag for tag, paths in TAGS.items() if any(_under(route.path, path) for path in paths)), OTHERS)
    route.tags = [found]


def _under(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")


def _page(schema: dict[str, Any]) -> ApiPage:
    groups: dict[str, list[ApiOperation]] = {tag: [] for tag in (*TAGS, OTHERS)}
    models = schema.get("components", {}).get("schemas", {})
    for path, ways in schema["paths"].items():
        for method, one in ways.items():
            parameters = [
                _field(each["name"], each.get("schema", {}), each.get("description", ""), each.get("required", False))
                for each in one.get("parameters", [])
                if each["in"] == "query"
            ]
            body = one.get("requestBody", {}).get("content", {})
            sent = next((_model(content["schema"]) for content in body.values()), "")
            answer = one["responses"]["200"]["content"]["application/json"]["schema"]
            name = _model(answer)
            groups[one["tags"][0]].append(
                ApiOperation(
                    id=one["operationId"],
                    method=method.upper(),
                    path=path,
                    summary=one.get("summary", ""),
                    parameters=parameters,
                    sends=_fields(models.get(sent, {})),
                    answers=" ".join(models.get(name, {}).get("description", "").split()),
                    fields=_fields(models.get(name, {})),
                )
            )
    return ApiPage(groups=[ApiGroup(name=tag, operations=found) for tag, found in groups.items() if found])


def _fields(model: dict[str, Any]) -> list[ApiField]:
    needed = model.get("required", [])
    return [
        _field(name, one, one.get("description", ""), name in needed)
        for name, one in model.get("properties", {}).items()
    ]


def _field(name: str, schema: dict[str, Any], says: str, needed: bool) -> ApiField:
    default = schema.get("default", "")
    shown = "" if default in ("", None, []) else str(default)
    return ApiField(name=name, kind=_kind(schema), says=says, default=shown, needed=needed)


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a value as text, e.g. `list of Card` or `string`."""
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return _model(schema) or str(schema.get("type", "any"))


def _model(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]
