"""Binarises a photograph by rules: which pixels are ink, dark or light, and the letter height."""

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.see.lines import find_lines
from membra.sources.photograph import grey

MAX_PIXELS = 60_000_000  # of the enlarged fragment: a page of 8,000 letters of 40 px, and 60 MB
SHARP = 3.0  # px, width of the edge between surface and ink where letters of 40 px are in focus
SPREAD = 3.0  # px, sigma of the Gaussian blur that sharpening subtracts
MAX_SHARPENING = 2.0  # above it grain becomes ink
CLEAR = 80.0  # grey levels between ink and surface; below it Sauvola's threshold breaks letters up
MAX_GAIN = 3.0  # upper bound of the contrast gain for pale ink; above it grain becomes ink
LOW = 0.14  # of the line pitch, the lowest letters that were ever measured
STRIP = 2048  # rows per thresholding step, so that memory does not grow with the page


@dataclass(frozen=True)
class InkSettings:
    """How ink is separated from the surface."""

    # one global level, one level per neighbourhood, or the eye (`see/read.py` then replaces this module)
    threshold: Literal["otsu", "sauvola", "learned"] = "sauvola"
    polarity: Literal["mean", "skew"] = "skew"  # mean: the paper's rule; skew: the rarer side is the ink
    letter_height: int = 40  # px, the height that every fragment's letters are scaled to; 0 keeps the scale
    window: float = 1.5  # letter heights, the neighbourhood of the local threshold: a letter and its surface
    contrast: float = 0.2  # Sauvola's k: higher finds less ink; 0.2 is his value for documents
    sharpen: float = 1.0  # sharpening per px by which edges are wider than in focus; 0: none
    margin: float = 0.15  # letter heights cut off along the fragment's edge, where shadows look like ink
    smallest_height: int = 6  # px in the photograph; lower components are grain
    max_scale: float = 4.0  # upper bound of the enlargement of small letters; more shows no further detail


@dataclass(frozen=True)
class Ink:
    """`binary` (height, width) uint8, 255 on ink and 0 elsewhere, `scale` times the photograph's size.

    It shows the part of the photograph that begins at column `left` and row `top`.
    """

    binary: NDArray[np.uint8]
    scale: float
    letter_height: float  # px in the photograph; 0 where it was not measured
    left: int = 0  # px in the photograph
    top: int = 0  # px in the photograph
    inside: NDArray[np.bool_] | None = None  # (height, width) the fragment at the same scale; None: everywhere
    margin: int = 0  # px of `binary` along the fragment's edge that count as free of ink
    turned: bool = False  # lines run from top to bottom: the text is rotated by 90 or 270 degrees


def find_ink(photograph: NDArray[np.uint8], parchment: NDArray[np.bool_], settings: InkSettings) -> Ink:
    """Find the ink of an RGB photograph (height, width, 3) within the mask `parchment` (height, width)."""
    if settings.threshold == "otsu":
        return Ink(otsu(grey(photograph)), 1.0, 0.0)
    rows, columns = np.flatnonzero(parchment.any(axis=1)), np.flatnonzero(parchment.any(axis=0))
    if len(rows) == 0:
        return Ink(np.zeros(parchment.shape, np.uint8), 1.0, 0.0)
    top, left = int(rows[0]), int(columns[0])
    inside = parchment[top : rows[-1] + 1, left : columns[-1] + 1]
    luminance = grey(np.ascontiguousarray(photograph[top : rows[-1] + 1, left : columns[-1] + 1]))
    if settings.polarity == "skew" and _is_light_on_dark(luminance, inside):
        luminance = 255 - luminance
    luminance = _flatten_outside(luminance, inside)
    window = max(15, round(max(luminance.shape) / 40))
    coarse = _local(luminance, inside, window, 0, settings)
    luminance = _brought_out(luminance, inside, coarse)
    coarse = _local(luminance, inside, window, 0, settings)
    height = _letter_height(coarse, inside, settings)
    if height == 0 or settings.letter_height == 0:
        return Ink(coarse, 1.0, height, left, top, inside)
    # Measure the letters again at their final scale: in few pixels, heights are uncertain, and the neighbourhood of
    # the first threshold was a guess.
    for _ in range(2):
        scale = min(settings.letter_height / height, settings.max_scale, float(np.sqrt(MAX_PIXELS / luminance.size)))
        margin = round(settings.margin * scale * height)
        binary, fitted = _at_scale(luminance, inside, scale, scale * height, margin, settings)
        lines = find_lines(binary, scale * height)
        measured = _by_pitch(_letter_height(binary, fitted, settings), lines.pitch) / scale
        if measured == 0 or abs(measured / height - 1) < 0.05:
            break
        height = measured
    return Ink(binary, scale, height, left, top, fitted, margin, lines.turned)


def _by_pitch(height: float, pitch: float) -> float:
    """Return the letter height, or half of the line `pitch` (0: unknown) where the height is implausible for it.

    Letters higher than the line pitch touch those of the next line; lower than a seventh of it they are specks.
    Either leads to a wrong scale, at which half of the letters are rejected.
    """
    if pitch and not LOW * pitch <= height <= pitch:
        return 0.5 * pitch
    return height


def _at_scale(
    luminance: NDArray[np.uint8],
    inside: NDArray[np.bool_],
    scale: float,
    letter: float,
    margin: int,
    settings: InkSettings,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the ink (255) and the fragment mask, scaled by `scale`, at which letters are `letter` px high."""
    size = max(1, round(luminance.shape[1] * scale)), max(1, round(luminance.shape[0] * scale))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    scaled = np.asarray(cv2.resize(luminance, size, interpolation=how), np.uint8)
    fitted = cv2.resize(inside.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    window = round(settings.window * letter)
    binary = _local(scaled, fitted, window, margin, settings)
    strength = min(settings.sharpen * (_edge_width(scaled, binary) - SHARP), MAX_SHARPENING)
    if strength > 0.1:
        soft = cv2.GaussianBlur(scaled, (0, 0), SPREAD)
        sharp = np.asarray(cv2.addWeighted(scaled, 1 + strength, soft, -strength, 0.0), np.uint8)
        binary = _local(sharp, fitted, window, margin, settings)
    return binary, fitted


def _brought_out(
    luminance: NDArray[np.uint8], inside: NDArray[np.bool_], binary: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Amplify the contrast of pale ink to its surface towards CLEAR, measured on the ink found so far (`binary`)."""
    contrast = _contrast(luminance, _letters_only(binary))
    gain = min(CLEAR / max(contrast, 1.0), MAX_GAIN)
    if contrast <= 0 or gain <= 1:
        return luminance
    side = max(31, round(max(luminance.shape) / 10)) | 1
    weight = cv2.blur(inside.astype(np.float32), (side, side))
    surface = cv2.blur(luminance * inside.astype(np.float32), (side, side)) / np.maximum(weight, 1e-3)
    brought = np.clip(surface + gain * (luminance - surface), 0, 255)
    return np.where(inside, brought, luminance).astype(np.uint8)


def _letters_only(binary: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Remove components too long or too large for letters: a gutter's shadow is dark where the ink is pale."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(binary, connectivity=8)
    width, height = np.asarray(stats[:, 2], np.int32), np.asarray(stats[:, 3], np.int32)
    limit = 0.25 * max(binary.shape)
    letter = (width <= 6 * height) & (height <= 6 * width) & (height <= limit) & (width <= limit)
    letter[0] = False
    return np.where(letter[labels], np.uint8(255), np.uint8(0))


def _contrast(luminance: NDArray[np.uint8], binary: NDArray[np.uint8]) -> float:
    """Return by how many grey levels the surface around the ink is lighter than the ink; 0 where there is no ink."""
    beside = cv2.dilate(binary, np.ones((7, 7), np.uint8))
    around = (cv2.dilate(beside, np.ones((7, 7), np.uint8)) > 0) & (beside == 0)
    if not around.any():
        return 0.0
    return float(np.median(luminance[around])) - float(np.median(luminance[binary > 0]))


def _edge_width(luminance: NDArray[np.uint8], binary: NDArray[np.uint8]) -> float:
    """Return the width in px of the edge between surface and ink, the median over all edges; 0 without ink."""
    edge = cv2.morphologyEx(binary, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    if not edge.any():
        return 0.0
    across = cv2.Sobel(luminance, cv2.CV_32F, 1, 0, scale=1 / 8)[edge]
    down = cv2.Sobel(luminance, cv2.CV_32F, 0, 1, scale=1 / 8)[edge]
    return _contrast(luminance, binary) / max(float(np.median(np.hypot(across, down))), 1.0)


def otsu(luminance: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Binarise a grey image (height, width) by Otsu's threshold, 255 on text.

    As in the paper, the result is inverted where its mean exceeds 128, so that text is white.
    """
    _, binary = cv2.threshold(luminance, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return np.asarray(255 - binary if binary.mean() > 128 else binary)


def sauvola(luminance: NDArray[np.uint8], window: int, contrast: float) -> NDArray[np.float32]:
    """Return Sauvola's threshold at each pixel of a grey image (height, width): m (1 + k (s / 128 - 1)).

    m and s are mean and standard deviation in a square of `window` (odd) pixels; k is `contrast`.
    J. Sauvola and M. Pietikainen, Adaptive document image binarization, 2000, doi:10.1016/S0031-3203(99)00055-2.
    """
    values = luminance.astype(np.float32)
    mean = cv2.blur(values, (window, window), borderType=cv2.BORDER_REFLECT_101)
    square = cv2.blur(values * values, (window, window), borderType=cv2.BORDER_REFLECT_101)
    deviation = np.sqrt(np.maximum(square - mean * mean, 0))
    return np.asarray(mean * (1 + contrast * (deviation / 128 - 1)), dtype=np.float32)


def _local(
    luminance: NDArray[np.uint8], inside: NDArray[np.bool_], window: int, margin: int, settings: InkSettings
) -> NDArray[np.uint8]:
    """Binarise dark ink by the local threshold, 255 on ink, 0 within `margin` px of the fragment's edge."""
    written = np.empty(luminance.shape, bool)
    for first in range(0, len(luminance), STRIP):
        low, high = max(0, first - window), min(len(luminance), first + STRIP + window)
        level = sauvola(luminance[low:high], window | 1, settings.contrast)
        part = slice(first - low, first - low + STRIP)
        written[first : first + STRIP] = luminance[low:high][part] < level[part]
    if margin and not inside.all():
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * margin + 1, 2 * margin + 1))
        inside = cv2.erode(inside.astype(np.uint8), kernel) > 0
    return (written & inside).astype(np.uint8) * np.uint8(255)


def _flatten_outside(luminance: NDArray[np.uint8], inside: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Fill the outside of the fragment with the surface's median, so that the local threshold sees no edge there."""
    if inside.all() or not inside.any():
        return luminance
    return np.where(inside, luminance, np.uint8(np.median(luminance[inside])))


def _is_light_on_dark(luminance: NDArray[np.uint8], inside: NDArray[np.bool_]) -> bool:
    """Return whether ink is lighter than the surface.

    Ink covers less area than the surface, so it is the long tail of the difference to the surroundings.
    """
    scale = min(1.0, 600 / max(luminance.shape))  # enough to compare the two areas
    size = max(1, round(luminance.shape[1] * scale)), max(1, round(luminance.shape[0] * scale))
    values = np.asarray(cv2.resize(luminance, size, interpolation=cv2.INTER_AREA), np.float32)
    within = np.asarray(cv2.resize(inside.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST), np.uint8)
    window = max(15, round(max(size) / 20)) | 1
    weight = cv2.blur(within.astype(np.float32), (window, window))
    mean = cv2.blur(values * within, (window, window)) / np.maximum(weight, 1e-3)
    core = cv2.erode(within, np.ones((9, 9), np.uint8)) > 0
    residual = (values - mean)[core if core.any() else within > 0]
    if residual.size == 0 or residual.std() < 1:
        return False
    residual = (residual - residual.mean()) / residual.std()
    return float((residual * residual * residual).mean()) > 0.5


def _letter_height(binary: NDArray[np.uint8], inside: NDArray[np.bool_], settings: InkSettings) -> float:
    """Return the median height in px of the components that can be letters, weighted by their ink; 0 without any.

    Weighted by ink, because specks outnumber letters on most parchments and would decide a plain median. Components
    that the tear has cut are left out where the whole ones have at least 0.3 of the ink.
    """
    _, _, stats, _ = cv2.connectedComponentsWithStats(binary, connectivity=8)
    left, top, width, height, area = np.asarray(stats[1:], np.int32).T
    shape = (width <= 6 * height) & (width >= height / 6) & (area >= 0.08 * width * height)
    letters = shape & (height >= settings.smallest_height) & (height <= 0.25 * max(binary.shape))
    if not letters.any():  # a picture of a single letter or word
        letters = shape & (height >= settings.smallest_height) & (height <= 0.9 * max(binary.shape))
    if not letters.any():
        return 0.0
    outside = cv2.integral((~inside).astype(np.uint8))
    right, bottom = left + width, top + height
    cut = outside[bottom, right] - outside[top, right] - outside[bottom, left] + outside[top, left] > 0
    if area[letters & ~cut].sum() >= 0.3 * area[letters].sum():
        letters &= ~cut
    order = np.argsort(height[letters], kind="stable")
    share = np.cumsum(area[letters][order]) / area[letters].sum()
    return float(height[letters][order][int(np.searchsorted(share, 0.5))])
