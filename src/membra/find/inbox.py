"""The inbox: the undecided pairs of a collection, ordered by the expected value of a scholar's decision.

The value of a pair is the probability that it is a join, times its gain: how much a join would add to what is known. It
is computed from the neighbour lists and the verdicts, so that each verdict changes the order at once:

- joined fragments form a group, and of all pairs between two groups only the best is shown. The others raise its
  probability (so that the members' neighbours rise), and are hidden behind it;
- a pair that joins large groups has a higher gain than one that joins two single fragments; a pair within a group,
  whose join follows from earlier verdicts, has almost none;
- a *no* or *same hand* between two groups lowers the probability of all pairs between them: either that verdict is
  wrong or each of them is not a join. Groups that contain such a verdict are trusted less;
- a disputed pair is open again, is shown separately, and has probability 0.5.

`pairs_of` and `ordered` are pure functions of arrays; `inbox` applies them to a collection.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO

import numpy as np
from numpy.typing import NDArray

from membra.compare.local_scaling import CHAMFER
from membra.find.edges import column_values
from membra.find.known import joined_groups, known_labels
from membra.find.mates import Side, fragments_in, stored_scales
from membra.find.mates import pairs_of as known_pairs
from membra.find.neighbours import neighbours
from membra.find.probability import probabilities, refine
from membra.progress import Progress
from membra.sources.cells import escape_cell
from membra.store.collection import Collection, Entry
from membra.store.neighbour_lists import NeighbourLists
from membra.store.scales import Scales
from membra.store.verdicts import AGAINST, Verdict, Verdicts, standing_in

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Maps both ends of pairs (indices of the lists) and their scores to the probability that each is a join.
Chance = Callable[[Indices, Indices, Floats], Floats]

WHYS = ("first mates", "a group grows", "two groups meet", "implied")  # what a join of the pair would bring


@dataclass(frozen=True)
class InboxSettings:
    """Parameters of the pairs' values; measured by `benchmarks/inbox.py`."""

    wrong: float = 0.05  # factor on the probability between two groups for each *no* or *same hand* between them
    unsure: float = 0.5  # factor on the probability between two groups for each *unsure* between them
    support: float = 0.5  # weight of further pairs between two groups, relative to the best one
    implied: float = 0.01  # gain of a pair that follows from earlier verdicts; two single fragments have 1
    disputed: float = 0.5  # probability of a disputed pair
    promising: float = 0.2  # probability from which on a pair is counted as worth a look
    most: int = 300_000  # most probable pairs that are ordered; limits the time after each verdict


@dataclass(frozen=True)
class Pairs:
    """Pairs of near fragments, most probable first, (m,) each; a < b are indices of fragments."""

    a: Indices
    b: Indices
    distances: Floats
    probabilities: Floats
    fragments: int  # number of fragments in the lists

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True)
class Order:
    """Undecided pairs, most valuable first, (k,) each.

    pairs : indices into `Pairs`
    probabilities : updated by the verdicts
    values : probability times gain
    whys : indices into `WHYS`
    against : number of *no* and *same hand* verdicts between the two groups
    crosses : whether the two fragments differ in the column `across`
    disputed : whether people's verdicts contradict each other
    """

    pairs: Indices
    probabilities: Floats
    values: Floats
    whys: NDArray[np.int8]
    against: Indices
    crosses: NDArray[np.bool_]
    disputed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class InboxPair:
    """One pair to decide on.

    Attributes
    ----------
    a, b : str
        Ids of the fragments, a < b as in verdicts.
    distance : float
        By the collection's own method.
    probability : float
        Probability that it is a join, from the distance and all verdicts.
    value : float
        Expected value of a decision, by which the inbox is ordered.
    why : str
        The effect of a join: `first mates`, `a group grows`, `two groups meet`, or `implied` by earlier verdicts.
    against : int
        Number of *no* and *same hand* verdicts between the two groups.
    crosses : bool
        Whether the two differ in the column `across`.
    disputed : bool
        Whether one person's verdict is `join` and another's contradicts it.
    own_probability : float
        Probability that it is a join from this pair alone, before any verdict.
    """

    a: str
    b: str
    distance: float
    probability: float
    value: float
    why: str
    against: int = 0
    crosses: bool = False
    disputed: bool = False
    own_probability: float = 0.0


def inbox(
    collection: Collection,
    *,
    top: int = 20,
    exclude_same: str | None = None,
    across: str | None = None,
    progress: Progress | None = None,
) -> list[InboxPair]:
    """Return the undecided pairs whose decision is most valuable, in order.

    The neighbour lists are read if they are current, including those by a shortlist; otherwise they are updated first.
    Doubtful fragments are left out. Fragments with the same value in the column `join`, and sides of one leaf, count as
    joined. Disputed pairs are undecided.

    Parameters
    ----------
    collection : Collection
    top : int
        Number of pairs.
    exclude_same : str, optional
        A column: pairs with the same value in it are left out.
    across : str, optional
        A column: pairs with different values in it come first.
    progress : Progress, optional
        Called while the neighbour lists are updated.

    Returns
    -------
    list of InboxPair
    """
    lists = neighbours(collection, keep=False, listed=True, progress=progress).lists
    found = InboxState(lists, collection.entries(), stored_scales(collection))
    pairs = Verdicts.open(collection.path).pairs()
    disputed = [ends for ends, pair in pairs.items() if pair.disputed]
    order = found.order(standing_in(pairs), disputed, exclude_same=exclude_same, across=across)
    return found.named(order, range(min(top, len(order))))


class InboxState:
    """The pairs of one state of a collection, for ordering them again after each verdict."""

    def __init__(
        self,
        lists: NeighbourLists,
        entries: Sequence[Entry],
        scales: Scales,
        *,
        settings: InboxSettings | None = None,
    ) -> None:
        self.settings = settings or InboxSettings()
        by_number = {entry.number: entry for entry in entries if not entry.refused}
        # Lists may be of an earlier state: fragments removed since are left out.
        self.entries = [by_number.get(number) for number in lists.numbers.tolist()]
        sure = np.array([entry is not None and not entry.doubtful for entry in self.entries], dtype=bool)
        letters = np.array([entry.glyphs if entry else 0 for entry in self.entries], np.float64)
        self.pairs = pairs_of(lists, sure, _chances(lists, letters, scales), self.settings.most)
        self.ids = [entry.fragment.id if entry else "" for entry in self.entries]
        self.indices = {id: index for index, id in enumerate(self.ids) if id}
        self.labels = known_labels(self.entries)
        self._columns: dict[str, Indices] = {}

    def order(
        self,
        standing: Sequence[Verdict],
        disputed: Sequence[tuple[str, str]] = (),
        *,
        exclude_same: str | None = None,
        across: str | None = None,
    ) -> Order:
        """Order the undecided pairs, which include the `disputed` ones, given the verdicts in force."""
        known = self.indices
        said = [(known[v.a], known[v.b], v.says) for v in standing if v.a in known and v.b in known]
        return ordered(
            refined(self.pairs, said),
            self.labels,
            said,
            [(known[a], known[b]) for a, b in disputed if a in known and b in known],
            barred=self._values(exclude_same) if exclude_same else None,
            across=self._values(across) if across else None,
            settings=self.settings,
        )

    def named(self, order: Order, some: Sequence[int]) -> list[InboxPair]:
        """Return the pairs at `some` indices of an order, with the ids of the fragments."""
        found = []
        for index in some:
            pair = int(order.pairs[index])
            ends = sorted((self.ids[int(self.pairs.a[pair])], self.ids[int(self.pairs.b[pair])]))
            found.append(
                InboxPair(
                    a=ends[0],
                    b=ends[1],
                    distance=float(self.pairs.distances[pair]),
                    probability=float(order.probabilities[index]),
                    value=float(order.values[index]),
                    why=WHYS[order.whys[index]],
                    against=int(order.against[index]),
                    crosses=bool(order.crosses[index]),
                    disputed=bool(order.disputed[index]),
                    own_probability=float(self.pairs.probabilities[pair]),
                )
            )
        return found

    def _values(self, column: str) -> Indices:
        if column not in self._columns:
            there = [index for index, entry in enumerate(self.entries) if entry]
            values = np.full(len(self.entries), -1, dtype=np.int64)
            values[there] = column_values([entry for entry in self.entries if entry], column)
            self._columns[column] = values
        return self._columns[column]


def _chances(lists: NeighbourLists, letters: Floats, scales: Scales) -> Chance:
    """Return a function for the probability that pairs of the lists are of one manuscript (`find/probability.py`), with
    `letters` (n,) the number of glyphs of each fragment."""
    known = np.isin(lists.numbers, scales.numbers)  # lists may be of an earlier state
    near = np.full((len(lists), scales.near.shape[2]), np.inf, dtype=np.float32)
    near[known] = scales.near[CHAMFER, np.searchsorted(scales.numbers, lists.numbers[known])]
    references = np.isin(lists.numbers, scales.references)

    def chance(a: Indices, b: Indices, scores: Floats) -> Floats:
        one, other = Side(lists.scales[a], near[a], references[b]), Side(lists.scales[b], near[b], references[a])
        counts = np.column_stack([letters[a], letters[b]])
        return probabilities(known_pairs(scores, one, other, counts, fragments_in(scales)))

    return chance


def pairs_of(lists: NeighbourLists, sure: NDArray[np.bool_], chance: Chance, most: int) -> Pairs:
    """Return the pairs in the first `top` entries of neighbour lists, each once, of fragments in the mask `sure`."""
    n, top = len(lists), min(lists.top, lists.which.shape[1])
    others, scores = lists.indices(lists.which)[:, :top], lists.scores()[:, :top]
    own = np.broadcast_to(np.arange(n)[:, None], others.shape)
    kept = (lists.which[:, :top] > 0) & np.isfinite(scores) & sure[own] & sure[others]
    low, high = np.minimum(own[kept], others[kept]), np.maximum(own[kept], others[kept])
    key, first = np.unique(low * n + high, return_index=True)
    distances = scores[kept][first]
    probabilities = chance(key // max(n, 1), key % max(n, 1), distances)
    order = np.lexsort((key, distances, -probabilities))[:most]
    return Pairs(key[order] // max(n, 1), key[order] % max(n, 1), distances[order], probabilities[order], n)


def refined(pairs: Pairs, said: Sequence[tuple[int, int, str]]) -> Pairs:
    """Return the pairs with probabilities refined by the verdicts `said` on some of them (`probability.refine`).

    `pairs` is not changed, so that undoing the verdicts restores the original probabilities.
    """
    n = max(pairs.fragments, 1)
    joined = {min(a, b) * n + max(a, b): says == "join" for a, b, says in said if says != "unsure"}
    keys = pairs.a * n + pairs.b
    decided = np.flatnonzero(np.isin(keys, np.fromiter(joined, np.int64, len(joined))))
    learnt = refine(pairs.probabilities[decided].tolist(), [joined[key] for key in keys[decided].tolist()])
    return replace(pairs, probabilities=learnt.of_all(pairs.probabilities)) if len(decided) else pairs


def ordered(
    pairs: Pairs,
    labels: Indices,
    said: Sequence[tuple[int, int, str]],
    disputed: Sequence[tuple[int, int]] = (),
    *,
    barred: Indices | None = None,
    across: Indices | None = None,
    settings: InboxSettings | None = None,
) -> Order:
    """Order the undecided pairs by value, given the verdicts `said` on pairs of fragments, without `disputed` ones.

    `labels` (n,) are equal for fragments that are known to be of one manuscript; `barred` and `across` (n,) are values
    of columns, negative for none: pairs with equal `barred` are left out, pairs with different `across` come first.
    """
    settings, n = settings or InboxSettings(), max(pairs.fragments, 1)
    groups = joined_groups(labels, [(a, b) for a, b, says in said if says == "join"])
    sizes = np.bincount(groups, minlength=1)
    decided = np.array([min(a, b) * n + max(a, b) for a, b, _ in said], dtype=np.int64)
    disputed_keys = np.array([min(a, b) * n + max(a, b) for a, b in disputed], dtype=np.int64)
    keep = ~np.isin(pairs.a * n + pairs.b, decided)
    if barred is not None:
        keep &= (barred[pairs.a] != barred[pairs.b]) | (barred[pairs.a] < 0)
    left = np.flatnonzero(keep)
    one, two = groups[pairs.a[left]], groups[pairs.b[left]]
    group_pair = np.minimum(one, two) * n + np.maximum(one, two)
    within = one == two
    torn_pairs = np.isin(pairs.a[left] * n + pairs.b[left], disputed_keys)
    alone = within | torn_pairs
    group_pair[alone] = n * n + left[alone]  # each is shown separately

    crossing = np.zeros(len(left), dtype=bool)
    if across is not None:
        here, there = across[pairs.a[left]], across[pairs.b[left]]
        crossing = (here >= 0) & (there >= 0) & (here != there)
    # Pairs are sorted by probability: the first pair of two groups is shown, or the first that crosses, if any does.
    in_order = np.argsort(group_pair, kind="stable")
    group_pairs, firsts, which = np.unique(group_pair[in_order], return_index=True, return_inverse=True)
    shown = np.lexsort((~crossing, group_pair))[firsts]
    doubts = np.log1p(-np.minimum(pairs.probabilities[left][in_order] * _weights(which, firsts, settings), 1 - 1e-9))
    probabilities = 1 - np.exp(np.bincount(which, doubts, minlength=len(group_pairs)))

    against = _between(group_pairs, groups, said, AGAINST, n)
    unsure = _between(group_pairs, groups, said, ("unsure",), n)
    torn = np.zeros(len(sizes))
    for a, b, says in said:
        if says in AGAINST and groups[a] == groups[b]:
            torn[groups[a]] += 1
    probabilities *= settings.wrong**against * settings.unsure**unsure
    probabilities *= 0.5 ** (torn[one[shown]] + np.where(within[shown], 0, torn[two[shown]]))
    known_pairs = sizes[one[shown]] * sizes[two[shown]]
    probabilities[torn_pairs[shown]] = settings.disputed
    implied = within[shown] & ~torn_pairs[shown]
    values = probabilities * np.where(implied, settings.implied, np.log2(1 + known_pairs))
    whys = np.where(within[shown], 3, np.minimum((sizes[one[shown]] > 1).astype(int) + (sizes[two[shown]] > 1), 2))
    chosen = left[shown]
    order = np.lexsort((chosen, -values, ~crossing[shown]))
    return Order(
        chosen[order],
        probabilities[order],
        values[order],
        whys[order].astype(np.int8),
        against[order],
        crossing[shown][order],
        torn_pairs[shown][order],
    )


def inbox_csv(pairs: Sequence[InboxPair], images: Mapping[str, str], names: Mapping[str, tuple[str, str]]) -> str:
    """Format pairs as CSV, one line each, with cells escaped against formulas; `names` are shelfmark and library."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    header = ["rank", "a", "b", "probability", "distance", "why", "against", "disputed", "image_a", "image_b"]
    writer.writerow([*header, "shelfmark_a", "shelfmark_b", "library_a", "library_b"])
    for rank, pair in enumerate(pairs, start=1):
        cells = [escape_cell(cell) for cell in (pair.a, pair.b)]
        files = [escape_cell(images[id]) for id in (pair.a, pair.b)]
        known = [escape_cell(cell) for both in zip(names[pair.a], names[pair.b], strict=True) for cell in both]
        writer.writerow(
            [
                *(rank, *cells, f"{pair.probability:.4f}", f"{pair.distance:.4f}", pair.why, pair.against),
                *("yes" if pair.disputed else "", *files, *known),
            ]
        )
    return "\ufeff" + text.getvalue()  # byte order mark, by which Excel recognizes UTF-8


def _weights(which: Indices, firsts: Indices, settings: InboxSettings) -> Floats:
    """Return the weight (m,) of each pair for its two groups: 1 for the first one, `support` for the others."""
    weights = np.full(len(which), settings.support)
    weights[firsts] = 1
    return weights


def _between(
    group_pairs: Indices, groups: Indices, said: Sequence[tuple[int, int, str]], says: Sequence[str], n: int
) -> Indices:
    """Count the verdicts (k,) with one of the values `says` between the two groups of each group pair."""
    pairs = [(groups[a], groups[b]) for a, b, one in said if one in says]
    keys = np.array([min(a, b) * n + max(a, b) for a, b in pairs if a != b], dtype=np.int64)
    found = np.zeros(len(group_pairs), dtype=np.int64)
    if len(keys) and len(group_pairs):
        at = np.searchsorted(group_pairs, keys)
        hit = (at < len(group_pairs)) & (group_pairs[np.minimum(at, len(group_pairs) - 1)] == keys)
        np.add.at(found, at[hit], 1)
    return found
