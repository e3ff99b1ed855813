"""Groups of fragments: the sides of a leaf, a group that verdicts confirm, or a list given by the user."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from membra.errors import Invalid, NotFound
from membra.show.holding import Holding, name_of
from membra.store.collection import Entry
from membra.store.verdicts import PairVerdicts, Verdict, standing_in

MAX_MEMBERS = 60  # of a group that is shown, exported or used as a query


@dataclass(frozen=True)
class Group:
    """Some fragments and the verdicts on them.

    Attributes
    ----------
    ids : tuple of str
        Ids of its fragments in shelf order; the sides of one leaf are adjacent.
    leaves : tuple of tuples of str
        The same by leaf; several ids if the catalogue has them as sides of one leaf.
    verdicts : tuple of Verdict
        Verdicts in force between two of them.
    pairs : tuple of PairVerdicts
        Each person's verdicts on two of them, also for disputed pairs.
    """

    ids: tuple[str, ...]
    leaves: tuple[tuple[str, ...], ...]
    verdicts: tuple[Verdict, ...]
    pairs: tuple[PairVerdicts, ...]

    @property
    def confirmed(self) -> bool:
        """Whether verdicts, and the leaves of the catalogue, connect all of them."""
        return len(_connected(self.ids, [(v.a, v.b) for v in self.verdicts if v.says == "join"], self.leaves)) == 1


def group_of(holding: Holding, pairs: Mapping[tuple[str, str], PairVerdicts], ids: Sequence[str]) -> Group:
    """Return the group of these fragments, given the verdicts `pairs`.

    For a single id: all fragments that verdicts and leaves connect with it. The other sides of the members' leaves are
    included. Raises `MembraError` if a fragment is unknown or there is no group.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        raise Invalid("a group needs at least one fragment; give the ids")
    for id in wanted:
        holding.entry(id)
    standing = standing_in(pairs)
    joins = [(v.a, v.b) for v in standing if v.says == "join" and v.a in holding.by_id and v.b in holding.by_id]
    sides = set(holding.leaves.values())
    if len(wanted) == 1:
        everything = {id for pair in joins for id in pair} | {id for leaf in sides for id in leaf} | set(wanted)
        wanted = next(list(part) for part in _connected(sorted(everything), joins, sides) if wanted[0] in part)
    members = sorted({side for id in wanted for side in holding.leaves.get(id, (id,))}, key=holding.indices.__getitem__)
    if len(members) < 2:
        raise NotFound(
            "no fragment is known to belong with {id}; record a join first, or give several ids", id=members[0]
        )
    if len(members) > MAX_MEMBERS:
        raise Invalid("a group can have at most {most} fragments, not {count}", most=MAX_MEMBERS, count=len(members))
    leaves = tuple(dict.fromkeys(holding.leaves.get(id, (id,)) for id in members))
    inside = set(members)
    verdicts = tuple(v for v in standing if v.a in inside and v.b in inside)
    own = tuple(pair for (a, b), pair in pairs.items() if a in inside and b in inside)
    return Group(tuple(id for leaf in leaves for id in leaf), leaves, verdicts, own)


def pairs_of(holding: Holding, group: Group) -> list[tuple[str, str]]:
    """Return pairs that connect a group: confirmed joins, then the nearest pairs that connect the rest."""
    joins = [(v.a, v.b) for v in group.verdicts if v.says == "join"]
    described = [id for id in group.ids if not holding.entry(id).refused]
    pairs = [pair for pair in joins if pair[0] in described and pair[1] in described]
    parts = _connected(described, pairs, ())
    if len(parts) > 1:
        apart = sorted(
            (holding.apart(a, b)[0], a, b)
            for at, a in enumerate(described)
            for b in described[at + 1 :]
            if not any({a, b} <= set(part) for part in parts)
        )
        for _, a, b in apart:
            if not any({a, b} <= set(part) for part in parts):
                pairs.append((a, b))
                parts = _connected(described, pairs, ())
    return pairs


def title_of(holding: Holding, group: Group) -> str:
    """Return the title of a group: the shelfmarks of its leaves."""
    names = dict.fromkeys(leaf_name([holding.entry(id) for id in leaf]) for leaf in group.leaves)
    return " + ".join(names)


def leaf_name(sides: Sequence[Entry]) -> str:
    """Return the name of a leaf: its shelfmark and its sides, if it has several."""
    if len(sides) == 1:
        return name_of(sides[0])
    shelfmark = sides[0].fragment.columns.get("shelfmark", "")
    seen = "/".join(filter(None, (side.fragment.columns.get("side", "") for side in sides)))
    return " ".join(filter(None, (shelfmark, seen))) if shelfmark else " / ".join(name_of(side) for side in sides)


def _connected(ids: Sequence[str], pairs: Iterable[tuple[str, str]], leaves: Iterable[Sequence[str]]) -> list[set[str]]:
    """Return the connected components of the ids under pairs and leaves."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(ids)
    graph.add_edges_from(pairs)
    for leaf in leaves:
        graph.add_edges_from((leaf[0], other) for other in leaf[1:])
    return [set(part) for part in networkx.connected_components(graph)]
