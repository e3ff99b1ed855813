"""Make the pictures of docs/see.md from drawn fragments: `python docs/images/see.py` in the repository's root."""

import sys
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.describe.recipe import MEMBRA
from membra.see.glyphs import Glyphs, cut_glyphs
from membra.see.ink import Ink, find_ink
from membra.see.parchment import find_parchment

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
import scenes

HERE = Path(__file__).parent
Picture = NDArray[np.uint8]


def seen(image: Picture) -> tuple[NDArray[np.bool_], Ink, Glyphs]:
    parchment = find_parchment(image, MEMBRA.parchment)
    ink = find_ink(image, parchment, MEMBRA.ink)
    return parchment, ink, cut_glyphs(ink, MEMBRA.glyphs)


def overlay(image: Picture) -> Picture:
    parchment, _, glyphs = seen(image)
    picture = image.copy()
    outlines, _ = cv2.findContours(parchment.astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(picture, outlines, -1, (255, 220, 0), 3)
    for x, y, width, height in glyphs.boxes.tolist():
        cv2.rectangle(picture, (x, y), (x + width, y + height), (0, 170, 60), 2)
    return picture


def tiles(pictures: list[Picture], columns: int, side: int) -> Picture:
    cells = []
    for picture in pictures:
        scale = min(side / picture.shape[0], side / picture.shape[1])
        small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        below, beside = side - small.shape[0], side - small.shape[1]
        cells.append(cv2.copyMakeBorder(small, 4, below + 4, 4, beside + 4, cv2.BORDER_CONSTANT, value=(255,) * 3))
    return np.vstack([np.hstack(cells[row : row + columns]) for row in range(0, len(cells), columns)])


def save(name: str, picture: Picture) -> None:
    cv2.imwrite(str(HERE / name), np.ascontiguousarray(picture[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 78])


def main() -> None:
    tables = [
        scenes.drawn(70 + number, background, 50, ruler)
        for number, (background, ruler) in enumerate(
            (background, ruler) for ruler in (False, True) for background in ("blue", "black", "white", "grey")
        )
    ]
    save("see-tables.jpg", tiles([overlay(one.image) for one in tables], 4, 300))
    one = scenes.drawn(80, "white", 50)
    hard = [scenes.on_texture(one, colour) for colour in (scenes.WOOD, scenes.LINEN, scenes.GREEN_CLOTH)]
    hard.append(scenes.light_on_dark(scenes.drawn(80, "grey", 50)))
    hard.append(scenes.with_tape(scenes.drawn(81, "black", 50))[0])
    hard.append(scenes.with_label(scenes.drawn(82, "blue", 50))[0])
    hard.append(scenes.beside(scenes.drawn(83, "grey", 50), scenes.drawn(83, "grey", 25))[0])
    hard.append(np.ascontiguousarray(scenes.drawn(84, "grey", 300).image[300:650, 300:650]))
    save("see-hard.jpg", tiles([overlay(image) for image in hard], 4, 300))
    one = scenes.drawn(85, "blue", 40, ruler=True)
    parchment, ink, glyphs = seen(one.image)
    masked = np.where(parchment[..., None], one.image, np.uint8(255))
    patches = tiles([np.repeat(patch[..., None], 3, axis=2) for patch in glyphs.patches[:36]], 6, 64)
    steps = [one.image, masked, np.repeat(255 - ink.binary[..., None], 3, axis=2), patches]
    save("see-steps.jpg", tiles(steps, 4, 300))


if __name__ == "__main__":
    main()
