"""Propose joins: the biconnected components of a graph of close fragments.

Two fragments have an edge if each is among the other's few nearest and they are closer than is typical around them. A
part of the graph that does not fall apart without any one fragment (a biconnected component) is proposed as a join: one
wrong edge cannot merge two manuscripts. Verdicts are respected: a *no* keeps two fragments out of one proposal, and
proposals without new joins come last.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from io import StringIO

import numpy as np
from numpy.typing import NDArray

from membra.compare.methods import distances, named
from membra.find.comparing import Comparer, Comparing
from membra.find.edges import Pair as Pair
from membra.find.edges import ProposalSettings as ProposalSettings
from membra.find.edges import column_values, graph_pairs
from membra.find.known import joined_groups, known_labels
from membra.find.snapshot import Snapshot, has_neighbours
from membra.progress import Bars
from membra.sources.cells import escape_cell
from membra.store.collection import Collection, Entry
from membra.store.verdicts import Verdicts

_WEAKEST = 10  # one in this many edges, the weakest, is removed at a time from a component that is split


@dataclass(frozen=True)
class Proposal:
    """Fragments proposed as parts of one manuscript, as opposed to known joins and verdicts.

    Attributes
    ----------
    members : tuple of int
        Indices into the ids that `propose` returns, ascending; a fragment can be in several proposals.
    pairs : tuple of Pair
        The edges among them, closest first.
    nearness : float
        The mean nearness of the pairs, by which proposals are ordered.
    gain : int
        Number of joins of known groups that it would make; 0 if all of its fragments are known to belong together.
    why : str
        Its effect: `a new group`, `a group grows`, `groups meet`, or `nothing new`.
    """

    members: tuple[int, ...]
    pairs: tuple[Pair, ...]
    nearness: float
    gain: int = 0
    why: str = ""


def propose(
    collection: Collection,
    *,
    method: str = "default",
    settings: ProposalSettings | None = None,
    exclude_same: str | None = None,
    by: Callable[[Snapshot, int, int], Comparing] = Comparer,
    bar: Bars | None = None,
) -> tuple[list[str], list[Proposal]]:
    """Propose joins: groups of fragments that are close to each other and to nothing else.

    Doubtful fragments, which may have no writing, are left out. For Chamfer, with or without local scales, edges come
    from the neighbour graph, which is updated first; for other methods from all distances.

    Parameters
    ----------
    collection : Collection
    method : str
        One of the table of methods, or `default`: the recipe's own.
    settings : ProposalSettings, optional
        Criteria for edges and proposals.
    exclude_same : str, optional
        A column: fragments with the same value in it have no edge.
    by : callable
        Computes the neighbour graph, as for `neighbours`.
    bar : Bars, optional
        Returns the progress of each stage.

    Returns
    -------
    ids : list of str
        Of the fragments that were considered; `Proposal.members` are indices into it.
    proposals : list of Proposal
        Closest first; those without new joins last.
    """
    settings = settings or ProposalSettings()
    distance = named(method, collection.recipe.method)
    if has_neighbours(distance):
        entries, pairs = graph_pairs(collection, distance.name, settings, exclude_same, by, bar)
        return _weighed(collection, entries, pairs, settings)
    sure = [(entry, one) for entry, one in zip(*collection.described(), strict=True) if not entry.doubtful]
    entries, descriptions = [entry for entry, _ in sure], [one for _, one in sure]
    values = column_values(entries, exclude_same)
    if len(entries) < 2:
        return [entry.fragment.id for entry in entries], []
    references = collection.references(entries)
    same = range(len(entries))
    matrix = distances(descriptions, descriptions, distance.name, same=same, either_way=True, references=references)
    barred = (values[:, None] == values) & (values >= 0)[:, None]
    return _weighed(collection, entries, close_pairs(matrix, settings, barred), settings)


def propose_joins(matrix: NDArray[np.float64], settings: ProposalSettings) -> list[Proposal]:
    """Return the proposed joins among fragments at these distances (n, n); no proposals for fewer than two.

    >>> apart = np.array([[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0]], dtype=float)
    >>> [proposal.members for proposal in propose_joins(apart, ProposalSettings(neighbours=1))]
    [(0, 1), (2, 3)]
    """
    return join_pairs(close_pairs(matrix, settings), settings)


def join_pairs(
    pairs: Sequence[Pair], settings: ProposalSettings, apart: Iterable[tuple[int, int]] = ()
) -> list[Proposal]:
    """Return the biconnected components of the graph with these edges; an edge is in at most one of them.

    A component that contains a pair in `apart`, or too many fragments, loses its weakest edges until it does not.
    """
    import networkx

    enemies: dict[int, set[int]] = {}
    for a, b in apart:
        enemies.setdefault(a, set()).add(b)
        enemies.setdefault(b, set()).add(a)
    edges = {(pair.a, pair.b): pair for pair in pairs if pair.b not in enemies.get(pair.a, ())}
    left, found = [list(edges.values())], []
    while left:
        for part in networkx.biconnected_component_edges(networkx.Graph([(pair.a, pair.b) for pair in left.pop()])):
            inside = [edges[min(ends), max(ends)] for ends in part]
            inside.sort(key=lambda pair: (pair.nearness, pair.a, pair.b))
            members = {end for pair in inside for end in (pair.a, pair.b)}
            if len(members) > settings.largest or any(enemies.get(one, set()) & members for one in members):
                left.append(inside[: -max(1, len(inside) // _WEAKEST)])
            elif len(members) >= settings.least:
                near = float(np.mean([pair.nearness for pair in inside]))
                found.append(Proposal(tuple(sorted(members)), tuple(inside), near))
    return sorted(found, key=lambda proposal: (proposal.nearness, proposal.members))


def _weighed(
    collection: Collection, entries: Sequence[Entry], pairs: Sequence[Pair], settings: ProposalSettings
) -> tuple[list[str], list[Proposal]]:
    """Return the ids of the entries, and the proposals among them, each with its gain over known groups."""
    ids = [entry.fragment.id for entry in entries]
    indices = {id: index for index, id in enumerate(ids)}
    standing = Verdicts.open(collection.path).standing()
    verdicts = [(indices[v.a], indices[v.b], v.says) for v in standing if v.a in indices and v.b in indices]
    joins = [(a, b) for a, b, says in verdicts if says == "join"]
    groups = joined_groups(known_labels(entries), joins)
    sizes = np.bincount(groups, minlength=1)
    found = []
    for proposal in join_pairs(pairs, settings, [(a, b) for a, b, says in verdicts if says in ("no", "same hand")]):
        own = np.unique(groups[list(proposal.members)])
        larger = int((sizes[own] > 1).sum())
        why = "nothing new" if len(own) == 1 else ("a new group", "a group grows", "groups meet")[min(larger, 2)]
        found.append(replace(proposal, gain=len(own) - 1, why=why))
    return ids, sorted(found, key=lambda proposal: (proposal.gain == 0, proposal.nearness, proposal.members))


def close_pairs(
    matrix: NDArray[np.float64], settings: ProposalSettings, barred: NDArray[np.bool_] | None = None
) -> list[Pair]:
    """Return the edges of the graph: mutually among the nearest, of small nearness, and not `barred` (n, n)."""
    size = len(matrix)
    if size < 2:
        return []
    near = nearness(matrix, settings.around)
    out = np.eye(size, dtype=bool) if barred is None else barred | np.eye(size, dtype=bool)
    apart = np.where(out, np.inf, near)
    listed = np.zeros((size, size), dtype=bool)
    nearest = np.argsort(apart, axis=1, kind="stable")[:, : min(settings.neighbours, size - 1)]
    np.put_along_axis(listed, nearest, True, axis=1)
    chosen = np.argwhere(np.triu(listed & listed.T & (apart <= settings.nearness), k=1))
    return [Pair(int(a), int(b), float(matrix[a, b]), float(near[a, b])) for a, b in chosen]


def nearness(matrix: NDArray[np.float64], around: int) -> NDArray[np.float64]:
    """Compute D[i, j] / min(r_i, r_j), (n, n), with r_i the median of i's distances beyond its nearest `around`.

    Some fragments are near to everything; the smaller r requires that the two are unusually near for both of them. With
    at most `around` others, r is the median of all of them.
    """
    ordered = np.sort(np.where(np.eye(len(matrix), dtype=bool), np.inf, matrix), axis=1)[:, :-1]
    far = ordered[:, around:] if ordered.shape[1] > around else ordered
    usual = np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.inf for row in far])
    scale = np.minimum(usual[:, None], usual[None, :])
    return np.asarray(
        np.divide(matrix, scale, out=np.full_like(matrix, np.inf), where=(scale > 0) & np.isfinite(scale))
    )


def proposals_csv(
    proposals: Sequence[Proposal], ids: Sequence[str], images: Sequence[str], names: Sequence[tuple[str, str]]
) -> str:
    """Format proposals as CSV, one line for each fragment of each proposal; `names` are shelfmark and library.

    Spreadsheets show Hebrew correctly and run no formulas in it.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    header = ["proposal", "fragments", "nearness", "fragment", "image", "nearest", "distance", "shelfmark", "library"]
    writer.writerow(header)
    for number, proposal in enumerate(proposals, start=1):
        for member in proposal.members:
            own = min((pair for pair in proposal.pairs if member in (pair.a, pair.b)), key=lambda pair: pair.nearness)
            other = own.b if own.a == member else own.a
            safe = [escape_cell(cell) for cell in (ids[member], images[member], ids[other])]
            known = [escape_cell(cell) for cell in names[member]]
            row = [number, len(proposal.members), f"{proposal.nearness:.4f}", *safe, f"{own.distance:.4f}", *known]
            writer.writerow(row)
    return "\ufeff" + text.getvalue()  # byte order mark, by which Excel recognizes UTF-8
