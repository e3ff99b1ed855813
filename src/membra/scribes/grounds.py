"""Textured backgrounds of fragments: wood, cloth, and the dark felt of a reading desk."""

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.surfaces import Field, noise, shadow, table

# Red, green and blue, 0 to 1, of textured grounds; every picture varies them.
TEXTURED = {
    "wood": (0.47, 0.31, 0.18),
    "linen": (0.67, 0.66, 0.59),
    "green cloth": (0.23, 0.38, 0.29),
    "dark felt": (0.12, 0.115, 0.11),
    "card": (0.72, 0.64, 0.50),
}


def ground(name: str, shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width, 3) one of ``TEXTURED``, 0 to 1; ``scale`` is the letter height in pixels."""
    tone = np.array(TEXTURED[name], np.float32) * np.float32(generator.uniform(0.8, 1.25))
    tone = tone + generator.normal(0.0, 0.012, 3).astype(np.float32)
    if name == "wood":
        shade = _wood(shape, scale, generator)
    elif name in ("linen", "green cloth"):
        shade = _weave(shape, scale, generator)
    elif name == "dark felt":
        shade = _felted(shape, scale, generator)
    else:
        shade = np.float32(0.03) * noise(shape, 0.1 * scale, generator)
        shade += np.float32(0.03) * noise(shape, 5.0 * scale, generator)
    return np.clip(tone * (1.0 + shade)[..., None], 0.0, 1.0).astype(np.float32)


def under(name: str, mask: NDArray[np.bool_], scale: float, generator: np.random.Generator) -> Field:
    """Return (height, width, 3) a plain or textured ground with the soft shadow of the pieces ``mask``."""
    if name not in TEXTURED:
        return table(name, mask, scale, generator)
    bare = ground(name, (mask.shape[0], mask.shape[1]), scale, generator)
    return np.asarray(bare * shadow(mask, scale, generator)[..., None], np.float32)


def _wood(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    """Grain that runs along the rows or the columns, in rings that bend around a few knots."""
    if generator.random() < 0.5:
        return np.ascontiguousarray(_wood_along(shape[::-1], scale, generator).T)
    return _wood_along(shape, scale, generator)


def _wood_along(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    rows = np.arange(shape[0], dtype=np.float32)[:, None] / np.float32(scale)
    rows = rows + np.float32(0.5) * _stretched(shape, 3.0 * scale, 25.0 * scale, generator)
    rings = np.sin(rows * np.float32(generator.uniform(4.0, 12.0)))
    pores = _stretched(shape, max(1.5, 0.05 * scale), 2.5 * scale, generator)
    boards = _stretched(shape, 6.0 * scale, 60.0 * scale, generator)
    return np.asarray(np.float32(0.07) * rings + np.float32(0.07) * pores + np.float32(0.05) * boards, np.float32)


def _weave(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    """Woven threads of varying width."""
    pitch = generator.uniform(0.09, 0.2) * scale
    rows = np.arange(shape[0], dtype=np.float32)[:, None] + np.float32(0.25 * pitch) * noise(shape, scale, generator)
    columns = np.arange(shape[1], dtype=np.float32) + np.float32(0.25 * pitch) * noise(shape, scale, generator)
    turn = np.float32(2.0 * np.pi / max(3.0, pitch))
    threads = np.sin(rows * turn) * np.sin(columns * turn)
    thick = _stretched(shape, pitch, 4.0 * scale, generator)
    thick = thick + _stretched(shape[::-1], pitch, 4.0 * scale, generator).T
    uneven = noise(shape, max(1.5, 0.5 * pitch), generator)
    return np.asarray(np.float32(0.07) * threads + np.float32(0.05) * thick + np.float32(0.04) * uneven, np.float32)


def _felted(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Field:
    """A pile with lint: grain, and a few bright hairs and crumbs."""
    shade = np.float32(0.10) * noise(shape, max(1.5, 0.05 * scale), generator)
    lint = np.zeros(shape, np.uint8)
    for x, y, long in generator.uniform(0.0, 1.0, (int(shape[0] * shape[1] / (3.0 * scale) ** 2), 3)).tolist():
        heading = generator.uniform(0.0, 6.3) + np.cumsum(generator.normal(0.0, 0.4, 5))
        steps = np.column_stack([np.cos(heading), np.sin(heading)]) * long**3 * 0.25 * scale
        start = np.array([x * shape[1], y * shape[0]])
        path = np.rint((start + np.cumsum(steps, axis=0)) * 16).astype(np.int32)
        cv2.polylines(lint, [path], False, int(generator.uniform(60, 255)), 1, cv2.LINE_AA, 4)
    return np.asarray(shade + lint.astype(np.float32) * np.float32(2.5 / 255.0), np.float32)


def _stretched(shape: tuple[int, int], down: float, along: float, generator: np.random.Generator) -> Field:
    """(height, width) unit noise that varies over ``down`` pixels of a column and ``along`` pixels of a row."""
    grid = (int(shape[0] / max(1.0, down)) + 3, int(shape[1] / along) + 3)
    values = generator.standard_normal(grid, np.float32)
    return np.asarray(cv2.resize(values, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC), np.float32)
