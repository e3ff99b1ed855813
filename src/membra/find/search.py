"""Search: rank a collection's fragments for one query, by any of the methods."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import chamfer, hungarian, transport
from membra.compare.pooling import compare_vectors, pool
from membra.compare.words import Words, WordSettings, compare_histograms, fit_codebook, fit_words
from membra.describe.bag import Bag
from membra.describe.recipe import Description, describe
from membra.errors import MembraError
from membra.find.collection import Collection, Entry
from membra.find.fused import fused_distances, measure_local
from membra.see.fragment import Fragment

METHODS = (
    "fused",
    "bob-local",
    "bob-chamfer",
    "bob-hungarian",
    "bob-transport",
    "two-stage",
    *(f"bow-raw-{measure}" for measure in ("l2", "cosine", "chi2", "hellinger")),
    *(f"bow-centroids-{measure}" for measure in ("l2", "cosine", "chi2", "hellinger")),
    *(f"pool-{how}-{measure}" for how in ("mean", "max") for measure in ("cosine", "l2")),
)

SHORTLIST = 30  # M of the paper: candidates that the first of the two stages passes on


@dataclass(frozen=True)
class Hit:
    """One candidate."""

    rank: int
    id: str
    image: str
    distance: float


@dataclass(frozen=True)
class Ranking:
    """The candidates for one query, nearest first."""

    query: str
    method: str
    hits: list[Hit]


def search(
    collection: Collection,
    query: str | Path,
    *,
    top: int = 20,
    method: str = "default",
    exclude_same: str | None = None,
) -> Ranking:
    """Rank the collection for `query`: the id of one of its fragments, or the path of an image that is not in it.

    `exclude_same` names a column; candidates with the query's own value in it are left out. The query itself
    is never its own candidate.
    """
    method = check_method(method, collection.recipe.method)
    entries, descriptions = collection.described()
    described, own = _resolve(collection, query, entries, descriptions)
    row = distances([described], descriptions, method, same=[own])[0]
    keep = np.isfinite(row)
    if own is not None:
        keep[own] = False
        if exclude_same is not None:
            value = entries[own].fragment.columns.get(exclude_same)
            if value is None:
                raise MembraError(f"{query} has no column `{exclude_same}`; index it from a CSV that has one")
            # An empty cell is no value: it excludes nobody, as in `evaluate`.
            keep &= np.array([not value or entry.fragment.columns.get(exclude_same) != value for entry in entries])
    order = [place for place in np.argsort(row, kind="stable").tolist() if keep[place]][:top]
    hits = [
        Hit(rank, entries[place].fragment.id, str(entries[place].fragment.path), float(row[place]))
        for rank, place in enumerate(order, start=1)
    ]
    return Ranking(str(query), method, hits)


def check_method(method: str, default: str) -> str:
    """The method's name, with `default` resolved; an unknown one is an error that lists what there is."""
    method = default if method == "default" else method
    if method not in METHODS:
        raise MembraError(f"there is no method `{method}`; there are: default, {', '.join(METHODS)}")
    return method


def distances(
    queries: Sequence[Description],
    gallery: Sequence[Description],
    method: str,
    *,
    same: Sequence[int | None],
    either_way: bool = False,
    vocabularies: dict[str, Words] | None = None,
) -> NDArray[np.float64]:
    """Distances (q, n) by `method`; infinite where the method does not look.

    `same` gives the place of each query in the gallery, or None.
    `either_way` is for `two-stage` alone: a pair counts if one of the two is on the other's shortlist.
    `vocabularies` keeps the gallery's codebooks (`raw`, `centroids`) from one call to the next, so that each is
    fitted once.
    """
    vocabularies = {} if vocabularies is None else vocabularies
    if method == "two-stage":
        near = distances(queries, gallery, "bow-centroids-cosine", same=same, vocabularies=vocabularies)
        return two_stage([q.bag for q in queries], [g.bag for g in gallery], near, same=same, either_way=either_way)
    if method in ("fused", "bob-local"):
        return fused_distances(queries, measure_local(gallery), same=same, parts=(0, 1) if method == "fused" else (0,))
    family, *rest = method.split("-")
    if family == "bob":
        measure = {"chamfer": chamfer, "hungarian": hungarian, "transport": transport}[rest[0]]
        return _pairwise([q.bag for q in queries], [g.bag for g in gallery], measure, same)
    if family == "pool":
        asked, held = (np.array([pool(d.embeddings, rest[0]) for d in side]) for side in (queries, gallery))
        return compare_vectors(asked, held, rest[1])
    if rest[0] not in vocabularies:
        vocabularies[rest[0]] = fit_vocabulary(gallery, rest[0])
    words = vocabularies[rest[0]]
    asked, held = (np.array([words.histogram(*_countable(d, rest[0])) for d in side]) for side in (queries, gallery))
    return compare_histograms(asked, held, rest[1])


def fit_vocabulary(gallery: Sequence[Description], kind: str) -> Words:
    """The gallery's codebook over its `raw` embeddings or its `centroids`, with how rare each word is."""
    vectors, counts = zip(*(_countable(description, kind) for description in gallery), strict=True)
    return fit_words(vectors, counts, fit_codebook(vectors, counts, WordSettings()))


def two_stage(
    queries: Sequence[Bag],
    gallery: Sequence[Bag],
    near: NDArray[np.float64],
    *,
    same: Sequence[int | None],
    either_way: bool = False,
    shortlist: int = SHORTLIST,
) -> NDArray[np.float64]:
    """Transport for the `shortlist` candidates nearest by `near` (q, n), infinity for all others.

    `either_way` needs queries and gallery to be the same fragments; it is how the authors' table was made.
    """
    listed = np.zeros(near.shape, dtype=bool)
    for row, (line, own) in enumerate(zip(near, same, strict=True)):
        order = [place for place in np.argsort(line, kind="stable").tolist() if place != own]
        listed[row, order[:shortlist]] = True
    if either_way:
        listed |= listed.T
    found = np.full(near.shape, np.inf)
    for row, column in zip(*np.nonzero(listed), strict=True):
        found[row, column] = transport(queries[row], gallery[column])
    return found


def _pairwise(
    queries: Sequence[Bag], gallery: Sequence[Bag], measure: Callable[[Bag, Bag], float], same: Sequence[int | None]
) -> NDArray[np.float64]:
    """`measure` of every pair; each pair of gallery fragments once, since all measures are symmetric."""
    if list(same) == list(range(len(gallery))):
        found = np.zeros((len(queries), len(gallery)))
        for row in range(len(queries)):
            for column in range(row + 1, len(gallery)):
                found[row, column] = found[column, row] = measure(gallery[row], gallery[column])
        return found
    return np.array([[measure(query, bag) for bag in gallery] for query in queries])


def _countable(description: Description, kind: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """What a bag of words counts: every embedding once (`raw`), or each prototype by its glyphs (`centroids`)."""
    if kind == "raw":
        return description.embeddings, np.ones(len(description.embeddings))
    bag = description.bag
    return bag.prototypes, bag.weights * len(description.boxes)


def _resolve(
    collection: Collection, query: str | Path, entries: Sequence[Entry], descriptions: Sequence[Description]
) -> tuple[Description, int | None]:
    """The query's description and its place in the collection, if it has one: by id, or by the image's own path."""
    path = str(Path(query).absolute())
    for place, entry in enumerate(entries):
        if str(query) == entry.fragment.id or path == str(entry.fragment.path):
            return descriptions[place], place
    for entry in collection.entries():
        if entry.fragment.id == str(query):
            raise MembraError(f"{query} is in the collection but was not described: {entry.refused}")
    if Path(query).is_file():
        return describe(Fragment(str(query), Path(query)), collection.encoder(), collection.recipe), None
    near = difflib.get_close_matches(str(query), [entry.fragment.id for entry in entries], n=1, cutoff=0.4)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise MembraError(f"{query} is neither a fragment of {collection.path} nor an image file{hint}; see `membra list`")
