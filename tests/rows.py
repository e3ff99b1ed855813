"""The faults, loads and bad inputs that membra must survive, and which tests in `tests/reliability` prove each.

A test names its row (`test_r07_...`), says in the marker `row` how often it tries, and in its docstring what, and how
it was seen to fail: which protection was taken out, and what it then said. `docs/reliability.md` is made from these.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "reliability"
PAGE = FOLDER.parents[1] / "docs" / "reliability.md"

# Number: the fault or load, and what must hold.
ROWS = {
    1: ("killed (SIGKILL) at 100 random moments of `index` and of `adapt`",
        "as before or as after; `verify` passes; running it again ends with the rankings of an undisturbed run"),
    2: ("killed 100 times while verdicts, corrections and notes are posted", "nothing acknowledged is lost"),
    3: ("the disk is full, at every write", "a clear error; the collection is whole and searchable"),
    4: ("each write, fsync and rename fails once", "as 3"),
    5: ("a shard cut off at 50 places; one byte flipped, 200 times",
        "told by `verify` and on opening; never a wrong ranking, no traceback"),
    6: ("100 added and then 100, against 200 at once; removed and added again",
        "the same distances (1e-6) and the same order"),
    7: ("two writers at once", "the second is told who holds it"),
    8: ("4 readers and 1 writer for 60 s", "no errors; each reader sees one state"),
    9: ("a collection of another format, or of another recipe", "refused with what to do; never misread"),
    10: ("a Dask worker killed during `index --cluster`", "every fragment is described exactly once"),
    11: ("a header that claims 200 megapixels; a JPEG of 5 KB that claims 64250 x 64250",
         "refused from the header in under 1 s with less than 300 MB"),
    12: ("PDF, SVG, EPS, FITS, text or a pickle, named .jpg", "refused by content"),
    13: ("empty, cut off, CMYK, 16 bits, 1 bit, palette, alpha, TIFF of many pages, JPEG 2000",
         "read or refused; boxes right where read"),
    14: ("all 8 EXIF orientations in JPEG and TIFF", "boxes lie on the letters as displayed"),
    15: ("a blank page, one letter, 7 letters, solid ink, no manuscript",
         "kept and marked, or refused; never silently absent"),
    16: ("one fragment at half, once and twice its resolution", "each first in the other's ranking"),
    17: ("light on dark; backgrounds blue, black, white, grey; ruler, colour chart, tape",
         "99 % of the boxes inside the fragment"),
    18: ("names in Hebrew, NFC and NFD, spaces, quotes, newlines, 255 bytes; a folder linked to itself",
         "kept through shell, page, CSV, IIIF and plot; the loop ends"),
    19: ("an encoder that is a pickle, or of absurd shapes", "refused by content; nothing is executed"),
    20: ("`pickle`, `torch.load`, `allow_pickle`, `eval`, `shell=True` in the source", "none"),
    21: ("`../`, `%2e%2e`, NUL, absolute paths, links that lead out, wherever a name is taken",
         "404, no path in the answer"),
    22: ("a foreign Host header, a POST from another site or without the page's token",
         "403; 127.0.0.1 unless told otherwise, and then a token is asked for"),
    23: ("`<script>` in a name, shelfmark, label, attribution", "shown as text; no inline script is allowed"),
    24: ("a manifest at a loopback, private, link-local or `file:` address, also by redirect or rebinding",
         "refused at every hop unless allowed"),
    25: ("a manifest of 1 GB, of 1000 levels, a gzip bomb, 1 byte a second, a cycle", "limits; a clear error"),
    26: ("429, 403, 500 or a challenge page from an image server", "waits, goes on, reports; a second run resumes"),
    27: ("every route fuzzed from the OpenAPI schema", "no 5xx"),
    28: ("CSV cells that begin with = + - @", "neutralised; opens in Excel with Hebrew intact"),
    29: ("300,000 bags", "opened in under 1 s; mapped, not loaded; an exact query near the bandwidth of memory"),
    30: ("8 people searching while a ninth indexes, 60 s", "no errors; p95 under 4 x that of one person"),
    31: ("10,000 images", "memory is flat after the first 500"),
    32: ("the same seed twice", "the same bytes"),
    33: ("no network", "demo, tests, search and pages work; no outgoing call"),
    34: ("keyboard only; axe-core on every page, in both directions of writing", "no serious violation"),
}  # fmt: skip

HEAD = """# What membra survives

Each row is a promise, and at least one test in `tests/reliability/`; `make test-long` tries it as often as is said
here. "Seen to fail" says which protection was taken out to see the test fail, and what it then said: a test that cannot
fail proves nothing.
This page is made by `MEMBRA_LENGTH=long pytest tests/reliability --write-table`; do not edit it.

| row | fault or load, and what must hold | tried | times | result | seen to fail |
|---|---|---|---|---|---|
"""


_SAID = re.compile(r"^Tried: (.+?)\s+^Seen to fail: (.+)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Proof:
    """What one test says of itself."""

    test: str  # file.py::test_r07_two_writers
    row: int
    tried: str
    times: int
    without: str


def proofs(folder: Path = FOLDER) -> list[Proof]:
    """The marked tests, read from their source: nothing need be run or even be installed."""
    found = []
    for file in sorted(folder.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            marks = [mark for mark in node.decorator_list if isinstance(mark, ast.Call) and _is_row(mark.func)]
            number = re.match(r"test_r(\d\d)_", node.name)
            said = _SAID.search(ast.get_docstring(node) or "")
            if not bool(number) == bool(said) == (len(marks) == 1):
                raise ValueError(
                    f"{file.name}::{node.name}: a test of a row has its number in its name, one mark, and says in its "
                    "docstring what it tried and how it was seen to fail"
                )
            if number and said:
                times = ast.literal_eval(marks[0].keywords[0].value)
                found.append(Proof(f"{file.name}::{node.name}", int(number[1]), said[1], times, said[2]))
    return sorted(found, key=lambda proof: proof.row)


def _is_row(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr == "row"


def cells(number: int, found: Iterable[Proof]) -> tuple[str, str, str, str, str]:
    """One row of the page without its result: number, promise, tried, times, seen to fail."""
    mine = [proof for proof in found if proof.row == number]
    fault, holds = ROWS[number]
    tried, times, without = (
        "<br>".join(_cell(str(getattr(proof, name))) for proof in mine) for name in ("tried", "times", "without")
    )
    return str(number), _cell(f"{fault}: *{holds}*"), tried, times, without


def page(found: list[Proof], results: Mapping[str, str]) -> str:
    """The whole page. `results` has "3 passed" and the like by test; what was not run keeps the result it had."""
    lines, before = [], written()
    for number in ROWS:
        row, promise, tried, times, without = cells(number, found)
        _, _, once, _, had, *_ = before.get(number, [""] * 6)
        kept = dict(zip(once.split("<br>"), had.split("<br>"), strict=False))
        mine = [proof for proof in found if proof.row == number]
        said = [results.get(proof.test, kept.get(_cell(proof.tried), "not run")) for proof in mine]
        lines.append(f"| {row} | {promise} | {tried} | {times} | {'<br>'.join(said) or 'not tested'} | {without} |\n")
    return HEAD + "".join(lines)


def written() -> dict[int, list[str]]:
    """The cells of the page as it stands, by row."""
    if not PAGE.exists():
        return {}
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|")] for line in lines]
    return {int(row[0]): [cell.replace("\0", "\\|") for cell in row] for row in rows if row[0].isdigit()}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
