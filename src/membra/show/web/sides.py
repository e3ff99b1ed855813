"""Sides of one leaf among candidates: the nearest has the card, and the others are shown on it."""

from collections.abc import Callable, Collection, Mapping, Sequence

from membra.find.search import Hit
from membra.show.web.desk import Desk
from membra.show.web.models import Side
from membra.show.web.pages import card_of, says_of, voices_of
from membra.store.verdicts import PairVerdicts


def leads_of(leaves: Mapping[str, tuple[str, ...]], hits: Sequence[Hit]) -> dict[str, str]:
    """For each of `hits` the nearest side of its leaf among them, which is itself where it has no nearer one.

    `leaves` has the sides of each fragment that is one of several.
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
    """The other sides of the leaf of a candidate that has the card, the nearest first; not those of `without`.

    A side that is not among `hits`, being far or filtered out, has no rank. `said` gives what people say of a side.
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
