"""Rank a collection's fragments for a query, by any of the methods."""

import difflib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.local_scaling import CHAMFER
from membra.compare.methods import METHODS, Method, distances, named
from membra.compare.pooling import pool
from membra.describe.bag import alone, in_company, make_bag
from membra.describe.recipe import Description, describe_reading, pick
from membra.errors import Invalid, NotFound, Refused, TooFewLetters
from membra.find import codes, exact
from membra.find.agreement import Agreement, agreements
from membra.find.lookup import entry_of
from membra.find.mates import likely_mates
from membra.find.pruned import Nearest
from membra.find.ranking import Hit as Hit
from membra.find.ranking import Ranking as Ranking
from membra.find.shortlist import how_many
from membra.progress import Progress
from membra.sources.fragment import PHOTOGRAPH, Fragment, split_piece
from membra.store import manifest
from membra.store.collection import Collection, State
from membra.store.manifest import Entry
from membra.store.rows import LazySequence, Rows


def search(
    collection: Collection,
    query: str | Path,
    *,
    top: int = 20,
    method: str = "default",
    exclude_same: str | None = None,
    shortlist: str = "auto",
    agreement: bool = False,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the fragments of a collection for one query, nearest first.

    The query itself is never its own candidate.

    Parameters
    ----------
    collection : Collection
    query : str or path
        The id or shelfmark of one of its fragments, or the path of an image, which need not be in it. For a photograph
        of several pieces the most legible one is used, and the ranking names it; `#` and a number after its id or path
        selects another.
    top : int
        Number of candidates.
    method : str
        One of the table of methods, or `default`: the recipe's own.
    exclude_same : str, optional
        A column; candidates with the query's own value in it are left out.
    shortlist : str
        `off` compares with all; a number with a shortlist of this size, selected by approximate scores
        (`find/codes.py`); `auto` uses a shortlist in collections of more than half a million fragments.
    agreement : bool
        Whether to compute each hit's `agreement` with the query, compared with strangers (10 to 30 ms).
    progress : Progress, optional
        Called while the shortlist's index is prepared.

    Returns
    -------
    Ranking

    Raises
    ------
    MembraError
        If the query is neither a fragment nor an image, or there is no such method.
    """
    return search_many(
        collection,
        [query],
        top=top,
        method=method,
        exclude_same=exclude_same,
        shortlist=shortlist,
        agreement=agreement,
        progress=progress,
    )[0]


def search_many(
    collection: Collection,
    queries: Sequence[str | Path],
    *,
    top: int = 20,
    method: str = "default",
    exclude_same: str | None = None,
    shortlist: str = "auto",
    agreement: bool = False,
    progress: Progress | None = None,
    numbers: Sequence[int] | None = None,
) -> list[Ranking]:
    """Like `search`, for several queries; the collection is read once for all of them.

    `numbers` : of the fragments that may be candidates; default all.
    """
    by = named(method, collection.recipe.method)
    with collection.reading() as state:
        resolved = [resolve(collection, state, query) for query in queries]
        among = [_allowed(state, one, exclude_same) for one in resolved]
        if numbers is not None:
            among = [may & np.isin(state.rows.numbers, numbers) for may in among]
        names = [str(query) for query in queries]
        return _rankings(collection, state, names, resolved, among, by, top, shortlist, agreement, progress)


def search_together(
    collection: Collection,
    queries: Sequence[str | Path],
    *,
    top: int = 20,
    method: str = "default",
    exclude_same: str | None = None,
    shortlist: str = "auto",
    agreement: bool = False,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the fragments of a collection for several queries of one manuscript: recto and verso, or a known group.

    Their glyphs form one bag, and none of them is a candidate (docs/decisions/asked-together.md).

    Parameters
    ----------
    collection : Collection
    queries : sequence of str or path
        Each as for `search`.
    top : int
        Number of candidates.
    method : str
        One of the table of methods, or `default`: the recipe's own.
    exclude_same : str, optional
        A column; candidates with the value of any of the queries in it are left out.
    shortlist : str
        As for `search`.
    agreement : bool
        As for `search`.
    progress : Progress, optional
        Called while the shortlist's index is prepared.

    Returns
    -------
    Ranking

    Raises
    ------
    MembraError
        If a query is neither a fragment nor an image, there are no queries, or there is no such method.
    """
    by = named(method, collection.recipe.method)
    with collection.reading() as state:
        parts = [resolve(collection, state, query) for query in queries]
        if not parts:
            raise Invalid("no query was given; give ids of fragments, or image files")
        own = [one.entry.number for one in parts if one.entry]
        may = np.logical_and.reduce([_allowed(state, one, exclude_same) for one in parts])
        among = [np.asarray(may & ~np.isin(state.rows.numbers, own))]
        pooled = _pooled(collection, state, parts, by)
        name = " + ".join(str(query) for query in queries)
        return _rankings(collection, state, [name], [pooled], among, by, top, shortlist, agreement, progress)[0]


def _rankings(
    collection: Collection,
    state: State,
    names: Sequence[str],
    resolved: "Sequence[Resolved]",
    among: Sequence[NDArray[np.bool_]],
    by: Method,
    top: int,
    shortlist: str,
    agreement: bool,
    progress: Progress | None,
) -> list[Ranking]:
    """Rank the candidates of each query among its admissible rows (N,)."""
    count = _listed(state.rows, by, shortlist)
    recall = None
    if by.mapped:
        scales = state.scales() if by.parts else None
        bags = [one.query for one in resolved]
        if count:
            index = codes.shortlist_index(collection.path, state.rows, scales, progress=progress)
            recall = codes.recall_estimate(state.rows, index, by.name, scales, shortlist)
            found = codes.nearest_listed(
                state.rows,
                index,
                bags,
                by.name,
                top,
                count,
                weight=recall.weight,
                scales=scales,
                among=among,
            )
        else:
            found = exact.nearest_rows(state.rows, bags, by.name, top, scales=scales, among=among)
    else:
        found = _by_descriptions(state, resolved, by, top, among)
    numbers = [[int(state.rows.numbers[row]) for row in one.indices] for one in found]
    entries = manifest.entries_of(state.database, [number for one in numbers for number in one])
    rankings = []
    for name, own_query, one, own in zip(names, resolved, found, numbers, strict=True):
        hits = hits_of(state, own_query, [entries[number] for number in own], one.distances, by, agreement)
        solved = one.solved if by.bag else None
        rankings.append(Ranking(name, by.name, hits, solved, recall, own_query.piece))
    return rankings


def hits_of(
    state: State,
    query: "Resolved",
    entries: Sequence[Entry],
    distances: Sequence[float],
    by: Method,
    agreement: bool = False,
) -> list[Hit]:
    """Make hits of the candidates at these distances, nearest first, with probabilities for the default method, and
    with agreements if requested."""
    likely: Sequence[float | None] = [None] * len(entries)
    agree: Sequence[Agreement | None] = [None] * len(entries)
    if by.parts == (CHAMFER,) and not query.doubtful:
        likely = likely_mates(state, query.query, query.letters, entries, distances)
        if agreement:
            agree = agreements(state, query.query.bag, entries, number=query.query.number)
    rows = enumerate(zip(entries, distances, likely, agree, strict=True), start=1)
    return [Hit.of(rank, *one) for rank, one in rows]


def _listed(rows: Rows, method: Method, shortlist: str) -> int:
    """Return the size of the shortlist to compare in full; 0 to compare with all."""
    if shortlist not in ("auto", "off") and not (shortlist.isdecimal() and int(shortlist)):
        raise Invalid("a shortlist is auto, off or a number of fragments, not `{shortlist}`", shortlist=shortlist)
    if method.shortlist:
        return how_many(int(rows.alive.sum()), shortlist)
    if shortlist.isdecimal():
        able = [each.name for each in METHODS if each.shortlist]
        raise Invalid(
            "a shortlist is not available for `{method}`, only for {methods}; leave it out",
            method=method.name,
            methods=able,
        )
    return 0


@dataclass(frozen=True)
class Resolved:
    """A query that was found in the collection or described now."""

    query: exact.Query
    entry: Entry | None  # if it is in the collection
    description: Description | None  # if it is not
    piece: int

    @property
    def letters(self) -> int:
        return self.entry.glyphs if self.entry else len(self.description.boxes) if self.description else 0

    @property
    def doubtful(self) -> bool:
        known = self.entry or self.description
        return known is not None and known.doubtful


def resolve(collection: Collection, state: State, query: str | Path) -> Resolved:
    """Find the query in the collection by id, by its image's path, or by shelfmark; otherwise describe its image."""
    entry = entry_of(state.database, query)
    if entry and entry.refused:
        raise Refused("{id} is in the collection but was not described: {why}", id=query, why=entry.refused)
    if entry:
        row = state.rows.rows_of([entry.number])
        stored = exact.Query(state.rows.bag(int(row[0])), state.rows.means(row)[0], entry.number)
        return Resolved(stored, entry, None, entry.fragment.piece)
    outside = describe_image(collection, query)
    if outside:
        piece, found = outside
        mean = pool(found.embeddings, "mean").astype(np.float32)
        return Resolved(exact.Query(found.bag, mean), None, found, piece)
    near = difflib.get_close_matches(str(query), manifest.some_ids(state.database, 20_000), n=1, cutoff=0.6)
    if near:
        raise NotFound(
            "{query} is neither a fragment of {collection} nor an image file (did you mean {near}?); see `membra list`",
            query=query,
            collection=collection.path,
            near=near[0],
        )
    raise NotFound(
        "{query} is neither a fragment of {collection} nor an image file; see `membra list`",
        query=query,
        collection=collection.path,
    )


def _pooled(collection: Collection, state: State, parts: Sequence[Resolved], by: Method) -> Resolved:
    """Pool the glyphs of several queries into one; its local scales are the means of theirs, if all are stored."""
    settings = collection.recipe.bag
    letters = []
    for one in parts:
        known = one.description
        if known is None:
            assert one.entry is not None
            known = state.rows.description(int(state.rows.rows_of([one.entry.number])[0]))
        letters.append(alone(known.embeddings, settings))
    embeddings = in_company(np.concatenate(letters), settings)
    description = Description(np.zeros((len(embeddings), 4), np.int32), embeddings, make_bag(embeddings, settings))
    scales = None
    if by.parts and all(one.entry for one in parts):
        stored = state.scales()
        at = np.searchsorted(stored.numbers, [one.entry.number for one in parts if one.entry])
        scales = stored.scales[:, at].mean(axis=1)
    mean = pool(embeddings, "mean").astype(np.float32)
    return Resolved(exact.Query(description.bag, mean, scales=scales), None, description, 0)


def describe_image(collection: Collection, query: str | Path) -> tuple[int, Description] | None:
    """Describe an image file by the collection's recipe; return the number of the piece and the description, or None
    if there is no such file."""
    name, piece = (str(query), 0) if Path(query).is_file() else split_piece(str(query))
    if not Path(name).is_file():
        return None
    collection.check_current()
    own, reading = pick(Fragment(str(query), Path(name), piece=piece), collection.recipe)
    try:
        return own.piece, describe_reading(reading, collection.encoder(), collection.recipe)
    except TooFewLetters as reason:  # of several queries it must be clear which
        raise TooFewLetters("{file}: {why}", file=query, why=reason.message) from None


def excluded(database: sqlite3.Connection, query: Entry | None, column: str | None) -> list[int]:
    """Return the numbers of the fragments that have the query's value in a column; none for an image that is not in
    the collection, for an empty value, and for the column `photograph` of a photograph with one piece."""
    if column is None:
        return []
    if query is None:
        if column != PHOTOGRAPH and not manifest.has_column(database, column):
            raise Invalid("no fragment has a column `{column}`; index from a CSV that has one", column=column)
        return []
    value = query.fragment.columns.get(column)
    if value is None and column != PHOTOGRAPH:
        raise Invalid(
            "{id} has no column `{column}`; index it from a CSV that has one", id=query.fragment.id, column=column
        )
    return manifest.numbers_with(database, column, value) if value else []


def _allowed(state: State, one: Resolved, exclude_same: str | None) -> NDArray[np.bool_]:
    """Return a mask (N,) of the rows that may be candidates of a query."""
    numbers = excluded(state.database, one.entry, exclude_same)
    return np.asarray(~np.isin(state.rows.numbers, numbers)) if numbers else state.rows.alive


def _by_descriptions(
    state: State, queries: Sequence[Resolved], method: Method, top: int, among: Sequence[NDArray[np.bool_]]
) -> list[Nearest]:
    """Search by a method that needs whole descriptions: all are read, unless their histograms are cached."""
    rows = state.rows.rows_of(np.sort(state.rows.numbers[state.rows.alive])).tolist()  # in the order of insertion
    if not rows:
        return [Nearest([], [], 0) for _ in queries]
    gallery = LazySequence(len(rows), lambda index: state.rows.description(rows[index]))
    kind = method.codebook
    vocabularies = {kind: state.vocabulary(kind, gallery)} if kind else {}
    indices = {int(state.rows.numbers[row]): index for index, row in enumerate(rows)}
    same = [indices[query.entry.number] if query.entry else None for query in queries]
    descriptions = [query.description or gallery[index or 0] for query, index in zip(queries, same, strict=True)]
    found = []
    masks = np.array([may[rows] for may in among])
    lines = distances(descriptions, gallery, method.name, same=same, vocabularies=vocabularies, among=masks)
    for line, own, may in zip(lines, same, among, strict=True):
        order = np.argsort(line, kind="stable").tolist()
        kept = [index for index in order if index != own and np.isfinite(line[index]) and may[rows[index]]][:top]
        found.append(Nearest([rows[index] for index in kept], [float(line[index]) for index in kept], len(rows)))
    return found
