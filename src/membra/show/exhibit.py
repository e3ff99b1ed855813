"""The evidence for two fragments without a server: one picture, or one page that holds everything it shows."""

import base64
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from membra.errors import Invalid
from membra.files import atomic_write, check_place
from membra.show.evidence import Evidence, Match, best_shown
from membra.show.picture import label_font
from membra.show.strips import cut_letter, strip
from membra.show.upright import View, upright_view
from membra.sources.photograph import read_photograph

SHOWN = 12  # matches in a picture or page
LETTERS = 6  # letters of each side in a match's line
LETTER = 26  # px, the height of a letter in the photographs shown; both are brought to it
_SIDE = 900  # px, the most that a photograph takes up
_GAP = 20
_INK, _PAPER = "#2b2622", "#faf8f4"
# Colours that stay apart for the colour-blind (Okabe and Ito), and a number on every frame besides.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


@dataclass(frozen=True)
class Line:
    """One match as it is shown: its number, what it says, and the letters of both sides."""

    number: int
    match: Match
    letters_a: Image.Image
    letters_b: Image.Image


def write_exhibit(evidence: Evidence, out: Path) -> None:
    """Write the evidence as a picture (`.png`) or as a page that needs no other file (`.html`)."""
    if out.suffix.lower() not in (".png", ".html"):
        raise Invalid("{file} must end in .png or .html", file=out)
    check_place(out)
    if out.suffix.lower() == ".png":
        atomic_write(out, _encoded(draw_exhibit(evidence), "PNG"))
    else:
        atomic_write(out, exhibit_page(evidence).encode())


def draw_exhibit(evidence: Evidence) -> Image.Image:
    """Both photographs at one letter height with the matched letters framed, and the letters side by side below."""
    photographs, lines = _material(evidence)
    a, b = _framed(evidence, photographs, lines)
    wide = max(a.width + b.width + 3 * _GAP, 820)
    rows = [max(line.letters_a.height, line.letters_b.height) + 12 for line in lines]
    top = _GAP + 34
    sheet = Image.new("RGB", (wide, top + max(a.height, b.height) + _GAP + sum(rows) + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = label_font(16), label_font(13)
    middle = _GAP + a.width + _GAP
    names = ((_GAP, evidence.a, evidence.doubtful_a), (middle, evidence.b, evidence.doubtful_b))
    for left, name, doubtful in names:
        draw.text(
            (left, _GAP), " ".join(name.split())[:60] + ("  (doubtful)" if doubtful else ""), fill=_INK, font=font
        )
    told = f"distance {evidence.distance:.2f}, candidate {evidence.rank}"
    draw.text((wide - _GAP - draw.textlength(told, font=small), 4), told, fill=_INK, font=small)
    sheet.paste(a, (_GAP, top))
    sheet.paste(b, (middle, top))
    y = top + max(a.height, b.height) + _GAP
    for line, high in zip(lines, rows, strict=True):
        colour = COLOURS[(line.number - 1) % len(COLOURS)]
        draw.text((_GAP, y + high // 2 - 10), f"{line.number}", fill=colour, font=font)
        half = (wide - 60 - 2 * _GAP) // 2
        for left, letters in ((60, line.letters_a), (60 + half + _GAP, line.letters_b)):
            shown = letters.crop((0, 0, min(letters.width, half), letters.height))
            sheet.paste(shown, (left, y + (high - shown.height) // 2))
        y += high
    return sheet


def exhibit_page(evidence: Evidence) -> str:
    """The same as one HTML file with the pictures inside; it opens from the file system, without a network."""
    from jinja2 import Environment

    photographs, lines = _material(evidence)
    a, b = _framed(evidence, photographs, lines)
    template = (files("membra.show") / "templates" / "exhibit.html").read_text(encoding="utf-8")
    shown = [
        {
            "number": line.number,
            "distance": line.match.distance,
            "share": line.match.share,
            "count_a": len(line.match.letters_a),
            "count_b": len(line.match.letters_b),
            "a": _embedded(line.letters_a),
            "b": _embedded(line.letters_b),
        }
        for line in lines
    ]
    # Autoescape: file names and shelfmarks are other people's text.
    page = Environment(autoescape=True).from_string(template)
    return page.render(evidence=evidence, image_a=_embedded(a), image_b=_embedded(b), lines=shown)


def _material(evidence: Evidence) -> tuple[tuple[NDArray[np.uint8], NDArray[np.uint8]], list[Line]]:
    a, b = read_photograph(evidence.image_a), read_photograph(evidence.image_b)
    lines = []
    for number, match in enumerate(best_shown(evidence.matches, SHOWN), start=1):
        first = [
            cut_letter(a, evidence.boxes_a[at], evidence.height_a, angle=evidence.angle_a)
            for at in match.letters_a[:LETTERS]
        ]
        second = [
            cut_letter(b, evidence.boxes_b[at], evidence.height_b, angle=evidence.angle_b)
            for at in match.letters_b[:LETTERS]
        ]
        lines.append(Line(number, match, strip(first, paper=_PAPER), strip(second, paper=_PAPER)))
    return (a, b), lines


def _framed(
    evidence: Evidence, photographs: tuple[NDArray[np.uint8], NDArray[np.uint8]], lines: list[Line]
) -> tuple[Image.Image, Image.Image]:
    """Both photographs upright at one letter height, each match's letters in a frame with its number."""
    views = views_at_one_height(evidence, photographs, LETTER, _SIDE)
    shown = []
    for side, (view, photograph) in enumerate(zip(views, photographs, strict=True)):
        image = view.draw(photograph)
        draw, font = ImageDraw.Draw(image), label_font(11)
        frames = view.frames((evidence.boxes_a, evidence.boxes_b)[side])
        for line in reversed(lines):
            colour = COLOURS[(line.number - 1) % len(COLOURS)]
            for at in (line.match.letters_a, line.match.letters_b)[side]:
                x, y, wide, high = frames[at].tolist()
                draw.rectangle((x - 2, y - 2, x + wide + 2, y + high + 2), outline=colour, width=2)
                draw.text((x - 1, y - 14), str(line.number), fill=colour, font=font)
        shown.append(image)
    return shown[0], shown[1]


def views_at_one_height(
    evidence: Evidence,
    photographs: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    letter: float,
    side: int,
    most: float = float("inf"),
) -> list[View]:
    """Both photographs upright, with letters of `letter` px, or as high as lets both fit into `side` px.

    `most`: how many times a photograph is enlarged at most.
    """
    sizes = [(photograph.shape[1], photograph.shape[0]) for photograph in photographs]
    views = [
        upright_view(sizes[0], evidence.angle_a, evidence.outline_a),
        upright_view(sizes[1], evidence.angle_b, evidence.outline_b),
    ]
    scales = [min(letter / max(height, 1.0), most) for height in (evidence.height_a, evidence.height_b)]
    longest = max(max(view.width, view.height) * scale for view, scale in zip(views, scales, strict=True))
    fit = min(1.0, side / longest)
    return [view.scaled(scale * fit) for view, scale in zip(views, scales, strict=True)]


def _embedded(image: Image.Image) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(_encoded(image, "JPEG")).decode()


def _encoded(image: Image.Image, format: str) -> bytes:
    buffer = BytesIO()
    image.save(buffer, format, quality=85)
    return buffer.getvalue()
