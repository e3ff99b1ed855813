"""What membra sees on photographs, as JSON and as pictures: `membra see`."""

import json
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from membra.describe.recipe import MEMBRA, Description, Recipe, note_of, pick, see
from membra.errors import Invalid, Refused
from membra.files import atomic_write
from membra.see.glyphs import PATCH, Glyphs
from membra.see.reading import Reading
from membra.show.overlay import Piece, draw_overlay, numbered, plain_view, with_legend
from membra.show.strips import encoded
from membra.sources.fragment import Fragment, fragments_of
from membra.sources.photograph import read_photograph

_EMPTY: dict[str, Any] = {"angle": None, "letter_height": 0.0, "legibility": 0.0, "note": ""}
_EMPTY |= {"letters": [], "pieces": [], "blank": 0}
LARGE = 4_000_000  # pixels above which a picture is written as JPEG: as PNG it would take tens of megabytes


@dataclass(frozen=True)
class Seen:
    """One photograph and its reading.

    Attributes
    ----------
    image : Path
        The photograph.
    pieces : list of Piece
        At least one, in reading order.
    """

    image: Path
    pieces: list[Piece]

    @property
    def written(self) -> list[Piece]:
        """The pieces with writing, which become fragments; if there are none, the first piece."""
        return [piece for piece in self.pieces if len(piece.reading.glyphs)] or self.pieces[:1]

    @property
    def best(self) -> Piece:
        """The most legible piece, which stands for the whole photograph."""
        return max(self.written, key=lambda piece: (piece.reading.legibility, len(piece.reading.glyphs)))

    def summary(self) -> dict[str, Any]:
        """Return the JSON of `see --json`: boxes, lines and outlines in pixels of the photograph as displayed."""
        whole, written = _of_piece(self.best), self.written
        return {
            "image": str(self.image),
            **{key: whole[key] for key in ("angle", "letter_height", "legibility", "note")},
            "letters": [box for piece in written for box in piece.reading.glyphs.boxes.tolist()],
            "pieces": [{"piece": piece.number, **_of_piece(piece)} for piece in written],
            "blank": len(self.pieces) - len(written),  # pieces without writing
        }


def see_photograph(photograph: Fragment | str | Path, recipe: Recipe = MEMBRA) -> Seen:
    """Read one photograph: writing surface, ink, lines, letters, and which way is up.

    Parameters
    ----------
    photograph : path or Fragment
    recipe : Recipe
        The recipe to use.

    Returns
    -------
    Seen
        Its pieces in reading order; `summary()` is what `membra see --json` prints.

    Raises
    ------
    Refused
        With the reason, if the photograph cannot be read.
    """
    fragment = photograph if isinstance(photograph, Fragment) else Fragment(Path(photograph).name, Path(photograph))
    readings = _readings(fragment, recipe)
    return Seen(fragment.path, numbered(readings, [note_of(reading, recipe) for reading in readings]))


def read_again(fragment: Fragment, description: Description, recipe: Recipe) -> Reading:
    """Return the stored reading of a described fragment, with ink and lines, which are not stored, computed again.

    They are left out if the photograph now gives other boxes: the photograph or membra has changed since.
    """
    boxes = description.boxes
    glyphs = Glyphs(boxes, np.zeros((len(boxes), PATCH, PATCH), np.uint8), {})
    seen = (description.angle, description.letter_height, description.legibility)
    known = Reading(glyphs, description.outline, *seen)
    try:
        readings = _readings(fragment, recipe)
    except Refused:
        return known
    now = next((reading for reading in readings if np.array_equal(reading.glyphs.boxes, boxes)), None)
    return replace(known, lines=now.lines, ink=now.ink, matrix=now.matrix) if now else known


def unseen(image: Path, reason: str) -> dict[str, Any]:
    """Return the summary of an unreadable image: the same keys, and `error`."""
    return {"image": str(image), **_EMPTY, "error": reason}


def images_of(sources: tuple[str, ...]) -> list[Fragment]:
    """Return the photographs of image files, folders and CSV files, in the given order."""
    found: list[Fragment] = []
    for source in sources:
        path = Path(source)
        single = path.is_file() and path.suffix.lower() not in (".csv", ".json")
        found += [Fragment(path.name, path)] if single else fragments_of([source])
    return found


def file_names(images: list[Fragment]) -> list[PurePosixPath]:
    """Return unique file names, without suffix, for the pictures and JSON files of images."""
    names = [
        PurePosixPath(*(part for part in PurePosixPath(one.id).parts if part not in ("/", ".."))) for one in images
    ]
    stems = [name.with_suffix("") for name in names]
    used: set[PurePosixPath] = set()
    found = []
    for name, stem in zip(names, stems, strict=True):
        wanted = stem if stems.count(stem) == 1 else name
        number = 2
        while wanted in used:
            wanted, number = name.with_name(f"{name.name}-{number}"), number + 1
        used.add(wanted)
        found.append(wanted)
    return found


def write_seen(seen: Seen, folder: Path, name: PurePosixPath) -> Path:
    """Write the picture and `NAME.json` beside it; return the picture's path."""
    base = folder / name
    if base.parent.resolve() == seen.image.parent.resolve():  # leaf-1.png may be a photograph beside leaf-1.jpg
        raise Invalid("{folder} contains the photographs; give another folder to write into", folder=base.parent)
    photograph = read_photograph(seen.image)
    drawn = draw_overlay(photograph, seen.pieces, plain_view(photograph))
    drawn = with_legend(drawn, seen.image.name, seen.pieces)
    large = drawn.width * drawn.height > LARGE
    picture = base.with_name(f"{base.name}{'.jpg' if large else '.png'}")
    base.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(picture, encoded(drawn, "JPEG" if large else "PNG", quality=88))
    atomic_write(
        base.with_name(f"{base.name}.json"), json.dumps(seen.summary(), ensure_ascii=False).encode("utf-8", "replace")
    )
    return picture


def _of_piece(piece: Piece) -> dict[str, Any]:
    seen = piece.reading
    return {
        "outline": seen.outline.tolist(),
        "angle": None if seen.angle is None else round(float(seen.angle), 2),
        "letter_height": round(float(seen.letter_height), 2),
        "legibility": round(float(seen.legibility), 4),
        "note": piece.note,
        "letters": seen.glyphs.boxes.tolist(),
        "lines": np.round(seen.lines.astype(float), 1).tolist(),
    }


def _readings(fragment: Fragment, recipe: Recipe) -> list[Reading]:
    """Return the pieces of a photograph, with and without writing; at least one."""
    return see(fragment, recipe) or [pick(fragment, recipe)[1]]
