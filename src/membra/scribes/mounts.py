"""Later additions: tissue, tape and stamps, as layers that can be put on any picture.

Shapes are (height, width), ``scale`` is the letter height in pixels, colours are red, green and blue from 0
to 1.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.surfaces import Field, noise

Mask = NDArray[np.bool_]
Points = NDArray[np.float64]

BITS = 4
TAPES = ("tissue", "paper", "film")
# Mean cover from which a layer counts as opaque, so that nothing below it can be read.
OPAQUE = 0.5


class Layer(NamedTuple):
    """A thin layer on a picture."""

    area: Mask  # (height, width) True where it lies
    cover: Field  # (height, width) its opacity, 0 to 1; 0 outside the area
    tone: Field  # (3,) its colour


def lay(picture: Field, layer: Layer) -> Field:
    """Composite a layer on the picture (height, width, 3)."""
    cover = layer.cover[..., None]
    return np.asarray(picture * (1.0 - cover) + layer.tone * cover, np.float32)


def edges(layer: Layer, scale: float) -> Field:
    """Return the thin shadow, 0 to 1, beside the edges of a layer on top."""
    area = layer.area.astype(np.float32)
    beside = cv2.GaussianBlur(area, (0, 0), max(0.7, 0.025 * scale)) * (1.0 - area)
    return np.asarray(np.float32(0.7) * beside, np.float32)


def hidden(layer: Layer) -> Mask:
    """Return (height, width) where the layer hides writing: its whole area if its mean cover is at least ``OPAQUE``."""
    if not layer.area.any() or float(layer.cover[layer.area].mean()) < OPAQUE:
        return np.zeros_like(layer.area)
    return layer.area


def felt(shape: tuple[int, int], scale: float, generator: np.random.Generator, density: float = 1.0) -> Field:
    """Return the thickness, 0 to 1, of random long fibres as in Japanese paper; about 0.35 in the mean."""
    length = 1.2 * scale
    count = min(60000, int(density * shape[0] * shape[1] / (length * max(1.2, 0.030 * scale))))
    total = np.zeros(shape, np.float32)
    # with small letters, fibres are thinner than a pixel
    fine = float(np.clip(0.022 * scale, 0.35, 1.0))
    # fibres that cross are brighter, so they are drawn in layers that add up
    for layer in range(4):
        canvas = np.zeros(shape, np.uint8)
        paths = _strewn(shape, count // 4, length, generator)
        thick = max(1, round((0.010 + 0.004 * layer) * scale))
        cv2.polylines(canvas, list(paths), False, 255, thick, cv2.LINE_AA, BITS)
        total += canvas.astype(np.float32)
    total *= np.float32(0.30 * fine / 255.0)
    # the sheet's thickness varies
    total *= 1.0 + np.float32(0.16) * noise(shape, 1.2 * scale, generator)
    total += np.float32(0.05) * noise(shape, max(1.5, 0.04 * scale), generator) + np.float32(0.08)
    return np.clip(cv2.GaussianBlur(total, (0, 0), max(0.4, 0.012 * scale)), 0.0, 1.0)


def tissue(mask: Mask, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Layer:
    """Draw Japanese paper that backs a piece ``mask``, cut by hand around it; the piece is put on it afterwards.

    Higher ``strength`` makes it wider and more opaque.
    """
    shape = (mask.shape[0], mask.shape[1])
    tone = _paper_tone(generator)
    if strength <= 0.0 or not mask.any():
        return Layer(np.zeros(shape, bool), np.zeros(shape, np.float32), tone)
    outline, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    hull = np.zeros(shape, np.uint8)
    cv2.fillPoly(hull, [cv2.convexHull(np.concatenate(outline))], 1)
    # some follow the piece's outline, others its convex hull
    near = mask if generator.random() < 0.35 else hull.astype(bool)
    away = cv2.distanceTransform((~near).astype(np.uint8), cv2.DIST_L2, 5)
    margin = generator.uniform(0.25, 0.5 + 1.0 * strength) * scale
    rough = np.asarray(away < margin * (1.0 + np.float32(0.3) * noise(shape, 5.0 * scale, generator)))
    cuts, _ = cv2.findContours(rough.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    area = np.zeros(shape, np.uint8)
    # scissors cut in straight segments
    straight = [cv2.approxPolyDP(cut, generator.uniform(0.05, 0.6) * margin, True) for cut in cuts]
    cv2.fillPoly(area, straight, 1)
    body = np.float32(generator.uniform(0.05, 0.15 + 0.3 * strength))
    cover = body + np.float32(0.9) * felt(shape, scale, generator, generator.uniform(0.8, 1.4))
    return Layer(area.astype(bool), np.clip(cover, 0.0, 1.0) * _smooth(area), tone)


def tape(
    mask: Mask,
    scale: float,
    generator: np.random.Generator,
    strength: float = 0.5,
    kind: str | None = None,
    crossing: bool = False,
) -> Layer:
    """Draw a strip of tape from the piece ``mask`` to the picture's edge; ``crossing``: from edge to edge over it.

    ``kind`` is one of ``TAPES``: a hinge of tissue with loose fibres, gummed paper, or yellowed transparent film.
    Higher ``strength`` makes it wider and extends it further over the piece.
    """
    kind = str(generator.choice(TAPES, p=(0.6, 0.25, 0.15))) if kind is None else kind
    shape = (mask.shape[0], mask.shape[1])
    tone = _paper_tone(generator)
    if strength <= 0.0 or not mask.any():
        return Layer(np.zeros(shape, bool), np.zeros(shape, np.float32), tone)
    spots = np.argwhere(mask)
    middle = spots[int(generator.integers(len(spots)))][::-1].astype(float)
    # tape runs nearly parallel to the picture's edges
    heading = float(generator.choice((0.0, 0.5, 1.0, 1.5))) * np.pi + generator.normal(0.0, 0.12)
    along = np.array([np.cos(heading), np.sin(heading)])
    far = float(np.hypot(*shape))
    steps = middle + np.outer(np.arange(0.0, far, 2.0), along)
    column, row = np.rint(steps).astype(int).T
    inside = (column >= 0) & (row >= 0) & (column < shape[1]) & (row < shape[0])
    on = np.zeros(len(steps), bool)
    on[inside] = mask[row[inside], column[inside]]
    overlap = generator.uniform(0.2, 0.5 + 1.6 * strength) * scale
    start = -far if crossing else 2.0 * float(np.flatnonzero(on).max(initial=0)) - overlap
    # most run off the picture, some end within it, torn or cut
    end = far if crossing or generator.random() < 0.7 else start + overlap + generator.uniform(0.8, 3.0) * scale
    width = generator.uniform(0.6, 1.0 + 1.2 * strength) * scale
    area = _strip(shape, middle, along, (start, end), width, kind == "tissue", scale, generator)
    return Layer(area.astype(bool), _tape_cover(area, kind, scale, generator), tone if kind != "film" else _FILM)


def stamp(shape: tuple[int, int], scale: float, generator: np.random.Generator, strength: float = 0.5) -> Layer:
    """Draw a library stamp, round or oval: one rim or two, text around and across it, unevenly inked."""
    high = int(generator.uniform(1.6, 3.6) * scale)
    wide = high if generator.random() < 0.5 else int(high * generator.uniform(1.2, 1.7))
    tones = ((0.25, 0.20, 0.50), (0.55, 0.12, 0.14), (0.12, 0.12, 0.16), (0.15, 0.28, 0.30))
    tone = np.array(tones[int(generator.integers(len(tones)))], np.float32)
    cover = np.zeros(shape, np.float32)
    if strength <= 0.0:
        return Layer(np.zeros(shape, bool), cover, tone)
    face = cv2.resize(_face(high, generator), (wide, high), interpolation=cv2.INTER_AREA)
    centre = generator.uniform(0.15, 0.85, 2) * (shape[1], shape[0])
    turn = generator.uniform(-40.0, 40.0)
    matrix = np.asarray(cv2.getRotationMatrix2D((wide / 2.0, high / 2.0), turn, 1.0), float)
    matrix[:, 2] += centre - (wide / 2.0, high / 2.0)
    printed = cv2.warpAffine(face, matrix, (shape[1], shape[0])).astype(np.float32) / np.float32(255.0)
    pressed = 0.75 + np.float32(0.25) * noise(shape, 0.8 * scale, generator)
    pressed += np.float32(0.25) * noise(shape, max(1.3, 0.05 * scale), generator)
    cover = printed * np.clip(pressed, 0.0, 1.0) * np.float32(0.25 + 0.65 * strength)
    return Layer(printed > 0.5, np.asarray(cover, np.float32), tone)


_FILM = np.array([0.55, 0.40, 0.20], np.float32)


def _paper_tone(generator: np.random.Generator) -> Field:
    warm = generator.uniform(0.0, 1.0)
    tone = np.array([0.90, 0.90, 0.88]) * (1.0 - warm) + np.array([0.82, 0.74, 0.58]) * warm
    return np.asarray(tone * generator.uniform(0.75, 1.0), np.float32)


def _strewn(shape: tuple[int, int], count: int, length: float, generator: np.random.Generator) -> NDArray[np.int32]:
    """(count, 6, 2) fixed-point paths of curved fibres with random positions and directions."""
    start = generator.uniform(-0.1, 1.1, (count, 1, 2)) * (shape[1], shape[0])
    heading = generator.uniform(0.0, 2.0 * np.pi, (count, 1))
    bend = generator.normal(0.0, 0.35, (count, 1)) + generator.normal(0.0, 0.35, (count, 5))
    angles = heading + np.cumsum(bend, axis=1)
    step = length * generator.uniform(0.4, 1.6, (count, 1)) / 5.0
    moves = np.stack([np.cos(angles) * step, np.sin(angles) * step], axis=2)
    paths = np.concatenate([start, start + np.cumsum(moves, axis=1)], axis=1)
    return np.asarray(np.rint(paths * 2**BITS), np.int32)


def _strip(
    shape: tuple[int, int],
    middle: Points,
    along: Points,
    ends: tuple[float, float],
    width: float,
    frayed: bool,
    scale: float,
    generator: np.random.Generator,
) -> NDArray[np.uint8]:
    """(height, width) 1 on a strip through ``middle``: sides nearly straight, ends cut askew or frayed."""
    rows = np.arange(shape[0], dtype=np.float32)[:, None] - np.float32(middle[1])
    columns = np.arange(shape[1], dtype=np.float32) - np.float32(middle[0])
    down = columns * np.float32(along[0]) + rows * np.float32(along[1])
    across = rows * np.float32(along[0]) - columns * np.float32(along[1])
    across = across + np.float32(0.03 * scale) * noise(shape, 3.0 * scale, generator)
    skew = np.float32(generator.normal(0.0, 0.25))
    ragged = np.zeros(shape, np.float32)
    if frayed:
        ragged = noise(shape, max(1.5, 0.06 * scale), generator) * np.float32(0.10 * scale)
        across = across + np.float32(0.12) * ragged
    begin = down + skew * across + ragged > ends[0]
    return np.asarray((np.abs(across) < width / 2) & begin & (down - skew * across + ragged < ends[1])).astype(np.uint8)


def _tape_cover(area: NDArray[np.uint8], kind: str, scale: float, generator: np.random.Generator) -> Field:
    shape = (area.shape[0], area.shape[1])
    if kind == "film":
        # a translucent yellow layer, darker at its dirty edges
        inside = cv2.distanceTransform(area, cv2.DIST_L2, 3)
        edge = np.exp(inside * np.float32(-1.0 / max(0.8, 0.03 * scale))) * np.float32(0.35)
        veil = np.float32(generator.uniform(0.12, 0.3)) + edge + np.float32(0.04) * noise(shape, scale, generator)
        return np.asarray(np.clip(veil, 0.0, 0.65) * _smooth(area), np.float32)
    fibres = felt(shape, scale, generator, generator.uniform(0.9, 1.6))
    if kind == "paper":
        cover = np.clip(np.float32(0.6) + np.float32(0.5) * fibres, 0.6, 1.0) * _smooth(area)
        return np.asarray(cover, np.float32)
    cover = np.clip(np.float32(generator.uniform(0.05, 0.35)) + np.float32(0.9) * fibres, 0.0, 1.0) * _smooth(area)
    return np.asarray(np.maximum(cover, _loose(area, scale, generator)), np.float32)


def _loose(area: NDArray[np.uint8], scale: float, generator: np.random.Generator) -> Field:
    """Return the cover of the fibres that stick out of the torn sides of a strip."""
    shape = (area.shape[0], area.shape[1])
    rim = np.argwhere(cv2.morphologyEx(area, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0)
    canvas = np.zeros(shape, np.uint8)
    if len(rim):
        count = int(len(rim) / scale * generator.uniform(0.2, 1.6))
        paths = _strewn(shape, count, 0.35 * scale, generator)
        starts = rim[generator.integers(0, len(rim), count)][:, ::-1] * 2**BITS
        paths = paths - paths[:, :1] + starts[:, None].astype(np.int32)
        cv2.polylines(canvas, list(paths), False, 120, max(1, round(0.015 * scale)), cv2.LINE_AA, BITS)
    return canvas.astype(np.float32) / np.float32(255.0)


def _face(side: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Return (side, side) the print of a round stamp, 255 where there is ink."""
    face = np.zeros((side, side), np.uint8)
    half, line = side / 2.0, max(1, side // 45)
    cv2.circle(face, (side // 2, side // 2), int(half - line), 255, line + 1, cv2.LINE_AA)
    inner = generator.uniform(0.58, 0.7)
    if generator.random() < 0.7:
        cv2.circle(face, (side // 2, side // 2), int(half * inner), 255, line, cv2.LINE_AA)
    # text around the rim: drawn straight on a strip, whose columns become angles and whose rows radii
    around, deep = int(2.0 * np.pi * half), int(half)
    strip = np.zeros((deep, around), np.uint8)
    size = 0.6 * (1.0 - inner) * half / 21.0
    base = deep - int(0.94 * deep) + int((1.0 - inner) * half * 0.72)
    text = "".join(generator.choice(list("BIBLIOTECARUMXSVNDLG .*"), 60))
    cv2.putText(strip, text, (0, base), cv2.FONT_HERSHEY_SIMPLEX, size, 255, line, cv2.LINE_AA)
    polar = np.ascontiguousarray(np.flipud(strip).T)
    # without the last flag, pixels beyond the circle are uninitialised memory
    how = cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR | cv2.WARP_FILL_OUTLIERS
    ring = cv2.warpPolar(polar, (side, side), (half, half), half, how)
    for number, word in enumerate(("".join(generator.choice(list("ABEILMNORSTU"), 6)), str(generator.integers(10000)))):
        at = (int(0.5 * side - 0.36 * side), int((0.48 + 0.2 * number) * side))
        cv2.putText(ring, word, at, cv2.FONT_HERSHEY_DUPLEX, side / 190.0, 255, line, cv2.LINE_AA)
    rows, columns = np.ogrid[:side, :side]
    return np.where(np.hypot(rows - half, columns - half) < half, np.maximum(face, ring), 0).astype(np.uint8)


def _smooth(area: NDArray[np.uint8]) -> Field:
    """Antialias the edge of an area."""
    return np.asarray(cv2.GaussianBlur(area.astype(np.float32), (0, 0), 0.6), np.float32)
