"""Reads a photograph in two stages: a first look finds pieces, scale and rotation, a second reads each piece upright.

A look is one run of the eye on a picture; a view is a look at one piece, rotated and scaled.
"""

from dataclasses import replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import STRIDE, Eye, EyeSettings, Look
from membra.see.fixes import (
    BY_HAND,
    Fixes,
    at_scale,
    cropped,
    given_rotation,
    how_many,
    rearranged,
    shifted,
    whole_crop,
    without_painted,
)
from membra.see.geometry import Mask, along_axes, laid_back, outline_of, resized
from membra.see.glyphs import PATCH, Glyphs, GlyphSettings, lay_out
from membra.see.letters import Letters, LetterSettings, find_letters, find_lines
from membra.see.orientation import MAX_LETTERS, standing, windows_of
from membra.see.own_side import own_side
from membra.see.reading import Reading
from membra.see.split import Pieces, split, whole
from membra.see.turn import SURE, direction, ink_by_cell, letter_height
from membra.see.view import FAR, Piece, View, laid_at, lay, lay_as_given, settled
from membra.sources.fix import moved

HowMany = Literal["auto", "one"]
ALL_BUT_SURE = 0.85  # length of the eye's mean direction, from which the orientation network is not run
CERTAIN = 0.8  # length of the mean direction of orientation network and eye together, from which it is used
AGREED = 0.4  # certainty that the eye counts as having where the orientation network is certain


def read_pieces(
    photograph: NDArray[np.uint8],
    eye: Eye,
    settings: EyeSettings,
    letters: LetterSettings,
    pieces: HowMany = "auto",
    fixes: Fixes = (),
) -> list[Reading]:
    """Read an RGB photograph (h, w, 3): one reading per piece, in reading order; with `pieces="one"` it is one piece.

    Chips without writing follow, as readings without glyphs. `fixes` are a person's corrections.
    """
    crop = whole_crop(fixes)
    if crop:
        x, y, wide, high = crop
        part = np.ascontiguousarray(photograph[y : y + high, x : x + wide])
        inner = [moved(fix, -x, -y) for fix in fixes if fix.kind != "crop" or fix.where]
        return [shifted(one, crop) for one in read_pieces(part, eye, settings, letters, pieces, inner)]
    look, scale, found = first_look(photograph, eye, settings, how_many(fixes) or pieces)
    found = rearranged(found, scale, fixes)
    # leave out a piece so small that no pixel of the look remains of it
    written = [within for within in found.written() if within.any()] or whole(look).written()
    readings = [read_piece(photograph, look, scale, within, eye, settings, letters, fixes) for within in written]
    chips = [chip for chip in found.chips() if chip.any()]
    return readings + [Reading(_no_glyphs({}), outline_of(chip, scale), legibility=0.0) for chip in chips]


def first_look(
    photograph: NDArray[np.uint8], eye: Eye, settings: EyeSettings, pieces: str = "auto"
) -> tuple[Look, float, Pieces]:
    """Look at the whole photograph, reduced, and split it into pieces; returns the look, its scale and the pieces.

    Where letters are too small for the eye, the look is repeated at a larger scale. Of several looks, the one with most
    evidence of writing is kept: many letters of one orientation on their piece. Fibres and grain resemble tiny letters,
    but have no common orientation. Of several pieces the last look is kept.
    """
    longest = max(photograph.shape[:2])
    scale = min(1.0, settings.first / longest)
    best, best_evidence = None, -1.0
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
        if evidence > best_evidence or found.count > 1:
            best, best_evidence = (look, scale, found), evidence
        if scale >= 1.0 or (seen and letters >= 3 and sure >= SURE):
            break
        scale = min(1.0, scale * (min(4.0, max(2.0, 20.0 / height)) if letters >= 3 else 2.0))
    if best_evidence <= 0:  # no writing, or letters that fill the picture
        smaller = eye.look(resized(photograph, 0.4 * scale))
        best = (smaller, 0.4 * scale, whole(smaller)) if ink_by_cell(smaller).any() else best
    assert best is not None
    return best


def _agreement(look: Look, weight: NDArray[np.float32], found: Pieces) -> float:
    """Return how far the writing of each piece has one orientation, 0 to 1, the mean weighted by the pieces' ink."""
    if found.count == 1:
        return direction(look, weight)[1]
    own = [ink_by_cell(look, within) for within in found.written()]
    total = sum(float(one.sum()) for one in own)
    return sum(direction(look, one)[1] * float(one.sum()) for one in own) / max(total, 1e-9)


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
    """Read the piece of mask `within` (h, w) in the first `look`, which was taken at `scale`."""
    outline, whole_piece, before = outline_of(within, scale), within, look
    look, within = without_painted(look, fixes, at_scale(scale)), cropped(within, scale, fixes)
    weight = ink_by_cell(look, within)
    height = letter_height(look, weight)
    angle, sure = direction(look, weight)
    if height == 0:
        # where a person removed its writing, it stays a piece, so that the numbers of the others do not change
        dropped = {BY_HAND: 1} if fixes and ink_by_cell(before, whole_piece).any() else {}
        return Reading(_no_glyphs(dropped), outline=outline, legibility=0.0)
    piece = Piece(photograph, within, scale, (look.ink > 127) & within, eye, settings, fixes)
    height = piece.high(height)
    upright_by = given_rotation(whole_piece, scale, fixes)
    if upright_by:
        view = lay_as_given(piece, upright_by, height)
        found, known = _reading(piece, view, max(view.sure, SURE), letters), True
    else:
        view, sure = settled(piece, angle, height, sure)
        found, known = _oriented(piece, view, sure, height, letters)
    return replace(found, angle=found.angle if known else None, outline=outline_of(within, scale))


def _oriented(piece: Piece, view: View, sure: float, height: float, letters: LetterSettings) -> tuple[Reading, bool]:
    """Read a `view` of a piece, or a view at the rotation that the orientation network gives.

    Also returns whether the rotation is known. `sure` is the eye's certainty of the rotation; `height` is the letter
    height in px of the first look.
    """
    found = _reading(piece, view, sure, letters)
    off, certain = by_letters(found, view, piece.eye)
    if certain >= CERTAIN and (abs(off) > FAR or sure < SURE):
        # the eye is trained on few scripts: where it is uncertain of another one, and the orientation network is
        # certain, the piece is read at the network's rotation
        other = laid_at(piece, piece.along(view.angle + off, height), height, max(sure, SURE))
        again = _reading(piece, other, max(sure, other.sure, AGREED), letters)
        still, as_certain = by_letters(again, other, piece.eye)
        if as_certain >= CERTAIN and abs(still) <= FAR:
            return again, True
        certain = 0.0  # at the network's own rotation, it gives another one
    known = sure >= SURE or certain >= CERTAIN
    if not known and FAR < view.angle % 360 < 360 - FAR:
        # most photographs are taken upright, or nearly so
        lying = lay(piece, piece.along(0.0, height), height, sure)
        if view.uprightness <= lying.uprightness + piece.settings.as_it_lies:
            sure = max(sure, lying.sure)
            return _reading(piece, lying, sure, letters), sure >= SURE
    return found, known


def by_letters(reading: Reading, view: View, eye: Eye) -> tuple[float, float]:
    """Estimate the remaining rotation of a reading of a `view` by the orientation network, and its certainty, 0 to 1.

    In degrees counter-clockwise. Where the eye is nearly certain that the view is upright (`ALL_BUT_SURE`), and where
    there are no glyphs, the result is the eye's estimate. Without an orientation network both values are 0.
    """
    if eye.orientation is None:
        return 0.0, 0.0
    if not len(reading.glyphs) or (view.sure >= ALL_BUT_SURE and abs(view.off) <= FAR):
        return view.off, view.sure
    votes = eye.orientation.votes(letter_windows(reading))
    return standing(votes, view.off, view.sure, view.angle)


def letter_windows(reading: Reading, most: int = MAX_LETTERS) -> NDArray[np.uint8]:
    """Cut windows (n, SIDE, SIDE) of the ink of a reading around its glyphs, at most `most`."""
    boxes = reading.glyphs.boxes
    back = np.asarray(cv2.invertAffineTransform(reading.matrix), np.float64)
    centres = (boxes[:, :2] + boxes[:, 2:] / 2) @ back[:, :2].T + back[:, 2]
    return windows_of(reading.ink, centres, LetterSettings().height, most)


def _reading(piece: Piece, view: View, sure: float, letters: LetterSettings) -> Reading:
    """Find the glyphs and lines of a view of a piece; `sure` is the certainty of its rotation."""
    shape = piece.photograph.shape
    settings = piece.settings if sure >= SURE else replace(piece.settings, ink=piece.settings.doubted)
    ink = own_side(view.picture, view.look.surface, trusted_ink(view.look, view.inside, settings), settings)
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
        angle=float(view.angle % 360.0),
        letter_height=measured / per_px,
        legibility=legibility(view.look, glyphs, sure),
        lines=laid_back(lines, back),
        ink=binary,
        matrix=back,
    )


def whole_letters(found: Letters, sheet: Mask, settings: EyeSettings) -> Letters:
    """Keep the letters whose box lies on the `sheet` (h, w) to at least `settings.whole`; all if there are too few.

    The rest of a cut letter is another shape, and the shadows of a torn edge resemble letters too.
    """
    summed = cv2.integral(sheet.astype(np.uint8))
    x, y, wide, high = found.boxes.T
    on = summed[y + high, x + wide] - summed[y, x + wide] - summed[y + high, x] + summed[y, x]
    whole = on >= settings.whole * wide * high
    if whole.sum() < settings.enough:
        return found
    return Letters(found.boxes[whole], found.dropped | {"cut off": int((~whole).sum())})


def _sheet(view: View, shape: tuple[int, ...], size: tuple[int, int], settings: EyeSettings) -> Mask:
    """Return the mask of the sheet at another `size` (width, height), gaps closed. Stains belong to it, holes do not.

    Outside the photograph of this `shape`, where the sheet may continue, the mask is True.
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
    """Return how much reliable writing there is, 0 to 1: n / (n + 8), where n is the weighted number of glyphs.

    The number is weighted by the mean probability of the ink, and by how far the writing has one orientation (`sure`):
    cracks and fibres have none.
    """
    ink = look.ink[look.ink > 127]
    certain = float(ink.mean()) / 255 if ink.size else 0.0
    agreed = float(np.clip((sure - 0.1) / 0.3, 0.0, 1.0))
    letters = len(glyphs) * certain * agreed
    return letters / (letters + 8.0)


def trusted_ink(look: Look, inside: Mask, settings: EyeSettings) -> NDArray[np.uint8]:
    """Return the probability of ink (h, w), 0 to 255: 0 outside the piece and where hardly any surface is around."""
    near = cv2.blur(np.maximum(look.surface, look.ink), (9, 9))
    return np.where(inside & (near >= 255 * settings.surface), look.ink, 0).astype(np.uint8)


def component_height(ink: Mask, expected: float) -> float:
    """Return the letter height in px: the geometric mean over the components of `ink` (h, w), shrunk to the eye's.

    Each component is weighted by its ink. A median would jump where half of the letters have ascenders. The eye's
    estimate, `expected`, weighs as much as six components. Components below 0.4 of it (points, specks) and above 2.2 of
    it (several lines) are left out.
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
