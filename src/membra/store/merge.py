"""Merge two collections of one recipe by copying descriptions; nothing is described again."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from membra.errors import Incompatible, Invalid
from membra.progress import Progress
from membra.store.annotations import COLUMN, Annotations
from membra.store.batch import Batch
from membra.store.collection import Collection, State
from membra.store.corrections import Corrections
from membra.store.edits import underneath
from membra.store.manifest import FragmentRow
from membra.store.shard import Shard, write_shard

_UNREAD = {""}  # the digests of a photograph whose file could not be read: its entry has only the reason
_AT_ONCE = 1000  # fragments per shard: the work that a kill can cost, and some 50 MB of memory

Located = tuple[FragmentRow, str | None, int | None]  # with shard and row if it is described


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes
    ----------
    added : int
        Fragments copied.
    known : int
        Fragments that were in both collections.
    refused : list of two str
        Ids of photographs that were rejected, each with the reason.
    """

    added: int = 0
    known: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


def merge(into: Collection, source: Collection, *, progress: Progress | None = None) -> Merged:
    """Copy every fragment of a collection into another, all pieces of a photograph together.

    A photograph that is in both with the same bytes is known and not copied; one whose id belongs to other bytes in
    `into` is rejected. One whose file could not be read for `into` is copied; one whose file could not be read for
    `source` is known. Corrections of copied photographs are copied too, and so are annotations of copied and known
    ones; but edits of the metadata of known ones are not copied.
    What is stored survives a kill: the same call resumes.

    Parameters
    ----------
    into, source : Collection
        Described by one recipe and encoder; `source` is not changed.
    progress : Progress, optional
        Called with the number of fragments copied and the total.

    Returns
    -------
    Merged

    Raises
    ------
    MembraError
        If the two are the same collection, or were described by different recipes or encoders.
    """
    if into.path.resolve() == source.path.resolve():
        raise Invalid("{source} is the same collection; name another", source=source.path)
    if into.recipe != source.recipe:
        raise Incompatible(
            "{source} was described by another recipe or encoder than {into}; index its images into {into}, or "
            "describe one of them again first: membra index --redescribe --into {source}",
            source=source.path,
            into=into.path,
        )
    with into.writing() as writer, source.reading() as state:
        known = _digests(into)
        fresh: list[list[Located]] = []
        same, refused = 0, []
        both: set[str] = set()
        for photograph, placed in _photographs(state.database).items():
            own = {row.sha256 for row, _, _ in placed}
            there = known.get(photograph)
            if there is None or (there == _UNREAD and own != there):
                fresh.append(placed)
            elif own in (there, _UNREAD):
                same += len(placed)
                both.add(photograph)
            else:
                refused.append((photograph, f"another image of this name is in {into.path}"))
        fresh = _with_corrections(into, source, fresh)
        total, done = sum(map(len, fresh)), 0
        _take_annotations(into, source, both, fresh)
        for some in _pieces(fresh):
            done += len(some)
            writer.store(_copied(into, state, some), scale=done == total)
            if progress:
                progress(done, total)
    return Merged(total, same, refused)


def _with_corrections(into: Collection, source: Collection, fresh: list[list[Located]]) -> list[list[Located]]:
    """Copy the corrections of `fresh` photographs and return their rows with the corrections' new numbers.

    Corrections are copied before the photographs: a kill then leaves corrections of photographs that are not in the
    collection yet, which is harmless.
    """
    coming = {row.photograph for placed in fresh for row, _, _ in placed}
    entries = [entry for entry in Corrections.open(source.path).history() if entry.photograph in coming]
    numbers = {str(there): str(here) for there, here in Corrections.open(into.path).take(entries).items()}

    def renumbered(row: FragmentRow) -> FragmentRow:
        return replace(row, corrected=",".join(numbers.get(one, one) for one in row.corrected.split(",")))

    return [[(renumbered(row), name, index) for row, name, index in placed] for placed in fresh]


def _take_annotations(into: Collection, source: Collection, both: set[str], fresh: list[list[Located]]) -> None:
    """Copy the annotations of photographs that are copied, and, except metadata edits, of those in both collections."""
    coming = {row.photograph for placed in fresh for row, _, _ in placed}
    entries = Annotations.open(source.path).history()
    Annotations.open(into.path).take(
        [one for one in entries if one.photograph in coming or (one.photograph in both and one.kind != COLUMN)]
    )


def _digests(collection: Collection) -> dict[str, set[str]]:
    """Return the SHA-256 of each photograph's bytes; more than one only if the file changed between two runs."""
    with collection.reading() as state:
        found: dict[str, set[str]] = {}
        for photograph, sha256 in state.database.execute("SELECT photograph, sha256 FROM fragments"):
            found.setdefault(photograph, set()).add(sha256)
    return found


def _photographs(database: sqlite3.Connection) -> dict[str, list[Located]]:
    """Return the rows of all fragments by photograph, in the order of insertion.

    Their columns have the sources' values: edits are applied again once the rows are stored in the other collection.
    """
    beneath = underneath(database)
    names = [one.name for one in fields(FragmentRow)]
    found: dict[str, list[Located]] = {}
    question = f"SELECT {', '.join(names)}, shard, place FROM fragments ORDER BY number"
    for *values, shard, index in database.execute(question):
        row = FragmentRow(*values)
        if row.id in beneath:
            row = replace(row, columns=json.dumps({**json.loads(row.columns), **beneath[row.id]}))
        found.setdefault(row.photograph, []).append((row, shard, index))
    return found


def _pieces(photographs: list[list[Located]]) -> Iterator[list[Located]]:
    """Yield whole photographs in groups of at least `_AT_ONCE` fragments; the last may be smaller."""
    some: list[Located] = []
    for placed in photographs:
        some += placed
        if len(some) >= _AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _copied(into: Collection, state: State, some: list[Located]) -> Batch:
    """Write some fragments as a shard into the other collection, whose manifest does not name it yet."""
    shards: dict[str, Shard] = {shard.name: shard for shard in state.rows.shards}
    there = [(row, shards[name].stored(index)) for row, name, index in some if name and index is not None]
    record = None
    if there:
        stored = [one for _, one in there]
        record = write_shard(into.path / "shards", stored, [row.id for row, _ in there])
    return Batch(record, [row for row, _, _ in some])
