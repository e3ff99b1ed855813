"""Surfaces under and around the ink: parchment, the table, a ruler."""

import cv2
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]

# Red, green and blue of the tables, 0 to 1; every picture varies them a little.
TABLES = {
    "blue": (0.17, 0.42, 0.68),
    "black": (0.09, 0.09, 0.11),
    "white": (0.92, 0.92, 0.91),
    "grey": (0.50, 0.50, 0.51),
}


def noise(shape: tuple[int, int], cell: float, generator: np.random.Generator) -> Field:
    """Return (height, width) smooth noise of about unit standard deviation that varies over ``cell`` pixels."""
    grid = (int(shape[0] / cell) + 3, int(shape[1] / cell) + 3)
    values = generator.standard_normal(grid, np.float32)
    if cell <= 1.0:
        return np.asarray(values[: shape[0], : shape[1]])
    return np.asarray(cv2.resize(values, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC), np.float32)


def parchment(mask: NDArray[np.bool_], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width, 3) bare parchment; ``scale`` is the letter height in pixels.

    The tone is drawn per piece, not per manuscript: leaves of one book have aged in different libraries, and colour
    must not reveal what the writing should.
    """
    shape = (mask.shape[0], mask.shape[1])
    age = generator.uniform(0.0, 1.0)
    light = generator.uniform(0.74, 0.90)
    tone = light * (np.array([1.0, 0.965, 0.89]) * (1.0 - age) + np.array([0.93, 0.80, 0.62]) * age)
    # slow variation is computed on a grid four times coarser, at a sixteenth of the cost
    small, rough = (shape[0] // 4 + 1, shape[1] // 4 + 1), scale / 4.0
    slow = (
        0.040 * noise(small, 6.0 * rough, generator)
        + 0.022 * noise(small, 1.6 * rough, generator)
        + 0.013 * noise(small, 0.4 * rough, generator)
        + _bands(small, rough, generator)
    )
    grain = 0.016 * noise(shape, max(2.0, 0.08 * scale), generator)
    clouds = grain + cv2.resize(slow, (shape[1], shape[0]), interpolation=cv2.INTER_LINEAR)
    stained = _stains(small, rough, generator)
    stains = cv2.resize(stained, (shape[1], shape[0]), interpolation=cv2.INTER_LINEAR)
    # handled edges are darker and browner
    inside = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 3)
    reach = generator.uniform(0.15, 0.5) * scale
    brown = np.exp(inside * np.float32(-1.0 / reach)) * np.float32(generator.uniform(0.05, 0.22)) + stains
    # brown absorbs most of the blue and least of the red
    sheet = np.asarray(brown[..., None] * np.array([-0.45, -0.75, -1.0], np.float32), np.float32)
    sheet += 1.0
    sheet *= tone.astype(np.float32)
    sheet *= (1.0 + clouds)[..., None]
    return sheet


def table(name: str, mask: NDArray[np.bool_], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width, 3) the table with the soft shadow of the piece."""
    shape = (mask.shape[0], mask.shape[1])
    tone = np.array(TABLES[name]) * generator.uniform(0.9, 1.08) + generator.normal(0.0, 0.012, 3)
    weave = 0.02 * noise(shape, 8.0 * scale, generator) + 0.012 * noise(shape, 2.0, generator)
    return np.asarray(tone.astype(np.float32) * ((1.0 + weave) * shadow(mask, scale, generator))[..., None], np.float32)


def shadow(mask: NDArray[np.bool_], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width) a factor on the brightness of a table: the soft shadow of the pieces on it."""
    angle = generator.uniform(0.0, 2.0 * np.pi)
    reach = 0.12 * scale
    shift = np.array([[1.0, 0.0, reach * np.cos(angle)], [0.0, 1.0, reach * np.sin(angle)]])
    cast = cv2.warpAffine(mask.astype(np.float32), shift, (mask.shape[1], mask.shape[0]))
    cast = cv2.GaussianBlur(cast, (0, 0), 0.13 * scale) * np.float32(generator.uniform(0.25, 0.55))
    return np.asarray(1.0 - cast, np.float32)


def ruler_strip(length: int, scale: float, generator: np.random.Generator) -> Field:
    """Draw a ruler (height, ``length``, 3) with numbered centimetres; every second one has a colour chart."""
    centimetre = scale * 3.0
    depth = round(1.5 * scale)
    dark = bool(generator.random() < 0.4)
    body, mark = (30, 230) if dark else (226, 28)
    # OpenCV draws text only into uint8
    grey = np.full((depth, length), body, np.uint8)
    for number in range(int((length - 0.5 * centimetre) / centimetre * 10.0) + 1):
        x = round(0.25 * centimetre + number * centimetre / 10.0)
        tall = 0.45 if number % 10 == 0 else 0.32 if number % 5 == 0 else 0.2
        cv2.line(grey, (x, 0), (x, round(tall * depth)), mark, max(1, round(scale / 30.0)))
        if number % 10 == 0 and x + 0.5 * scale < length:
            at = (x - round(0.2 * scale), round(0.9 * depth))
            thick = max(1, round(scale / 22.0))
            cv2.putText(grey, str(number // 10), at, cv2.FONT_HERSHEY_SIMPLEX, scale / 44.0, mark, thick, cv2.LINE_AA)
    strip = np.repeat(grey[..., None], 3, axis=2).astype(np.float32) / np.float32(255.0)
    if generator.random() < 0.5:
        strip = np.vstack([strip, _chart(length, round(1.2 * scale), scale)])
    return strip


def label_card(scale: float, generator: np.random.Generator) -> Field:
    """Draw a small card (height, width, 3) with a printed shelfmark, dark on light or light on dark."""
    holding, side = generator.choice(("P.", "MS ", "Fr. ", "Inv. ")), generator.choice(("R", "V"))
    text = f"{holding}{generator.integers(10, 2000)}-{side}"
    size, thick = scale / 40.0, max(1, round(scale / 25.0))
    (width, height), base = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, thick)
    edge = round(0.4 * scale)
    light = bool(generator.random() < 0.6)
    card = np.full((height + base + 2 * edge, width + 2 * edge), 238 if light else 22, np.uint8)
    at = (edge, edge + height)
    cv2.putText(card, text, at, cv2.FONT_HERSHEY_SIMPLEX, size, 30 if light else 215, thick, cv2.LINE_AA)
    card = np.rot90(card, int(generator.choice((0, 1, 3))))
    return np.repeat(card[..., None], 3, axis=2).astype(np.float32) / np.float32(255.0)


def _chart(length: int, depth: int, scale: float) -> Field:
    """Draw a colour chart, as photographers put beside the object."""
    colours = np.array(
        [
            (0.9, 0.9, 0.9), (0.63, 0.63, 0.63), (0.36, 0.36, 0.36), (0.1, 0.1, 0.1), (0.75, 0.2, 0.2),
            (0.9, 0.8, 0.15), (0.25, 0.6, 0.3), (0.15, 0.55, 0.75), (0.2, 0.25, 0.6), (0.7, 0.3, 0.55),
        ],
        np.float32,
    )  # fmt: skip
    side = round(1.6 * scale)
    chart = np.full((depth, length, 3), 0.12, np.float32)
    edge = max(2, round(0.1 * scale))
    for number, left in enumerate(range(edge, length - side, side)):
        chart[edge : depth - edge, left : left + side - edge] = colours[number % len(colours)]
    return chart


def _bands(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width) the brightness of wavy parchment: broad bands, usually along the writing."""
    rows = np.linspace(0.0, shape[0] / scale, shape[0], dtype=np.float32)[:, None]
    columns = np.linspace(0.0, shape[1] / scale, shape[1], dtype=np.float32)
    across = (rows + generator.uniform(-0.3, 0.3) * columns) * generator.uniform(0.8, 2.2)
    phase = generator.uniform(0.0, 6.3) + 1.2 * noise(shape, 8.0 * scale, generator)
    return np.asarray(generator.uniform(0.0, 0.035) * np.sin(across + phase), np.float32)


def _stains(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width) irregular water stains with dark rims, 0 to about 0.3."""
    total = np.zeros(shape, np.float32)
    rows = np.arange(shape[0], dtype=np.float32)[:, None]
    columns = np.arange(shape[1], dtype=np.float32)
    for _ in range(int(generator.integers(0, 4))):
        centre = generator.uniform(0.0, 1.0, 2) * shape
        size = generator.uniform(0.6, 3.5) * scale
        distance = np.hypot(rows - np.float32(centre[0]), columns - np.float32(centre[1])) / np.float32(size)
        distance = distance + np.float32(0.22) * noise(shape, 1.2 * scale, generator)
        inside = 1.0 / (1.0 + np.exp(np.clip((distance - 1.0) * 14.0, -30.0, 30.0)))
        rim = np.exp(-(((distance - 0.97) / 0.07) ** 2))
        total += np.float32(generator.uniform(0.03, 0.14)) * (inside + np.float32(0.5) * rim)
    return np.asarray(total, np.float32)
