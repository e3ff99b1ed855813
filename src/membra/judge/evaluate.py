"""Score a collection against known joins: every fragment with a mate asks for it once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import Words
from membra.compare.methods import METHODS, distances, named
from membra.errors import Invalid, NotEnough
from membra.judge.joins import read_joins
from membra.judge.metrics import Outcome, score
from membra.progress import Progress
from membra.sources.fragment import PHOTOGRAPH
from membra.store.collection import Collection, Entry


@dataclass(frozen=True)
class Question:
    """What is asked of every method: the labelled fragments, and which of them may answer which.

    ids : every labelled fragment, the described ones first, in the order of the distance matrix
    described : how many of them are described
    joins : the join of each
    barred : (n, n) bool, True where the candidate (column) may not answer the query (row)
    """

    ids: list[str]
    described: int
    joins: list[str]
    barred: NDArray[np.bool_]

    def queries(self) -> list[int]:
        """Places of the fragments that have a mate which may answer."""
        return [place for place in range(len(self.ids)) if self.mates(place).any()]

    def mates(self, place: int) -> NDArray[np.bool_]:
        """(n,) bool: the fragments of the query's own join that may answer it."""
        return np.asarray((np.array(self.joins) == self.joins[place]) & ~self.barred[place])


def evaluate(
    collection: Collection,
    joins: str | Path,
    *,
    exclude_same: str | None = None,
    methods: Sequence[str] = ("default",),
    protocol: str = "all",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Score a collection against known joins: every fragment with a mate asks for it once.

    Parameters
    ----------
    collection : Collection
    joins : path
        A CSV file with the columns image,join.
    exclude_same : str, optional
        A column of that file; candidates with the query's own value in it are left out.
    methods : sequence of str
        Names of the table of methods, or `all`.
    protocol : {"all", "paper"}
        all: a fragment with a mate that could not be described counts as a miss in every metric, and an undescribed
        mate as one that was not found. paper: undescribed fragments are left out, as in the paper.
    progress : Progress, optional
        Called with how many methods are done, of how many.

    Returns
    -------
    dict
        Scores by method with 95 % intervals, as `membra evaluate --json` writes them.

    Raises
    ------
    MembraError
        Where no fragment has a mate to be found, or there is no such method or column.
    """
    entries = collection.entries()
    known = _with_photographs(read_joins(joins, [entry.fragment.id for entry in entries]), entries)
    described, descriptions = collection.described()
    question = ask(
        [entry.fragment.id for entry in described if entry.fragment.id in known],
        [] if protocol == "paper" else [e.fragment.id for e in entries if e.refused and e.fragment.id in known],
        known,
        exclude_same,
    )
    queries = question.queries()
    if not queries:
        raise NotEnough(
            "no fragment has a mate to be found: {file} names no join with two fragments that may match", file=joins
        )
    places = [place for place, entry in enumerate(described) if entry.fragment.id in known]
    references = collection.references(described)
    results: dict[str, Any] = {}
    vocabularies: dict[str, Words] = {}
    names = [method.name for method in METHODS] if list(methods) == ["all"] else list(methods)
    chosen = [named(name, collection.recipe.method).name for name in names]  # all, before any work is done
    for done, (name, method) in enumerate(zip(names, chosen, strict=True)):
        if progress:
            progress(done, len(names))
        matrix = distances(
            descriptions,
            descriptions,
            method,
            same=range(len(descriptions)),
            either_way=protocol == "paper",
            vocabularies=vocabularies,
            references=references,
        )
        results[name] = score(outcomes(question, matrix[np.ix_(places, places)]))
    return {
        "fragments": len(entries),
        "described": len(described),
        "excluded": [{"id": e.fragment.id, "reason": e.refused} for e in entries if e.refused],
        "queries": len(queries),
        "protocol": protocol,
        "methods": results,
    }


def _with_photographs(known: dict[str, dict[str, str]], entries: Sequence[Entry]) -> dict[str, dict[str, str]]:
    """The rows of the joins file, which can then be told to leave out pieces of the query's own photograph."""
    own = {entry.fragment.id: entry.fragment.columns.get(PHOTOGRAPH, "") for entry in entries}
    return {id: {PHOTOGRAPH: own.get(id, ""), **row} for id, row in known.items()}


def ask(
    described: list[str], undescribed: list[str], known: dict[str, dict[str, str]], exclude_same: str | None
) -> Question:
    """The question that `known` (id -> row of the joins file) poses to these fragments."""
    ids = [*described, *undescribed]
    barred = np.eye(len(ids), dtype=bool)
    if exclude_same is not None:
        if ids and any(exclude_same not in known[id] for id in ids):
            raise Invalid(
                "the joins file has no column `{column}`; it has: {columns}",
                column=exclude_same,
                columns=list(known[ids[0]]),
            )
        values = np.array([known[id][exclude_same] for id in ids])
        barred |= (values[:, None] == values[None, :]) & (values != "")[:, None]
    return Question(ids, len(described), [known[id]["join"] for id in ids], barred)


def outcomes(question: Question, matrix: NDArray[np.float64]) -> list[Outcome]:
    """What each query brings when the described fragments stand at these distances (m, m) from each other.

    Candidates at infinite distance are not in the ranking; undescribed queries rank nothing.
    """
    found = []
    joins = np.array(question.joins)
    for query in question.queries():
        mates = question.mates(query)
        order = np.zeros(0, dtype=np.int64)
        if query < question.described:
            may = ~question.barred[query, : question.described] & np.isfinite(matrix[query])
            order = np.argsort(matrix[query], kind="stable")
            order = order[may[order]]
        first = str(joins[order[0]]) if len(order) else ""
        found.append(Outcome(mates[order], int(mates.sum()), question.joins[query], first))
    return found
