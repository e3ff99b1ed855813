"""What a catalogue says of fragments that are in a collection already: a table, joined to them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from membra.errors import Invalid
from membra.sources.columns import guess_columns
from membra.sources.fragment import Fragment
from membra.sources.shelfmark import shelfmark_key
from membra.sources.tables import headers_of, iterate_table
from membra.store.collection import Collection

_NAMED = 20  # rows without a fragment that are named; of the others there is the number
_KEYS = ("image", "shelfmark")


@dataclass(frozen=True)
class Catalogued:
    """What a table brought.

    Attributes
    ----------
    mapping : dict of str to str
        Which of its columns were taken for which of membra's.
    columns : list of str
        All that the fragments have from it now, by the names that they have here.
    rows : int
        Of the table.
    matched, updated : int
        Fragments that it speaks of, and of how many of those it says something new.
    unmatched : int
        Rows that speak of no fragment of the collection.
    examples : list of str
        Some of those, by image or shelfmark.
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
    """Join a table to the fragments of a collection: what it says of each is added to what is known.

    A row is about the fragments of its image (path below the source, or file name where that is unique), or else of its
    shelfmark, however it is spelt; where a collection has no shelfmarks yet, files that are named like them. Pieces of
    a photograph have what their photograph has. Columns that the table does not have stay as they are.

    Parameters
    ----------
    collection : Collection
    table : path
        CSV of any separator and encoding, XLSX or ODS.
    mapping : mapping of str to str, optional
        What its columns are called here, e.g. `{"Signatur": "shelfmark"}`; what it leaves out is guessed. It is kept in
        the collection, and serves for later tables with the same columns.
    dry : bool
        Only say what would be done.

    Returns
    -------
    Catalogued

    Raises
    ------
    MembraError
        Where the table cannot be read, has neither images nor shelfmarks, or speaks of no fragment.
    """
    path = Path(table)
    chosen = mapping_for(collection, path, mapping)
    names = [chosen.get(header, header) for header in headers_of(path) if header]
    if not set(_KEYS) & set(names):
        raise Invalid(
            "{file} has neither a column `image` nor `shelfmark` (it has: {columns}); say which is, with --map "
            "THEIRS=shelfmark",
            file=path,
            columns=names[:40],
        )
    finder = _Finder([entry.fragment for entry in collection.entries()])
    said: dict[str, dict[str, str]] = {}
    examples: list[str] = []
    rows = unmatched = 0
    for row in iterate_table(path, (), chosen):
        rows += 1
        ids = finder.find(row)
        if not ids:
            unmatched += 1
            examples += [row.get("image") or row.get("shelfmark", "")][: _NAMED - len(examples)]
        for id in ids:
            # an empty cell says nothing: what is known of the fragment stays
            said.setdefault(id, {}).update({name: cell for name, cell in row.items() if name != "image" and cell})
    if not said:
        raise Invalid(
            "{file} speaks of no fragment of the collection (it names {first}, the collection has {id}); give the "
            "images' paths or file names, or shelfmarks",
            file=path,
            first=examples[0] if examples else "",
            id=finder.first,
        )
    updated = 0
    if not dry:
        with collection.writing() as writer:
            updated = writer.annotate(said, chosen)
    columns = [name for name in names if name != "image"]
    return Catalogued(chosen, columns, rows, len(said), updated, unmatched, [name for name in examples if name])


def mapping_for(collection: Collection | None, table: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the columns of a table are called here: as given, as kept in the collection, or as guessed."""
    headers = headers_of(table)
    kept = {**(collection.mapping() if collection else {}), **(given or {})}
    unknown = [name for name in given or {} if name not in headers]
    if unknown:
        raise Invalid(
            "the table has no column {column}; it has: {columns}", column=repr(unknown[0][:60]), columns=headers[:40]
        )
    # What somebody gives by hand takes the place of what was kept for another column.
    ours = set((given or {}).values())
    kept = {their: our for their, our in kept.items() if their in (given or {}) or our not in ours}
    return guess_columns(headers, kept)


class _Finder:
    """Which fragments a row is about."""

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        self.first = fragments[0].id if fragments else ""
        self._by_image: dict[str, list[str]] = defaultdict(list)
        self._by_file: dict[str, list[str]] = defaultdict(list)
        self._by_shelfmark: dict[tuple[str, ...], list[Fragment]] = defaultdict(list)
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

    def find(self, row: Mapping[str, str]) -> list[str]:
        image = row.get("image", "")
        if image not in self._by_image:  # a path as Windows writes it, unless a fragment is really called so
            image = image.replace("\\", "/")
        if image:
            if image in self._by_image:
                return self._by_image[image]
            photographs = self._by_file.get(PurePosixPath(image).name, [])
            return self._by_image[photographs[0]] if len(photographs) == 1 else []
        found = self._by_shelfmark.get(shelfmark_key(row.get("shelfmark", "")), [])
        sides = [one for one in found if row.get("side") and one.columns.get("side") == row["side"]]
        return [fragment.id for fragment in sides or found]
