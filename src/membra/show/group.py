"""Fragments that belong together: the sides of a leaf, a group that verdicts confirm, or any that somebody names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from membra.errors import Invalid, NotFound
from membra.show.holding import Holding, name_of
from membra.store.collection import Entry
from membra.store.verdicts import PairVerdicts, Verdict, standing_in

MAX_MEMBERS = 60  # of a group that is shown, exported or asked with


@dataclass(frozen=True)
class Group:
    """Some fragments and what was decided about them.

    Attributes
    ----------
    ids : tuple of str
        Of its fragments, in the order of the shelf; the sides of one leaf stand together.
    leaves : tuple of tuples of str
        The same by leaf: more than one id where the catalogue calls them sides of one.
    verdicts : tuple of Verdict
        Those that hold between two of them.
    pairs : tuple of PairVerdicts
        What each person says of two of them, disputed pairs too.
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
    """The group of these fragments, after what people say of `pairs`.

    Of one fragment alone, all that verdicts and leaves connect with it. Sides of the members' leaves belong to it.
    `MembraError` where a fragment is unknown, or there is no group.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        raise Invalid("a group has fragments; give their ids")
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
        raise NotFound("nothing is known to belong to {id}; decide on a join first, or name several", id=members[0])
    if len(members) > MAX_MEMBERS:
        raise Invalid("a group can have {most} fragments, not {count}", most=MAX_MEMBERS, count=len(members))
    leaves = tuple(dict.fromkeys(holding.leaves.get(id, (id,)) for id in members))
    inside = set(members)
    verdicts = tuple(v for v in standing if v.a in inside and v.b in inside)
    own = tuple(pair for (a, b), pair in pairs.items() if a in inside and b in inside)
    return Group(tuple(id for leaf in leaves for id in leaf), leaves, verdicts, own)


def pairs_of(holding: Holding, group: Group) -> list[tuple[str, str]]:
    """Pairs that hold a group together: those that verdicts call joins, then the nearest that connect the rest."""
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
    """What a group is called: the shelfmarks of its leaves."""
    names = dict.fromkeys(leaf_name([holding.entry(id) for id in leaf]) for leaf in group.leaves)
    return " + ".join(names)


def leaf_name(sides: Sequence[Entry]) -> str:
    """What a leaf is called: its shelfmark, and which sides where it is one of several."""
    if len(sides) == 1:
        return name_of(sides[0])
    shelfmark = sides[0].fragment.columns.get("shelfmark", "")
    seen = "/".join(filter(None, (side.fragment.columns.get("side", "") for side in sides)))
    return " ".join(filter(None, (shelfmark, seen))) if shelfmark else " / ".join(name_of(side) for side in sides)


def _connected(ids: Sequence[str], pairs: Iterable[tuple[str, str]], leaves: Iterable[Sequence[str]]) -> list[set[str]]:
    """The ids in parts that pairs and leaves connect."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(ids)
    graph.add_edges_from(pairs)
    for leaf in leaves:
        graph.add_edges_from((leaf[0], other) for other in leaf[1:])
    return [set(part) for part in networkx.connected_components(graph)]
