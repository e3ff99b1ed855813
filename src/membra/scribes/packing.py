"""Positions of pieces on a plate: in rows, close together, some touching, none overlapping."""

import cv2
import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Corner = tuple[int, int]  # row and column of the upper left corner of a piece's picture


def pack(
    masks: list[Mask], scale: float, touching: float, generator: np.random.Generator
) -> tuple[tuple[int, int], list[Corner]]:
    """Return the plate's shape (height, width) and the corner of each piece's picture ``mask`` on it.

    Pieces are arranged in rows. A share ``touching`` is moved left until it touches the previous piece; the others
    have a gap of at least a third of a letter height ``scale``.
    """
    extent = [_extent(mask) for mask in masks]
    area = sum((bottom - top) * (right - left) for top, bottom, left, right in extent)
    limit = max(1.1 * np.sqrt(area) * generator.uniform(0.9, 1.6), max(right - left for _, _, left, right in extent))
    border = round(2.0 * scale)
    corners: list[Corner] = []
    row_top, cursor, tallest, first = border, border, 0, 0
    for number, (mask, (top, bottom, left, right)) in enumerate(zip(masks, extent, strict=True)):
        high, wide = bottom - top, right - left
        if cursor > border and cursor + wide > border + limit:
            row_top += tallest + round(generator.uniform(0.35, 1.2) * scale)
            cursor, tallest, first = border, 0, number
        gap = 0 if number == first else round(generator.uniform(0.35, 1.5) * scale)
        down = round(generator.uniform(0.0, 0.6) * scale)
        if number > first:
            # about level with the previous piece, so that the two are side by side
            down = max(0, corners[-1][0] + _middle(masks[number - 1]) - row_top - high // 2)
        corner = (row_top + down - top, cursor + gap - left)
        if number > first and generator.random() < touching:
            slack = min(_slack(masks[other], corners[other], mask, corner) for other in range(first, number))
            corner = (corner[0], corner[1] - slack)
        corners.append(corner)
        cursor = max(cursor, corner[1] + right)
        tallest = max(tallest, corner[0] + bottom - row_top)
    low = np.min([(r, c) for r, c in corners], axis=0)
    # keep every piece's picture inside the plate
    shift = np.maximum(0, -low)
    ends = [(r + m.shape[0], c + m.shape[1]) for (r, c), m in zip(corners, masks, strict=True)]
    body = [(r + bottom, c + right) for (r, c), (_, bottom, _, right) in zip(corners, extent, strict=True)]
    high_end = np.maximum(np.max(ends, axis=0), np.max(body, axis=0) + border) + shift
    moved = [(int(r + shift[0]), int(c + shift[1])) for r, c in corners]
    return (int(high_end[0]), int(high_end[1])), moved


def scatter(masks: list[Mask], taken: Mask, scale: float, generator: np.random.Generator) -> list[Corner]:
    """Return corners for the small pieces that fit where nothing is ``taken`` (height, width)."""
    # a margin of a fifth of a letter height stays free
    margin = max(1, round(0.2 * scale)) * 2 + 1
    full = cv2.dilate(taken.astype(np.uint8), np.ones((margin, margin), np.uint8)).astype(bool)
    corners: list[Corner] = []
    for mask in masks:
        for _ in range(200):
            row = int(generator.integers(0, max(1, taken.shape[0] - mask.shape[0])))
            column = int(generator.integers(0, max(1, taken.shape[1] - mask.shape[1])))
            window = full[row : row + mask.shape[0], column : column + mask.shape[1]]
            if window.shape == mask.shape and not (window & mask).any():
                window |= cv2.dilate(mask.astype(np.uint8), np.ones((margin, margin), np.uint8)).astype(bool)
                corners.append((row, column))
                break
        else:
            break
    return corners


def _slack(first: Mask, at: Corner, second: Mask, corner: Corner) -> int:
    """Return how many px the second piece can move left until it touches the first or aligns with its left side."""
    top, bottom = max(at[0], corner[0]), min(at[0] + first.shape[0], corner[0] + second.shape[0])
    beside = corner[1] + _extent(second)[2] - (at[1] + _extent(first)[2])
    if top >= bottom:
        return beside
    a, b = first[top - at[0] : bottom - at[0]], second[top - corner[0] : bottom - corner[0]]
    both = a.any(axis=1) & b.any(axis=1)
    if not both.any():
        return beside
    right = at[1] + first.shape[1] - 1 - np.argmax(a[both][:, ::-1], axis=1)
    left = corner[1] + np.argmax(b[both], axis=1)
    return int((left - right).min()) - 1


def _extent(mask: Mask) -> tuple[int, int, int, int]:
    """Return first and one past the last row, then column, of a piece."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def _middle(mask: Mask) -> int:
    """Return the middle row of a piece."""
    top, bottom, _, _ = _extent(mask)
    return (top + bottom) // 2
