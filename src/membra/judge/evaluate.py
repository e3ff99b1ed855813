"""Score a collection against known joins: every fragment with a mate is a query once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import Vocabulary
from membra.compare.local_scaling import CHAMFER, chamfer_scales, scaled_blocks
from membra.compare.methods import METHODS, Method, distances, named
from membra.compare.peers import PEERS, Peer
from membra.describe.recipe import Description
from membra.errors import Conflict, Invalid, NotEnough
from membra.judge.joins import read_joins
from membra.judge.metrics import Outcome, score
from membra.judge.peers import KeypointGallery
from membra.progress import Progress
from membra.sources.fragment import PHOTOGRAPH
from membra.store.collection import Collection, Entry
from membra.store.rows import LazySequence, Rows, RowSubset


@dataclass(frozen=True)
class Question:
    """The evaluation task for every method: the labelled fragments, and which may be candidates for which.

    ids : every labelled fragment, the described ones first, in the order of the distance matrix
    described : how many of them are described
    joins : the join of each
    apart : value of the excluded column of each; fragments with equal values are not candidates for each other; empty
        for no restriction
    """

    ids: list[str]
    described: int
    joins: list[str]
    apart: list[str]

    @cached_property
    def barred(self) -> NDArray[np.bool_]:
        """(n, n) bool, True if the fragment (column) may not be a candidate for the query (row)."""
        return np.array([self.barred_for(index) for index in range(len(self.ids))], dtype=bool).reshape(
            len(self.ids), len(self.ids)
        )

    def barred_for(self, index: int) -> NDArray[np.bool_]:
        """Return a mask (n,) of the fragments that may not be candidates for a query, itself included."""
        value = self._apart[index]
        found = self._apart == value if value >= 0 else np.zeros(len(self.ids), dtype=bool)
        found[index] = True
        return np.asarray(found)

    def among(self, indices: Sequence[int]) -> "Question":
        """Return the task restricted to the described fragments at these indices."""
        ids, joins, apart = ([of[at] for at in indices] for of in (self.ids, self.joins, self.apart))
        return Question(ids, len(ids), joins, apart)

    def queries(self) -> list[int]:
        """Return the indices of the fragments that have a mate among their candidates."""
        return [index for index in range(len(self.ids)) if len(self._mates(index))]

    def mates(self, index: int) -> NDArray[np.bool_]:
        """Return a mask (n,) of the query's mates: candidates of its own join."""
        found = np.zeros(len(self.ids), dtype=bool)
        found[self._mates(index)] = True
        return found

    def _mates(self, index: int) -> NDArray[np.int64]:
        same = self._members[self.joins[index]]
        value = self._apart[index]
        return np.asarray(same[(same != index) & ((self._apart[same] != value) | (value < 0))])

    @cached_property
    def _members(self) -> dict[str, NDArray[np.int64]]:
        """The indices of each join's fragments, cached as they are looked up for every query."""
        found: dict[str, list[int]] = {}
        for index, join in enumerate(self.joins):
            found.setdefault(join, []).append(index)
        return {join: np.array(indices) for join, indices in found.items()}

    @cached_property
    def _apart(self) -> NDArray[np.int64]:
        """Labels (n,), equal where `apart` is equal; -1 where it is empty."""
        numbers = {value: number for number, value in enumerate(dict.fromkeys(self.apart))}
        return np.array([numbers[value] if value else -1 for value in self.apart], dtype=np.int64)


def evaluate(
    collection: Collection,
    joins: str | Path,
    *,
    column: str = "join",
    exclude_same: str | None = None,
    methods: Sequence[str] = ("default",),
    protocol: str = "all",
    gallery: str = "labelled",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Score a collection against known joins: every fragment with a mate is a query once.

    `bob-local`, the default, holds only blocks of bags and distances in memory; other methods hold all of them.

    Parameters
    ----------
    collection : Collection
    joins : path
        A CSV file with the columns image,join.
    column : str
        The column of the file that names the join.
    exclude_same : str, optional
        A column of that file; candidates with the query's own value in it are left out.
    methods : sequence of str
        Names of the table of methods, or `all` of it; also of the peers (`sift-vlad` and others, docs/claims.md), which
        read the photographs again.
    protocol : {"all", "paper"}
        all: a fragment with a mate that could not be described counts as a miss in every metric, and an undescribed
        mate as one that was not found. paper: undescribed fragments are left out, as in the paper.
    gallery : {"labelled", "all"}
        all: fragments that the file does not name are candidates too, and never correct, to measure retrieval among
        many strangers. They are never queries.
    progress : Progress, optional
        Called with the number of queries ranked and the total over all methods.

    Returns
    -------
    dict
        Scores by method with 95 % intervals, as `membra evaluate --json` writes them.

    Raises
    ------
    MembraError
        If no fragment is described or has a mate to be found, or there is no such method or column.
    """
    entries = collection.entries()
    known = with_photographs(read_joins(joins, [entry.fragment.id for entry in entries], column=column), entries)
    described = [entry for entry in entries if not entry.refused]
    if not described:
        raise NotEnough("no fragment could be described")
    if gallery == "all":
        strangers = [entry.fragment.id for entry in described if entry.fragment.id not in known]
        known |= _strangers(strangers, column, exclude_same)
    question = ask(
        [entry.fragment.id for entry in described if entry.fragment.id in known],
        [] if protocol == "paper" else [e.fragment.id for e in entries if e.refused and e.fragment.id in known],
        known,
        exclude_same,
        column,
    )
    queries = question.queries()
    if not queries:
        raise NotEnough("no fragment has a mate: {file} names no join with two fragments that may match", file=joins)
    indices = [index for index, entry in enumerate(described) if entry.fragment.id in known]
    references = collection.references(described)
    results: dict[str, Any] = {}
    vocabularies: dict[str, Vocabulary] = {}
    names = [method.name for method in METHODS] if list(methods) == ["all"] else list(methods)
    chosen = [_chosen(name, collection) for name in names]  # all of them first, so that an unknown name fails early
    descriptions: list[Description] = []
    keypoints = KeypointGallery(collection, described)
    for done, (name, method) in enumerate(zip(names, chosen, strict=True)):
        step = _step(progress, done, len(names), len(queries))
        step(0)
        if isinstance(method, Peer):
            barred = barred_among(question, indices, len(described))
            matrix = keypoints.distances(method, barred, partial(_scaled_step, step, len(queries)))
            results[name] = score(outcomes(question, matrix[np.ix_(indices, indices)]))
            continue
        if method.parts == (CHAMFER,):
            results[name] = score(_streamed(collection, described, question, indices, references, step))
            continue
        descriptions = descriptions or _descriptions(collection, described)
        matrix = distances(
            descriptions,
            descriptions,
            method.name,
            same=range(len(descriptions)),
            either_way=protocol == "paper",
            vocabularies=vocabularies,
            references=references,
            among=candidates_among(question, indices, len(described)),
        )
        results[name] = score(outcomes(question, matrix[np.ix_(indices, indices)]))
    return {
        "fragments": len(entries),
        "described": len(described),
        "excluded": [{"id": e.fragment.id, "reason": e.refused} for e in entries if e.refused],
        "queries": len(queries),
        "protocol": protocol,
        "gallery": gallery,
        "methods": results,
    }


def _chosen(name: str, collection: Collection) -> Method | Peer:
    """Return the method or peer with this name; an unknown name raises an error that lists the known ones."""
    for peer in PEERS:
        if peer.name == name:
            return peer
    return named(name, collection.recipe.method, [peer.name for peer in PEERS])


def _streamed(
    collection: Collection,
    described: Sequence[Entry],
    question: Question,
    indices: Sequence[int],
    references: Sequence[int],
    step: Callable[[int], None],
) -> Iterator[Outcome]:
    """Yield the outcome of each query by `bob-local`: distances are computed, ranked and dropped in blocks."""
    with collection.reading() as state:
        rows = RowSubset(state.rows, _rows_of(collection, state.rows, described))
    bags = LazySequence(len(rows), rows.bag)
    scales = chamfer_scales(bags, references)
    queries = question.queries()
    described_queries = [query for query in queries if query < question.described]
    done = 0
    for _, block in scaled_blocks(bags, scales, [indices[query] for query in described_queries], indices):
        for row in block:
            yield outcome(question, described_queries[done], row)
            done += 1
        step(done)
    for query in queries[done:]:
        yield outcome(question, query, np.zeros(0))


def _descriptions(collection: Collection, described: Sequence[Entry]) -> list[Description]:
    """Read the descriptions of these fragments; raise if they are no longer all described fragments."""
    entries, found = collection.described()
    if [entry.number for entry in entries] != [entry.number for entry in described]:
        raise _changed(collection)
    return found


def _rows_of(collection: Collection, rows: Rows, described: Sequence[Entry]) -> NDArray[np.int64]:
    numbers = np.array([entry.number for entry in described], dtype=np.int32)
    if not np.array_equal(np.sort(numbers), np.sort(rows.numbers[rows.alive])):
        raise _changed(collection)
    return rows.rows_of(numbers)


def _changed(collection: Collection) -> Conflict:
    return Conflict("{collection} was changed during the run; run the command again", collection=collection.path)


def _scaled_step(step: Callable[[int], None], queries: int, done: int, of: int) -> None:
    """Report the photographs read as a share of the queries."""
    step(queries * done // of)


def _step(progress: Progress | None, method: int, methods: int, queries: int) -> Callable[[int], None]:
    """Return a function that reports how many queries of a method have been ranked."""
    return lambda done: progress(method * queries + done, methods * queries) if progress else None


def barred_among(question: Question, indices: Sequence[int], count: int) -> NDArray[np.bool_]:
    """Extend the task's `barred` to (count, count) fragments, of which those of the task are at `indices`."""
    barred = np.eye(count, dtype=bool)
    own = question.barred[: question.described, : question.described]
    barred[np.ix_(indices, indices)] |= own
    return barred


def candidates_among(question: Question, indices: Sequence[int], count: int) -> NDArray[np.bool_]:
    """Return a mask (count, count) of the candidates of each fragment; those of the task are at `indices`, and no other
    is a candidate."""
    may = np.zeros((count, count), dtype=bool)
    may[np.ix_(indices, indices)] = ~question.barred[: question.described, : question.described]
    return may


def _strangers(ids: Sequence[str], column: str, exclude_same: str | None) -> dict[str, dict[str, str]]:
    """Make rows for fragments that the joins file does not name: each a join of its own, without restriction."""
    free = {exclude_same: ""} if exclude_same else {}
    return {id: {**free, column: f"\0{id}"} for id in ids}


def with_photographs(known: dict[str, dict[str, str]], entries: Sequence[Entry]) -> dict[str, dict[str, str]]:
    """Add a column with the photograph to the rows, so that pieces of the query's own photograph can be left out."""
    own = {entry.fragment.id: entry.fragment.columns.get(PHOTOGRAPH, "") for entry in entries}
    return {id: {PHOTOGRAPH: own.get(id, ""), **row} for id, row in known.items()}


def ask(
    described: list[str],
    undescribed: list[str],
    known: dict[str, dict[str, str]],
    exclude_same: str | None,
    column: str = "join",
) -> Question:
    """Build the evaluation task for these fragments from `known`: id -> row of the joins file, with its join in
    `column`."""
    ids = [*described, *undescribed]
    apart = [""] * len(ids)
    if exclude_same is not None:
        if ids and any(exclude_same not in known[id] for id in ids):
            raise Invalid(
                "the joins file has no column `{column}`; it has: {columns}",
                column=exclude_same,
                columns=list(known[ids[0]]),
            )
        apart = [known[id][exclude_same] for id in ids]
    return Question(ids, len(described), [known[id][column] for id in ids], apart)


def outcomes(question: Question, matrix: NDArray[np.float64]) -> list[Outcome]:
    """Return the outcome of each query, given the distances (m, m) among the described fragments."""
    described = question.described
    return [
        outcome(question, query, matrix[query] if query < described else np.zeros(0)) for query in question.queries()
    ]


def outcome(question: Question, query: int, row: NDArray[np.float64]) -> Outcome:
    """Return the outcome of one query, given its distances (m,) to the described fragments.

    Candidates at infinite distance are not in the ranking; the ranking of an undescribed query is empty.
    """
    mates = question.mates(query)
    order = np.zeros(0, dtype=np.int64)
    if query < question.described:
        may = ~question.barred_for(query)[: question.described] & np.isfinite(row)
        order = np.argsort(row, kind="stable")
        order = order[may[order]]
    first = question.joins[order[0]] if len(order) else ""
    return Outcome(mates[order], int(mates.sum()), question.joins[query], first)
