"""The dossier of one join: one HTML file with images, letters, figures, verdict and rights, to send to a colleague."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from membra import __version__
from membra.errors import Invalid
from membra.files import atomic_write, check_place
from membra.show.evidence import Evidence, best_shown, explain_held
from membra.show.exhibit import COLOURS, views_at_one_height
from membra.show.holding import Holding, name_of
from membra.show.strips import cut_letter, strip
from membra.sources.photograph import read_photograph
from membra.store.collection import Collection, Entry
from membra.store.verdicts import Verdict, Verdicts

MAX_BYTES = 2_900_000  # of the file: it passes through any mailbox
DOUBT = "little trustworthy writing was found; it takes no part in proposals and likelihoods"
SHOWN, LETTERS = 16, 7  # matches, and letters of each side in a line
LETTER = 34  # px, the height of a letter in both photographs
# Longest side of a photograph and JPEG quality, tried in this order until the file is small enough.
_STEPS = ((1500, 84), (1500, 68), (1200, 66), (900, 60), (600, 50))
_PAPER = "#faf8f4"


@dataclass(frozen=True)
class Frame:
    """A matched letter in the picture shown: pixels, and the kind it belongs to."""

    kind: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Side:
    """One of the two fragments, as the page shows it."""

    name: str
    id: str
    image: str
    width: int
    height: int
    frames: list[Frame]
    letters: int
    details: list[tuple[str, str, str]]  # what, its text, and an address where it is one


@dataclass(frozen=True)
class Kind:
    """One match: its letters of both sides as pictures."""

    number: int
    colour: str
    distance: float
    share: float
    counts: tuple[int, int]
    strips: tuple[str, str]


def write_dossier(collection: Collection, a: str, b: str, out: Path) -> Path:
    """Write the dossier of two fragments. It needs no other file and no network, and stays under 3 MB."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise Invalid("{file} must end in .html", file=out)
    check_place(out)
    holding = Holding(collection)
    evidence = explain_held(holding, a, b)
    history = Verdicts.open(collection.path).history(a, b)
    atomic_write(out, dossier_page(evidence, holding.entry(a), holding.entry(b), history, collection).encode())
    return out


def dossier_page(
    evidence: Evidence, first: Entry, second: Entry, history: Sequence[Verdict], collection: Collection
) -> str:
    """The page as text, with the largest pictures that keep it within `MAX_BYTES`."""
    from jinja2 import Environment

    photographs = read_photograph(evidence.image_a), read_photograph(evidence.image_b)
    kinds = _kinds(evidence, photographs)
    template = (files("membra.show") / "templates" / "dossier.html").read_text(encoding="utf-8")
    # Autoescape: names, notes and statements are other people's text.
    page = Environment(autoescape=True, trim_blocks=True).from_string(template)
    standing = [verdict for verdict in history if verdict.says != "undo" and not verdict.undone]
    shown = best_shown(evidence.matches, SHOWN)
    covered = len({at for match in shown for at in match.letters_a}), len({at for m in shown for at in m.letters_b})
    html = ""
    for side, quality in _STEPS:
        html = page.render(
            sides=_sides(evidence, (first, second), photographs, side, quality),
            evidence=evidence,
            kinds=kinds,
            covered=covered,
            verdict=standing[-1] if standing else None,
            history=history,
            version=__version__,
            collection=collection.path.name,
            recipe=collection.recipe,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
        if len(html.encode()) <= MAX_BYTES:
            break
    return html


def _sides(
    evidence: Evidence,
    entries: tuple[Entry, Entry],
    photographs: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    most: int,
    quality: int,
) -> list[Side]:
    """Both photographs upright at one letter height, with the frames of every matched letter."""
    views = views_at_one_height(evidence, photographs, LETTER, most, 3.0)
    sides = []
    for place, (entry, photograph, view) in enumerate(zip(entries, photographs, views, strict=True)):
        boxes = (evidence.boxes_a, evidence.boxes_b)[place]
        shown, frames = view.frames(boxes).round(1), []
        for number, match in enumerate(best_shown(evidence.matches, SHOWN), start=1):
            for at in (match.letters_a, match.letters_b)[place]:
                x, y, width, height = shown[at].tolist()
                frames.append(Frame(number, x - 2, y - 2, width + 4, height + 4))
        name, id = name_of(entry), entry.fragment.id
        picture = _jpeg(view.draw(photograph), quality)
        sides.append(Side(name, id, picture, view.width, view.height, frames, len(boxes), _details(entry)))
    return sides


def _kinds(evidence: Evidence, photographs: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> list[Kind]:
    made = []
    for number, match in enumerate(best_shown(evidence.matches, SHOWN), start=1):
        a = [
            cut_letter(photographs[0], evidence.boxes_a[at], evidence.height_a, angle=evidence.angle_a)
            for at in match.letters_a[:LETTERS]
        ]
        b = [
            cut_letter(photographs[1], evidence.boxes_b[at], evidence.height_b, angle=evidence.angle_b)
            for at in match.letters_b[:LETTERS]
        ]
        strips = _jpeg(strip(a, paper=_PAPER), 80), _jpeg(strip(b, paper=_PAPER), 80)
        counts = len(match.letters_a), len(match.letters_b)
        colour = COLOURS[(number - 1) % len(COLOURS)]
        made.append(Kind(number, colour, match.distance, match.share, counts, strips))
    return made


def _details(entry: Entry) -> list[tuple[str, str, str]]:
    """What is known of a fragment: its id, what its table or manifest says, and rights as links where they are one."""
    columns = entry.fragment.columns
    known = {"Shelfmark": "shelfmark", "Side": "side", "Label": "label", "Leaf": "leaf", "Attribution": "attribution"}
    known |= {"Rights": "rights", "Manifest": "manifest"}
    rows = [("Fragment", entry.fragment.id), *((label, columns.get(key, "")) for label, key in known.items())]
    if entry.angle is None:
        rows.append(("Turned", "which way is up cannot be told"))
    elif round(entry.angle) % 360:
        rows.append(("Turned", f"upright here; in the photograph by {entry.angle:.0f}°"))
    if entry.doubtful:
        rows.append(("Doubtful", f"{DOUBT} (legibility {entry.legibility:.2f})"))
    return [
        (label, text, text if text.startswith(("http://", "https://")) and " " not in text else "")
        for label, text in rows
        if text
    ]


def _jpeg(image: Image.Image, quality: int) -> str:
    content = BytesIO()
    image.convert("RGB").save(content, "JPEG", quality=quality, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
