"""Reads the first sheet of an OpenDocument spreadsheet (ODF 1.3, part 3), a row at a time."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, iterparse

_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_WHITE = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MAX_REPEATED = 1000  # repetitions of a cell or row with content; empty ones are repeated to the end of the sheet


def ods_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows as texts. Merged cells all have the text of the first of them."""
    spans: dict[int, tuple[int, str]] = {}  # by column: rows that a merged cell still spans, and its text
    with zipfile.ZipFile(path) as archive, archive.open("content.xml") as content:
        for event, element in iterparse(content, ("start", "end")):
            if event == "end" and element.tag == f"{_TABLE}table":
                return  # only the first sheet is read
            if event == "end" and element.tag == f"{_TABLE}table-row":
                cells = _cells(element, spans)
                count = int(element.get(f"{_TABLE}number-rows-repeated", "1"))
                for _ in range(min(count, _MAX_REPEATED) if any(cells) else 1):
                    yield list(cells)
                element.clear()


def _cells(row: Element, spans: dict[int, tuple[int, str]]) -> list[str]:
    found: list[str] = []
    for cell in row:
        if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            continue
        text = _text(cell)
        count = int(cell.get(f"{_TABLE}number-columns-repeated", "1"))
        if cell.tag == f"{_TABLE}covered-table-cell":
            for _ in range(min(count, _MAX_REPEATED)):
                left, value = spans.get(len(found), (0, ""))
                found.append(text or (value if left else ""))
                if left:
                    spans[len(found) - 1] = (left - 1, value)
            continue
        rows, columns = (int(cell.get(f"{_TABLE}number-{name}-spanned", "1")) for name in ("rows", "columns"))
        for column in range(len(found), len(found) + min(columns, _MAX_REPEATED)):
            # In the row of the cell itself the other columns are covered; in the rows below, all of them.
            spans[column] = (rows - (column == len(found)), text)
        if not text and len(found) + count > _MAX_REPEATED:
            continue  # empty cells to the end of the sheet
        found += [text] * min(count, _MAX_REPEATED)
    while found and not found[-1]:
        found.pop()
    return found


def _text(cell: Element) -> str:
    kind = cell.get(f"{_OFFICE}value-type", "")
    if kind in ("float", "currency", "percentage"):
        return f"{float(cell.get(f'{_OFFICE}value', '0')):.15g}"
    if kind == "date":
        return cell.get(f"{_OFFICE}date-value", "").removesuffix("T00:00:00").replace("T", " ")
    if kind == "boolean":
        return "yes" if cell.get(f"{_OFFICE}boolean-value") == "true" else "no"
    return "\n".join(_of_paragraph(paragraph) for paragraph in cell.findall(f"{_TEXT}p"))


def _of_paragraph(element: Element) -> str:
    """Return the text of a paragraph or a part of it, with the spaces that the format writes as elements."""
    text = element.text or ""
    for part in element:
        if part.tag == f"{_TEXT}s":
            text += " " * min(int(part.get(f"{_TEXT}c", "1")), _MAX_REPEATED)
        elif part.tag in _WHITE:
            text += _WHITE[part.tag]
        elif part.tag != f"{_OFFICE}annotation":
            text += _of_paragraph(part)
        text += part.tail or ""
    return text
