"""Wear of a sheet and its ink, each kind as a layer.

Every function takes the shape (height, width) of the picture, the letter height ``scale`` in pixels, a generator and a
``strength`` from 0 to 1, and returns one array (height, width), which is empty at strength 0. The layers do not depend
on the drawn scribes and can be put on photographs of real sheets.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.scribes.surfaces import Field, noise

Mask = NDArray[np.bool_]
Shape = tuple[int, int]

# Fixed-point bits of the coordinates given to OpenCV.
BITS = 4


def cracks(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Darkness 0 to 1 of cracks: a few deep ones that branch, and many fine ones.

    A crack follows one direction with sudden kinks, varies in width, and ends in a hairline.
    """
    dark = np.zeros(shape, np.uint8)
    if strength <= 0.0:
        return dark.astype(np.float32)
    room = shape[0] * shape[1] / scale**2
    deep = 1 + round(3.0 * strength * generator.random())
    fine = round(strength * generator.uniform(0.02, 0.10) * room)
    for number in range(min(deep + fine, 60)):
        start = generator.uniform(0.0, 1.0, 2) * (shape[1], shape[0])
        heading = generator.uniform(0.0, 2.0 * np.pi)
        if number < deep:
            length = generator.uniform(3.0, 3.0 + 12.0 * strength)
            width, depth = generator.uniform(0.03, 0.05 + 0.11 * strength), generator.uniform(0.75, 1.0)
        else:
            length = generator.uniform(0.7, 5.0)
            width, depth = generator.uniform(0.012, 0.04), generator.uniform(0.25, 0.75)
        path = _walk(start, heading, length * scale, scale, generator)
        _gash(dark, path, width * scale, depth, generator)
        for _ in range(int(generator.integers(0, 4))):
            fork = path[int(generator.integers(len(path)))]
            aside = heading + generator.choice((-1.0, 1.0)) * generator.uniform(0.4, 1.3)
            branch = _walk(fork, aside, generator.uniform(0.15, 0.5) * length * scale, scale, generator)
            _gash(dark, branch, 0.6 * width * scale, 0.85 * depth, generator)
    return dark.astype(np.float32) / np.float32(255.0)


def creases(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Relief -1 to 1, dark to light: folds with a lit and a shaded flank, and fine wrinkles.

    The sheet's brightness is multiplied by about ``1 + 0.4 * relief``.
    """
    relief = np.zeros(shape, np.float32)
    if strength <= 0.0:
        return relief
    rows = np.arange(shape[0], dtype=np.float32)[:, None]
    columns = np.arange(shape[1], dtype=np.float32)
    bend = noise(shape, 5.0 * scale, generator) * np.float32(0.35 * scale)
    bend += noise(shape, 0.6 * scale, generator) * np.float32(0.05 * scale)
    for _ in range(1 + int(4.0 * strength * generator.random())):
        angle = generator.uniform(0.0, np.pi)
        through = generator.uniform(0.1, 0.9, 2) * (shape[0], shape[1])
        across = (rows - np.float32(through[0])) * np.float32(np.sin(angle))
        across = across + (columns - np.float32(through[1])) * np.float32(np.cos(angle)) + bend
        flank = across / np.float32(generator.uniform(0.12, 0.45) * scale)
        size = np.float32(generator.uniform(0.3, 1.0) * strength * generator.choice((-1.0, 1.0)))
        relief += size * np.float32(2.3) * flank * np.exp(-(flank**2))
        # folds break open: a thin dark or pale line along the fold
        line = np.exp(-((across / np.float32(max(0.8, 0.03 * scale))) ** 2))
        relief += np.float32(strength * generator.uniform(-1.0, 0.5)) * line
    # zero crossings of smooth noise are fine curved lines, like wrinkles
    wrinkled = noise(shape, 0.9 * scale, generator) + np.float32(0.35) * noise(shape, 0.3 * scale, generator)
    slope = np.exp(-((wrinkled / np.float32(0.07)) ** 2)) * np.clip(noise(shape, 3.0 * scale, generator), 0.0, 1.0)
    relief -= np.float32(0.8 * strength) * slope
    return np.clip(relief, -1.0, 1.0)


def fibres(
    shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5, turn: float = 0.0
) -> Field:
    """Relief -1 to 1 of papyrus: crossing strips and single dark fibres along the lines of writing.

    ``turn`` is the direction of the writing, degrees counter-clockwise. Factor as for ``creases``.
    """
    if strength <= 0.0:
        return np.zeros(shape, np.float32)
    side = int(np.hypot(*shape)) + 2
    along = _streaks(side, 0.05 * scale, 7.0 * scale, generator) + _streaks(side, 0.22 * scale, 14.0 * scale, generator)
    across = _streaks(side, 0.07 * scale, 6.0 * scale, generator) + _streaks(side, 0.5 * scale, 20.0 * scale, generator)
    grain = np.float32(0.24) * along + np.float32(0.12) * across.T
    single = np.zeros((side, side), np.uint8)
    count = round(strength * (side / scale) ** 2 / 9.0)
    for x, y, length in generator.uniform(0.0, 1.0, (count, 3)).tolist():
        steps = np.linspace(0.0, (0.6 + 5.0 * length**2) * scale, 6)
        drift = np.cumsum(generator.normal(0.0, 0.018 * scale, 6))
        path = np.column_stack([x * side + steps, y * side + drift])
        value = int(generator.uniform(60, 200))
        cv2.polylines(single, [_fixed(path)], False, value, max(1, round(0.03 * scale)), cv2.LINE_AA, BITS)
    grain -= single.astype(np.float32) / np.float32(255.0)
    grain *= np.float32(strength)
    matrix = np.asarray(cv2.getRotationMatrix2D((side / 2.0, side / 2.0), turn, 1.0), float)
    matrix[:, 2] += ((shape[1] - side) / 2.0, (shape[0] - side) / 2.0)
    turned = cv2.warpAffine(grain, matrix, (shape[1], shape[0]), borderMode=cv2.BORDER_REFLECT)
    return np.clip(np.asarray(turned, np.float32), -1.0, 1.0)


def holes(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Mask:
    """Return True in holes: round worm holes, worm channels, and larger worn holes with ragged edges."""
    gone = np.zeros(shape, np.uint8)
    if strength <= 0.0:
        return gone.astype(bool)
    size = (shape[1], shape[0])
    for _ in range(1 + int(9.0 * strength * generator.random())):
        centre = generator.uniform(0.0, 1.0, 2) * size
        cv2.fillPoly(
            gone, [_fixed(centre + blob(generator.uniform(0.06, 0.2) * scale, 0.2, generator))], 1, cv2.LINE_8, BITS
        )
    for _ in range(int(3.0 * strength * generator.random() + 0.5)):
        path = _walk(
            generator.uniform(0.0, 1.0, 2) * size,
            generator.uniform(0.0, 6.3),
            generator.uniform(0.8, 3.0) * scale,
            scale,
            generator,
        )
        cv2.polylines(gone, [np.rint(path).astype(np.int32)], False, 1, max(1, round(0.16 * scale)))
    for _ in range(int(3.0 * strength * generator.random() + 0.7)):
        centre = generator.uniform(0.0, 1.0, 2) * size
        radius = generator.uniform(0.3, 0.4 + 1.1 * strength) * scale
        cv2.fillPoly(gone, [_fixed(centre + blob(radius, 0.55, generator))], 1, cv2.LINE_8, BITS)
    # a ragged edge, by a noisy threshold
    torn = cv2.GaussianBlur(gone.astype(np.float32), (0, 0), 0.05 * scale)
    return np.asarray(torn + np.float32(0.12) * noise(shape, 0.10 * scale, generator) > 0.5)


def stains(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Depth 0 to 1 of stains: pools with dark rims, tide lines, and a few drops."""
    small, rough = (shape[0] // 4 + 1, shape[1] // 4 + 1), scale / 4.0
    total = np.zeros(small, np.float32)
    if strength <= 0.0:
        return np.zeros(shape, np.float32)
    rows = np.arange(small[0], dtype=np.float32)[:, None]
    columns = np.arange(small[1], dtype=np.float32)
    ragged = noise(small, 1.3 * rough, generator) + np.float32(0.5) * noise(small, 0.4 * rough, generator)
    for _ in range(1 + int(5.0 * strength * generator.random() + 0.5)):
        centre = generator.uniform(-0.1, 1.1, 2) * small
        radius = float(np.exp(generator.uniform(np.log(0.25), np.log(7.0)))) * rough
        long = generator.uniform(0.6, 1.6)
        away = np.hypot((rows - np.float32(centre[0])) * np.float32(long), columns - np.float32(centre[1]))
        away = away / np.float32(radius) + np.float32(0.16) * ragged
        edge = np.float32(generator.uniform(4.0, 30.0))
        inside = 1.0 / (1.0 + np.exp(np.clip((away - 1.0) * edge, -30.0, 30.0)))
        width = min(0.3, 0.12 * rough / radius + 0.02)
        rim = np.exp(-(((away - 0.97) / np.float32(width)) ** 2)) * (edge > 10.0)
        depth = np.float32(strength * generator.uniform(0.25, 0.9))
        total += depth * (np.float32(generator.uniform(0.2, 1.0)) * inside + np.float32(0.7) * rim)
    large = cv2.resize(total, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC)
    return np.clip(np.asarray(large, np.float32), 0.0, 1.0)


def mould(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Darkness 0 to 1 of mould: colonies of spots, from specks to the size of a letter, with soft edges."""
    dark = np.zeros(shape, np.uint8)
    if strength <= 0.0:
        return dark.astype(np.float32)
    room = shape[0] * shape[1] / scale**2
    colonies = 1 + int(generator.uniform(0.3, 1.0) * strength * max(2.0, room / 45.0))
    for _ in range(min(colonies, 24)):
        centre = generator.uniform(0.0, 1.0, 2) * (shape[1], shape[0])
        spread = generator.uniform(0.3, 2.0) * scale
        largest = generator.uniform(0.10, 0.5)
        for _ in range(int(generator.integers(4, 40))):
            at = centre + generator.normal(0.0, spread, 2)
            radius = scale * largest * generator.beta(1.0, 3.5) + 0.6
            value = int(generator.uniform(90, 255))
            cv2.fillPoly(dark, [_fixed(at + blob(radius, 0.5, generator, 12))], value, cv2.LINE_8, BITS)
    soft = cv2.GaussianBlur(dark, (0, 0), max(0.6, 0.035 * scale)).astype(np.float32) / np.float32(255.0)
    spotted = soft * (1.0 + np.float32(0.18) * noise(shape, max(1.5, 0.06 * scale), generator))
    return np.asarray(np.clip(spotted * np.float32(0.8 + 0.5 * strength), 0.0, 1.0), np.float32)


def abrasion(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Share 0 to 1 of the ink that is rubbed off: patches where only grains of ink are left, and scratches."""
    if strength <= 0.0:
        return np.zeros(shape, np.float32)
    where = noise(shape, 2.2 * scale, generator) + np.float32(0.5) * noise(shape, 0.7 * scale, generator)
    patch = np.clip(where * np.float32(0.9) + np.float32(1.9 * strength - 1.3), 0.0, 1.0)
    grain = noise(shape, max(1.2, 0.05 * scale), generator) + np.float32(0.7) * noise(shape, 0.15 * scale, generator)
    rubbed = np.clip(np.float32(1.6) * patch + np.float32(0.55) * grain * np.sqrt(patch) - np.float32(0.25), 0.0, 1.0)
    scratched = np.zeros(shape, np.uint8)
    for _ in range(int(14.0 * strength * generator.random())):
        start = generator.uniform(0.0, 1.0, 2) * (shape[1], shape[0])
        heading = generator.uniform(0.0, 6.3)
        step = generator.uniform(0.3, 3.0) * scale * np.array([np.cos(heading), np.sin(heading)])
        path = np.stack([start, start + 0.5 * step + generator.normal(0.0, 0.05 * scale, 2), start + step])
        cv2.polylines(scratched, [_fixed(path)], False, 255, max(1, round(0.03 * scale)), cv2.LINE_AA, BITS)
    return np.asarray(np.maximum(rubbed, scratched.astype(np.float32) / np.float32(255.0)), np.float32)


def fading(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Share 0 to 1 of the ink's darkness that is lost, slowly varying: some lines dark, others nearly gone."""
    if strength <= 0.0:
        return np.zeros(shape, np.float32)
    slow = noise(shape, 5.0 * scale, generator) + np.float32(0.4) * noise(shape, 1.2 * scale, generator)
    lost = np.float32(strength) * (np.float32(0.55) + np.float32(0.3) * slow)
    return np.asarray(np.clip(lost, 0.0, 0.95), np.float32)


def flaking(shape: Shape, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Mask:
    """Return True where the upper layer of the sheet has come off, with its ink: patches with sharp ragged edges."""
    if strength <= 0.0:
        return np.zeros(shape, bool)
    field = noise(shape, 1.6 * scale, generator) + np.float32(0.45) * noise(shape, 0.4 * scale, generator)
    field += np.float32(0.16) * noise(shape, max(1.5, 0.09 * scale), generator)
    return np.asarray(field > np.float32(2.6 - 1.5 * strength))


def edge_shadow(mask: Mask, scale: float, generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Darkness 0 to 1 about the edge of ``mask``: the shadow beside the sheet, and the dark, frayed rim on it."""
    if strength <= 0.0:
        return np.zeros(mask.shape, np.float32)
    shape = (mask.shape[0], mask.shape[1])
    angle, reach = generator.uniform(0.0, 2.0 * np.pi), generator.uniform(0.03, 0.12) * scale
    shift = np.array([[1.0, 0.0, reach * np.cos(angle)], [0.0, 1.0, reach * np.sin(angle)]])
    cast = cv2.warpAffine(mask.astype(np.float32), shift, (shape[1], shape[0]))
    beside = cv2.GaussianBlur(cast, (0, 0), max(0.7, generator.uniform(0.02, 0.08) * scale))
    beside = np.where(mask, 0.0, beside * np.float32(generator.uniform(0.6, 1.3) * strength))
    # the rim: its depth follows slow and fine noise
    # without any edge the distance is the largest float, so it is clipped
    inside = np.minimum(cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 3), np.float32(1e6))
    deep = noise(shape, 1.5 * scale, generator) + np.float32(0.6) * noise(shape, 0.25 * scale, generator)
    deep = np.clip(deep * np.float32(0.10 * scale * strength) + np.float32(0.01 * scale), 0.0, None)
    rim = np.clip(1.6 - 1.3 * inside / np.maximum(deep, 0.5), 0.0, 1.0) * np.clip(deep, 0.0, 1.0)
    rim = np.where(mask, rim * np.float32(strength * generator.uniform(0.4, 1.0)), 0.0)
    return np.clip(np.asarray(beside + rim, np.float32), 0.0, 1.0)


def _walk(
    start: NDArray[np.float64], heading: float, length: float, scale: float, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return (n, 2) a path from ``start`` around the direction ``heading``, with kinks and fine roughness."""
    count = max(6, round(length / max(1.5, 0.06 * scale)))
    knots = max(2, round(length / (0.5 * scale)))
    bends = generator.normal(0.0, 0.45, knots + 1)
    turns = heading + np.interp(np.linspace(0.0, knots, count), np.arange(knots + 1), bends)
    turns += generator.normal(0.0, 0.45, count)
    # a kink: a few steps in another direction
    for at in np.flatnonzero(generator.random(count) < 0.03).tolist():
        turns[at : at + 4] += generator.normal(0.0, 0.9)
    steps = np.column_stack([np.cos(turns), np.sin(turns)]) * (length / count)
    return np.asarray(start + np.cumsum(steps, axis=0))


def _gash(
    dark: NDArray[np.uint8], path: NDArray[np.float64], width: float, depth: float, generator: np.random.Generator
) -> None:
    """Draw a path (n, 2) into ``dark`` as an opening about ``width`` px wide that narrows to a hairline in places."""
    count = len(path)
    along = np.gradient(path, axis=0)
    normal = along[:, ::-1] * (-1.0, 1.0) / np.maximum(1e-6, np.hypot(along[:, 0], along[:, 1]))[:, None]
    knots = max(3, count // 8)
    opening = np.exp(generator.normal(-0.2, 0.7, knots))
    opening[-1] = 0.05
    uneven = np.interp(np.linspace(0.0, knots - 1.0, count), np.arange(knots), opening)
    half = 0.5 * width * np.clip(uneven * generator.uniform(0.6, 1.4, count), 0.05, 2.5)
    shade = np.zeros_like(dark)
    outline = np.concatenate([path + half[:, None] * normal, (path - half[:, None] * normal)[::-1]])
    cv2.fillPoly(shade, [_fixed(outline)], int(255 * depth), cv2.LINE_AA, BITS)
    np.maximum(dark, shade, out=dark)


def filled(shape: Shape, outline: NDArray[np.float64]) -> Mask:
    """Return (height, width) True inside an outline (n, 2) of x and y in pixels."""
    area = np.zeros(shape, np.uint8)
    cv2.fillPoly(area, [_fixed(outline)], 1, cv2.LINE_8, BITS)
    return area.astype(bool)


def blob(radius: float, ragged: float, generator: np.random.Generator, count: int = 32) -> NDArray[np.float64]:
    """Return (count, 2) an outline around the origin whose radius varies by a share ``ragged``."""
    angles = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    factor = np.ones(count)
    for wave in range(1, 6):
        factor += generator.normal(0.0, 0.7 * ragged / wave) * np.sin(wave * angles + generator.uniform(0.0, 6.3))
    radii = radius * np.clip(factor, 0.25, 2.0)
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def _streaks(side: int, across: float, along: float, generator: np.random.Generator) -> Field:
    """Return (side, side) unit noise that varies over ``across`` pixels downwards and ``along`` pixels to the right."""
    grid = (int(side / max(1.0, across)) + 3, int(side / along) + 3)
    values = generator.standard_normal(grid, np.float32)
    return np.asarray(cv2.resize(values, (side, side), interpolation=cv2.INTER_CUBIC), np.float32)


def _fixed(points: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.asarray(np.rint(points * 2**BITS), np.int32)
