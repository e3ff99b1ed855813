"""Two fragments placed together on one table, at true scale if their sizes are known, with ruling, as a picture."""

import math
import re
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from membra.describe.recipe import Description
from membra.see.letters import find_lines
from membra.show.evidence import letter_height, match_words, matched_heights
from membra.show.holding import Holding, name_of
from membra.show.picture import label_font
from membra.show.strips import COLOURS, INK, PAPER
from membra.show.upright import View, simplified, upright_view
from membra.sources.photograph import displayed_size, read_photograph
from membra.store.placements import Lies, Placement

GAP = 0.06  # of the pieces' width, between two without a placement
MIN_LINES = 3  # minimum number of lines for a pitch
AGREE = 1.15  # ratio up to which the catalogue's height and width may disagree with the photograph
CUT_SIDE = 700  # px, longer side of the photograph in which the edge is searched
BAND = 0.08  # of the fragment's size: width of the band within the outline that may contain its edge
MIN_LEFT = 0.6  # of the area within the outline
_MM = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*(mm)?\s*")


@dataclass(frozen=True)
class Piece:
    """One fragment for the table. Lengths are px of its upright view unless another unit is given."""

    id: str
    name: str
    view: View
    outline: NDArray[np.float64]  # (k, 2) x, y of the cut-out
    per_unit: float  # px per unit of the table
    pitch: float  # distance of lines; 0 if unknown
    ruled: float  # y of one line
    disagrees: bool  # the catalogue's height and width disagree with the photograph

    @property
    def middle(self) -> tuple[float, float]:
        """The reference point of a placement: the centre of the outline's bounding box."""
        low, high = self.outline.min(axis=0), self.outline.max(axis=0)
        return float(low[0] + high[0]) / 2, float(low[1] + high[1]) / 2

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in units of the table."""
        wide, high = np.ptp(self.outline, axis=0) / self.per_unit
        return float(wide), float(high)


@dataclass(frozen=True)
class Table:
    """Two pieces and their common unit: `mm`, or `letters` (letter heights) if a size is unknown."""

    a: Piece
    b: Piece
    unit: str

    def beside(self) -> tuple[Lies, Lies]:
        """Return the initial placement: side by side."""
        wide = self.a.size[0], self.b.size[0]
        gap = GAP * sum(wide)
        return Lies(-round((wide[0] + gap) / 2, 1), 0.0), Lies(round((wide[1] + gap) / 2, 1), 0.0)


def lay(holding: Holding, a: str, b: str, unit: str | None = None) -> Table:
    """Prepare two fragments for the table. `unit`: that of a stored placement; None: mm if both sizes are known."""
    one, other = holding.description(a), holding.description(b)
    measured = [_per_mm(holding, id, _view(holding, id, description)) for id, description in ((a, one), (b, other))]
    true = all(per_mm for per_mm, _ in measured) and unit != "letters"
    heights = matched_heights(one, other, match_words(one, other, holding.collection.recipe.bag))
    scales = [per_mm for per_mm, _ in measured] if true else [max(height, 1.0) for height in heights]
    pieces = [
        _piece(holding, id, description, scale, disagrees)
        for (id, description), scale, (_, disagrees) in zip(((a, one), (b, other)), scales, measured, strict=True)
    ]
    return Table(pieces[0], pieces[1], "mm" if true else "letters")


def lies_of(placement: Placement, a: str) -> tuple[Lies, Lies]:
    """Return the placement of both fragments, that of `a` first."""
    return (placement.lies_a, placement.lies_b) if placement.a == a else (placement.lies_b, placement.lies_a)


def cut_out(photograph: NDArray[np.uint8], outline: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return (k, 2) x, y tightly around a fragment, from an outline (m, 2) that includes some ground.

    GrabCut (Rother, Kolmogorov and Blake, 2004) decides in a band along the outline; pixels far inside are kept, those
    outside are dropped. If it leaves less than `MIN_LEFT` of the fragment, the outline is returned unchanged.
    """
    scale = min(1.0, CUT_SIDE / max(photograph.shape[:2]))
    size = max(1, round(photograph.shape[1] * scale)), max(1, round(photograph.shape[0] * scale))
    small = np.asarray(cv2.resize(photograph, size, interpolation=cv2.INTER_AREA), np.uint8)
    filled = np.zeros(small.shape[:2], np.uint8)
    cv2.fillPoly(filled, [np.rint(outline * scale).astype(np.int32)], 1)
    band = max(3, round(BAND * math.sqrt(float(filled.sum()))))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * band + 1, 2 * band + 1))
    inner = cv2.erode(filled, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    labels = np.where(inner > 0, cv2.GC_FGD, np.where(filled > 0, cv2.GC_PR_FGD, cv2.GC_BGD)).astype(np.uint8)
    before = np.asarray(simplified(outline), np.float64)
    if not inner.any() or filled.all():
        return before
    cv2.setRNGSeed(0)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.grabCut(small, labels, (0, 0, 1, 1), *models, 4, cv2.GC_INIT_WITH_MASK)  # the rectangle is ignored
    found = np.isin(labels, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    closed = np.asarray(cv2.morphologyEx(found, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)), np.uint8)
    edges, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    edge = max(edges, key=cv2.contourArea, default=None)
    if edge is None or cv2.contourArea(edge) < MIN_LEFT * float(filled.sum()):
        return before
    near = cv2.approxPolyDP(edge, 0.7, True)[:, 0].astype(np.float64)
    return np.asarray((near + 0.5) / scale)


def line_pitch(frames: NDArray[np.float64], height: float) -> tuple[float, float]:
    """Return line pitch in px and y of one line, from upright letters (n, 4) of this height; 0, 0 if unknown.

    The first estimate is the median distance of consecutive lines; it numbers the lines, and the pitch is the slope of
    a linear fit of y to the numbers.
    """
    lines = find_lines(np.asarray(frames), height)[:, 1] if len(frames) else np.zeros(0)
    apart = np.diff(lines)
    apart = apart[apart > 0.8 * height]
    if len(lines) < MIN_LINES or len(apart) < MIN_LINES - 1:
        return 0.0, 0.0
    guess = float(np.median(apart))
    numbers = np.rint((lines - lines[len(lines) // 2]) / guess)
    if len(set(numbers.tolist())) < MIN_LINES:
        return 0.0, 0.0
    pitch, first = np.polyfit(numbers, lines, 1)
    return float(pitch), float(first)


def draw_fit(holding: Holding, placement: Placement, side: int = 1400, *, ruling: bool = True) -> Image.Image | None:
    """Draw a placement within `side` px: both cut-outs, their ruling and names, and a scale.

    None for a placement in millimetres if the sizes are no longer known: its numbers fit no other unit.
    """
    table = lay(holding, placement.a, placement.b, placement.unit)
    if table.unit != placement.unit:
        return None
    laid = [(table.a, placement.lies_a), (table.b, placement.lies_b)]
    corners = np.concatenate([_on_table(piece, lies, piece.outline) for piece, lies in laid])
    low, high = corners.min(axis=0), corners.max(axis=0)
    extent = np.maximum(high - low, 1e-6)
    margin = 0.04 * float(extent.max())
    scale = side / (float(extent.max()) + 2 * margin)  # px of the picture per unit
    wide, tall = (max(1, round(float(one + 2 * margin) * scale)) for one in extent)
    sheet = np.array(Image.new("RGB", (wide, tall), PAPER))
    move = np.array([[scale, 0, scale * (margin - low[0])], [0, scale, scale * (margin - low[1])]])
    for piece, lies in laid:
        sheet = _paste(sheet, read_photograph(holding.entry(piece.id).fragment.path), piece, lies, move)
    image = Image.fromarray(sheet)
    draw, font = ImageDraw.Draw(image), label_font(max(12, side // 80))
    for (piece, lies), colour in zip(laid, COLOURS, strict=False):
        if ruling and piece.pitch:
            _rule(draw, piece, lies, move, colour, max(wide, tall))
        x, y = _moved(move, np.array([[lies.x, lies.y + piece.size[1] / 2]]))[0]
        shown = " ".join(piece.name.split())[:60]
        left = min(max(4, x - draw.textlength(shown, font=font) / 2), max(4, wide - draw.textlength(shown, font=font)))
        draw.text(
            (left, min(y, tall - 2.4 * font.size)), shown, fill=colour, font=font, stroke_width=3, stroke_fill=PAPER
        )
    _scale_bar(draw, table.unit, scale, tall, font.size)
    return image


def _view(holding: Holding, id: str, description: Description) -> tuple[View, NDArray[np.float64]]:
    """Return the fragment's upright view and its cut-out's outline in that view."""
    fragment = holding.entry(id).fragment
    width, height = displayed_size(fragment.path)
    view = upright_view((width, height), description.angle, description.outline if fragment.piece else None)
    outline = description.outline
    if len(outline) < 3:
        return view, view.points(np.array([(0, 0), (width, 0), (width, height), (0, height)]))
    tight = holding.kept(("cut out", id), lambda: cut_out(read_photograph(fragment.path), outline))
    return view, view.points(tight)


def _piece(holding: Holding, id: str, description: Description, per_unit: float, disagrees: bool) -> Piece:
    view, outline = _view(holding, id, description)
    pitch, ruled = line_pitch(view.frames(description.boxes), letter_height(description))
    return Piece(id, name_of(holding.entry(id)), view, outline, per_unit, pitch, ruled, disagrees)


def _per_mm(holding: Holding, id: str, seen: tuple[View, NDArray[np.float64]]) -> tuple[float, bool]:
    """Return px of the view per mm from the columns height_mm and width_mm (0 if absent), and whether they disagree."""
    columns = holding.entry(id).fragment.columns
    found = []
    for name, extent in zip(("width_mm", "height_mm"), np.ptp(seen[1], axis=0), strict=True):
        said = _MM.fullmatch(columns.get(name, ""))
        size = float(said[1].replace(",", ".")) if said else 0.0
        if size > 0:
            found.append(float(extent) / size)
    if not found:
        return 0.0, False
    return float(np.exp(np.mean(np.log(found)))), max(found) > AGREE * min(found)


def _on_table(piece: Piece, lies: Lies, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert points (n, 2) of the view to units of the table."""
    return _moved(_matrix(piece, lies), points)


def _matrix(piece: Piece, lies: Lies) -> NDArray[np.float64]:
    """Return the (2, 3) matrix from px of the view to units of the table."""
    turn = math.radians(lies.turn)
    turned = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]) / piece.per_unit
    return np.column_stack([turned, np.array([lies.x, lies.y]) - turned @ np.array(piece.middle)])


def _moved(matrix: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2])


def _paste(
    sheet: NDArray[np.uint8], photograph: NDArray[np.uint8], piece: Piece, lies: Lies, move: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Paste one cut-out fragment onto the sheet."""
    below = np.array([0.0, 0.0, 1.0])
    whole = np.vstack([move, below]) @ np.vstack([_matrix(piece, lies), below])
    matrix = (whole @ np.vstack([piece.view.matrix, below]))[:2]
    scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
    if scale < 1:  # resized by areas first: rotation alone needs no filter
        size = max(1, round(photograph.shape[1] * scale)), max(1, round(photograph.shape[0] * scale))
        stretch = np.diag([photograph.shape[1] / size[0], photograph.shape[0] / size[1], 1.0])
        photograph = np.asarray(cv2.resize(photograph, size, interpolation=cv2.INTER_AREA))
        matrix = matrix @ stretch
    laid = cv2.warpAffine(photograph, matrix, (sheet.shape[1], sheet.shape[0]), flags=cv2.INTER_CUBIC)
    mask = np.zeros(sheet.shape[:2], np.uint8)
    outline = _moved(whole[:2], piece.outline)
    cv2.fillPoly(mask, [np.rint(outline * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
    share = mask[:, :, None].astype(np.float32) / 255
    return np.asarray(laid * share + sheet * (1 - share), np.uint8)


def _rule(
    draw: ImageDraw.ImageDraw, piece: Piece, lies: Lies, move: NDArray[np.float64], colour: str, reach: int
) -> None:
    """Draw the fragment's lines and their extension beyond it."""
    low, high = piece.outline.min(axis=0), piece.outline.max(axis=0)
    wide, tall = high - low
    first = math.ceil((low[1] - 0.5 * tall - piece.ruled) / piece.pitch)
    last = math.floor((high[1] + 0.5 * tall - piece.ruled) / piece.pitch)
    for number in range(first, min(last, first + 400) + 1):
        y = piece.ruled + number * piece.pitch
        ends = _moved(move, _on_table(piece, lies, np.array([[low[0] - wide, y], [high[0] + wide, y]])))
        draw.line([tuple(end) for end in ends.tolist()], fill=colour, width=max(1, reach // 1200))


def _scale_bar(draw: ImageDraw.ImageDraw, unit: str, scale: float, tall: int, size: float) -> None:
    length = 10 if unit == "mm" else 5
    said = "10 mm" if unit == "mm" else "5 letters high; sizes not known"
    y = tall - size * 0.6
    draw.line([(8, y), (8 + length * scale, y)], fill=INK, width=3)
    draw.text((14 + length * scale, y - size), said, fill=INK, font=label_font(int(size)))
