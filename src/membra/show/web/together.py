"""A group of fragments: its page, similar fragments, and its exports."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse

from membra.show.citation import bibtex, csl_json
from membra.show.evidence import explain_in
from membra.show.group import Group, group_of, leaf_name, pairs_of, title_of
from membra.show.group_dossier import group_dossier
from membra.show.holding import NEAR
from membra.show.web.desk import Desk
from membra.show.web.groups import edge
from membra.show.web.pages import card_of, cards_of, line_of, pair_line, says_of, voices_of
from membra.show.web.parameters import Ids
from membra.show.web.render import Render
from membra.show.web.sides import leads_of, sides_of
from membra.show.web.take import manifest_bytes
from membra.show.web.view_models import GroupCandidate, GroupLeaf, GroupPage
from membra.store.verdicts import in_order

MORE = 24  # candidates for the group
What = Literal["dossier", "manifest", "bibtex", "csl"]
DECIDED = "decided"
Hidden = Annotated[
    list[Literal["decided"]], Query(max_length=4, description="decided: leave out fragments with a verdict")
]
File = Callable[[bytes, str], Response]


def add_routes(app: FastAPI, desk: Desk, render: Render, file: File) -> None:
    """Add the page, its JSON twin, and the exports. One `id` stands for its group; several form one."""

    @app.get("/group", response_class=HTMLResponse)
    def group(request: Request, id: Ids = [], hide: Hidden = []) -> Response:  # noqa: B006
        return render(request, "group.html", group_page(desk, id, hide))

    @app.get("/api/group")
    def group_(id: Ids = [], hide: Hidden = []) -> GroupPage:  # noqa: B006
        return group_page(desk, id, hide)

    @app.get("/export/group/{what}", response_class=Response)
    def export(request: Request, what: What, id: Ids = []) -> Response:  # noqa: B006
        own = _group(desk, id)
        holding = desk.holding()
        if what == "dossier":
            return file(group_dossier(holding, own), "group.html")
        if what == "bibtex":
            return file(bibtex(holding, own), "group.bib")
        if what == "csl":
            return file(csl_json(holding, own), "group.csl.json")
        evidence = [explain_in(holding, a, b) for a, b in pairs_of(holding, own)]
        asked = urlencode([("id", one) for one in own.ids], quote_via=quote)
        base = desk.base_of(request.base_url)
        url = f"{base}export/group/manifest?{asked}"
        return file(manifest_bytes(desk, evidence, own.verdicts, url, base, own.ids), "group.json")


def group_page(desk: Desk, ids: Sequence[str], hide: Sequence[str] = ()) -> GroupPage:
    """Return the group by leaves, the pairs that connect it, and the fragments nearest to all of it."""
    holding, own = desk.holding(), _group(desk, ids)
    said = {(pair.a, pair.b): pair for pair in own.pairs}
    return GroupPage(
        title=title_of(holding, own),
        confirmed=own.confirmed,
        leaves=[
            GroupLeaf(name=leaf_name([holding.entry(id) for id in leaf]), sides=cards_of(desk, leaf))
            for leaf in own.leaves
        ],
        pairs=[edge(a, b, holding.apart(a, b)[0], 0.0, said.get(in_order(a, b))) for a, b in pairs_of(holding, own)],
        verdicts=[line_of(desk, verdict) for verdict in own.verdicts],
        disputed=[pair_line(desk, pair) for pair in own.pairs if pair.disputed],
        hide=list(hide),
        candidates=_candidates(desk, own, hide),
    )


def _group(desk: Desk, ids: Sequence[str]) -> Group:
    for id in ids:
        desk.item(id)  # raises this server's message if it does not exist
    return group_of(desk.holding(), desk.verdicts.pairs(), ids)


def _candidates(desk: Desk, own: Group, hide: Sequence[str]) -> list[GroupCandidate]:
    """Return the fragments nearest to all members combined, each with its nearest member if that is known."""
    holding = desk.holding()
    asked = tuple(id for id in own.ids if not holding.entry(id).refused)
    if not asked:
        return []
    inside = set(own.ids)
    said = {
        (b if a in inside else a): pair
        for (a, b), pair in desk.verdicts.pairs().items()
        if (a in inside) != (b in inside)
    }
    decided = {id for id, pair in said.items() if not pair.disputed}
    near = {
        id: {hit.id: hit.distance for hit in holding.ranking(id, min(NEAR, len(holding.entries))).hits} for id in asked
    }
    found = []
    hits = [
        hit
        for hit in holding.together(asked, MORE + len(said) + len(own.ids)).hits
        if hit.id not in inside and hit.id in holding.by_id and not (DECIDED in hide and hit.id in decided)
    ][:MORE]
    leads, marks = leads_of(holding.leaves, hits), desk.marks()
    for hit in hits:
        found.append(
            GroupCandidate(
                rank=hit.rank,
                distance=hit.distance,
                card=card_of(holding.by_id[hit.id], marks),
                nearest=_nearest(near, hit.id),
                verdict=says_of(said.get(hit.id)),
                said=voices_of(said.get(hit.id)),
                side_of=leads[hit.id] if leads[hit.id] != hit.id else "",
                sides=sides_of(desk, hit.id, hits, said.get, inside) if leads[hit.id] == hit.id else [],
            )
        )
    return found


def _nearest(near: Mapping[str, Mapping[str, float]], id: str) -> str:
    """Return the member that a candidate is nearest to, or "" if it is not known.

    `near` has the first `NEAR` candidates of each member, with their distances: a candidate that is not among them is
    no nearer than the last of them.
    """
    listed = {member: hits[id] for member, hits in near.items() if id in hits}
    if not listed:
        return ""
    nearest = min(listed, key=listed.__getitem__)
    farthest = [max(hits.values(), default=float("inf")) for hits in near.values() if id not in hits]
    return nearest if all(listed[nearest] <= distance for distance in farthest) else ""
