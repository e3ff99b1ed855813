"""Capture: light, film grain, and colour, greyscale, infrared or negative pictures."""

import numpy as np

from membra.scribes.surfaces import Field, noise

CAPTURES = ("colour", "grey", "infrared", "negative")


def light(shape: tuple[int, int], generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Return (height, width) a factor on brightness, 0.2 to 1.3: a lamp at one side, dark corners, a bright spot."""
    if strength <= 0.0:
        return np.ones(shape, np.float32)
    rows = np.linspace(-1.0, 1.0, shape[0], dtype=np.float32)[:, None]
    columns = np.linspace(-1.0, 1.0, shape[1], dtype=np.float32)
    angle = generator.uniform(0.0, 2.0 * np.pi)
    slope = (columns * np.float32(np.cos(angle)) + rows * np.float32(np.sin(angle))) / np.float32(1.4)
    corners = (columns**2 + rows**2) / np.float32(2.0)
    at = generator.uniform(-0.8, 0.8, 2).astype(np.float32)
    spot = np.exp(-((columns - at[0]) ** 2 + (rows - at[1]) ** 2) / np.float32(generator.uniform(0.1, 0.6)))
    size = np.float32(strength)
    factor = 1.0 + size * (
        np.float32(generator.uniform(0.15, 0.4)) * slope
        - np.float32(generator.uniform(0.0, 0.5)) * corners
        + np.float32(generator.uniform(-0.05, 0.3)) * spot
    )
    return np.asarray(np.clip(factor, 0.2, 1.3), np.float32)


def grain(shape: tuple[int, int], generator: np.random.Generator, strength: float = 0.5) -> Field:
    """Return (height, width) film grain, added to brightness: clumps of one to four pixels; spread 0.08 at most."""
    if strength <= 0.0:
        return np.zeros(shape, np.float32)
    cell = generator.uniform(1.3, 3.5)
    clumps = noise(shape, cell, generator) + np.float32(0.5) * noise(shape, 1.0, generator)
    return np.asarray(clumps * np.float32(0.06 * strength), np.float32)


def captured(picture: Field, capture: str, generator: np.random.Generator) -> Field:
    """Return (height, width, 3) the scene captured in one of ``CAPTURES``."""
    if capture == "colour":
        return picture
    if capture == "infrared":
        grey = np.clip(brightness(picture, capture), 0.0, 1.0) ** np.float32(generator.uniform(0.9, 1.3))
        grey = grey * np.float32(generator.uniform(0.5, 0.95))
    else:
        grey = brightness(picture, capture)
    if capture == "negative":
        grey = np.float32(generator.uniform(0.85, 1.0)) - np.float32(generator.uniform(0.75, 0.9)) * grey
    return np.repeat(np.asarray(grey, np.float32)[..., None], 3, axis=2)


def brightness(picture: Field, capture: str) -> Field:
    """Return (height, width) the brightness of a scene (height, width, 3) in visible light or on infrared film."""
    # stains and age are reddish and nearly vanish in infrared
    weights = (0.9, 0.1, 0.0) if capture == "infrared" else (0.3, 0.59, 0.11)
    return np.asarray(picture @ np.array(weights, np.float32), np.float32)


def ink_colour(
    colour: tuple[float, float, float], capture: str, sheet: float, generator: np.random.Generator
) -> tuple[float, float, float]:
    """Return the colour of an ink in ``capture``: in infrared carbon stays black, iron gall nearly vanishes.

    ``sheet`` is the brightness of the bare sheet, 0 to 1.
    """
    if capture != "infrared":
        return colour
    share = generator.uniform(0.05, 0.25) if generator.random() < 0.7 else generator.uniform(0.50, 0.72)
    return (share * sheet, share * sheet, share * sheet)
