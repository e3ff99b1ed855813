"""From a photograph to its readings: a first look finds pieces, scale and turn, a second reads each piece upright."""

from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import STRIDE, Eye, EyeSettings, Look
from membra.see.fixes import (
    BY_HAND,
    Fixes,
    Told,
    at_scale,
    cropped,
    how_many,
    rearranged,
    shifted,
    told,
    whole_crop,
    without_painted,
)
from membra.see.geometry import Mask, Matrix, along_axes, from_look, laid_back, outline_of, resized, shrunk, upright
from membra.see.glyphs import PATCH, Glyphs, GlyphSettings, lay_out
from membra.see.letters import Letters, LetterSettings, find_letters, find_lines
from membra.see.own_side import own_side
from membra.see.reading import Reading
from membra.see.split import Pieces, split, whole
from membra.see.turn import SURE, along_lines, direction, in_lines, ink_by_cell, letter_height
from membra.sources.fix import moved

HowMany = Literal["auto", "one"]
FAR = 25.0  # degrees by which writing must be turned to be called turned
SLANT = 5.0  # degrees that the eye may take slanting letters to be turned by
TILT = 2.0  # degrees by which lines must be turned for another look to be worth it
TOO_LOW, TOO_HIGH = 0.75, 1.35  # times the height that letters are to be read at; beyond it they are looked at again


def read_pieces(
    photograph: NDArray[np.uint8],
    eye: Eye,
    settings: EyeSettings,
    letters: LetterSettings,
    pieces: HowMany = "auto",
    fixes: Fixes = (),
) -> list[Reading]:
    """The readings of an RGB photograph (h, w, 3), one for each piece in reading order; `one`: all of it is one.

    Chips without writing follow, as readings without letters. `fixes` are what a person has corrected.
    """
    crop = whole_crop(fixes)
    if crop:
        x, y, wide, high = crop
        part = np.ascontiguousarray(photograph[y : y + high, x : x + wide])
        inner = [moved(fix, -x, -y) for fix in fixes if fix.kind != "crop" or fix.where]
        return [shifted(one, crop) for one in read_pieces(part, eye, settings, letters, pieces, inner)]
    look, scale, found = first_look(photograph, eye, settings, how_many(fixes) or pieces)
    found = rearranged(found, scale, fixes)
    # a piece so small that no pixel of the look is left of it is none
    written = [within for within in found.written() if within.any()] or whole(look).written()
    readings = [read_piece(photograph, look, scale, within, eye, settings, letters, fixes) for within in written]
    chips = [chip for chip in found.chips() if chip.any()]
    return readings + [Reading(_no_glyphs({}), outline_of(chip, scale), legibility=0.0) for chip in chips]


def first_look(
    photograph: NDArray[np.uint8], eye: Eye, settings: EyeSettings, pieces: str = "auto"
) -> tuple[Look, float, Pieces]:
    """The whole photograph, reduced, the scale, and its pieces; larger if its letters are too small to be seen well.

    Of several looks the one that shows most writing is kept: many letters that all stand the same way on their piece.
    Fibres and grain look like tiny letters too, but stand anyhow. Of several pieces the last look is kept.
    """
    longest = max(photograph.shape[:2])
    scale = min(1.0, settings.first / longest)
    best, most = None, -1.0
    while True:
        picture = resized(photograph, scale)
        look = eye.look(picture)
        found = whole(look) if pieces == "one" else split(look, picture)
        weight = ink_by_cell(look)
        height = letter_height(look, weight)
        sure = _agreement(look, weight, found)
        # a letter's ink covers about a sixth of the square of its height
        letters = float(weight.sum()) * STRIDE**2 / max(height**2 / 6, 1.0)
        evidence = min(letters, 60.0) * sure * sure
        seen = height >= (settings.min_plate if found.count > 1 else settings.min_first)
        if evidence > most or found.count > 1:
            best, most = (look, scale, found), evidence
        if scale >= 1.0 or (seen and letters >= 3 and sure >= SURE):
            break
        scale = min(1.0, scale * (min(4.0, max(2.0, 20.0 / height)) if letters >= 3 else 2.0))
    if most <= 0:  # nothing, or letters that fill the picture
        smaller = eye.look(resized(photograph, 0.4 * scale))
        best = (smaller, 0.4 * scale, whole(smaller)) if ink_by_cell(smaller).any() else best
    assert best is not None
    return best


def _agreement(look: Look, weight: NDArray[np.float32], found: Pieces) -> float:
    """How far the writing of each piece stands the same way, 0 to 1, the pieces counted by their ink."""
    if found.count == 1:
        return direction(look, weight)[1]
    own = [ink_by_cell(look, within) for within in found.written()]
    total = sum(float(one.sum()) for one in own)
    return sum(direction(look, one)[1] * float(one.sum()) for one in own) / max(total, 1e-9)


@dataclass(frozen=True)
class View:
    """A piece laid upright by some angle and looked at."""

    angle: float  # degrees by which it was turned clockwise
    matrix: Matrix  # (2, 3) from the photograph to the view
    picture: NDArray[np.uint8]  # (h, w, 3)
    look: Look
    inside: Mask  # (h, w) where the piece is
    off: float  # degrees by which the writing is still turned
    sure: float  # 0 to 1, how far it stands the same way
    height: float  # px of its letters, 0 where there is no ink

    @property
    def stands(self) -> float:
        """How far the writing stands upright, -1 to 1."""
        return self.sure * float(np.cos(np.deg2rad(self.off)))


def read_piece(
    photograph: NDArray[np.uint8],
    look: Look,
    scale: float,
    within: Mask,
    eye: Eye,
    settings: EyeSettings,
    letters: LetterSettings,
    fixes: Fixes = (),
) -> Reading:
    """Read the piece that is `within` (h, w) of the first `look`, which was taken at `scale`."""
    outline, piece, before = outline_of(within, scale), within, look
    look, within = without_painted(look, fixes, at_scale(scale)), cropped(within, scale, fixes)
    weight = ink_by_cell(look, within)
    height = letter_height(look, weight)
    angle, sure = direction(look, weight)
    if height == 0:
        # a person took its writing out: it stays a piece, so that no other gets its number
        dropped = {BY_HAND: 1} if fixes and ink_by_cell(before, piece).any() else {}
        return Reading(_no_glyphs(dropped), outline=outline, legibility=0.0)
    outline = outline_of(within, scale)
    height = max(height, settings.min_height * scale)
    ink = (look.ink > 127) & within
    upright_by = told(piece, scale, fixes)
    if upright_by:
        view = _as_told(photograph, within, scale, ink, upright_by, height, eye, settings, fixes)
        return _read_view(photograph.shape, view, max(view.sure, SURE), outline, settings, letters)
    view = _laid(photograph, within, scale, along_lines(ink, angle, height), height, sure, eye, settings, fixes)
    sure = max(sure, view.sure)
    for _ in range(settings.max_looks - 1):
        # what one look says of scale and turn is checked by the next, which sees better
        turn, size = still_turned(view, sure), view.height / settings.read_at
        seen = max(height * size, settings.min_height * scale)
        as_large = _factor(seen, scale, sure, settings) == _factor(height, scale, sure, settings)
        sized = TOO_LOW < size < TOO_HIGH or as_large
        if not view.height or (turn == 0 and sized):
            break
        height = seen
        view = _laid(photograph, within, scale, view.angle + turn, height, sure, eye, settings, fixes)
        sure = max(sure, view.sure)
    if sure < SURE and abs(view.off) > FAR:
        # unsure, and by its own word not upright: perhaps it is as it says
        angle = along_lines(ink, view.angle + view.off, height)
        said = _laid(photograph, within, scale, angle, height, sure, eye, settings, fixes)
        view = said if said.stands > view.stands + settings.as_it_lies else view
        sure = max(sure, view.sure)
    if sure < SURE and FAR < view.angle % 360 < 360 - FAR:
        # most photographs are taken upright, or nearly so
        lying = _laid(photograph, within, scale, along_lines(ink, 0.0, height), height, sure, eye, settings, fixes)
        view = view if view.stands > lying.stands + settings.as_it_lies else lying
        sure = max(sure, view.sure)
    return _read_view(photograph.shape, view, sure, outline, settings, letters)


def _read_view(
    shape: tuple[int, ...],
    view: View,
    sure: float,
    outline: NDArray[np.int32],
    settings: EyeSettings,
    letters: LetterSettings,
) -> Reading:
    """The reading of a piece with this `outline` in a photograph of this `shape`, from its last view."""
    if sure < SURE:
        settings = replace(settings, ink=settings.doubted)
    reading = _reading(shape, view, settings, letters)
    return replace(
        reading,
        angle=float(view.angle % 360.0) if sure >= SURE else None,
        legibility=legibility(view.look, reading.glyphs, sure),
        outline=outline,
    )


def _as_told(
    photograph: NDArray[np.uint8],
    within: Mask,
    scale: float,
    ink: Mask,
    said: Told,
    height: float,
    eye: Eye,
    settings: EyeSettings,
    fixes: Fixes,
) -> View:
    """The piece laid as a person says that it stands, and looked at until the scale agrees with what is seen."""
    angle = said.angle if said.exact else along_lines(ink, said.angle, height)
    view = _laid(photograph, within, scale, angle, height, SURE, eye, settings, fixes)
    for _ in range(settings.max_looks - 1):
        size = view.height / settings.read_at
        seen = max(height * size, settings.min_height * scale)
        as_large = _factor(seen, scale, SURE, settings) == _factor(height, scale, SURE, settings)
        if not view.height or TOO_LOW < size < TOO_HIGH or as_large:
            break
        height = seen
        view = _laid(photograph, within, scale, angle, height, SURE, eye, settings, fixes)
    return view


def still_turned(view: View, sure: float) -> float:
    """Degrees counter-clockwise by which the writing of a view is still turned; 0 where that is little or unsure.

    `sure` is how far the writing stands the same way in all looks that there were. The eye tells which way is up, and
    may take slanting letters for turned ones: by how much they are turned, lines tell.
    """
    if not view.height or abs(view.off) <= SLANT or view.sure <= max(SURE, 0.8 * sure):
        return 0.0
    ink = (view.look.ink > 127) & view.inside
    turn = along_lines(ink, view.off, view.height)
    far = abs(view.off) > FAR  # so far that lines cannot tell: they are as sharp upside down
    better = far or in_lines(ink, turn, view.height) > in_lines(ink, 0.0, view.height)
    return turn if better and abs(turn) > TILT else 0.0


def _laid(
    photograph: NDArray[np.uint8],
    within: Mask,
    scale: float,
    angle: float,
    height: float,
    sure: float,
    eye: Eye,
    settings: EyeSettings,
    fixes: Fixes,
) -> View:
    """The piece `within` a look at `scale`, whose letters are `height` px high there, laid upright and looked at."""
    factor = _factor(height, scale, sure, settings)
    matrix, size = upright(within, scale, angle, factor, settings.max_pixels)
    small, rest = shrunk(photograph, matrix)
    picture = cv2.warpAffine(small, rest, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    look = without_painted(eye.look(np.asarray(picture, np.uint8)), fixes, matrix)
    inside = cv2.warpAffine(within.astype(np.uint8), from_look(matrix, scale), size, flags=cv2.INTER_NEAREST) > 0
    weight = ink_by_cell(look, inside)
    off, sure = direction(look, weight)
    return View(angle, matrix, np.asarray(picture, np.uint8), look, inside, off, sure, letter_height(look, weight))


def _factor(height: float, scale: float, sure: float, settings: EyeSettings) -> float:
    """By how much a piece is enlarged whose letters are `height` px high in a look at `scale`.

    More than once only if it is `sure` to be writing: what stands anyhow may be grain, and there is a lot of it.
    """
    return min(settings.max_scale if sure >= SURE else 1.0, settings.read_at * scale / height)


def _reading(shape: tuple[int, ...], view: View, settings: EyeSettings, letters: LetterSettings) -> Reading:
    """Letters and lines of a view of a photograph of this `shape`."""
    ink = own_side(view.picture, view.look.surface, believed(view.look, view.inside, settings), settings)
    per_px = float(np.hypot(view.matrix[0, 0], view.matrix[0, 1]))
    measured = component_height(ink > 127, max(view.height, settings.min_height * per_px))
    grow = letters.height / measured
    size = max(1, round(ink.shape[1] * grow)), max(1, round(ink.shape[0] * grow))
    binary = np.where(cv2.resize(ink, size, interpolation=cv2.INTER_CUBIC) > 255 * settings.ink, 255, 0).astype(
        np.uint8
    )
    sheet = _sheet(view, shape, size, settings)
    found = whole_letters(find_letters(binary, letters), sheet, settings)
    fit = GlyphSettings()
    patches = [lay_out(binary, tuple(box), fit) for box in found.boxes.tolist()]
    back = np.asarray(cv2.invertAffineTransform(view.matrix), np.float64)
    back = np.column_stack([back[:, :2] / np.array([size[0] / ink.shape[1], size[1] / ink.shape[0]]), back[:, 2]])
    boxes = along_axes(found.boxes, back, shape)
    glyphs = Glyphs(boxes, np.array(patches, np.uint8).reshape(-1, PATCH, PATCH), found.dropped)
    lines = find_lines(found.boxes, letters.height)
    return Reading(
        glyphs,
        letter_height=measured / per_px,
        lines=laid_back(lines, back),
        ink=binary,
        matrix=back,
    )


def whole_letters(found: Letters, sheet: Mask, settings: EyeSettings) -> Letters:
    """The letters that lie on the `sheet` (h, w) with all of their box; those that the tear has cut if there are few.

    What is left of a cut letter is another shape, and the shadows of a torn edge look like letters too.
    """
    summed = cv2.integral(sheet.astype(np.uint8))
    x, y, wide, high = found.boxes.T
    on = summed[y + high, x + wide] - summed[y, x + wide] - summed[y + high, x] + summed[y, x]
    whole = on >= settings.whole * wide * high
    if whole.sum() < settings.enough:
        return found
    return Letters(found.boxes[whole], found.dropped | {"cut off": int((~whole).sum())})


def _sheet(view: View, shape: tuple[int, ...], size: tuple[int, int], settings: EyeSettings) -> Mask:
    """Where the sheet is, at another size (width, height), gaps closed. A stain is still sheet, a hole is not.

    Beyond the photograph of this `shape` it may well go on.
    """
    on = ((view.look.surface > 255 * settings.surface) & view.inside).astype(np.uint8)
    high, wide = shape[:2]
    corners = np.array([[0, 0], [wide, 0], [wide, high], [0, high]]) @ view.matrix[:, :2].T + view.matrix[:, 2]
    photographed = cv2.fillConvexPoly(np.zeros(on.shape, np.uint8), np.rint(corners).astype(np.int32), 1)
    beyond = cv2.dilate(1 - photographed, np.ones((5, 5), np.uint8))
    side = round(0.25 * settings.read_at) | 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    sheet = np.maximum(cv2.morphologyEx(on, cv2.MORPH_CLOSE, kernel), beyond)
    return np.asarray(cv2.resize(sheet, size, interpolation=cv2.INTER_NEAREST) > 0)


def legibility(look: Look, glyphs: Glyphs, sure: float) -> float:
    """How much trustworthy writing there is, 0 to 1: a half for eight letters that the eye is certain of.

    Letters count as far as the eye is certain that their ink is ink, and as far as they stand the same way (`sure`):
    cracks and fibres stand anyhow.
    """
    ink = look.ink[look.ink > 127]
    certain = float(ink.mean()) / 255 if ink.size else 0.0
    agreed = float(np.clip((sure - 0.1) / 0.3, 0.0, 1.0))
    letters = len(glyphs) * certain * agreed
    return letters / (letters + 8.0)


def believed(look: Look, inside: Mask, settings: EyeSettings) -> NDArray[np.uint8]:
    """The ink's probability (h, w) in bytes, none where there is hardly any surface around."""
    near = cv2.blur(np.maximum(look.surface, look.ink), (9, 9))
    return np.where(inside & (near >= 255 * settings.surface), look.ink, 0).astype(np.uint8)


def component_height(ink: Mask, expected: float) -> float:
    """The letters' height in px: the mean of the components of `ink` (h, w), and of what the eye expects.

    The mean is that of logarithms, each component counted by its ink: a median would jump where half of the letters
    have ascenders. What is `expected` counts as much as six letters do. Points and specks below 0.4 of it and what
    runs over several lines do not count.
    """
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    height, area = stats[1:, cv2.CC_STAT_HEIGHT], stats[1:, cv2.CC_STAT_AREA]
    good = (height > 0.4 * expected) & (height < 2.2 * expected)
    count = int(good.sum())
    if not count:
        return expected
    relative = float(np.average(np.log(height[good] / expected), weights=area[good]))
    return float(expected * np.exp(relative * count / (count + 6)))


def _no_glyphs(dropped: dict[str, int]) -> Glyphs:
    return Glyphs(np.zeros((0, 4), np.int32), np.zeros((0, PATCH, PATCH), np.uint8), dropped)
