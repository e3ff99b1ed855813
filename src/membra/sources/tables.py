"""Reads tables: CSV of any separator and encoding, XLSX and ODS, a row at a time and within limits."""

import codecs
import csv
import re
import zipfile
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from itertools import chain, islice
from pathlib import Path
from typing import Any

from membra.errors import Invalid, MembraError, NotFound
from membra.messages import Message
from membra.sources.cells import unescape_cell
from membra.sources.columns import check_mapping, guess_columns, in_millimetres

SUFFIXES = (".csv", ".tsv", ".xlsx", ".xlsm", ".ods")
MAX_ROWS = 500_000  # more fragments than any collection has
MAX_COLUMNS = 500
MAX_CELL = 20_000  # characters; the rest of a longer cell is cut off
MAX_BYTES = 2_000_000_000  # of a table, unpacked
MERGED_BYTES = 40_000_000  # of a sheet, unpacked, up to which merged cells are filled
_HEADER_WITHIN = 20  # rows in which the header is searched: some tables begin with a title
_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 200_000  # characters or bytes from which separator and encoding are detected
Row = list[str]


def read_table(path: Path, needed: tuple[str, ...], mapping: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """Read the rows of a table as dictionaries, cells stripped. Raises `Invalid` where a `needed` column is missing.

    `mapping` maps the table's columns to membra's names; without it, only missing `needed` columns are guessed.
    """
    return list(iterate_table(path, needed, mapping))


def iterate_table(
    path: Path, needed: tuple[str, ...], mapping: Mapping[str, str] | None = None
) -> Iterator[dict[str, str]]:
    """Yield the rows of `read_table` one at a time."""
    headers, rows = split_header(read_rows(path), mapping or {})
    if mapping is None:
        wanted = [name for name in needed if name not in headers]
        mapping = guess_columns(headers, only=wanted)
    else:
        check_mapping(mapping, headers)
    names = [mapping.get(header, header) for header in headers]
    missing = [name for name in needed if name not in names]
    if missing:
        raise Invalid(
            "{file} has no column {missing} (it has: {columns}); add it to the first line",
            file=path,
            missing=" and no column ".join(f"`{name}`" for name in missing),
            columns=" ".join(", ".join(headers).split())[:300] or Message("nothing"),
        )
    for row in rows:
        if any(row):
            cells = [*row, *[""] * (len(names) - len(row))]
            given = zip(headers, names, cells, strict=False)
            yield {name: in_millimetres(header, name, unescape_cell(cell)) for header, name, cell in given if name}


def headers_of(path: Path, mapping: Mapping[str, str] | None = None) -> Row:
    """Return the column names of a table, as written in it; a `mapping` of some of them helps to find them."""
    return split_header(read_rows(path), mapping or {})[0]


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table as texts; the format is recognised by content, whatever the file name."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
        if path.stat().st_size > MAX_BYTES:
            raise Invalid("{file} is too large for a table; split it", file=path)
        if first.startswith(b"\xd0\xcf\x11\xe0"):
            raise Invalid("{file} is in an old spreadsheet format (.xls); save it as .xlsx or .csv", file=path)
        rows = _of_zip(path) if first.startswith(b"PK\x03\x04") else _of_text(path)
        for number, row in enumerate(rows):
            if number > MAX_ROWS:
                raise Invalid("{file} has more than {most} rows; split it", file=path, most=MAX_ROWS)
            if len(row) > MAX_COLUMNS and any(row[MAX_COLUMNS:]):
                raise Invalid("{file} has more than {most} columns; leave some out", file=path, most=MAX_COLUMNS)
            yield [_tidy(cell) for cell in row[:MAX_COLUMNS]]
    except MembraError:
        raise
    except FileNotFoundError:
        raise NotFound("{file} does not exist; give the path of a CSV file", file=path) from None
    except Exception as error:  # the readers of spreadsheets raise nearly any type on damaged files
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise Invalid("{file} cannot be read as a table ({why}); save it as UTF-8 CSV", file=path, why=why) from None


def split_header(rows: Iterator[Row], mapping: Mapping[str, str]) -> tuple[Row, Iterator[Row]]:
    """Return the header of a table and the rows below it.

    The header is the first row that names an image, a shelfmark or a join: by that name, by a synonym, or by what the
    `mapping` says is one. Without one in the first 20 rows, it is the first row that is not empty.
    """
    own = {"image", "shelfmark", "join"}
    own |= {their for their, our in mapping.items() if our in own}
    seen: list[Row] = []
    for row in islice(rows, _HEADER_WITHIN):
        seen.append(row)
        texts = [cell for cell in row if cell]
        if own & {*texts, *guess_columns(texts).values()}:
            return _named(row), rows
    first = next((number for number, row in enumerate(seen) if any(row)), len(seen))
    return _named(seen[first] if first < len(seen) else []), chain(seen[first + 1 :], rows)


def _named(row: Row) -> Row:
    """Return column names, each on one line, without empty ones at the end."""
    names = [" ".join(cell.split())[:200] for cell in row]
    while names and not names[-1]:
        names.pop()
    return names


def _tidy(cell: str) -> str:
    return cell.replace("\xa0", " ").replace("\u200f", "").replace("\u200e", "").strip()[:MAX_CELL]


def _of_text(path: Path) -> Iterator[Row]:
    encoding = _encoding(path)
    try:
        with path.open(encoding=encoding, newline="") as file:
            sample = file.read(_SAMPLE)
            file.seek(0)
            first = sample.partition("\n")[0]
            separator = re.fullmatch(r"\ufeff?sep=(.)\r?", first)  # Excel's own declaration
            if separator:
                file.readline()
            csv.field_size_limit(1_000_000)
            yield from csv.reader(file, delimiter=separator[1] if separator else _separator(sample))
    except (UnicodeDecodeError, csv.Error) as error:
        raise Invalid("{file} cannot be read as CSV ({why}); save it as UTF-8 CSV", file=path, why=error) from None


def _encoding(path: Path) -> str:
    """Detect the encoding: by byte order mark or zero bytes, else UTF-8 if it is valid, else cp1252 or cp1255.

    The last two are what Excel writes in the West and in Israel. In cp1255 Hebrew words are runs of the bytes that in
    cp1252 are single accented letters within words.
    """
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
        if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if sample[:200].count(0) > len(sample[:200]) // 4:
            return "utf-16-le" if sample[1:2] == b"\0" else "utf-16-be"
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            file.seek(0)
            while block := file.read(1 << 20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return "utf-8-sig"
        except UnicodeDecodeError:
            runs = [len(run) for run in re.findall(rb"[\xe0-\xfa]+", sample)]
            return "cp1255" if sum(run for run in runs if run > 1) > sum(run for run in runs if run == 1) else "cp1252"


def _separator(sample: str) -> str:
    """Return the separator that cuts most of the first lines into one number of cells; on a tie, into more cells."""
    lines = sample.split("\n")[:40]
    best, chosen = (0.0, 1), ","
    for separator in _SEPARATORS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            continue
        mode = max(set(widths), key=lambda width: (widths.count(width), width)) if widths else 1
        if mode > 1 and (score := (widths.count(mode) / len(widths), mode)) > best:
            best, chosen = score, separator
    return chosen


def _of_zip(path: Path) -> Iterator[Row]:
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sum(sizes.values()) > MAX_BYTES:
        raise Invalid("{file} is too large for a table; split it", file=path)
    if "xl/workbook.xml" in sizes:
        sheets = max((size for name, size in sizes.items() if name.startswith("xl/worksheets/")), default=0)
        return _of_xlsx(path, merged=sheets <= MERGED_BYTES)
    if "content.xml" in sizes:
        from membra.sources.ods import ods_rows

        return ods_rows(path)
    raise Invalid("{file} is neither a spreadsheet (.xlsx, .ods) nor a CSV file", file=path)


def _of_xlsx(path: Path, *, merged: bool) -> Iterator[Row]:
    """Yield the rows of the first sheet: the values of formulas as the spreadsheet program last computed them."""
    from openpyxl import load_workbook

    with path.open("rb") as file:  # not by path: openpyxl would check the suffix
        book = load_workbook(file, read_only=not merged, data_only=True)
        sheet = book.worksheets[0]
        filled: dict[tuple[int, int], Any] = {}
        if merged:
            for area in sheet.merged_cells.ranges:
                if area.size["rows"] * area.size["columns"] <= 100_000:
                    value = sheet.cell(area.min_row, area.min_col).value
                    filled |= dict.fromkeys(area.cells, value)
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            yield [_text(filled.get((number, column), value)) for column, value in enumerate(row, start=1)]
        book.close()


def _text(value: Any) -> str:
    """Format a cell: whole numbers without a decimal point, dates without a time."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
    return value.isoformat() if isinstance(value, date | time) else str(value)
