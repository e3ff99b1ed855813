"""Data of the proposals page: proposed joins of the whole collection."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from membra.errors import MembraError
from membra.find.proposals import Proposal, propose
from membra.messages import Message
from membra.show.web.desk import Desk
from membra.show.web.layout import unit_square
from membra.show.web.models import Edge
from membra.show.web.pages import cards_of, page_of, voices_of
from membra.show.web.view_models import ProposalLine, ProposalsPage
from membra.store.verdicts import PairVerdicts, in_order

PROPOSALS = 12  # per page
NO_ROOM = Message("The distances of all pairs of so many fragments do not fit into this machine's memory")
Which = Literal["open", "all"]  # groups with an undecided pair, or all
Walk = Literal["candidates", "proposals"]  # the list that Back and Next of a comparison step through


def proposals_page(desk: Desk, page: int = 1, show: Which = "open", limit: int = PROPOSALS) -> ProposalsPage:
    """Return proposed joins, closest first, with their pairs' verdicts; fully decided ones are hidden by default."""
    try:
        outcome, ready = _proposed(desk)
    except (MembraError, MemoryError) as error:
        problem = error.message if isinstance(error, MembraError) else NO_ROOM
        return ProposalsPage(ready=True, problem=problem, show=show, found=0, decided=0, page=1, pages=1, proposals=[])
    if not ready:
        return ProposalsPage(ready=False, problem="", show=show, found=0, decided=0, page=1, pages=1, proposals=[])
    ids, found = outcome
    said = desk.verdicts.pairs()
    numbered = list(enumerate(found, start=1))
    decided = {ends for ends, pair in said.items() if not pair.disputed}
    still = [one for one in numbered if any(in_order(ids[p.a], ids[p.b]) not in decided for p in one[1].pairs)]
    listed = numbered if show == "all" else still
    shown, page, pages = page_of(listed, page, limit)
    return ProposalsPage(
        ready=True,
        problem="",
        show=show,
        found=len(listed),
        decided=len(numbered) - len(still),
        page=page,
        pages=pages,
        proposals=[_line(desk, number, proposal, ids, said) for number, proposal in shown],
    )


def proposed_around(desk: Desk, a: str, b: str) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """Return the previous and the next undecided pair of the proposals, in the order of the list."""
    try:
        outcome, ready = _proposed(desk)
    except (MembraError, MemoryError):
        return None, None
    if not ready:
        return None, None
    ids, found = outcome
    said = {(verdict.a, verdict.b) for verdict in desk.verdicts.standing()}  # a disputed pair counts as undecided
    pairs = [(ids[pair.a], ids[pair.b]) for proposal in found for pair in proposal.pairs]
    here = next((index for index, pair in enumerate(pairs) if {*pair} == {a, b}), -1)
    before = [pair for pair in pairs[: max(here, 0)] if in_order(*pair) not in said]
    after = [pair for pair in pairs[here + 1 :] if in_order(*pair) not in said]
    return (before[-1] if before else None), (after[0] if after else None)


def _proposed(desk: Desk) -> tuple[tuple[list[str], list[Proposal]], bool]:
    """Return ids and proposals, and whether they are ready."""
    holding = desk.holding()
    outcome, ready = desk.later("proposals", None, lambda: propose(holding.collection))
    return (outcome if ready else ([], [])), ready


def spring(size: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return positions in the unit square for a small graph's nodes, with connected ones near each other."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(edges)
    if size == 2:
        return [(0.0, 0.5), (1.0, 0.5)]
    # A circle for few nodes: deterministic, and its edges stay readable.
    placed = networkx.circular_layout(graph) if size <= 6 else networkx.spring_layout(graph, seed=0)
    return [(float(x), float(y)) for x, y in unit_square(np.array([placed[node] for node in range(size)])).tolist()]


def _line(
    desk: Desk, number: int, proposal: Proposal, ids: Sequence[str], said: Mapping[tuple[str, str], PairVerdicts]
) -> ProposalLine:
    return ProposalLine(
        number=number,
        nearness=proposal.nearness,
        fragments=cards_of(desk, [ids[index] for index in proposal.members]),
        pairs=[
            edge(ids[pair.a], ids[pair.b], pair.distance, pair.nearness, said.get(in_order(ids[pair.a], ids[pair.b])))
            for pair in proposal.pairs
        ],
    )


def edge(a: str, b: str, distance: float, nearness: float, said: PairVerdicts | None) -> Edge:
    """Return a pair of a group with its verdicts."""
    verdict = said.says if said else ""
    return Edge(a=a, b=b, distance=distance, nearness=nearness, verdict=verdict, said=voices_of(said))
