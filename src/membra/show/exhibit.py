"""Evidence for two fragments as one picture, and its parts that the dossier shows too: kinds of letters, and views."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from membra.show.evidence import Evidence, Match, best_shown
from membra.show.picture import label_font
from membra.show.strips import INK, PAPER, cut_letter, kind_colour, strip
from membra.show.upright import View, upright_view
from membra.sources.photograph import read_photograph

SHOWN, LETTERS = 12, 6  # matches in the picture, and letters of each side per match
LETTER = 26  # px, letter height to which both displayed photographs are scaled
_SIDE = 900  # px, maximum size of a photograph
_GAP = 20

Photographs = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@dataclass(frozen=True)
class Kind:
    """One displayed match: its number from 1, its colour, and some letters of both sides as pictures."""

    number: int
    match: Match
    strips: tuple[Image.Image, Image.Image]

    @property
    def colour(self) -> str:
        return kind_colour(self.number)

    @property
    def letters(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All letters of this kind on both sides, as indices of the boxes."""
        return self.match.letters_a, self.match.letters_b


def photographs_of(evidence: Evidence) -> Photographs:
    return read_photograph(evidence.image_a), read_photograph(evidence.image_b)


def kinds_of(evidence: Evidence, photographs: Photographs, shown: int, letters: int) -> list[Kind]:
    """Return the best `shown` matches, with up to `letters` letters of each side."""
    sides = (
        (photographs[0], evidence.boxes_a, evidence.height_a, evidence.angle_a),
        (photographs[1], evidence.boxes_b, evidence.height_b, evidence.angle_b),
    )
    found = []
    for number, match in enumerate(best_shown(evidence.matches, shown), start=1):
        a, b = (
            strip([cut_letter(photograph, boxes[at], height, angle=angle) for at in some[:letters]])
            for (photograph, boxes, height, angle), some in zip(sides, (match.letters_a, match.letters_b), strict=True)
        )
        found.append(Kind(number, match, (a, b)))
    return found


def views_at_one_height(
    evidence: Evidence, photographs: Photographs, letter: float, side: int, most: float = float("inf")
) -> list[View]:
    """Return both photographs upright, with letters of `letter` px, or smaller so that both fit into `side` px.

    `most`: maximum enlargement factor of a photograph.
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


def draw_exhibit(evidence: Evidence) -> Image.Image:
    """Draw both photographs at one letter height with framed matches, and the matching letters side by side below."""
    photographs = photographs_of(evidence)
    kinds = kinds_of(evidence, photographs, SHOWN, LETTERS)
    a, b = _framed(evidence, photographs, kinds)
    wide = max(a.width + b.width + 3 * _GAP, 820)
    rows = [max(letters.height for letters in kind.strips) + 12 for kind in kinds]
    top = _GAP + 34
    sheet = Image.new("RGB", (wide, top + max(a.height, b.height) + _GAP + sum(rows) + _GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = label_font(16), label_font(13)
    middle = _GAP + a.width + _GAP
    names = ((_GAP, evidence.a, evidence.doubtful_a), (middle, evidence.b, evidence.doubtful_b))
    for left, name, doubtful in names:
        shown = " ".join(name.split())[:60] + ("  (doubtful)" if doubtful else "")
        draw.text((left, _GAP), shown, fill=INK, font=font)
    caption = f"distance {evidence.distance:.2f}" + (f", candidate {evidence.rank}" if evidence.rank else "")
    draw.text((wide - _GAP - draw.textlength(caption, font=small), 4), caption, fill=INK, font=small)
    sheet.paste(a, (_GAP, top))
    sheet.paste(b, (middle, top))
    y = top + max(a.height, b.height) + _GAP
    half = (wide - 60 - 2 * _GAP) // 2
    for kind, high in zip(kinds, rows, strict=True):
        draw.text((_GAP, y + high // 2 - 10), f"{kind.number}", fill=kind.colour, font=font)
        for left, letters in zip((60, 60 + half + _GAP), kind.strips, strict=True):
            part = letters.crop((0, 0, min(letters.width, half), letters.height))
            sheet.paste(part, (left, y + (high - part.height) // 2))
        y += high
    return sheet


def _framed(evidence: Evidence, photographs: Photographs, kinds: list[Kind]) -> tuple[Image.Image, Image.Image]:
    """Draw both photographs upright at one letter height, each match's letters in frames with its number."""
    views = views_at_one_height(evidence, photographs, LETTER, _SIDE)
    shown = []
    for side, (view, photograph) in enumerate(zip(views, photographs, strict=True)):
        image = view.draw(photograph)
        draw, font = ImageDraw.Draw(image), label_font(11)
        frames = view.frames((evidence.boxes_a, evidence.boxes_b)[side])
        for kind in reversed(kinds):
            for at in kind.letters[side]:
                x, y, wide, high = frames[at].tolist()
                draw.rectangle((x - 2, y - 2, x + wide + 2, y + high + 2), outline=kind.colour, width=2)
                draw.text((x - 1, y - 14), str(kind.number), fill=kind.colour, font=font)
        shown.append(image)
    return shown[0], shown[1]
