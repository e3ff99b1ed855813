"""From a photograph to its readings: a first look finds pieces, scale and turn, a second reads each piece upright."""

from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.eye import STRIDE, Eye, Look
from membra.see.glyphs import PATCH, Glyphs, GlyphSettings, lay_out
from membra.see.letters import Letters, LetterSettings, find_letters
from membra.see.reading import Reading
from membra.see.split import Pieces, split, whole
from membra.see.turn import SURE, along_lines, direction, ink_by_cell, letter_height

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
HowMany = Literal["auto", "one"]


@dataclass(frozen=True)
class EyeSettings:
    """How the eye is used."""

    first: int = 640  # px, longest side of the first look
    read_at: float = 28.0  # px, letters' height at the second look
    min_first: float = 11.0  # px, letters' height below which the first look is taken again, larger
    min_plate: float = 17.0  # px, the same where there are several pieces, which have to be told apart
    min_height: float = 11.0  # px in the photograph; lower letters cannot be told from grain
    max_scale: float = 2.5  # how far small letters are enlarged; beyond it there is nothing to see
    max_pixels: int = 40_000_000  # of a second look
    ink: float = 0.4  # probability from which on a pixel is ink
    doubted: float = 0.8  # the same where the writing stands no way that can be told: it may be none
    pale: float = 0.5  # mean contrast of the paler ink over that of the darker, below which it is the other side's
    two_groups: float = 0.87  # share of the variance of contrast between dark and pale; less: it fades by degrees
    min_dark: int = 10  # components of dark ink that there must be, to call the rest the other side's
    whole: float = 0.995  # share of a letter's box that must be on the sheet; with less the tear has cut it
    enough: int = 12  # whole letters; a fragment with fewer is described from letters that the tear has cut as well
    surface: float = 0.35  # probability of surface, around a pixel, below which ink is not believed


def read_pieces(
    photograph: NDArray[np.uint8], eye: Eye, settings: EyeSettings, letters: LetterSettings, pieces: HowMany = "auto"
) -> list[Reading]:
    """The readings of an RGB photograph (h, w, 3), one for each piece in reading order; `one`: all of it is one.

    Chips without writing follow, as readings without letters.
    """
    look, scale, found = first_look(photograph, eye, settings, pieces)
    # a piece so small that no pixel of the look is left of it is none
    written = [within for within in found.written() if within.any()] or whole(look).written()
    readings = [read_piece(photograph, look, scale, within, eye, settings, letters) for within in written]
    chips = [chip for chip in found.chips() if chip.any()]
    return readings + [Reading(_no_glyphs({}), outline_of(chip, scale), legibility=0.0) for chip in chips]


def first_look(
    photograph: NDArray[np.uint8], eye: Eye, settings: EyeSettings, pieces: HowMany = "auto"
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


def read_piece(
    photograph: NDArray[np.uint8],
    look: Look,
    scale: float,
    within: Mask,
    eye: Eye,
    settings: EyeSettings,
    letters: LetterSettings,
) -> Reading:
    """Read the piece that is `within` (h, w) of the first `look`, which was taken at `scale`."""
    weight = ink_by_cell(look, within)
    height = letter_height(look, weight)
    angle, sure = direction(look, weight)
    if height == 0:
        return Reading(_no_glyphs({}), outline=outline_of(within, scale), legibility=0.0)
    height = max(height, settings.min_height * scale)
    angle = along_lines((look.ink > 127) & within, angle, height)
    for _ in range(2):
        # what the first look says of scale and turn is checked by the second, which sees better
        # enlarged only if it is writing: what stands anyhow may be grain, and there is a lot of it
        most = settings.max_scale if sure >= SURE else 1.0
        matrix, size = upright(within, scale, angle, min(most, settings.read_at * scale / height), settings)
        small, rest = _shrunk(photograph, matrix)
        laid = cv2.warpAffine(small, rest, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        view = np.asarray(laid, np.uint8)
        second = eye.look(view)
        inside = cv2.warpAffine(within.astype(np.uint8), _from_look(matrix, scale), size, flags=cv2.INTER_NEAREST) > 0
        weight = ink_by_cell(second, inside)
        off, sure_now = direction(second, weight)
        now = letter_height(second, weight)
        if now == 0:
            break
        wrong_turn = sure_now > max(SURE, 0.8 * sure) and abs(off) > 25
        wrong_size = not 0.75 < now / settings.read_at < 1.35
        sure = max(sure, sure_now)
        if not (wrong_turn or wrong_size):
            break
        if wrong_turn:
            angle += off
        height = max(height * now / settings.read_at, settings.min_height * scale)
    if sure < SURE:
        settings = replace(settings, ink=settings.doubted)
    known = angle if sure >= SURE else None
    reading = _reading(photograph.shape, view, second, inside, matrix, known, settings, letters)
    trusted = legibility(second, reading.glyphs, sure)
    return replace(reading, legibility=trusted, outline=outline_of(within, scale))


def _reading(
    shape: tuple[int, ...],
    view: NDArray[np.uint8],
    second: Look,
    inside: Mask,
    matrix: Matrix,
    angle: float | None,
    settings: EyeSettings,
    letters: LetterSettings,
) -> Reading:
    """Letters, lines and legibility of an upright look."""
    ink = own_side(view, second.surface, believed(second, inside, settings), settings)
    measured = component_height(ink > 127, settings.read_at)
    grow = letters.height / measured
    size = max(1, round(ink.shape[1] * grow)), max(1, round(ink.shape[0] * grow))
    binary = np.where(cv2.resize(ink, size, interpolation=cv2.INTER_CUBIC) > 255 * settings.ink, 255, 0).astype(
        np.uint8
    )
    sheet = _sheet(second, inside, matrix, shape, size, settings)
    found = whole_letters(find_letters(binary, letters), sheet, settings)
    fit = GlyphSettings()
    patches = [lay_out(binary, tuple(box), fit) for box in found.boxes.tolist()]
    back = np.asarray(cv2.invertAffineTransform(matrix), np.float64)
    back = np.column_stack([back[:, :2] / np.array([size[0] / ink.shape[1], size[1] / ink.shape[0]]), back[:, 2]])
    boxes = along_axes(found.boxes, back, shape)
    glyphs = Glyphs(boxes, np.array(patches, np.uint8).reshape(-1, PATCH, PATCH), found.dropped)
    per_px = float(np.hypot(matrix[0, 0], matrix[0, 1]))
    turn = None if angle is None else float(angle % 360.0)
    lines = find_lines(found.boxes, letters.height)
    return Reading(
        glyphs,
        angle=turn,
        letter_height=measured / per_px,
        lines=_laid_back(lines, back),
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


def _sheet(
    look: Look, inside: Mask, matrix: Matrix, shape: tuple[int, ...], size: tuple[int, int], settings: EyeSettings
) -> Mask:
    """Where the sheet is, at another size (width, height), gaps closed. A stain is still sheet, a hole is not.

    Beyond the photograph of this `shape`, which `matrix` (2, 3) laid upright, it may well go on.
    """
    on = ((look.surface > 255 * settings.surface) & inside).astype(np.uint8)
    high, wide = shape[:2]
    corners = np.array([[0, 0], [wide, 0], [wide, high], [0, high]]) @ matrix[:, :2].T + matrix[:, 2]
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


def find_lines(boxes: NDArray[np.int32], height: float) -> NDArray[np.float64]:
    """(m, 4) x, y of the left and of the right end of each line that upright letters (n, 4) stand in, from the top.

    A letter belongs to the line whose middle is nearest, if that is within six tenths of its `height`.
    """
    middles = boxes[:, 1] + boxes[:, 3] / 2
    lines: list[list[int]] = []
    for number in np.argsort(middles, kind="stable").tolist():
        if lines and middles[number] - np.mean([middles[other] for other in lines[-1]]) < 0.6 * height:
            lines[-1].append(number)
        else:
            lines.append([number])
    found = []
    for line in lines:
        own = boxes[line]
        y = float(np.median(own[:, 1] + own[:, 3] / 2))
        found.append((float(own[:, 0].min()), y, float((own[:, 0] + own[:, 2]).max()), y))
    return np.array(found, np.float64).reshape(-1, 4)


def outline_of(within: Mask, scale: float) -> NDArray[np.int32]:
    """(k, 2) the outline in the photograph of what is `within` (h, w) of a look at `scale`; none where all of it is."""
    if within.all():
        return np.zeros((0, 2), np.int32)
    outlines, _ = cv2.findContours(within.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    longest = max(outlines, key=cv2.contourArea)
    simple = cv2.approxPolyDP(longest, 1.0, True)[:, 0]
    return np.asarray(np.rint((simple + 0.5) / scale), np.int32)


def _laid_back(lines: NDArray[np.float64], back: Matrix) -> NDArray[np.float32]:
    """Lines (m, 4) of the upright ink in the photograph's pixels."""
    ends = lines.reshape(-1, 2, 2) @ back[:, :2].T + back[:, 2]
    return ends.reshape(-1, 4).astype(np.float32)


def believed(look: Look, inside: Mask, settings: EyeSettings) -> NDArray[np.uint8]:
    """The ink's probability (h, w) in bytes, none where there is hardly any surface around."""
    near = cv2.blur(np.maximum(look.surface, look.ink), (9, 9))
    return np.where(inside & (near >= 255 * settings.surface), look.ink, 0).astype(np.uint8)


def own_side(
    view: NDArray[np.uint8], surface: NDArray[np.uint8], ink: NDArray[np.uint8], settings: EyeSettings
) -> NDArray[np.uint8]:
    """The ink (h, w) of this side of the sheet, without that of the other side, which shines through.

    What shines through is paler, all of it about as pale; ink that has faded is so by degrees. So the components are
    told apart by their contrast with the sheet around them (Otsu's threshold of it, each component counted by its
    ink), and the paler ones left out if the two groups are far apart and there are enough dark ones.
    """
    _, labels, stats, _ = cv2.connectedComponentsWithStats((ink > 255 * settings.ink).astype(np.uint8), connectivity=8)
    area = stats[:, cv2.CC_STAT_AREA].astype(np.float64)
    if len(area) < 2 * settings.min_dark:
        return ink
    light = cv2.cvtColor(view, cv2.COLOR_RGB2GRAY).astype(np.float32) + 1
    bare = ((cv2.dilate(ink, np.ones((5, 5), np.uint8)) < 64) & (surface > 127)).astype(np.float32)
    reach = (round(4 * settings.read_at) | 1,) * 2
    sheet = cv2.blur(light * bare, reach) / np.maximum(cv2.blur(bare, reach), 1e-3)
    depth = np.bincount(labels.ravel(), (1 - light / np.maximum(sheet, 1)).ravel(), len(area)) / np.maximum(area, 1)
    letters = area >= 0.05 * settings.read_at**2
    letters[0] = False
    level, apart, told = _two_groups(np.abs(depth[letters]), area[letters])
    pale = np.abs(depth) < level
    dark = letters & ~pale
    dark[0] = False
    if apart > settings.pale or told < settings.two_groups or dark.sum() < settings.min_dark:
        return ink
    pale[0] = False
    return np.where(pale[labels], 0, ink).astype(np.uint8)


def _two_groups(values: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float, float]:
    """Otsu's threshold of values, each with its weight; the mean below it over the mean above it; and how well the two
    groups tell the values: the share of their variance that lies between the groups, 1 if each is all alike.
    """
    if len(values) < 2:
        return 0.0, 1.0, 0.0
    order = np.argsort(values)
    v, w = values[order], weight[order]
    below, total = np.cumsum(w), np.cumsum(v * w)
    left, right = below[:-1], below[-1] - below[:-1]
    mean_left, mean_right = total[:-1] / left, (total[-1] - total[:-1]) / np.maximum(right, 1e-9)
    between = left * right * (mean_right - mean_left) ** 2
    at = int(np.argmax(between))
    spread = float((w * (v - total[-1] / below[-1]) ** 2).sum()) * below[-1]
    ratio = float(mean_left[at] / max(mean_right[at], 1e-9))
    return float((v[at] + v[at + 1]) / 2), ratio, float(between[at] / max(spread, 1e-9))


def component_height(ink: Mask, expected: float) -> float:
    """The letters' height in px by the components of `ink`, each counted by its ink; `expected` if they cannot tell.

    Points and specks below 0.4 of what is expected and what runs over several lines do not count.
    """
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    height, area = stats[1:, cv2.CC_STAT_HEIGHT], stats[1:, cv2.CC_STAT_AREA]
    good = (height > 0.4 * expected) & (height < 2.2 * expected)
    if good.sum() < 6:
        return expected
    order = np.argsort(height[good], kind="stable")
    share = np.cumsum(area[good][order])
    measured = float(height[good][order][int(np.searchsorted(share, share[-1] / 2))])
    return measured if 0.65 < measured / expected < 1.6 else expected


def upright(
    within: Mask, scale: float, angle: float, factor: float, settings: EyeSettings
) -> tuple[Matrix, tuple[int, int]]:
    """(2, 3) from the photograph to the piece upright at `factor` times its size, and the width and height of that.

    `within` (h, w) is where the piece is in a look taken at `scale`.
    """
    outline, _ = cv2.findContours(within.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    points = np.concatenate([part[:, 0] for part in outline]).astype(np.float64) / scale
    turned = np.deg2rad(angle)
    # the writing is turned counter-clockwise, so the picture is turned clockwise
    rotation = np.array([[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]])
    laid = points @ rotation.T
    low, high = laid.min(axis=0), laid.max(axis=0)
    most = float(np.sqrt(settings.max_pixels / max(1.0, np.prod(high - low))))
    factor = min(factor, most)
    margin = 8.0
    size = np.ceil((high - low) * factor + 2 * margin).astype(int)
    matrix = np.column_stack([rotation * factor, margin - low * factor])
    return matrix, (int(size[0]), int(size[1]))


def along_axes(boxes: NDArray[np.int32], back: Matrix, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Boxes (n, 4) of the upright ink as boxes along the axes of a photograph of this shape, `back` (2, 3) to it."""
    x, y, wide, high = boxes.astype(np.float64).T
    corners = np.stack([[x, x + wide, x, x + wide], [y, y, y + high, y + high]])  # (2, 4, n)
    laid = np.einsum("ij,jkn->ikn", back[:, :2], corners) + back[:, 2][:, None, None]
    low, high = np.floor(laid.min(axis=1)).T, np.ceil(laid.max(axis=1)).T
    most = np.array(shape[1::-1])
    low, high = np.clip(low, 0, most - 1), np.clip(high, 1, most)
    return np.concatenate([low, np.maximum(high - low, 1)], axis=1).astype(np.int32)


def resized(picture: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """The picture at another scale; smaller by averaging."""
    if scale == 1.0:
        return picture
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    return np.asarray(
        cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC), np.uint8
    )


def _shrunk(photograph: NDArray[np.uint8], matrix: Matrix) -> tuple[NDArray[np.uint8], Matrix]:
    """The photograph averaged down to about the size that `matrix` (2, 3) asks for, and the rest of the way."""
    factor = float(np.hypot(matrix[0, 0], matrix[0, 1]))
    if factor > 0.75:
        return photograph, matrix
    small = resized(photograph, factor)
    down = np.array([small.shape[1] / photograph.shape[1], small.shape[0] / photograph.shape[0]])
    return small, np.column_stack([matrix[:, :2] / down, matrix[:, 2]])


def _from_look(matrix: Matrix, scale: float) -> Matrix:
    """`matrix` (2, 3) for pixels of a look that was taken at `scale`."""
    return np.column_stack([matrix[:, :2] / scale, matrix[:, 2]])


def _no_glyphs(dropped: dict[str, int]) -> Glyphs:
    return Glyphs(np.zeros((0, 4), np.int32), np.zeros((0, PATCH, PATCH), np.uint8), dropped)
