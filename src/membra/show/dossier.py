"""Evidence for two fragments as a file: a picture, or the dossier, one HTML file to send to a colleague.

The dossier has images, letters, scores, verdict and rights. `membra explain` and `membra export` write the same one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from membra import __version__
from membra.errors import Invalid
from membra.files import atomic_write, check_place
from membra.show.evidence import Evidence, explain_in
from membra.show.exhibit import Kind, Photographs, draw_exhibit, kinds_of, photographs_of, views_at_one_height
from membra.show.facts import label_of, ordered, turn_of
from membra.show.fit import draw_fit
from membra.show.holding import Holding, name_of
from membra.show.strips import data_uri, encoded
from membra.show.template import page_template
from membra.show.wording import agreement_words
from membra.store.collection import Collection, Entry
from membra.store.placements import Placement, Placements
from membra.store.verdicts import Verdict, Verdicts, by_pair

MAX_BYTES = 2_900_000  # of the file: small enough for e-mail
DOUBT = "little reliable writing was found, so it is left out of proposals and likelihoods"
SHOWN, LETTERS = 16, 7  # matches, and letters of each side per match
LAID = 1300  # px, longer side of the picture of both fragments on one table
LETTER = 34  # px, letter height in both photographs
# Longest side of a photograph and JPEG quality, tried in this order until the file is small enough.
_STEPS = ((1500, 84), (1500, 68), (1200, 66), (900, 60), (600, 50))
PAGES = (".html", ".htm")


@dataclass(frozen=True)
class Frame:
    """A matched letter in the displayed picture: its box in pixels and its kind."""

    kind: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Side:
    """The page's data of one of the two fragments."""

    name: str
    image: str  # as a data URI
    width: int
    height: int
    frames: list[Frame]
    letters: int
    details: list[tuple[str, str, str]]  # label, text, and the URL if the text is one
    doubtful: bool
    unsure: bool  # which way is up


def write_dossier(collection: Collection, a: str, b: str, out: Path) -> Path:
    """Write the dossier of two fragments. It needs no other file or network and is under 3 MB."""
    if out.suffix.lower() not in PAGES:
        raise Invalid("{file} must end in .html", file=out)
    check_place(out)
    holding = Holding(collection)
    write_evidence(explain_in(holding, a, b), holding, out)
    return out


def write_evidence(evidence: Evidence, holding: Holding, out: Path) -> None:
    """Write the evidence as a picture (`.png`) or as the dossier (`.html`)."""
    if out.suffix.lower() not in (".png", *PAGES):
        raise Invalid("{file} must end in .png or .html", file=out)
    check_place(out)
    if out.suffix.lower() == ".png":
        atomic_write(out, encoded(draw_exhibit(evidence), "PNG"))
    else:
        history = Verdicts.open(holding.collection.path).history(evidence.a, evidence.b)
        atomic_write(out, dossier_page(evidence, holding, history))


def dossier_page(evidence: Evidence, holding: Holding, history: Sequence[Verdict]) -> bytes:
    """Render the page, with the largest pictures that keep it within `MAX_BYTES`."""
    photographs = photographs_of(evidence)
    kinds = kinds_of(evidence, photographs, SHOWN, LETTERS)
    laid = laid_picture(holding, evidence.a, evidence.b)
    said = next(iter(by_pair(history).values()), None)

    def shown(side: int, quality: int) -> dict[str, object]:
        return {
            "sides": _sides(evidence, holding, photographs, kinds, side, quality),
            "evidence": evidence,
            "kinds": kinds,
            "strips": {kind.number: [data_uri(letters) for letters in kind.strips] for kind in kinds},
            "agreement": agreement_words(evidence.agreement) if evidence.agreement else [],
            "covered": [len({at for kind in kinds for at in kind.letters[side]}) for side in (0, 1)],
            "said": said,
            "history": history,
            "laid": laid,
        }

    return small_page("dossier.html", holding, _STEPS, shown)


def small_page(
    name: str, holding: Holding, steps: Sequence[tuple[int, int]], shown: Callable[[int, int], Mapping[str, object]]
) -> bytes:
    """Render a template with the values of `shown(side, quality)`: the first of `steps` that stays within `MAX_BYTES`,
    or the last."""
    page = page_template(name)
    html = b""
    for side, quality in steps:
        html = page.render(
            **shown(side, quality),
            version=__version__,
            collection=holding.collection.path.name,
            recipe=holding.collection.recipe,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        ).encode("utf-8", "replace")
        if len(html) <= MAX_BYTES:
            break
    return html


def laid_picture(holding: Holding, a: str, b: str, side: int = LAID) -> tuple[str, Placement] | None:
    """Return a data URI of both fragments in their stored placement, and the placement; None without one, or if it
    cannot be drawn any more."""
    placement = Placements.open(holding.collection.path).of(a, b)
    picture = draw_fit(holding, placement, side) if placement else None
    return (data_uri(picture, 78), placement) if placement and picture else None


def _sides(
    evidence: Evidence, holding: Holding, photographs: Photographs, kinds: Sequence[Kind], most: int, quality: int
) -> list[Side]:
    """Return both photographs upright at one letter height, with the frames of all matched letters."""
    views = views_at_one_height(evidence, photographs, LETTER, most, 3.0)
    sides = []
    for side, (id, photograph, view) in enumerate(zip((evidence.a, evidence.b), photographs, views, strict=True)):
        boxes, entry = (evidence.boxes_a, evidence.boxes_b)[side], holding.entry(id)
        shown, frames = view.frames(boxes).round(1), []
        for kind in kinds:
            for at in kind.letters[side]:
                x, y, width, height = shown[at].tolist()
                frames.append(Frame(kind.number, x - 2, y - 2, width + 4, height + 4))
        picture = data_uri(view.draw(photograph), quality)
        seen = (view.width, view.height, frames, len(boxes))
        sides.append(Side(name_of(entry), picture, *seen, details_of(entry), entry.doubtful, entry.angle is None))
    return sides


def details_of(entry: Entry) -> list[tuple[str, str, str]]:
    """Return label, text and link of a fragment's metadata, id and orientation; link: "" if the text is no URL."""
    rows = [(label_of(name).capitalize(), text) for name, text in ordered(entry.fragment.columns)]
    rows.append(("File", entry.fragment.id))
    if entry.angle is None:
        rows.append(("Turned", "upright orientation uncertain"))
    elif turn := turn_of(entry.angle):
        way = "counter-clockwise" if turn > 0 else "clockwise"
        rows.append(("Turned", f"upright here; in the photograph by {abs(turn)}° {way}"))
    if entry.doubtful:
        rows.append(("Doubtful", f"{DOUBT} (legibility {entry.legibility:.2f})"))
    return [
        (label, text, text if text.startswith(("http://", "https://")) and " " not in text else "")
        for label, text in rows
        if text
    ]
