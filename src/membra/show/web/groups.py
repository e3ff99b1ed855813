"""The data of the proposals and of the map: what the machine makes of the whole collection."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from membra.errors import MembraError
from membra.find.proposals import Proposal, propose
from membra.messages import Message
from membra.show.holding import Holding, name_of
from membra.show.web.candidates import candidates_page
from membra.show.web.desk import Desk
from membra.show.web.models import Edge, MapPage, Point, ProposalLine, ProposalsPage
from membra.show.web.pages import card_of, cards_of, page_of
from membra.store.verdicts import in_order

PROPOSALS = 12  # on a page
ALL_POINTS = 3000  # of the map; of a larger collection an even selection is drawn, and the rest is walked to
NO_ROOM = Message("The distances of all pairs of so many fragments do not fit into this machine's memory")
Which = Literal["open", "all"]  # groups: with a pair that nobody has decided, or all
Walk = Literal["candidates", "proposals"]  # what Back and Next of a comparison lead through
FINE = 1500  # fragments up to which the map is laid out with care (t-SNE); more take minutes


def proposals_page(desk: Desk, page: int = 1, show: Which = "open", limit: int = PROPOSALS) -> ProposalsPage:
    """Proposed joins, closest first, with what was said about their pairs. A group that is decided leaves the list."""
    try:
        outcome, ready = _proposed(desk)
    except (MembraError, MemoryError) as error:
        problem = error.message if isinstance(error, MembraError) else NO_ROOM
        return ProposalsPage(ready=True, problem=problem, show=show, found=0, decided=0, page=1, pages=1, proposals=[])
    if not ready:
        return ProposalsPage(ready=False, problem="", show=show, found=0, decided=0, page=1, pages=1, proposals=[])
    ids, found = outcome
    said = {(verdict.a, verdict.b): verdict.says for verdict in desk.verdicts.standing()}
    numbered = list(enumerate(found, start=1))
    still = [one for one in numbered if any(in_order(ids[p.a], ids[p.b]) not in said for p in one[1].pairs)]
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
    """The undecided pairs of the proposals before and after this one, in the order of the list."""
    try:
        outcome, ready = _proposed(desk)
    except (MembraError, MemoryError):
        return None, None
    if not ready:
        return None, None
    ids, found = outcome
    said = {(verdict.a, verdict.b) for verdict in desk.verdicts.standing()}
    pairs = [(ids[pair.a], ids[pair.b]) for proposal in found for pair in proposal.pairs]
    here = next((index for index, pair in enumerate(pairs) if {*pair} == {a, b}), -1)
    before = [pair for pair in pairs[: max(here, 0)] if in_order(*pair) not in said]
    after = [pair for pair in pairs[here + 1 :] if in_order(*pair) not in said]
    return (before[-1] if before else None), (after[0] if after else None)


def _proposed(desk: Desk) -> tuple[tuple[list[str], list[Proposal]], bool]:
    """Ids and proposals, and whether they are worked out."""
    holding = desk.holding()
    outcome, ready = desk.later("proposals", None, lambda: propose(holding.collection))
    return (outcome if ready else ([], [])), ready


def map_page(desk: Desk, at: str = "") -> MapPage:
    """The collection as a plane, and where one can go from the fragment `at`."""
    holding = desk.holding()
    here, neighbours = None, []
    if at:
        item = desk.item(at)
        here = card_of(holding.entry(at))
        if not here.refused:
            neighbours = candidates_page(desk, item).candidates[:12]
    try:
        points, ready = desk.later("map", None, lambda: lay_out(holding))
    except MembraError as error:
        return MapPage(ready=True, problem=error.message, points=[], at=here, neighbours=neighbours)
    return MapPage(ready=ready, problem="", points=points if ready else [], at=here, neighbours=neighbours)


def lay_out(holding: Holding) -> list[Point]:
    """A position in the unit square for every described fragment: those of one hand lie together."""
    ids, means = holding.means
    if not ids:
        return []
    positions = _unit(flatten(means))
    step = max(1, -(-len(ids) // ALL_POINTS))
    known = holding.by_id
    return [
        Point(
            id=id,
            name=name_of(known[id]),
            doubtful=known[id].doubtful,
            x=round(float(x), 4),
            y=round(float(y), 4),
        )
        for id, (x, y) in list(zip(ids, positions, strict=True))[::step]
        if id in known
    ]


def flatten(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors (n, d) as points (n, 2): t-SNE for what it can do in seconds, principal components otherwise."""
    apart = vectors - vectors.mean(axis=0)
    apart /= np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)
    left, sizes, _ = np.linalg.svd(apart - apart.mean(axis=0), full_matrices=False)
    plane = np.zeros((len(apart), 2))
    plane[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
    if not 8 <= len(apart) <= FINE:
        return plane
    from sklearn.manifold import TSNE

    spread = plane / max(float(plane[:, 0].std()), 1e-9) * 1e-4  # t-SNE begins small, and the same every time
    found = TSNE(2, perplexity=min(20.0, (len(apart) - 1) / 3), init=spread, max_iter=500, random_state=0)
    return np.asarray(found.fit_transform(apart), np.float64)


def spring(size: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Positions in the unit square for a small graph's nodes: connected ones near, none on another."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(edges)
    if size == 2:
        return [(0.0, 0.5), (1.0, 0.5)]
    # A ring for few: it never crosses itself and reads the same every time.
    placed = networkx.circular_layout(graph) if size <= 6 else networkx.spring_layout(graph, seed=0)
    return [(float(x), float(y)) for x, y in _unit(np.array([placed[node] for node in range(size)])).tolist()]


def _unit(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (n, 2) stretched to the unit square, each axis by itself; the middle where they do not differ."""
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high - low > 1e-9, high - low, 1.0)
    return np.asarray(np.where(high - low > 1e-9, (points - low) / extent, 0.5))


def _line(
    desk: Desk, number: int, proposal: Proposal, ids: Sequence[str], said: dict[tuple[str, str], str]
) -> ProposalLine:
    return ProposalLine(
        number=number,
        nearness=proposal.nearness,
        fragments=cards_of(desk, [ids[index] for index in proposal.members]),
        pairs=[
            Edge(
                a=ids[pair.a],
                b=ids[pair.b],
                distance=pair.distance,
                nearness=pair.nearness,
                verdict=said.get(in_order(ids[pair.a], ids[pair.b]), ""),
            )
            for pair in proposal.pairs
        ],
    )
