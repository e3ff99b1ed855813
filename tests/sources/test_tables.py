"""Tests of tables: any separator, any encoding of Excel, XLSX, ODS; and errors in them."""

import re
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from openpyxl import Workbook
from PIL import Image

from membra.errors import Invalid, MembraError
from membra.sources import tables
from membra.sources.fragment import fragments
from membra.sources.tables import headers_of, read_rows, read_table

HEBREW = [["סימן מדף", "תמונה", "גובה"], ["כ״י ירושלים 5", "א.jpg", "120"], ["ב' 7", "ב.jpg", "90"]]
GERMAN = [["Signatur", "Bild", "Höhe (cm)"], ["Qu. 5", "für.jpg", "12,5"], ["Qu. 6", "öde.jpg", "9"]]


def table(path: Path, rows: list[list[str]], separator: str, encoding: str) -> Path:
    lines = [separator.join(f'"{cell}"' if separator in cell else cell for cell in row) for row in rows]
    path.write_bytes("\r\n".join([*lines, ""]).encode(encoding))
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    ("encoding", "rows"),
    [
        ("utf-8", HEBREW),
        ("utf-8-sig", GERMAN),
        ("utf-16", HEBREW),
        ("utf-16-le", GERMAN),
        ("cp1255", HEBREW),
        ("cp1252", GERMAN),
    ],
)
def test_csv_of_any_separator_and_encoding(
    tmp_path: Path, separator: str, encoding: str, rows: list[list[str]]
) -> None:
    assert list(read_rows(table(tmp_path / "t.csv", rows, separator, encoding))) == rows


def test_excel_may_say_its_separator_itself(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sep=;\nimage;note\na.jpg;one, two, three\n")
    assert read_table(tmp_path / "t.csv", ("image",)) == [{"image": "a.jpg", "note": "one, two, three"}]


def workbook(path: Path) -> Path:
    """Write a title over merged cells, a header below it, a column of merged cells, a date, numbers and a formula."""
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Catalogue of our fragments", None, None, None])
    sheet.append([])
    sheet.append(["Signatur", "Bibliothek", "Datierung", "Höhe (mm)", "Bilddatei"])
    sheet.append(["T-S 1.1", "Cambridge", datetime(2024, 5, 1), 120.0, "a.jpg"])
    sheet.append(["T-S 1.2", None, "1150?", "0095", "b.jpg"])
    sheet.append(['=A4&"x"', "Oxford", None, 7.25, "c.jpg"])
    sheet.merge_cells("A1:E1")
    sheet.merge_cells("B4:B5")
    book.create_sheet("other").append(["nothing"])
    book.save(path)
    return path


@pytest.mark.parametrize("limit", [None, 0])
def test_a_spreadsheet_with_all_that_spreadsheets_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    if limit is not None:
        monkeypatch.setattr(tables, "MERGED_BYTES", limit)  # read as a stream, like a large file
    path = workbook(tmp_path / "t.xlsx")
    assert headers_of(path) == ["Signatur", "Bibliothek", "Datierung", "Höhe (mm)", "Bilddatei"]
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        Image.new("L", (4, 4)).save(tmp_path / name)
    first, second, third = fragments(path)
    own = {"shelfmark": "T-S 1.1", "library": "Cambridge", "date": "2024-05-01", "height_mm": "120"}
    assert (first.id, first.columns) == ("a.jpg", own)
    assert second.columns["height_mm"] == "0095"  # a number stored as text stays text
    assert second.columns["library"] == ("Cambridge" if limit is None else "")
    assert third.columns["height_mm"] == "7.25"
    assert third.columns["shelfmark"] == ""  # a formula without a computed value; its text is no shelfmark


SPACE = "urn:oasis:names:tc:opendocument:xmlns"
FIRST = [
    "{Cote}{Fichier}{Hauteur}<t:table-cell t:number-columns-repeated='16381'/>",
    "<t:table-cell t:number-rows-spanned='2'><x:p>Or. <x:span>10</x:span>80</x:p></t:table-cell>"
    "<t:table-cell><o:annotation><x:p>check this</x:p></o:annotation>"
    "<x:p>a<x:s x:c='2'/>1<x:s/>.jpg</x:p></t:table-cell>"
    "<t:table-cell o:value-type='float' o:value='120'><x:p>120,00</x:p></t:table-cell>",
    "<t:covered-table-cell/>{b.jpg}<t:table-cell o:value-type='date' o:date-value='2024-05-01T00:00:00'/>",
]
END = "<t:table-row t:number-rows-repeated='1048572'><t:table-cell t:number-columns-repeated='16384'/></t:table-row>"
SHEETS = "".join(f"<t:table-row>{row}</t:table-row>" for row in FIRST) + END
ODS = (
    f"<d xmlns:o='{SPACE}:office:1.0' xmlns:x='{SPACE}:text:1.0' xmlns:t='{SPACE}:table:1.0'>"
    f"<t:table>{SHEETS}</t:table><t:table><t:table-row>{{no}}</t:table-row></t:table></d>"
)


def test_an_opendocument_spreadsheet(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", re.sub(r"\{(.+?)\}", r"<t:table-cell><x:p>\1</x:p></t:table-cell>", ODS))
    rows = [row for row in read_rows(tmp_path / "t.ods") if any(row)]
    assert rows == [
        ["Cote", "Fichier", "Hauteur"],
        ["Or. 1080", "a  1 .jpg", "120"],
        ["Or. 1080", "b.jpg", "2024-05-01"],
    ]


def test_too_many_rows_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("image,note\n" + "".join(f"{n}.jpg,x\n" for n in range(3000)))
    assert len(read_table(path, ("image",))) == 3000
    monkeypatch.setattr(tables, "MAX_ROWS", 2999)
    with pytest.raises(MembraError, match="more than 2999 rows"):
        read_table(path, ("image",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "old spreadsheet format"),
        (b"PK\x03\x04 not a zip", "cannot be read as a table"),
        (b"image\n\x81\x8d\x8f\n", "UTF-8 CSV"),
    ],
)
def test_what_is_no_table_is_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(content)
    with pytest.raises(MembraError, match=said) as error:
        fragments(path)
    assert "\n" not in str(error.value)


def test_a_zip_that_unpacks_to_too_much_is_refused_from_its_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_BYTES", 1_000_000)
    path = tmp_path / "t.ods"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", b" " * 2_000_000)
    with pytest.raises(MembraError, match="too large"):
        list(read_rows(path))


def test_one_missing_file_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "a.jpg")
    (tmp_path / "t.csv").write_text("image,shelfmark\na.jpg,1\ngone.jpg,2\n,3\n")
    first, second, third = fragments(tmp_path / "t.csv")
    assert not first.refused
    assert (second.id, second.columns) == ("gone.jpg", {"shelfmark": "2"})
    assert "neither beside the table" in second.refused
    assert "names no image" in third.refused


@pytest.mark.parametrize("again", ["a.jpg", "./a.jpg", "x\\a.jpg"])
def test_an_image_named_twice_in_any_spelling_is_a_sentence(tmp_path: Path, again: str) -> None:
    for folder in (tmp_path, tmp_path / "x"):
        folder.mkdir(exist_ok=True)
        Image.new("L", (4, 4)).save(folder / "a.jpg")
    first = "x/a.jpg" if "x" in again else "a.jpg"
    (tmp_path / "t.csv").write_text(f"image,join\n{first},J1\n{again},J2\n")
    with pytest.raises(Invalid, match="twice"):
        fragments(tmp_path / "t.csv")


def test_no_row_is_lost_where_the_names_of_columns_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Foo,Bar\na.jpg,1\nb.jpg,2\nc.jpg,3\n")
    assert headers_of(path) == ["Foo", "Bar"]
    assert [row["image"] for row in read_table(path, ("image",), {"Foo": "image"})] == ["a.jpg", "b.jpg", "c.jpg"]


def test_a_mapping_tells_the_header_from_a_title_above_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("My fragments\n\nFoo,Bar\na.jpg,1\n")
    assert headers_of(path, {"Foo": "image"}) == ["Foo", "Bar"]
    assert read_table(path, ("image",), {"Foo": "image"}) == [{"image": "a.jpg", "Bar": "1"}]
