"""Export of results and decisions as tables: CSV and XLSX for spreadsheets, and JSON."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from membra.errors import Invalid
from membra.files import atomic_write, check_place
from membra.find.search import search
from membra.progress import Progress
from membra.sources.cells import escape_cell
from membra.store.annotations import NO_MARKS, Annotation, Annotations, Marks, marks_in
from membra.store.catalogue import EXPORTED
from membra.store.collection import Collection, Entry
from membra.store.corrections import Correction, Corrections
from membra.store.naming import find_id
from membra.store.verdicts import PairVerdicts, Verdict, Verdicts

Cell = str | int | float | None
TABLES = ("verdicts", "history", "joins", "candidates", "fragments", "corrections", "notes")
OF_FRAGMENTS = ("iiif", "dossier", "bibtex", "csl")  # exports about a pair or a group
_LONGEST = 32_767  # characters, the limit of a spreadsheet cell


@dataclass(frozen=True)
class Table:
    """Named columns and their rows."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes
    ----------
    what : str
        One of `TABLES`, `iiif`, `dossier`, `bibtex` or `csl`.
    path : Path
        The file.
    count : int
        Number of rows of a table, or of fragments of a manifest, dossier or entry.
    url : str
        The URL at which a manifest will be published.
    images : Path or None
        The folder of images to publish beside a manifest, if any.
    contradictions : tuple of Verdict
        joins: `no` verdicts on fragments that other verdicts connect.
    disputed : tuple of (str, str)
        joins: pairs that were left out because people disagree on them.
    """

    what: str
    path: Path
    count: int
    url: str = ""
    images: Path | None = None
    contradictions: tuple[Verdict, ...] = ()
    disputed: tuple[tuple[str, str], ...] = ()


def export(
    collection: Collection,
    out: str | Path,
    what: str | None = None,
    *,
    pair: tuple[str, str] | None = None,
    group: str | Sequence[str] | None = None,
    top: int = 20,
    url: str | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write a table of results, or a IIIF manifest, dossier or bibliography entry of some fragments.

    Parameters
    ----------
    collection : Collection
    out : path
        Its suffix sets the format: .csv, .xlsx or .json for tables, .json for manifests and `csl`, .html for a dossier,
        .bib for BibTeX.
    what : str, optional
        `verdicts` (the verdict in force for each pair), `history` (every entry), `joins` (image,join of the confirmed
        ones), `candidates` (the nearest of every fragment), `fragments` (all of them), `corrections` (every one),
        `notes` (all entries about single fragments), `iiif`, `dossier`, `bibtex` or `csl`. Default: `dossier` if `out`
        ends in .html, `bibtex` if it ends in .bib, else `verdicts`.
    pair : two str, optional
        iiif, dossier, bibtex, csl: ids of two fragments.
    group : str or several, optional
        The same: one id for all fragments that verdicts and leaves connect with it, or several ids for these and the
        other sides of their leaves.
    top : int
        candidates: number per fragment.
    url : str, optional
        iiif: URL at which the manifest will be published. Default: http://localhost:8080/ and the file's name.
    progress : Progress, optional
        candidates: called with the number of fragments done and of all.

    Returns
    -------
    Exported

    Raises
    ------
    MembraError
        If the suffix does not fit, a fragment is unknown, or a manifest, dossier or entry has no pair or group.
    """
    out, what = Path(out), what or default_kind(Path(out))
    check_place(out)
    if pair:
        pair = find_id(collection, pair[0]), find_id(collection, pair[1])
    if what == "dossier" and pair:
        from membra.show.dossier import write_dossier

        return Exported(what, write_dossier(collection, *pair, out), 2)
    if what in OF_FRAGMENTS:
        if not (pair or group):
            raise Invalid("{what} needs a pair or a group of fragments; give their ids", what=what)
        return _of_group(collection, out, what, pair, (group,) if isinstance(group, str) else group or (), url)
    table = make_table(collection, what, top=top, progress=progress)
    write_table(table, out)
    if what != "joins":
        return Exported(what, out, len(table.rows))
    pairs = Verdicts.open(collection.path).pairs()
    disputed = tuple(ends for ends, pair in pairs.items() if pair.disputed)
    return Exported(what, out, len(table.rows), contradictions=tuple(contradictions(collection)), disputed=disputed)


def _of_group(
    collection: Collection,
    out: Path,
    what: str,
    pair: tuple[str, str] | None,
    ids: Sequence[str],
    url: str | None,
) -> Exported:
    """Write the manifest, dossier or entry of a pair, or of the group of these fragments."""
    from membra.show.citation import bibtex, csl_json
    from membra.show.group import group_of, pairs_of
    from membra.show.group_dossier import group_dossier
    from membra.show.holding import Holding
    from membra.show.iiif_export import write_manifest

    endings = {"dossier": (".html", ".htm"), "bibtex": (".bib",)}.get(what, (".json",))
    if out.suffix.lower() not in endings:
        raise Invalid("{file} must end in {ending}", file=out, ending=endings[0])
    holding = Holding(collection)
    group = group_of(holding, Verdicts.open(collection.path).pairs(), pair or ids)
    if what == "iiif":
        # A pair is just the two, a group also has the other sides of their leaves.
        pairs, shown = ([pair], pair) if pair else (pairs_of(holding, group), group.ids)
        document, images = write_manifest(collection, pairs, out, url=url, ids=shown)
        return Exported(what, out, len(document["items"]), document["id"], images)
    write = {"dossier": group_dossier, "bibtex": bibtex, "csl": csl_json}[what]
    atomic_write(out, write(holding, group))
    return Exported(what, out, len(group.ids))


def default_kind(out: Path) -> str:
    """Return the default kind of export for a file of this name."""
    return {".html": "dossier", ".htm": "dossier", ".bib": "bibtex"}.get(out.suffix.lower(), "verdicts")


def make_table(collection: Collection, what: str, *, top: int = 20, progress: Progress | None = None) -> Table:
    """Return one of `TABLES` of a collection.

    verdicts: the verdict in force for each pair; history: every entry, also those taken back; joins: `image,join` of
    the confirmed joins, as `train --joins` and `evaluate --joins` read it; candidates: the `top` nearest of every
    fragment; fragments: all fragments with their metadata and measurements.
    """
    entries = {entry.fragment.id: entry for entry in collection.entries()}
    verdicts = Verdicts.open(collection.path)
    if what == "verdicts":
        return _standing(verdicts.pairs(), entries)
    if what == "history":
        return _history(verdicts.history(), entries)
    if what == "joins":
        rows = [(id, join, _shelfmark(entries, id)) for id, join in sorted(verdicts.joins().items())]
        return Table(what, ("image", "join", "shelfmark"), [row for row in rows if row[0] in entries])
    if what == "candidates":
        return _candidates(collection, entries, verdicts.pairs(), top, progress)
    if what == "fragments":
        return _fragments(list(entries.values()), marks_in(collection.path, entries.values()))
    if what == "notes":
        return _notes(Annotations.open(collection.path).history(), entries)
    if what == "corrections":
        return _corrections(Corrections.open(collection.path).history())
    raise Invalid("there is no table `{table}`; there are {tables}", table=what, tables=list(TABLES))


def contradictions(collection: Collection) -> list[Verdict]:
    """Return the `no` verdicts on pairs that other verdicts connect."""
    verdicts = Verdicts.open(collection.path)
    joins = verdicts.joins()
    return [v for v in verdicts.standing() if v.says == "no" and v.a in joins and joins[v.a] == joins.get(v.b)]


def write_table(table: Table, out: Path) -> None:
    """Write a table in the format of the file's suffix: .csv, .xlsx or .json."""
    kind = out.suffix.lower()
    if kind not in FORMATS:
        raise Invalid("{file} must end in {suffixes} or {last}", file=out, suffixes=SUFFIXES[:-1], last=SUFFIXES[-1])
    check_place(out)
    atomic_write(out, FORMATS[kind](table))


def as_csv(table: Table) -> bytes:
    """Return CSV with a byte order mark, by which Excel detects UTF-8; no text can be interpreted as a formula."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([escape_cell(name) for name in table.columns])
    for row in table.rows:
        writer.writerow([escape_cell(cell) if isinstance(cell, str) else cell for cell in map(_clean, row)])
    return ("\ufeff" + text.getvalue()).encode()


def as_xlsx(table: Table) -> bytes:
    """Return one sheet; texts are stored as texts, so that none is evaluated as a formula, and numbers as numbers."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    book = Workbook(write_only=True)
    sheet = book.create_sheet(table.name)
    sheet.freeze_panes = "A2"
    for column, name in enumerate(table.columns):
        longest = max((len(str(row[column] or "")) for row in table.rows), default=0)
        sheet.column_dimensions[get_column_letter(column + 1)].width = min(60, max(len(name), longest) + 2)
    for number, row in enumerate([table.columns, *table.rows]):
        cells = []
        for value in map(_clean, row):
            text = ILLEGAL_CHARACTERS_RE.sub(" ", value)[:_LONGEST] if isinstance(value, str) else value
            cell = WriteOnlyCell(sheet, value=text)
            if isinstance(value, str):
                cell.data_type = "s"
            if number == 0:
                cell.font = Font(bold=True)
            cells.append(cell)
        sheet.append(cells)
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def as_json(table: Table) -> bytes:
    """Return JSON with `what` and `rows`, each row an object with the table's columns as keys."""
    rows = [{name: _clean(cell) for name, cell in zip(table.columns, row, strict=True)} for row in table.rows]
    return json.dumps({"what": table.name, "rows": rows}, ensure_ascii=False, indent=1).encode()


FORMATS = {".csv": as_csv, ".xlsx": as_xlsx, ".json": as_json}  # of tables, by suffix
SUFFIXES = tuple(FORMATS)


_VERDICT = ("number", "a", "b", "says", "by", "at", "note", "shelfmark_a", "shelfmark_b", "library_a", "library_b")


def _history(verdicts: Sequence[Verdict], entries: dict[str, Entry]) -> Table:
    rows = [(*_verdict(v, v.says, entries), "yes" if v.undone else "", v.undoes) for v in verdicts]
    return Table("history", (*_VERDICT, "undone", "undoes"), rows)


def _standing(pairs: Mapping[tuple[str, str], PairVerdicts], entries: dict[str, Entry]) -> Table:
    """Return one row per pair: the verdict in force, or `disputed` with the latest entry; and each person's verdict."""
    rows = [
        (
            *_verdict(pair.holds or pair.each[-1], pair.says, entries),
            "; ".join(f"{verdict.by}: {verdict.says}" for verdict in pair.each),
        )
        for pair in pairs.values()
    ]
    return Table("verdicts", (*_VERDICT, "people"), rows)


def _verdict(v: Verdict, says: str, entries: dict[str, Entry]) -> tuple[Cell, ...]:
    named = tuple(_column(entries, id, name) for name in ("shelfmark", "library") for id in (v.a, v.b))
    return (v.number, v.a, v.b, says, v.by, v.at, v.note, *named)


def _candidates(
    collection: Collection,
    entries: dict[str, Entry],
    pairs: Mapping[tuple[str, str], PairVerdicts],
    top: int,
    progress: Progress | None,
) -> Table:
    said = {frozenset(ends): pair.says for ends, pair in pairs.items()}
    described = [id for id, entry in entries.items() if not entry.refused]
    rows: list[tuple[Cell, ...]] = []
    for done, id in enumerate(described, start=1):
        for hit in search(collection, id, top=top).hits:
            named = _shelfmark(entries, id), _shelfmark(entries, hit.id)
            rows.append((id, hit.rank, hit.id, hit.distance, said.get(frozenset((id, hit.id)), ""), *named))
        if progress:
            progress(done, len(described))
    columns = ("fragment", "rank", "candidate", "distance", "verdict", "shelfmark", "shelfmark_candidate")
    return Table("candidates", columns, rows)


def _corrections(history: Sequence[Correction]) -> Table:
    columns = ("number", "photograph", "fragment", "kind", "value", "where", "by", "at", "note", "undone", "undoes")
    rows: list[tuple[Cell, ...]] = [
        (
            *(c.number, c.photograph, c.fragment, c.kind),
            *("" if c.value is None else json.dumps(c.value), json.dumps(c.where) if c.where else ""),
            *(c.by, c.at, c.note, "yes" if c.undone else "", c.undoes),
        )
        for c in history
    ]
    return Table("corrections", columns, rows)


def _notes(history: Sequence[Annotation], entries: dict[str, Entry]) -> Table:
    own = ("number", "photograph", "fragment", "kind", "name", "text", "before", "by", "at")
    rows = [
        (
            *(getattr(one, name) for name in own),
            "yes" if one.undone else "",
            one.undoes,
            _shelfmark(entries, one.fragment),
        )
        for one in history
    ]
    return Table("notes", (*own, "undone", "undoes", "shelfmark"), rows)


def _fragments(entries: Sequence[Entry], marks: Mapping[str, Marks]) -> Table:
    others = list(dict.fromkeys(name for e in entries for name in e.fragment.columns if name not in EXPORTED))
    rows: list[tuple[Cell, ...]] = [
        (
            *(entry.fragment.id, str(entry.fragment.path), entry.glyphs, entry.note, entry.refused),
            entry.fragment.columns.get("photograph") or entry.fragment.photograph,
            *(entry.fragment.piece, *entry.measured.values(), entry.corrected),
            *_marked(marks.get(entry.fragment.id, NO_MARKS)),
            *(entry.fragment.columns.get(name, "") for name in others),
        )
        for entry in entries
    ]
    return Table("fragments", (*EXPORTED, *others), rows)


def _marked(marks: Marks) -> tuple[str, str, str]:
    notes = "\n".join(f"{one.by}: {one.text}" for one in marks.notes)
    return "; ".join(marks.tags), "; ".join(marks.bookmarked), notes


def _shelfmark(entries: dict[str, Entry], id: str) -> str:
    return _column(entries, id, "shelfmark")


def _column(entries: dict[str, Entry], id: str, name: str) -> str:
    return entries[id].fragment.columns.get(name, "") if id in entries else ""


def _clean(cell: Any) -> Any:
    """Replace bytes of file names that are not UTF-8 by question marks, and infinite distances by None."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell.encode("utf-8", "replace").decode() if isinstance(cell, str) else cell
