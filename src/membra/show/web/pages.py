"""Data of the pages on fragments and verdicts. Each function returns the data of one page and its JSON twin."""

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from membra.describe.recipe import Description
from membra.errors import MembraError
from membra.messages import Message
from membra.show.evidence import letter_height, letters_of
from membra.show.holding import name_of
from membra.show.overlay import Piece, draw_overlay
from membra.show.seen import read_again
from membra.show.upright import simplified, upright_view
from membra.show.web.desk import Desk, Item
from membra.show.web.filters import is_marked
from membra.show.web.models import (
    AnnotationLine,
    Card,
    CollectionPage,
    CorrectionLine,
    Coverage,
    FragmentPage,
    PairLine,
    Plate,
    PlatePiece,
    Shown,
    VerdictLine,
    VerdictsPage,
    View,
    Voice,
    Word,
)
from membra.sources.fragment import Fragment
from membra.sources.shelfmark import has_shelfmark, shelfmark_key
from membra.store.annotations import NO_MARKS, Annotations, Marks, by_fragment
from membra.store.collection import Entry
from membra.store.corrections import UNDO, Correction, Corrections, applied, fixes_for, with_fixes
from membra.store.verdicts import SAYS, PairVerdicts, Verdict, by_pair, groups_of, standing_in

A_PAGE = 60  # fragments on a page of the collection; divides by 2, 3, 4, 5 and 6 columns
LINES = 100  # entries on a page of the history
Show = Literal["all", "described", "few", "doubtful", "refused"]
SEEN = 1600  # px, longer side of the picture with the overlay
NO_OUTLINE = np.zeros((0, 2), np.int32)
T = TypeVar("T")


def collection_page(
    desk: Desk, q: str = "", show: Show = "all", page: int = 1, limit: int = A_PAGE, keep: Sequence[str] = ()
) -> CollectionPage:
    """Return the fragments whose name, columns or tags have all words of `q`, with marks `keep`, in natural order."""
    marks, keep = desk.marks(), [term for term in keep if term]  # forms also send empty ones
    entries = desk.holding().entries
    states = [state_of(entry) for entry in entries]
    # A fragment with few letters is also described.
    described = ("described", "few")
    wanted = {"all": SAYS_ALL, "few": ("few",), "refused": ("refused",)}.get(show, described)
    words, mark = _plain(q).split(), shelfmark_key(q)
    found = [
        entry
        for entry, state in zip(entries, states, strict=True)
        if state in wanted
        and (show != "doubtful" or entry.doubtful)
        and all(is_marked(term, marks.get(entry.fragment.id, NO_MARKS)) for term in keep)
        and (
            not words
            or _has_all(entry, words, marks)
            or has_shelfmark(entry.fragment.columns.get("shelfmark", ""), mark)
        )
    ]
    shown, page, pages = page_of(found, page, limit)
    return CollectionPage(
        collection=desk.path.name,
        coverage=Coverage(
            described=states.count("described"),
            few_letters=states.count("few"),
            refused=states.count("refused"),
            doubtful=sum(entry.doubtful for entry in entries),
        ),
        q=q,
        show=show,
        keep=keep,
        tags=desk.tags(),
        found=len(found),
        page=page,
        pages=pages,
        fragments=[card_of(entry, marks) for entry in shown],
    )


SAYS_ALL = ("described", "few", "refused")


def fragment_page(desk: Desk, id: str) -> FragmentPage:
    """Return one fragment with its letters, its prototypes by share, and the verdicts on it."""
    item = desk.item(id)
    holding = desk.holding()
    entry = holding.entry(id)
    shown, words, plate, problem = None, [], None, entry.refused
    try:
        description = None if entry.refused else desk.description(item)
        shown = shown_of(desk, item, description)
        words = words_of(description) if description else []
        plate = plate_of(desk, item)
    except MembraError as error:
        problem = problem or error.message
    pairs = desk.verdicts.pairs()
    standing = standing_in(pairs)
    group = next((group for group in groups_of(standing) if id in group), [])
    index = holding.indices[id]
    corrections, uncorrected = corrections_of(desk, entry)
    return FragmentPage(
        card=card_of(entry, desk.marks()),
        shown=shown,
        problem=problem,
        words=words,
        plate=plate,
        verdicts=[line_of(desk, verdict) for verdict in standing if id in (verdict.a, verdict.b)],
        pairs=[pair_line(desk, pair) for ends, pair in pairs.items() if id in ends],
        group=cards_of(desk, group),
        leaf=cards_of(desk, holding.leaves.get(id, ())),
        corrections=corrections,
        uncorrected=uncorrected,
        said=said_of(desk, entry),
        tags=list(desk.tags()),
        previous=holding.entries[index - 1].fragment.id if index else None,
        next=holding.entries[index + 1].fragment.id if index + 1 < len(holding.entries) else None,
    )


def corrections_of(desk: Desk, entry: Entry) -> tuple[list[CorrectionLine], bool]:
    """Return all corrections of a fragment's photograph, newest first, and whether it must be described again."""
    photograph = entry.fragment.photograph
    history = Corrections.open(desk.path).history(photograph)
    standing = [one for one in history if one.kind != UNDO and not one.undone]
    waiting = applied(fixes_for({photograph: standing}, photograph, entry.sha256)) != entry.corrected
    return [correction_line(one, entry.sha256) for one in reversed(history)], waiting


def said_of(desk: Desk, entry: Entry) -> list[AnnotationLine]:
    """Return all annotations of a fragment, newest first."""
    photograph = entry.fragment.photograph
    on = {photograph: desk.on_photograph(photograph)}
    history = [] if desk.unread else Annotations.open(desk.path).history(photograph)
    own = by_fragment(history, on).get(entry.fragment.id, [])
    return [AnnotationLine(**asdict(one)) for one in reversed(own)]


def correction_line(entry: Correction, sha256: str) -> CorrectionLine:
    names = set(CorrectionLine.model_fields) - {"holds"}
    holds = entry.kind != UNDO and not entry.undone and entry.sha256 == sha256
    return CorrectionLine(**{name: getattr(entry, name) for name in names}, holds=holds)


def verdicts_page(desk: Desk, page: int = 1, limit: int = LINES) -> VerdictsPage:
    """Return the verdict history, newest first, the groups that follow from it, and their contradictions."""
    history = desk.verdicts.history()
    pairs = by_pair(history)
    standing = standing_in(pairs)
    groups = groups_of(standing)
    group_of = {id: number for number, group in enumerate(groups) for id in group}
    against = [v for v in standing if v.says == "no" and v.a in group_of and group_of[v.a] == group_of.get(v.b)]
    shown, page, pages = page_of(history[::-1], page, limit)
    return VerdictsPage(
        found=len(history),
        page=page,
        pages=pages,
        history=[line_of(desk, verdict) for verdict in shown],
        standing={says: sum(verdict.says == says for verdict in standing) for says in SAYS},
        agreed=sum(sum(v.says == pair.says for v in pair.each) > 1 for pair in pairs.values()),
        disputed=[pair_line(desk, pair) for pair in reversed(pairs.values()) if pair.disputed],
        groups=[cards_of(desk, group) for group in groups],
        conflicts=[line_of(desk, verdict) for verdict in against],
    )


def shown_of(desk: Desk, item: Item, description: Description | None) -> Shown:
    """Return a photograph and its boxes; raise `Refused` if the file is gone or no longer an image."""
    size = desk.pictures.size(item.path)
    boxes = [] if description is None else [(int(x), int(y), int(w), int(h)) for x, y, w, h in description.boxes]
    angle = description.angle if description else None
    outline = description.outline if description else NO_OUTLINE
    view = upright_view((size.width, size.height), angle, outline if item.piece else None)
    frames = view.frames(description.boxes if description else np.zeros((0, 4))).round(1)
    return Shown(
        id=item.id,
        upload=item.upload,
        name=item.name,
        width=size.width,
        height=size.height,
        min_level=size.least,
        max_level=size.most,
        letter_height=letter_height(description) if description else 0.0,
        legibility=description.legibility if description else 0.0,
        doubtful=description.doubtful if description else False,
        angle=angle,
        piece=item.piece,
        outline=[(int(x), int(y)) for x, y in simplified(outline)],
        boxes=boxes,
        view=View(
            width=view.width,
            height=view.height,
            matrix=view.matrix.T.ravel().round(6).tolist(),
            frames=[(x, y, w, h) for x, y, w, h in frames.tolist()],
        ),
        columns=dict(item.entry.fragment.columns) if item.entry else {},
    )


def seen_picture(desk: Desk, item: Item) -> bytes:
    """Return the upright photograph with its overlay, as JPEG."""
    description, recipe = desk.description(item), desk.holding().collection.recipe
    fragment = item.entry.fragment if item.entry else Fragment(item.name, item.path)
    (fragment,) = with_fixes(desk.path, [fragment])
    standing = desk.standing(item)

    def draw(photograph: NDArray[np.uint8]) -> Image.Image:
        seen = Piece(read_again(fragment, description, recipe), item.piece, description.note)
        size = photograph.shape[1], photograph.shape[0]
        view = upright_view(size, standing.angle, np.array(standing.outline, np.int32).reshape(-1, 2))
        return draw_overlay(photograph, [seen], view.scaled(SEEN / max(view.width, view.height)))

    key = (standing, description.note, description.legibility, description.boxes.tobytes(), recipe.to_json())
    return desk.pictures.seen(item.path, key, draw)


def plate_of(desk: Desk, item: Item) -> Plate | None:
    """Return the pieces of a fragment's photograph; None if it shows only one."""
    holding = desk.holding()
    if not item.entry or not item.piece:
        return None
    pieces = holding.pieces.get(item.entry.fragment.photograph, [])
    size = desk.pictures.size(item.path)
    outlines = [simplified(holding.piece_outline(piece.fragment.id)) for piece in pieces]
    return Plate(
        photograph=item.entry.fragment.photograph,
        width=size.width,
        height=size.height,
        pieces=[
            PlatePiece(card=card_of(piece, desk.marks()), outline=[(int(x), int(y)) for x, y in outline])
            for piece, outline in zip(pieces, outlines, strict=True)
        ],
    )


def words_of(description: Description) -> list[Word]:
    """Return the prototypes of a fragment, the most frequent first."""
    letters = letters_of(description)
    total = max(1, len(description.boxes))
    order = sorted(range(len(letters)), key=lambda word: (-len(letters[word]), word))
    return [Word(number=word, share=len(letters[word]) / total, letters=list(letters[word])) for word in order]


def card_of(entry: Entry, marks: Mapping[str, Marks]) -> Card:
    """Return a fragment's card, with its marks."""
    own = marks.get(entry.fragment.id, NO_MARKS)
    return Card(
        id=entry.fragment.id,
        name=name_of(entry),
        letters=entry.glyphs,
        note=entry.note,
        doubtful=entry.doubtful,
        legibility=entry.legibility,
        angle=entry.angle,
        letter_height=entry.letter_height,
        photograph=entry.fragment.photograph,
        piece=entry.fragment.piece,
        refused=entry.refused,
        corrected=[int(number) for number in entry.corrected.split(",") if number],
        number=entry.number,
        tags=list(own.tags),
        bookmarked=list(own.bookmarked),
        notes=len(own.notes),
        columns=dict(entry.fragment.columns),
    )


def cards_of(desk: Desk, ids: Iterable[str]) -> list[Card]:
    """Return the cards of these ids; a fragment that was removed since has only its id."""
    known, marks = desk.holding().by_id, desk.marks()
    gone = Message("removed")
    return [card_of(known.get(id) or Entry(Fragment(id, Path()), gone, "", 0), marks) for id in ids]


def line_of(desk: Desk, verdict: Verdict) -> VerdictLine:
    """Return a verdict with its fragments' names; a removed fragment is named by its id."""
    known = desk.holding().by_id
    a, b = known.get(verdict.a), known.get(verdict.b)
    return VerdictLine(
        **vars(verdict),
        name_a=name_of(a) if a else verdict.a,
        name_b=name_of(b) if b else verdict.b,
        library_a=a.fragment.columns.get("library", "") if a else "",
        library_b=b.fragment.columns.get("library", "") if b else "",
    )


def pair_line(desk: Desk, pair: PairVerdicts) -> PairLine:
    """Return all people's verdicts on a pair, with its fragments' names."""
    each = [line_of(desk, verdict) for verdict in pair.each]
    names = {name: getattr(each[0], name) for name in ("a", "b", "name_a", "name_b", "library_a", "library_b")}
    return PairLine(**names, says=pair.says, each=each)


def says_of(pair: PairVerdicts | None) -> str:
    """Return the verdict in force for a pair, or `disputed`; "" without verdicts."""
    return pair.says if pair else ""


def voices_of(pair: PairVerdicts | None) -> list[Voice]:
    """Return each person's verdict on a pair."""
    return [Voice(by=verdict.by, says=verdict.says) for verdict in pair.each] if pair else []


def state_of(entry: Entry) -> str:
    return "refused" if entry.refused else "few" if "few letters" in entry.note else "described"


def page_of(items: Sequence[T], page: int, size: int) -> tuple[Sequence[T], int, int]:
    """Return the items of one page, the page number clipped to the valid range, and the number of pages."""
    pages = max(1, math.ceil(len(items) / size))
    page = min(max(1, page), pages)
    return items[(page - 1) * size : page * size], page, pages


def _has_all(entry: Entry, words: Sequence[str], marks: Mapping[str, Marks]) -> bool:
    tags = marks.get(entry.fragment.id, NO_MARKS).tags
    text = _plain(" ".join((entry.fragment.id, *entry.fragment.columns.values(), *tags)))
    return all(word in text for word in words)


def _plain(text: str) -> str:
    """Normalise a text for searching: NFC and case-folded."""
    return unicodedata.normalize("NFC", text).casefold()
