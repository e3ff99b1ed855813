"""The table of methods to compare fragments: what each computes, and what it needs.

To add one: its formula in a file of this package, a line in METHODS, and a test against the formula.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import (
    KINDS,
    CodebookSettings,
    Vocabulary,
    compare_histograms,
    fit_codebook,
    weigh_codebook,
)
from membra.compare.distance import hungarian, transport
from membra.compare.kernels import chamfer_many, chamfer_matrix, pack
from membra.compare.local_scaling import CHAMFER, COSINE, fused_distances, measure_local
from membra.compare.pooling import compare_vectors, pool
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.errors import Invalid

SHORTLIST = 30  # M of the paper: candidates that the first of the two stages selects


@dataclass(frozen=True)
class Question:
    """Queries, and the gallery with which they are compared.

    `same` gives the index of each query in the gallery, or None. `either_way` applies to `two-stage` only: a pair is
    compared if one of the two is on the other's shortlist. `vocabularies` caches the gallery's codebooks (`raw`,
    `centroids`) between calls, so that each is fitted once. `references` are the indices of the gallery's reference
    fragments (`local_scaling.py`); default all. `among` (q, n) applies to `two-stage` only: which fragments may be
    candidates, so that no other takes a place on the shortlist; default all but the query.
    """

    queries: Sequence[Description]
    gallery: Sequence[Description]
    same: Sequence[int | None]
    either_way: bool = False
    vocabularies: dict[str, Vocabulary] = field(default_factory=dict)
    references: Sequence[int] | None = None
    among: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Method:
    """One method to compare fragments."""

    name: str
    matrix: Callable[[Question], NDArray[np.float64]]  # distances (q, n); infinite where not computed
    bag: str = ""  # the distance of bags that it is based on: chamfer, hungarian, transport
    mean: str = ""  # the distance of mean embeddings that it is: cosine, l2
    parts: tuple[int, ...] = ()  # locally scaled distances that are summed: it needs the collection's local scales
    codebook: str = ""  # the codebook that it uses: raw, centroids
    shortlist: bool = False  # whether a shortlist by prototypes contains its nearest

    @property
    def mapped(self) -> bool:
        """Whether it reads memory-mapped shards; the others need every description in memory."""
        return bool(self.bag or self.mean)


def distances(
    queries: Sequence[Description],
    gallery: Sequence[Description],
    method: str,
    *,
    same: Sequence[int | None],
    either_way: bool = False,
    vocabularies: dict[str, Vocabulary] | None = None,
    references: Sequence[int] | None = None,
    among: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return distances (q, n) by `method`; infinite where not computed. `Question` documents the parameters."""
    kept = {} if vocabularies is None else vocabularies
    return named(method).matrix(Question(queries, gallery, same, either_way, kept, references, among))


def named(name: str, default: str = "", also: Sequence[str] = ()) -> Method:
    """Return the method of this name, with `default` resolved; raises `Invalid` for an unknown one.

    The error lists all methods, and the names of `also`.
    """
    wanted = default if name == "default" else name
    for method in METHODS:
        if method.name == wanted:
            return method
    raise Invalid(
        "there is no method `{method}`; there are: default, {methods}",
        method=wanted,
        methods=[*(method.name for method in METHODS), *also],
    )


def _scaled(question: Question, parts: tuple[int, ...]) -> NDArray[np.float64]:
    return fused_distances(
        question.queries, measure_local(question.gallery, question.references), same=question.same, parts=parts
    )


def _chamfer(question: Question) -> NDArray[np.float64]:
    bags = [description.bag for description in question.gallery]
    everything = list(question.same) == list(range(len(bags)))
    found = chamfer_matrix(bags) if everything else chamfer_many([q.bag for q in question.queries], pack(bags))
    return found.astype(np.float64)


def _solved(question: Question, measure: Callable[[Bag, Bag], float]) -> NDArray[np.float64]:
    """Compute `measure` of every pair; each pair of gallery fragments once, since all measures are symmetric."""
    queries, gallery = ([description.bag for description in side] for side in (question.queries, question.gallery))
    if list(question.same) == list(range(len(gallery))):
        found = np.zeros((len(queries), len(gallery)))
        for row in range(len(queries)):
            for column in range(row + 1, len(gallery)):
                found[row, column] = found[column, row] = measure(gallery[row], gallery[column])
        return found
    return np.array([[measure(query, bag) for bag in gallery] for query in queries])


def _pooled(question: Question, how: str, measure: str) -> NDArray[np.float64]:
    queries, gallery = (
        np.array([pool(description.embeddings, how) for description in side])
        for side in (question.queries, question.gallery)
    )
    return compare_vectors(queries, gallery, measure)


def _by_vocabulary(question: Question, kind: str, measure: str) -> NDArray[np.float64]:
    if kind not in question.vocabularies:
        question.vocabularies[kind] = fit_vocabulary(question.gallery, kind)
    vocabulary = question.vocabularies[kind]
    queries = np.array([vocabulary.histogram(*_countable(description, kind)) for description in question.queries])
    return compare_histograms(queries, vocabulary.histograms, measure)


def _by_two_stages(question: Question) -> NDArray[np.float64]:
    near = _by_vocabulary(question, "centroids", "cosine")

    def solve(row: int, column: int) -> float:  # only listed bags of the gallery are read
        return transport(question.queries[row].bag, question.gallery[column].bag)

    return _on_shortlist(solve, near, question.same, question.either_way, SHORTLIST, question.among)


def fit_vocabulary(gallery: Sequence[Description], kind: str, settings: CodebookSettings | None = None) -> Vocabulary:
    """Fit the gallery's codebook to its `raw` embeddings or its `centroids`, and compute each fragment's histogram."""
    vectors, counts = zip(*(_countable(description, kind) for description in gallery), strict=True)
    return weigh_codebook(vectors, counts, fit_codebook(vectors, counts, settings or CodebookSettings()))


def two_stage(
    queries: Sequence[Bag],
    gallery: Sequence[Bag],
    near: NDArray[np.float64],
    *,
    same: Sequence[int | None],
    either_way: bool = False,
    shortlist: int = SHORTLIST,
    among: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Compute transport for the `shortlist` candidates nearest by `near` (q, n); infinity for all others.

    `among` (q, n): which fragments may be candidates; default all but the query.
    `either_way` requires that queries and gallery are the same fragments; the authors' table was computed with it.
    """
    return _on_shortlist(
        lambda row, column: transport(queries[row], gallery[column]), near, same, either_way, shortlist, among
    )


def _on_shortlist(
    solve: Callable[[int, int], float],
    near: NDArray[np.float64],
    same: Sequence[int | None],
    either_way: bool,
    shortlist: int,
    among: NDArray[np.bool_] | None,
) -> NDArray[np.float64]:
    listed = np.zeros(near.shape, dtype=bool)
    for row, (line, own) in enumerate(zip(near, same, strict=True)):
        order = [index for index in np.argsort(line, kind="stable").tolist() if index != own]
        if among is not None:
            order = [index for index in order if among[row, index]]
        listed[row, order[:shortlist]] = True
    if either_way:
        listed |= listed.T
    found = np.full(near.shape, np.inf)
    for row, column in np.argwhere(listed).tolist():
        found[row, column] = solve(row, column)
    return found


def _countable(description: Description, kind: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return vectors and counts of a histogram: embeddings once each (`raw`), or prototypes by glyphs (`centroids`)."""
    if kind == "raw":
        return description.embeddings, np.ones(len(description.embeddings))
    bag = description.bag
    return bag.prototypes, bag.weights * len(description.boxes)


METHODS = (
    Method("fused", partial(_scaled, parts=(CHAMFER, COSINE)), bag="chamfer", parts=(CHAMFER, COSINE), shortlist=True),
    Method("bob-local", partial(_scaled, parts=(CHAMFER,)), bag="chamfer", parts=(CHAMFER,), shortlist=True),
    Method("bob-chamfer", _chamfer, bag="chamfer", shortlist=True),
    Method("bob-hungarian", partial(_solved, measure=hungarian), bag="hungarian"),
    Method("bob-transport", partial(_solved, measure=transport), bag="transport"),
    Method("two-stage", _by_two_stages, codebook="centroids"),
    *(
        Method(f"bow-{kind}-{measure}", partial(_by_vocabulary, kind=kind, measure=measure), codebook=kind)
        for kind in KINDS
        for measure in ("l2", "cosine", "chi2", "hellinger")
    ),
    *(
        Method(f"pool-mean-{measure}", partial(_pooled, how="mean", measure=measure), mean=measure)
        for measure in ("cosine", "l2")
    ),
    *(Method(f"pool-max-{measure}", partial(_pooled, how="max", measure=measure)) for measure in ("cosine", "l2")),
)
MAPPED = tuple(method.name for method in METHODS if method.mapped)
