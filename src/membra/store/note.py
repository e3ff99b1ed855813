"""Annotate a fragment, for its page in the workbench and `membra note`."""

from collections.abc import Iterable, Mapping, Sequence, Set

from membra.errors import Conflict, Invalid, NotFound
from membra.messages import Message
from membra.sources.fragment import Fragment
from membra.sources.tables import MAX_CELL
from membra.store.annotations import COLUMN, Annotation, Annotations, by_fragment
from membra.store.append_only import check_text
from membra.store.collection import Collection, Entry
from membra.store.naming import find_id

MAX_COLUMNS = 60  # columns of one fragment that are set in one call
MAX_COLUMN = 200  # characters of a column's name


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
    """Add a note, tags, a bookmark, or edits of metadata to a fragment; or undo an entry.

    Entries are stored beside the verdicts, with author and time, and nothing is ever deleted. They refer to the
    fragment's id, and stay when it is indexed or described again. An edit of a column overrides the values of all
    sources until it is undone.

    Parameters
    ----------
    collection : Collection
    id : str
        A fragment's id or shelfmark; the id of a photograph of several pieces means all of them.
    by : str
        Name of the author.
    text : str
        A note, as free text.
    tags, untag : sequence of str
        Tags to add, and to remove, whoever added them.
    bookmark : bool, optional
        Add or remove this person's bookmark.
    columns : mapping of str to str, optional
        New values of its columns; an empty value clears a column. Each of several pieces gets its own entry.
    was : mapping of str to str, optional
        Values of some of these columns when the page was loaded, as one line of text: if one has a different value
        now, nothing is written.
    undo : int, optional
        The number of an entry about this fragment to undo.

    Returns
    -------
    list of Annotation
        The entries written; they are on disk.

    Raises
    ------
    MembraError
        If the fragment is not in the collection, it has no such tag or entry, or, for columns, another process is
        writing to the collection or a column no longer has the value in `was`.
    """
    entry = collection.entry(find_id(collection, id))
    if entry is None:
        raise NotFound(
            "{id} is not in {collection}; run `membra list` to see its fragments",
            id=id,
            collection=collection.path.name,
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
        if not (text.strip() or tags or untag or bookmark is not None or changed or undo is not None):
            return []
        return annotations.give(
            photograph,
            fragment,
            by=by,
            text=text,
            tags=tags,
            untag=untag,
            bookmark=bookmark,
            columns=changed,
            present=present,
            undo=undo,
        )

    if undo is not None:
        before = annotations.entry(undo)
        if before.photograph != photograph:
            raise NotFound("there is no entry {number} about {id}; the history lists the numbers", number=undo, id=id)
    if not changed and (undo is None or before.kind != COLUMN):
        return write()
    with collection.writing() as writer:  # lock first: an entry must not be stored if the manifest cannot follow it
        _check_unchanged(collection, entry, was or {}, {name for own in changed.values() for name in own})
        given = write()
        writer.settle()
    return given


def said_of(collection: Collection, id: str) -> list[Annotation]:
    """Return every entry about a fragment, oldest first, including undone ones and undos."""
    entry = collection.entry(find_id(collection, id))
    photograph = entry.fragment.photograph if entry else id
    history = Annotations.open(collection.path).history(photograph)
    if entry is None or id == photograph:
        return history
    on = [one.fragment.id for one in collection.entries() if one.fragment.photograph == photograph]
    return by_fragment(history, {photograph: on}).get(entry.fragment.id, [])


def _changed(fragments: Iterable[Fragment], said: Mapping[str, str]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return old and new value of the columns that change, by fragment."""
    found = {}
    for one in fragments:
        own = {name: (one.columns.get(name, ""), value) for name, value in said.items()}
        changed = {name: (before, after) for name, (before, after) in own.items() if before != after}
        if changed:
            found[one.id] = changed
    return found


def as_line(text: str) -> str:
    """Return a column's text as a browser's single-line input submits it."""
    return text.replace("\r", "").replace("\n", "").strip()


def _check_unchanged(collection: Collection, entry: Entry, was: Mapping[str, str], names: Set[str]) -> None:
    """Raise `Conflict` if one of the columns `names` no longer has the value in `was`."""
    known = collection.entry(entry.fragment.id) or entry
    for name in sorted(names & was.keys()):
        if as_line(known.fragment.columns.get(name, "")) != as_line(was[name]):
            raise Conflict(
                "Another user has changed {column} since the page was loaded, so nothing was saved; reload the page "
                "and repeat your change",
                column=name,
            )


def _cell(given: tuple[str, str]) -> tuple[str, str]:
    """Normalize and check a column's name and value."""
    name, value = " ".join(given[0].split()), given[1].strip()
    check_text(Message("a column"), name, MAX_COLUMN)
    check_text(Message("a column"), value, MAX_CELL)
    if not name:
        raise Invalid("a column needs a name")
    return name, value
