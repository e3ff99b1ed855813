"""The map: the collection in the plane, coloured by any column, with named groups and neighbours of one fragment."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse
from numpy.typing import NDArray

from membra.errors import MembraError, NotFound
from membra.messages import gettext_noop
from membra.show.group import MAX_MEMBERS
from membra.show.holding import Holding, natural
from membra.show.web.candidates import candidates_page
from membra.show.web.desk import GOING_ON, Desk
from membra.show.web.layout import FINE, fine, rough
from membra.show.web.models import Candidate
from membra.show.web.pages import card_of
from membra.show.web.parameters import Id
from membra.show.web.render import Render
from membra.show.web.view_models import MapColumn, MapGroup, MapPage, MapPoints, NamedGroup, Point
from membra.store.collection import Entry
from membra.store.verdicts import Verdict, groups_of

SOME = 1000  # points of the page without scripts, and of `/api/map`; an even selection
NEIGHBOURS, GROUPS = 12, 5  # shown for the selected fragment
COLOURS = 8  # values of a column with their own colour
MAX_GROUPS = 3000  # named on the map
# Measurements of every fragment, in addition to the catalogue's columns.
MEASURED: dict[str, Callable[[Entry], float]] = {
    "letters": lambda entry: entry.glyphs,
    "legibility": lambda entry: entry.legibility,
    "letter_height": lambda entry: entry.letter_height,
}
_AS_READ = gettext_noop("legibility"), gettext_noop("letter height")  # their names on pages


@dataclass(frozen=True)
class Layout:
    """The position of each fragment."""

    ids: list[str]
    positions: NDArray[np.float64]  # (n, 2) in the unit square
    fine: bool  # by t-SNE; otherwise a rough layout


def add_routes(app: FastAPI, desk: Desk, render: Render) -> None:
    """Add the page, its JSON twin, and the data of the map."""

    @app.get("/map", response_class=HTMLResponse)
    def map_(request: Request, at: Id = "", by: Annotated[str, Query(max_length=400)] = "") -> Response:
        return render(request, "map.html", map_page(desk, at), column=by)

    @app.get("/api/map")
    def map__(at: Id = "") -> MapPage:
        return map_page(desk, at)

    @app.get("/api/map/points")
    def points() -> MapPoints:
        return map_points(desk)

    @app.get("/api/map/column")
    def column(
        name: Annotated[str, Query(max_length=400, description="name of a column, one of `columns` of /api/map")],
    ) -> MapColumn:
        return map_column(desk, name)


def map_page(desk: Desk, at: str = "") -> MapPage:
    """Return the selected fragment, its neighbours, and a selection of the points."""
    holding = desk.holding()
    here, neighbours = None, []
    if at:
        item = desk.item(at)
        here = card_of(holding.entry(at), desk.marks())
        if not here.refused:
            neighbours = candidates_page(desk, item).candidates[:NEIGHBOURS]
    try:
        layout = _laid_out(desk)
    except MembraError as error:
        nothing: dict[str, Any] = {"found": 0, "fine": True, "points": [], "columns": [], "near": []}
        return MapPage(ready=True, problem=error.message, at=here, neighbours=neighbours, **nothing)
    step = max(1, -(-len(layout.ids) // SOME))
    known = holding.by_id
    return MapPage(
        ready=True,
        problem="",
        found=len(layout.ids),
        fine=layout.fine,
        points=sorted(
            (
                Point(id=id, name=holding.names[id], doubtful=known[id].doubtful, x=round(x, 4), y=round(y, 4))
                for id, (x, y) in zip(layout.ids[::step], layout.positions[::step].tolist(), strict=True)
                if id in known
            ),
            key=lambda point: natural(point.name),
        ),
        columns=holding.kept(("map columns",), lambda: _columns(holding)),
        at=here,
        neighbours=neighbours,
        near=_near(holding, desk.verdicts.standing(), at, neighbours),
    )


def map_points(desk: Desk) -> MapPoints:
    """Return all points and the groups among them."""
    holding, layout = desk.holding(), _laid_out(desk)
    known, index = holding.by_id, {id: number for number, id in enumerate(layout.ids)}
    groups = [
        MapGroup(name=_named(holding, group), members=[index[id] for id in group if id in index])
        for group in _groups(holding, desk.verdicts.standing())[:MAX_GROUPS]
    ]
    at = layout.positions.round(5)
    return MapPoints(
        fine=layout.fine,
        ids=layout.ids,
        names=[holding.names.get(id, id) for id in layout.ids],
        x=at[:, 0].tolist(),
        y=at[:, 1].tolist(),
        doubtful=[number for number, id in enumerate(layout.ids) if id in known and known[id].doubtful],
        groups=[group for group in groups if len(group.members) > 1],
    )


def map_column(desk: Desk, name: str) -> MapColumn:
    """Return a column's value for every point: numbers if all values are numeric, else its most frequent labels."""
    holding, layout = desk.holding(), _laid_out(desk)
    if name not in holding.kept(("map columns",), lambda: _columns(holding)):
        raise NotFound("the map has no column {column}", column=name)
    known = holding.by_id
    entries = [known.get(id) for id in layout.ids]
    if name in MEASURED:
        numbers: list[float | None] = [float(MEASURED[name](entry)) if entry else None for entry in entries]
    else:
        said = [entry.fragment.columns.get(name, "") if entry else "" for entry in entries]
        numbers = [_number(text) for text in said]
        if sum(number is not None for number in numbers) < sum(bool(text) for text in said):
            labels = [label for label, _ in Counter(filter(None, said)).most_common(COLOURS)]
            codes = {label: float(code) for code, label in enumerate(labels)}
            values = [codes.get(text) for text in said]
            return MapColumn(name=name, labels=labels, values=values, low=0, high=max(0, len(labels) - 1))
    there = [number for number in numbers if number is not None] or [0.0]
    low, high = np.percentile(there, (2, 98)).tolist()  # robust to a single mistyped size
    return MapColumn(name=name, labels=[], values=numbers, low=low, high=high)


def _laid_out(desk: Desk) -> Layout:
    """Return the current layout; while it is computed, the former or a rough one."""
    holding = desk.holding()
    ids, means = holding.means
    if not ids:
        return Layout([], np.zeros((0, 2)), True)
    large = len(ids) > FINE

    def work() -> Layout:
        if large:
            desk.when_quiet()
        return Layout(list(ids), fine(means), True)

    layout, ready = desk.later("map", None, work, 0.0 if large else 0.6)
    if ready:
        return Layout(layout.ids, layout.positions, True)
    if layout is not GOING_ON:
        return Layout(layout.ids, layout.positions, False)
    return holding.kept(("rough map",), lambda: Layout(list(ids), rough(means), False))


def _columns(holding: Holding) -> list[str]:
    """Return the columns useful as colours: neither the same for all nor a different label for each."""
    seen: dict[str, Counter[str]] = {}
    for entry in holding.entries:
        for name, value in entry.fragment.columns.items():
            if value and not entry.refused:
                seen.setdefault(name, Counter())[value] += 1
    useful = [
        name
        for name, counted in seen.items()
        if name not in MEASURED
        and len(counted) > 1
        and (len(counted) <= 0.5 * counted.total() or all(_number(value) is not None for value in list(counted)[:50]))
    ]
    return [*useful[:40], *MEASURED]


def _groups(holding: Holding, standing: Sequence[Verdict]) -> list[list[str]]:
    """Return the groups by verdicts and by column `join`, the largest first."""
    by_join: dict[str, list[str]] = {}
    for entry in holding.entries:
        join = entry.fragment.columns.get("join")
        if join and not entry.refused:
            by_join.setdefault(join, []).append(entry.fragment.id)
    confirmed = [[id for id in group if id in holding.by_id] for group in groups_of(standing)]
    known = [group for group in by_join.values() if len(group) > 1]
    return sorted((group for group in (*confirmed, *known) if len(group) > 1), key=len, reverse=True)


def _near(holding: Holding, standing: Sequence[Verdict], at: str, neighbours: Sequence[Candidate]) -> list[NamedGroup]:
    """Return the groups of the neighbours, nearest first, without the selected fragment's own."""
    if not neighbours:
        return []
    groups = [group for group in _groups(holding, standing) if at not in group]
    found: list[NamedGroup] = []
    for one in neighbours:
        for group in groups:
            if one.card.id in group and not any(set(group) == set(near.ids) for near in found):
                found.append(NamedGroup(name=_named(holding, group), ids=group[:MAX_MEMBERS], rank=one.rank))
    return found[:GROUPS]


def _named(holding: Holding, group: Sequence[str]) -> str:
    first = holding.names[group[0]]
    return f"{first} + {len(group) - 1}" if len(group) > 1 else first


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ".")) if text and text.isascii() else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < 1e12 else None
