"""Where the fragment is in the photograph: without background, ruler, chart, label or tape."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.edges import Ground, trim
from membra.see.pieces import Mask, choose, solid

Field = NDArray[np.float32]


@dataclass(frozen=True)
class ParchmentSettings:
    """How the fragment is told from what lies around it."""

    find: bool = True  # False: the whole photograph counts, as in the paper
    side: int = 640  # px, longest side of the reduced image that is looked at; edges need no more
    border: float = 0.02  # share of the side: the rim whose colours may be the background's
    least_rim: float = 0.12  # share of the rim that a colour must fill to count as background
    least_contrast: float = 3.0  # CIE Lab units from the background; less cannot be told from grain and JPEG
    spreads: float = 4.5  # how many standard deviations of the background still count as background
    least_area: float = 0.005  # share of the photograph; what is smaller is no fragment
    alike: float = 20.0  # CIE Lab units: pieces this near to the chosen one are of the same material
    share: float = 0.2  # of the chosen piece's area, from which on another piece is kept beside it
    writing: float = 0.4  # strokes on the background, relative to the piece, from which on it is no background


def find_parchment(photograph: NDArray[np.uint8], settings: ParchmentSettings) -> Mask:
    """True on the fragment, (height, width), for an RGB photograph (height, width, 3).

    1. Colours along the frame's rim that reach inwards without carrying strokes are the background.
    2. What is left falls into pieces. The one with most writing on one even material is the fragment; pieces of
       the same material and at least a fifth of its area are kept with it: they lay together, and are described
       together. Rulers, charts and labels are straight-edged, many-coloured or of another material.
    3. Where the rim carries writing (a page photographed edge to edge), or there is no piece, all is fragment.
    """
    height, width = photograph.shape[:2]
    everything = np.ones((height, width), dtype=bool)
    if not settings.find:
        return everything
    scale = min(1.0, settings.side / max(height, width))
    size = max(8, round(width * scale)), max(8, round(height * scale))
    small = np.asarray(cv2.resize(photograph, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    mask = _look(small, settings)
    if mask is None or not mask.any():
        return everything
    grown = cv2.resize(mask.astype(np.uint8) * np.uint8(255), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(grown > 127)


def _look(small: NDArray[np.uint8], settings: ParchmentSettings) -> Mask | None:
    """The fragment in the reduced photograph (rows, columns, 3); None where all of it is fragment."""
    lab = _lab(np.asarray(cv2.medianBlur(small, 5 if max(small.shape) > 200 else 3), np.uint8))
    written = strokes(small)
    grounds = [ground for ground in _grounds(lab, settings) if not _is_written(ground.mask, written, settings)]
    if not grounds:
        return None
    background = np.any([ground.mask for ground in grounds], axis=0)
    colour = np.asarray(np.median(lab[background], axis=0), np.float32)
    mask = choose(~background, lab, written, colour, settings.least_area, settings.alike, settings.share)
    return None if mask is None else trim(mask, lab, grounds)


def strokes(small: NDArray[np.uint8]) -> Mask:
    """Where something thin is darker or lighter than its surroundings: (rows, columns) of an RGB picture."""
    luminance = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    side = round(0.035 * max(luminance.shape)) | 1
    surroundings = cv2.medianBlur(luminance, max(7, side))
    return np.asarray(cv2.absdiff(luminance, surroundings) > 22)


def _grounds(lab: Field, settings: ParchmentSettings) -> list[Ground]:
    """For each colour that fills enough of the rim: what is connected to the rim in that colour."""
    rows, columns = lab.shape[:2]
    rim = np.zeros((rows, columns), bool)
    wide = max(2, round(settings.border * max(rows, columns)))
    rim[:wide], rim[-wide:], rim[:, :wide], rim[:, -wide:] = True, True, True, True
    left, found = rim.copy(), []
    for _ in range(4):
        if left.sum() < settings.least_rim * rim.sum():
            break
        ground = _ground(lab, left, rim, settings)
        if (ground.mask & rim).sum() < settings.least_rim * rim.sum():
            break
        found.append(ground)
        left &= ~ground.mask
    return found


def _ground(lab: Field, left: Mask, rim: Mask, settings: ParchmentSettings) -> Ground:
    """Pixels of the colour that is commonest in `left`, as the light changes over the picture."""
    centre = _commonest(lab[left])
    # First all rim pixels of about this colour, then, twice, what follows their plane of light and its spread.
    near = rim & (np.linalg.norm(lab - centre, axis=2) < 10)
    for order in (1, 2):
        plane = _plane(lab, near, order)
        off = lab - plane
        spread = np.maximum(1.4826 * np.median(np.abs(off[near]), axis=0), 0.4)
        reach = max(settings.least_contrast, settings.spreads * float(np.linalg.norm(spread) / np.sqrt(3)))
        reach = min(reach, 25.0)
        near = _touching(np.linalg.norm(off, axis=2) < reach, rim)
    return Ground(near, plane, reach)


def _commonest(colours: Field) -> Field:
    """The centre (3,) of the fullest neighbourhood among colours (n, 3) in CIE Lab."""
    cells, counts = np.unique(np.floor(colours / 6).astype(np.int32), axis=0, return_counts=True)
    # A colour on the border of two cells counts in both.
    nearby = (np.abs(cells[:, None] - cells[None]).max(axis=2) <= 1) @ counts
    best = cells[int(np.argmax(nearby))]
    members = (np.abs(np.floor(colours / 6) - best) <= 1).all(axis=1)
    return np.asarray(np.median(colours[members], axis=0), np.float32)


def _plane(lab: Field, members: Mask, order: int) -> Field:
    """The smooth field (rows, columns, 3) of polynomial `order` through the colours of `members`."""
    rows, columns = lab.shape[:2]
    y, x = np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j].astype(np.float32)
    terms = [np.ones_like(x), x, y] + ([x * x, x * y, y * y] if order == 2 else [])
    basis = np.stack(terms, axis=2)
    at = np.flatnonzero(members)
    at = at[:: max(1, len(at) // 4000)]  # enough for six coefficients
    flat, values = basis.reshape(-1, len(terms))[at], lab.reshape(-1, 3)[at]
    # A little weight on nought keeps curvature small where members lie on one side only.
    damping = np.diag([0.0, *[0.01 * len(at)] * (len(terms) - 1)]).astype(np.float32)
    coefficients = np.linalg.solve(flat.T @ flat + damping, flat.T @ values)
    return np.asarray(basis @ coefficients, np.float32)


def _touching(near: Mask, rim: Mask) -> Mask:
    """The parts of `near` that reach the rim."""
    _, labels = cv2.connectedComponents(near.astype(np.uint8), connectivity=4)
    reached = np.zeros(int(labels.max()) + 1, bool)
    reached[labels[rim & near]] = True
    reached[0] = False
    return np.asarray(reached[labels])


def _is_written(ground: Mask, written: Mask, settings: ParchmentSettings) -> bool:
    """Whether the writing is on this ground, and not beside it: then it is a page and no background."""
    reach = round(0.025 * max(ground.shape))
    # Narrow gaps closed, since letters on it belong to it; its edge left out, since an edge looks like a stroke.
    covered = solid(ground, reach)
    kernel = np.ones((reach | 1, reach | 1), np.uint8)
    on_it = _middle(cv2.erode(covered.astype(np.uint8), kernel) > 0)
    beside_it = _middle(cv2.erode((~covered).astype(np.uint8), kernel) > 0)
    share = float(written[on_it].mean()) if on_it.any() else 0.0
    share_beside = float(written[beside_it].mean()) if beside_it.any() else 0.0
    if share < 0.003:
        return False
    return share > settings.writing * share_beside or written[on_it].sum() > 1.5 * written[beside_it].sum()


def _middle(mask: Mask) -> Mask:
    """Without the outer eighth, where rulers and labels lie."""
    rows, columns = mask.shape
    kept = np.zeros_like(mask)
    inner = (slice(rows // 8, rows - rows // 8), slice(columns // 8, columns - columns // 8))
    kept[inner] = mask[inner]
    return kept


def _lab(picture: NDArray[np.uint8]) -> Field:
    return np.asarray(cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)
