"""Join a catalogue's table to the fragments of an existing collection."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from membra.errors import Invalid
from membra.sources.columns import guess_columns
from membra.sources.fragment import Fragment
from membra.sources.shelfmark import shelfmark_key
from membra.sources.tables import headers_of, iterate_table
from membra.store.collection import Collection
from membra.store.manifest import MEASURED
from membra.store.naming import column_key

_MAX_EXAMPLES = 20  # unmatched rows that are listed; the others are only counted
_KEYS = ("image", "shelfmark")
# What `membra export --what fragments` writes of a fragment beside its metadata.
_GIVEN = ("tags", "bookmarked", "notes")
EXPORTED = ("id", "image", "letters", "note", "refused", "photograph", "piece", *MEASURED, "corrected", *_GIVEN)


@dataclass(frozen=True)
class Catalogued:
    """The result of joining a table to a collection.

    Attributes
    ----------
    mapping : dict of str to str
        The table's column names -> membra's.
    columns : list of str
        All columns that the fragments have from the table now, by membra's names.
    rows : int
        Rows of the table.
    matched, updated : int
        Fragments that match a row, and those of them whose metadata changed.
    unmatched : int
        Rows that match no fragment of the collection.
    examples : list of str
        Some of the unmatched rows, by image or shelfmark.
    """

    mapping: dict[str, str]
    columns: list[str]
    rows: int
    matched: int
    updated: int
    unmatched: int
    examples: list[str]


def catalogue(
    collection: Collection, table: str | Path, *, mapping: Mapping[str, str] | None = None, dry: bool = False
) -> Catalogued:
    """Join a table to the fragments of a collection and add its columns to their metadata.

    A row matches the fragments of its image (path below the source, or file name if that is unique in the collection
    and in the table); a row without an image matches by shelfmark, however it is spelt, or by file name if the
    collection has no shelfmarks yet. A row of membra's own table of fragments matches the fragment with its `id`, and
    adds only metadata. A shelfmark matches no fragment of another side or library than the row's. All
    pieces of a photograph receive the row of their photograph. Columns that the table does not have stay unchanged.

    Parameters
    ----------
    collection : Collection
    table : path
        CSV of any separator and encoding, XLSX or ODS.
    mapping : mapping of str to str, optional
        The table's column names -> membra's, e.g. `{"Signatur": "shelfmark"}`; names left out are guessed. The mapping
        is stored in the collection and used for later tables with the same columns.
    dry : bool
        Only report what would be done.

    Returns
    -------
    Catalogued

    Raises
    ------
    MembraError
        If the table cannot be read, has neither images nor shelfmarks, or matches no fragment.
    """
    path = Path(table)
    chosen = mapping_for(collection, path, mapping)
    names = [chosen.get(header, header) for header in headers_of(path, chosen) if header]
    if not set(_KEYS) & set(names):
        raise Invalid(
            "{file} has neither a column `image` nor `shelfmark` (it has: {columns}); name one with --map "
            "THEIRS=shelfmark",
            file=path,
            columns=names[:40],
        )
    # The table is read twice, because it may have too many rows to keep.
    images = (row["image"] for row in iterate_table(path, (), chosen)) if "image" in names else ()
    finder = _Finder([entry.fragment for entry in collection.entries()], images)
    columns_of: dict[str, dict[str, str]] = {}
    examples: list[str] = []
    rows = unmatched = 0
    own: tuple[str, ...] = ("image",)  # columns that are no metadata
    for row in iterate_table(path, (), chosen):
        rows += 1
        ids = finder.find(row)
        if not ids:
            unmatched += 1
            examples += [row.get("image") or row.get("shelfmark", "")][: _MAX_EXAMPLES - len(examples)]
        own = EXPORTED if finder.named(row) else own
        for id in ids:
            # an empty cell leaves the known value as it is
            columns_of.setdefault(id, {}).update({name: cell for name, cell in row.items() if name not in own and cell})
    if not columns_of:
        raise Invalid(
            "no row of {file} matches a fragment of the collection (it names {first}, the collection has {id}); give "
            "the images' paths or file names, or shelfmarks",
            file=path,
            first=examples[0] if examples else "",
            id=finder.first,
        )
    updated = 0
    if not dry:
        with collection.writing() as writer:
            updated = writer.annotate(columns_of, chosen)
    columns = [name for name in names if name not in own]
    return Catalogued(chosen, columns, rows, len(columns_of), updated, unmatched, [name for name in examples if name])


def mapping_for(collection: Collection | None, table: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Map a table's column names to membra's: as given, as stored in the collection, or guessed."""
    headers = headers_of(table, given)
    kept = {**(collection.mapping() if collection else {}), **(given or {})}
    unknown = [name for name in given or {} if name not in headers]
    if unknown:
        raise Invalid(
            "the table has no column {column}; it has: {columns}", column=repr(unknown[0][:60]), columns=headers[:40]
        )
    # A mapping given by the caller replaces one stored for another column.
    ours = set((given or {}).values())
    kept = {their: our for their, our in kept.items() if their in (given or {}) or our not in ours}
    return guess_columns(headers, kept)


class _Finder:
    """Finds the fragments that a row matches, given the images of all rows."""

    def __init__(self, fragments: Sequence[Fragment], images: Iterable[str]) -> None:
        self.first = fragments[0].id if fragments else ""
        self._by_image: dict[str, list[str]] = defaultdict(list)
        self._by_file: dict[str, list[str]] = defaultdict(list)
        self._by_shelfmark: dict[tuple[str, ...], list[Fragment]] = defaultdict(list)
        self._named: dict[str, set[str]] = defaultdict(set)  # the table's images, by file name
        for image in map(_path_of, images):
            self._named[image.name].add(str(image))
        self._photograph = {fragment.id: PurePosixPath(fragment.photograph).name for fragment in fragments}
        marked = any(fragment.columns.get("shelfmark") for fragment in fragments)
        for fragment in fragments:
            self._by_image[fragment.photograph].append(fragment.id)
            if fragment.piece:
                self._by_image[fragment.id].append(fragment.id)
            file = PurePosixPath(fragment.photograph)
            if fragment.photograph not in self._by_file[file.name]:
                self._by_file[file.name].append(fragment.photograph)
            key = shelfmark_key(fragment.columns.get("shelfmark", "") if marked else file.stem)
            if key:
                self._by_shelfmark[key].append(fragment)

    def named(self, row: Mapping[str, str]) -> bool:
        """Return whether a row names one fragment by `id` and photograph, as membra's own table of fragments does."""
        photograph = self._photograph.get(row.get("id", ""))
        return photograph is not None and photograph == _path_of(row.get("image", "")).name

    def find(self, row: Mapping[str, str]) -> list[str]:
        if self.named(row):
            return [row["id"]]
        image = row.get("image", "")
        if image not in self._by_image:  # a Windows path, unless a fragment's id really has backslashes
            image = image.replace("\\", "/")
        if image:
            if image in self._by_image:
                return self._by_image[image]
            file = _path_of(image).name
            photographs = self._by_file.get(file, [])
            return self._by_image[photographs[0]] if len(photographs) == len(self._named[file]) == 1 else []
        same = self._by_shelfmark.get(shelfmark_key(row.get("shelfmark", "")), [])
        found = [one for one in same if not (_differ(row, one.columns, "side") or _differ(row, one.columns, "library"))]
        sides = [one for one in found if row.get("side") and one.columns.get("side")]
        return [fragment.id for fragment in sides or found]


def _path_of(image: str) -> PurePosixPath:
    return PurePosixPath(image.replace("\\", "/"))


def _differ(row: Mapping[str, str], columns: Mapping[str, str], name: str) -> bool:
    """Return whether a row and a fragment both have a value in this column, and not the same one."""
    theirs, own = column_key(row, name), column_key(columns, name)
    return bool(theirs and own and theirs != own)
