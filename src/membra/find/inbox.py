"""The inbox: which undecided pairs of a collection are worth a scholar's next look, in order.

The value of a pair is what deciding it may be expected to bring: the probability that it is a join, times what is known
then and was not before. Everything follows from the neighbour lists and from what was decided so far, so that one
more verdict changes the order at once:

- joined fragments are a group, and a group asks one question of another: its best pair. Other pairs between the two
  make the question more promising (the members' neighbours rise), and wait behind it;
- a pair that joins large groups tells more than one that joins two single fragments; one within a group, which
  follows from what was decided, tells next to nothing;
- a *no* or *same hand* keeps two groups apart: either it is wrong or every further pair is. A group that contradicts
  itself is trusted less;
- a pair of which people contradict each other is open again, a question of its own, and as likely as not.

Pure functions of arrays (`pairs_of`, `ordered`), and `inbox`, which asks a collection.
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
# from both ends of pairs, indices of the lists, and their scores to the probability that each is a join
Chance = Callable[[Indices, Indices, Floats], Floats]

WHYS = ("first mates", "a group grows", "two groups meet", "implied")  # what a join of the pair would bring


@dataclass(frozen=True)
class InboxSettings:
    """What pairs are worth; measured by `benchmarks/inbox.py`."""

    wrong: float = 0.05  # of verdicts: how likely the pairs are that a single *no* speaks against
    unsure: float = 0.5  # what is left of the probability between two groups for each pair that was left open
    support: float = 0.5  # how much a further pair between two groups counts beside the best one
    implied: float = 0.01  # gain of a pair that follows from what was decided; two single fragments are 1
    disputed: float = 0.5  # probability of a pair that one person calls a join and another does not
    promising: float = 0.2  # probability from which on a pair counts among those to look at
    most: int = 300_000  # pairs that are ordered, the most probable ones: bounds the time after each verdict


@dataclass(frozen=True)
class Pairs:
    """Pairs of fragments near each other, the most probable first: (m,) each; a < b are indices of fragments."""

    a: Indices
    b: Indices
    distances: Floats
    probabilities: Floats
    fragments: int  # how many there are

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True)
class Order:
    """Pairs that are open, the most valuable first: (k,) each.

    pairs : indices into `Pairs`
    probabilities : with what was decided taken into account
    values : probability times gain
    whys : indices into `WHYS`
    against : how many verdicts between the two groups say no
    crosses : whether the two differ in the column that is to be crossed
    disputed : whether people contradict each other
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
        Ids of the fragments, a < b as verdicts have them.
    distance : float
        By the collection's own method.
    probability : float
        That it is a join, by the distance and by what was decided so far.
    value : float
        What deciding it may be expected to bring; the inbox is in this order.
    why : str
        What a join would bring: `first mates`, `a group grows`, `two groups meet`, or `implied` by what was decided.
    against : int
        Verdicts between the two groups that say no.
    crosses : bool
        Whether the two differ in the column that was to be crossed.
    disputed : bool
        Whether one person calls it a join, and another does not.
    own_probability : float
        The same by what is seen of this pair alone, whatever was decided of others.
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
    """The undecided pairs that are most worth a look, in order.

    The neighbours of all fragments are read where they are current, those by a shortlist too, else brought up to date
    first. Doubtful fragments take no part. Fragments with the same value in the column `join`, and sides of one leaf,
    count as joined. Pairs of which people contradict each other are undecided.

    Parameters
    ----------
    collection : Collection
    top : int
        How many pairs.
    exclude_same : str, optional
        A column: no pairs with the same value in it.
    across : str, optional
        A column: pairs whose values in it differ come first.
    progress : Progress, optional
        Called while neighbours are compared.

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
    """The pairs of one state of a collection, to be ordered again after each verdict."""

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
        # Lists may be of an earlier state: what has left since takes no part.
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
        """The open pairs after these verdicts, those among them that are `disputed`."""
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
        """Those at `some` of the indices of an order, with their ids."""
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
    """How likely pairs of the lists are of one manuscript: `find/probability.py`, for fragments with so many `letters`
    (n,)."""
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
    """The pairs that the first entries of neighbour lists name, each once; only of fragments that are `sure` (n,)."""
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
    """The pairs with the probabilities that what was `said` of some of them makes of all (`probability.refine`).

    The probabilities that they have are kept in `pairs`, and are those again where the verdicts are taken back.
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
    """The open pairs in the order of their value, after what was `said` of pairs of fragments; of those that are
    `disputed` nothing is.

    `labels` (n,) are equal for fragments that are known to be of one manuscript; `barred` and `across` (n,) are values
    of columns, negative where there is none: equal ones may be no pair, different ones come first.
    """
    settings, n = settings or InboxSettings(), max(pairs.fragments, 1)
    groups = joined_groups(labels, [(a, b) for a, b, says in said if says == "join"])
    sizes = np.bincount(groups, minlength=1)
    decided = np.array([min(a, b) * n + max(a, b) for a, b, _ in said], dtype=np.int64)
    divided = np.array([min(a, b) * n + max(a, b) for a, b in disputed], dtype=np.int64)
    keep = ~np.isin(pairs.a * n + pairs.b, decided)
    if barred is not None:
        keep &= (barred[pairs.a] != barred[pairs.b]) | (barred[pairs.a] < 0)
    left = np.flatnonzero(keep)
    one, two = groups[pairs.a[left]], groups[pairs.b[left]]
    question = np.minimum(one, two) * n + np.maximum(one, two)
    within = one == two
    torn_pairs = np.isin(pairs.a[left] * n + pairs.b[left], divided)
    alone = within | torn_pairs
    question[alone] = n * n + left[alone]  # each by itself

    crossing = np.zeros(len(left), dtype=bool)
    if across is not None:
        here, there = across[pairs.a[left]], across[pairs.b[left]]
        crossing = (here >= 0) & (there >= 0) & (here != there)
    # Pairs come the most probable first: the first of a question is the one that is asked, of those that cross if any.
    by_question = np.argsort(question, kind="stable")
    questions, firsts, which = np.unique(question[by_question], return_index=True, return_inverse=True)
    asked = np.lexsort((~crossing, question))[firsts]
    doubts = np.log1p(-np.minimum(pairs.probabilities[left][by_question] * _weights(which, firsts, settings), 1 - 1e-9))
    probabilities = 1 - np.exp(np.bincount(which, doubts, minlength=len(questions)))

    against = _between(questions, groups, said, AGAINST, n)
    unsure = _between(questions, groups, said, ("unsure",), n)
    torn = np.zeros(len(sizes))
    for a, b, says in said:
        if says in AGAINST and groups[a] == groups[b]:
            torn[groups[a]] += 1
    probabilities *= settings.wrong**against * settings.unsure**unsure
    probabilities *= 0.5 ** (torn[one[asked]] + np.where(within[asked], 0, torn[two[asked]]))
    known_pairs = sizes[one[asked]] * sizes[two[asked]]
    probabilities[torn_pairs[asked]] = settings.disputed
    implied = within[asked] & ~torn_pairs[asked]
    values = probabilities * np.where(implied, settings.implied, np.log2(1 + known_pairs))
    whys = np.where(within[asked], 3, np.minimum((sizes[one[asked]] > 1).astype(int) + (sizes[two[asked]] > 1), 2))
    chosen = left[asked]
    order = np.lexsort((chosen, -values, ~crossing[asked]))
    return Order(
        chosen[order],
        probabilities[order],
        values[order],
        whys[order].astype(np.int8),
        against[order],
        crossing[asked][order],
        torn_pairs[asked][order],
    )


def inbox_csv(pairs: Sequence[InboxPair], images: Mapping[str, str], names: Mapping[str, tuple[str, str]]) -> str:
    """One line a pair, for spreadsheets, which run nothing in it; `names` are shelfmark and library."""
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
    return "\ufeff" + text.getvalue()  # the mark by which Excel knows UTF-8


def _weights(which: Indices, firsts: Indices, settings: InboxSettings) -> Floats:
    """(m,), how much each pair counts for its question: the first of each wholly."""
    weights = np.full(len(which), settings.support)
    weights[firsts] = 1
    return weights


def _between(
    questions: Indices, groups: Indices, said: Sequence[tuple[int, int, str]], says: Sequence[str], n: int
) -> Indices:
    """(k,), how many verdicts that say one of `says` lie between the two groups of each question."""
    pairs = [(groups[a], groups[b]) for a, b, one in said if one in says]
    keys = np.array([min(a, b) * n + max(a, b) for a, b in pairs if a != b], dtype=np.int64)
    found = np.zeros(len(questions), dtype=np.int64)
    if len(keys) and len(questions):
        at = np.searchsorted(questions, keys)
        hit = (at < len(questions)) & (questions[np.minimum(at, len(questions) - 1)] == keys)
        np.add.at(found, at[hit], 1)
    return found
