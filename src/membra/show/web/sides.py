"""Sides of one leaf among candidates: the nearest has the card, which also shows the others."""

from collections.abc import Callable, Collection, Mapping, Sequence

from membra.find.search import Hit
from membra.show.web.desk import Desk
from membra.show.web.models import Side
from membra.show.web.pages import card_of, says_of, voices_of
from membra.store.verdicts import PairVerdicts


def leads_of(leaves: Mapping[str, tuple[str, ...]], hits: Sequence[Hit]) -> dict[str, str]:
    """Return for each of `hits` the nearest side of its leaf among them, possibly itself.

    `leaves` maps each fragment that is one of several sides to all of them.
    """
    first: dict[tuple[str, ...], str] = {}
    for hit in sorted(hits, key=lambda hit: hit.rank):
        first.setdefault(leaves.get(hit.id, (hit.id,)), hit.id)
    return {hit.id: first[leaves.get(hit.id, (hit.id,))] for hit in hits}


def sides_of(
    desk: Desk,
    lead: str,
    hits: Sequence[Hit],
    said: Callable[[str], PairVerdicts | None],
    without: Collection[str],
) -> list[Side]:
    """Return the other sides of the leaf of candidate `lead`, the nearest first, except `without`.

    A side that is not among `hits` (far away or filtered out) has no rank. `said` returns the verdicts on a side.
    """
    holding, marks = desk.holding(), desk.marks()
    found = {hit.id: hit for hit in hits}
    others = [id for id in holding.leaves.get(lead, ()) if id != lead and id not in without and id in holding.by_id]
    others.sort(key=lambda id: found[id].rank if id in found else len(holding.entries) + 1)
    return [
        Side(
            card=card_of(holding.by_id[id], marks),
            rank=found[id].rank if id in found else None,
            distance=found[id].distance if id in found else None,
            verdict=says_of(said(id)),
            said=voices_of(said(id)),
        )
        for id in others
    ]
