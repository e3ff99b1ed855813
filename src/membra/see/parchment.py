"""Segments the fragment by rules: excludes background, ruler, colour chart, label and tape."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.edges import Ground, trim
from membra.see.pieces import choose
from membra.see.sight import Field, Mask, Sight, apart, closed, eroded, look, sample


@dataclass(frozen=True)
class ParchmentSettings:
    """How the fragment is separated from its surroundings."""

    find: bool = True  # False: the whole photograph counts, as in the paper
    side: int = 512  # px, longest side of the reduced image that is analysed; edges need no more
    border: float = 0.02  # share of the side: the rim whose colours may be the background's
    min_rim: float = 0.12  # share of the rim that a colour must fill to count as background
    min_contrast: float = 3.0  # CIE Lab units from the background; less is the same as grain and JPEG artefacts
    max_contrast: float = 25.0  # CIE Lab units; beyond it a pixel is no background, however rough the background is
    spreads: float = 4.5  # standard deviations of the background within which a pixel counts as background
    writing: float = 0.45  # density of strokes on the background over that beside it, above which it is a page
    min_area: float = 0.005  # share of the photograph; smaller pieces are no fragment
    alike: float = 15.0  # CIE Lab units: pieces this close to the chosen one are of the same material
    share: float = 0.2  # of the chosen piece's area, from which another piece is kept beside it


def find_parchment(photograph: NDArray[np.uint8], settings: ParchmentSettings) -> Mask:
    """Return the foreground mask (height, width), True on the fragment, of an RGB photograph (height, width, 3).

    1. Colours along the frame's rim that reach inwards without carrying strokes are the background.
    2. The rest falls into pieces. The one with most writing on one even material is the fragment; pieces of
       the same material and at least a fifth of its area are kept with it, since they were photographed together, and
       are described together. Rulers, charts and labels are straight-edged, many-coloured or of another material.
    3. Tape and backing paper, holes and the shadow on the table are removed.
    Where the rim carries the writing (a page photographed edge to edge), or there is no piece, the mask is all True.
    """
    height, width = photograph.shape[:2]
    everything = np.ones((height, width), dtype=bool)
    if not settings.find:
        return everything
    scale = min(1.0, settings.side / max(height, width))
    size = max(8, round(width * scale)), max(8, round(height * scale))
    small = np.asarray(cv2.resize(photograph, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    mask = _fragment(look(small), settings)
    if mask is None or not mask.any():
        return everything
    grown = cv2.resize(mask.astype(np.uint8) * np.uint8(255), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(grown > 127)


def _fragment(sight: Sight, settings: ParchmentSettings) -> Mask | None:
    """Return the fragment's mask (rows, columns) in the reduced photograph; None where all of it is fragment."""
    seen = _grounds(sight.lab, settings)
    grounds = [ground for ground in seen if not _is_written(ground.mask, sight.written, settings)]
    # If the commonest colour is written on and fills the frame, other colours on the rim are strokes that it cuts.
    if not grounds or (seen[0] is not grounds[0] and _closed(seen[0].mask).mean() > 0.9):
        return None
    background = np.any([ground.mask for ground in grounds], axis=0)
    colour = np.asarray(np.median(sample(sight.lab[background]), axis=0), np.float32)
    mask = choose(~background, sight, colour, settings.min_area, settings.alike, settings.share)
    if mask is None or _is_stroke(mask) or _is_ground(mask, sight, grounds):
        return None
    return trim(mask, sight, grounds)


def _grounds(lab: Field, settings: ParchmentSettings) -> list[Ground]:
    """Return a background for each colour that fills enough of the rim, the commonest first."""
    rows, columns = lab.shape[:2]
    rim = np.zeros((rows, columns), bool)
    wide = max(2, round(settings.border * max(rows, columns)))
    rim[:wide], rim[-wide:], rim[:, :wide], rim[:, -wide:] = True, True, True, True
    left, found = rim.copy(), []
    for _ in range(4):
        if left.sum() < settings.min_rim * rim.sum():
            break
        ground = _ground(lab, left, rim, settings)
        if (ground.mask & left).sum() < settings.min_rim * rim.sum():
            break
        found.append(ground)
        left &= ~ground.mask
    return found


def _ground(lab: Field, left: Mask, rim: Mask, settings: ParchmentSettings) -> Ground:
    """Fit a background to the colour that is commonest in `left`, with illumination that varies over the picture."""
    centre = _commonest(sample(lab[left]))
    # First all rim pixels of about this colour; then, twice, the pixels near the surface that is fitted to them.
    near = rim & (apart(lab, centre) < 10)
    for order in (1, 2):
        plane = _plane(lab, near, order)
        spread = np.maximum(1.4826 * np.median(np.abs(sample((lab - plane)[near])), axis=0), 0.4)
        reach = max(settings.min_contrast, settings.spreads * float(np.sqrt((spread * spread).mean())))
        reach = min(reach, settings.max_contrast)
        near = _touching(apart(lab, plane) < reach, rim)
    return Ground(near, plane, reach)


def _commonest(colours: Field) -> Field:
    """Return the mode (3,) of colours (n, 3) in CIE Lab: the median of the fullest neighbourhood of cells."""
    cells, counts = np.unique(np.floor(colours / 6).astype(np.int32), axis=0, return_counts=True)
    # A colour on the border of two cells counts in both.
    nearby = (np.abs(cells[:, None] - cells[None]).max(axis=2) <= 1) @ counts
    best = cells[int(np.argmax(nearby))]
    members = (np.abs(np.floor(colours / 6) - best) <= 1).all(axis=1)
    return np.asarray(np.median(colours[members], axis=0), np.float32)


def _plane(lab: Field, members: Mask, order: int) -> Field:
    """Fit a polynomial of `order` 1 or 2 to the colours of `members`; returns its values (rows, columns, 3)."""
    rows, columns = lab.shape[:2]
    y, x = np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j].astype(np.float32)
    terms = [np.ones_like(x), x, y] + ([x * x, x * y, y * y] if order == 2 else [])
    basis = np.stack(terms, axis=2)
    at = np.flatnonzero(members)
    at = at[:: max(1, len(at) // 4000)]  # enough for six coefficients
    if len(at) == 0:
        return np.zeros_like(lab)
    flat, values = basis.reshape(-1, len(terms))[at], lab.reshape(-1, 3)[at]
    # A small ridge penalty keeps slopes small where members lie on one side only.
    damping = np.diag([1e-6, *[0.01 * len(at)] * (len(terms) - 1)]).astype(np.float32)
    coefficients = np.linalg.solve(flat.T @ flat + damping, flat.T @ values)
    return np.asarray(basis @ coefficients, np.float32)


def _touching(near: Mask, rim: Mask) -> Mask:
    """Return the connected components of `near` that touch the rim."""
    _, labels = cv2.connectedComponents(near.astype(np.uint8), connectivity=4)
    reached = np.zeros(int(labels.max()) + 1, bool)
    reached[labels[rim & near]] = True
    reached[0] = False
    return np.asarray(reached[labels])


def _is_written(ground: Mask, written: Mask, settings: ParchmentSettings) -> bool:
    """Return whether the writing is on this background and not beside it: then it is a page."""
    wide = cv2.morphologyEx(ground.astype(np.uint8), cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    if wide.sum() < 0.5 * ground.sum():
        return True  # strokes that the frame cuts off
    # Close narrow gaps, since letters on it belong to it; leave out its edge, since an edge looks like a stroke.
    covered, side = _closed(ground), round(0.025 * max(ground.shape))
    on_it, beside_it = _middle(eroded(covered, side)), _middle(eroded(~covered, side))
    strokes, strokes_beside = int(written[on_it].sum()), int(written[beside_it].sum())
    share = strokes / max(1, on_it.sum())
    if share < 0.003:
        return False
    dense = share > settings.writing * strokes_beside / max(1, beside_it.sum())
    # Scraps of margin are full of edges: where the background covers nearly everything, compare numbers of strokes.
    return bool(dense or (strokes > 1.5 * strokes_beside and covered.mean() > 0.85))


def _closed(ground: Mask) -> Mask:
    return closed(ground, round(0.025 * max(ground.shape)))


def _middle(mask: Mask) -> Mask:
    """Clear the outer eighth of a mask, where rulers and labels lie."""
    rows, columns = mask.shape
    kept = np.zeros_like(mask)
    inner = (slice(rows // 8, rows - rows // 8), slice(columns // 8, columns - columns // 8))
    kept[inner] = mask[inner]
    return kept


def _is_stroke(mask: Mask) -> bool:
    """Return whether the piece is itself ink: a picture of one large letter."""
    side = round(0.07 * max(mask.shape)) | 1
    wide = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, np.ones((side, side), np.uint8))
    return bool(wide.sum() < 0.5 * mask.sum())


def _is_ground(mask: Mask, sight: Sight, grounds: list[Ground]) -> bool:
    """Return whether the piece has the background's colour between its strokes: a block of text on a page."""
    bare = sample(sight.bare[mask])
    same = [apart(bare, sample(ground.colour[mask])) < ground.reach for ground in grounds]
    return float(np.any(same, axis=0).mean()) > 0.5
