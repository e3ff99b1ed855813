"""Say something of a fragment: what its page on the workbench and `membra note` write."""

from collections.abc import Iterable, Mapping, Sequence, Set

from membra.errors import Conflict, Invalid, NotFound
from membra.messages import Message
from membra.sources.fragment import Fragment
from membra.sources.tables import MAX_CELL
from membra.store.annotations import COLUMN, Annotation, Annotations, by_fragment
from membra.store.append_only import check_text
from membra.store.collection import Collection, Entry
from membra.store.naming import find_id

MAX_COLUMNS = 60  # of one fragment, that are set at once
MAX_COLUMN = 200  # characters of its name


def note(
    collection: Collection,
    id: str,
    *,
    by: str,
    text: str = "",
    tags: Sequence[str] = (),
    untag: Sequence[str] = (),
    bookmark: bool | None = None,
    columns: Mapping[str, str] | None = None,
    was: Mapping[str, str] | None = None,
    undo: int | None = None,
) -> list[Annotation]:
    """Keep a note, tags, a bookmark, or what the catalogue should say of a fragment; or take something back.

    All of it is kept beside the verdicts, with who and when, and nothing is ever deleted. It is about the fragment's
    id: whatever it is described by, and when it is indexed again, it stays. What a person says of a column stands over
    what any source says, until it is taken back.

    Parameters
    ----------
    collection : Collection
    id : str
        A fragment's id or shelfmark; the id of a photograph of several pieces means all of them.
    by : str
        Who says so.
    text : str
        A note, in the scholar's own words.
    tags, untag : sequence of str
        Tags to put on it, and to take off, whoever put them on.
    bookmark : bool, optional
        Whether this person wants to find it again.
    columns : mapping of str to str, optional
        What its columns should say; nothing takes a column away. Of several pieces each gets an entry of its own.
    was : mapping of str to str, optional
        What some of these columns said when the person looked, as one line of text: where one says something else now,
        nothing is written.
    undo : int, optional
        The number of an entry about this fragment to take back.

    Returns
    -------
    list of Annotation
        The entries that were written; they are on the disk.

    Raises
    ------
    MembraError
        Where the fragment is not in the collection, it has no such tag or entry, or, for columns, the collection is
        being written by another process, or somebody else has changed one meanwhile.
    """
    entry = collection.entry(find_id(collection, id))
    if entry is None:
        raise NotFound(
            "{id} is not in {collection}; `membra list` shows what is", id=id, collection=collection.path.name
        )
    photograph, fragment = entry.fragment.photograph, entry.fragment.id
    if id == photograph:
        fragment = photograph
    pieces = [one.fragment for one in collection.entries() if one.fragment.photograph == photograph]
    present = [one.id for one in pieces]
    annotations = Annotations.open(collection.path)
    about = pieces if fragment == photograph else [entry.fragment]
    changed = _changed(about, dict(map(_cell, (columns or {}).items())))
    if len(columns or {}) > MAX_COLUMNS:
        raise Invalid("{file} has more than {most} columns; leave some out", file=id, most=MAX_COLUMNS)

    def write() -> list[Annotation]:
        given = []
        if text.strip() or tags or untag or bookmark is not None or changed:
            given = annotations.give(
                photograph,
                fragment,
                by=by,
                text=text,
                tags=tags,
                untag=untag,
                bookmark=bookmark,
                columns=changed,
                present=present,
            )
        return given if undo is None else [*given, annotations.undo(undo, by=by)]

    if undo is not None:
        before = annotations.entry(undo)
        if before.photograph != photograph:
            raise NotFound("there is no entry {number} about {id}; the history has the numbers", number=undo, id=id)
    if not changed and (undo is None or before.kind != COLUMN):
        return write()
    with collection.writing() as writer:  # first who may write, so that nothing is kept that cannot follow
        _check_unchanged(collection, entry, was or {}, {name for own in changed.values() for name in own})
        given = write()
        writer.settle()
    return given


def said_of(collection: Collection, id: str) -> list[Annotation]:
    """Everything that was said of a fragment, oldest first, what was taken back and the undos too."""
    entry = collection.entry(find_id(collection, id))
    photograph = entry.fragment.photograph if entry else id
    history = Annotations.open(collection.path).history(photograph)
    if entry is None or id == photograph:
        return history
    on = [one.fragment.id for one in collection.entries() if one.fragment.photograph == photograph]
    return by_fragment(history, {photograph: on}).get(entry.fragment.id, [])


def _changed(fragments: Iterable[Fragment], said: Mapping[str, str]) -> dict[str, dict[str, tuple[str, str]]]:
    """What columns say and are to say, by fragment, where that is something else."""
    found = {}
    for one in fragments:
        own = {name: (one.columns.get(name, ""), value) for name, value in said.items()}
        changed = {name: (before, after) for name, (before, after) in own.items() if before != after}
        if changed:
            found[one.id] = changed
    return found


def as_line(text: str) -> str:
    """A column's text as a browser's line of text gives it back."""
    return text.replace("\r", "").replace("\n", "").strip()


def _check_unchanged(collection: Collection, entry: Entry, was: Mapping[str, str], names: Set[str]) -> None:
    """`Conflict` where one of the columns `names` says something else than it `was` when somebody looked."""
    known = collection.entry(entry.fragment.id) or entry
    for name in sorted(names & was.keys()):
        if as_line(known.fragment.columns.get(name, "")) != as_line(was[name]):
            raise Conflict(
                "Somebody else has changed {column} since the page was loaded, and nothing was kept; "
                "load it again and repeat",
                column=name,
            )


def _cell(given: tuple[str, str]) -> tuple[str, str]:
    """A column's name and what it should say, as they are kept."""
    name, value = " ".join(given[0].split()), given[1].strip()
    check_text(Message("a column"), name, MAX_COLUMN)
    check_text(Message("a column"), value, MAX_CELL)
    if not name:
        raise Invalid("a column needs a name")
    return name, value
