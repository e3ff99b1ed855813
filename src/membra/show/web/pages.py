"""The data of the pages about fragments and verdicts. Each function gives what one page, and its JSON twin, shows."""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from membra.describe.recipe import Description
from membra.errors import MembraError
from membra.find.collection import Entry
from membra.find.verdicts import SAYS, Verdict, groups_of
from membra.show.evidence import letter_height, letters_of
from membra.show.holding import name_of
from membra.show.web.desk import Desk, Item
from membra.show.web.models import (
    Card,
    CollectionPage,
    Coverage,
    FragmentPage,
    Shown,
    VerdictLine,
    VerdictsPage,
    Word,
)

A_PAGE = 60  # fragments on a page of the collection; divides by 2, 3, 4, 5 and 6 columns
LINES = 100  # entries on a page of the history
Show = Literal["all", "described", "few", "refused"]
T = TypeVar("T")


def collection_page(desk: Desk, q: str = "", show: Show = "all", page: int = 1) -> CollectionPage:
    """Fragments in natural order, those whose name or columns have every word of `q`."""
    entries = desk.holding().entries
    states = [state_of(entry) for entry in entries]
    # A fragment with few letters is described all the same.
    wanted = {"all": SAYS_ALL, "described": ("described", "few"), "few": ("few",), "refused": ("refused",)}[show]
    words = _plain(q).split()
    found = [
        entry
        for entry, state in zip(entries, states, strict=True)
        if state in wanted and (not words or _has_all(entry, words))
    ]
    shown, page, pages = page_of(found, page, A_PAGE)
    return CollectionPage(
        collection=desk.path.name,
        coverage=Coverage(
            described=states.count("described"), few_letters=states.count("few"), refused=states.count("refused")
        ),
        q=q,
        show=show,
        found=len(found),
        page=page,
        pages=pages,
        fragments=[card_of(entry) for entry in shown],
    )


SAYS_ALL = ("described", "few", "refused")


def fragment_page(desk: Desk, id: str) -> FragmentPage:
    """One fragment with its letters, its words by share, and what was decided about it."""
    item = desk.item(id)
    holding = desk.holding()
    entry = holding.entry(id)
    shown, words, problem = None, [], entry.refused
    try:
        description = None if entry.refused else desk.description(item)
        shown = shown_of(desk, item, description)
        words = words_of(description) if description else []
    except MembraError as error:
        problem = problem or str(error)
    standing = desk.verdicts.standing()
    group = next((group for group in groups_of(standing) if id in group), [])
    place = holding.places[id]
    return FragmentPage(
        card=card_of(entry),
        shown=shown,
        problem=problem,
        words=words,
        verdicts=[line_of(verdict) for verdict in standing if id in (verdict.a, verdict.b)],
        group=cards_of(desk, group),
        previous=holding.entries[place - 1].fragment.id if place else None,
        next=holding.entries[place + 1].fragment.id if place + 1 < len(holding.entries) else None,
    )


def verdicts_page(desk: Desk, page: int = 1) -> VerdictsPage:
    """The whole history, newest first, the groups that follow from it, and what contradicts them."""
    history = desk.verdicts.history()
    standing = desk.verdicts.standing()
    groups = groups_of(standing)
    group_of = {id: number for number, group in enumerate(groups) for id in group}
    against = [v for v in standing if v.says == "no" and v.a in group_of and group_of[v.a] == group_of.get(v.b)]
    shown, page, pages = page_of(history[::-1], page, LINES)
    return VerdictsPage(
        found=len(history),
        page=page,
        pages=pages,
        history=[line_of(verdict) for verdict in shown],
        standing={says: sum(verdict.says == says for verdict in standing) for says in SAYS},
        groups=[cards_of(desk, group) for group in groups],
        conflicts=[line_of(verdict) for verdict in against],
    )


def shown_of(desk: Desk, item: Item, description: Description | None) -> Shown:
    """A photograph and its boxes; `Refused` where the file is gone or no image any more."""
    size = desk.pictures.size(item.path)
    boxes = [] if description is None else [(int(x), int(y), int(w), int(h)) for x, y, w, h in description.boxes]
    return Shown(
        id=item.id,
        upload=item.upload,
        name=item.name,
        width=size.width,
        height=size.height,
        least_level=size.least,
        most_level=size.most,
        letter_height=letter_height(description) if description else 0.0,
        boxes=boxes,
    )


def words_of(description: Description) -> list[Word]:
    """The visual words of a fragment, the most frequent first."""
    letters = letters_of(description)
    total = max(1, len(description.boxes))
    order = sorted(range(len(letters)), key=lambda word: (-len(letters[word]), word))
    return [Word(number=word, share=len(letters[word]) / total, letters=list(letters[word])) for word in order]


def card_of(entry: Entry) -> Card:
    return Card(
        id=entry.fragment.id,
        name=name_of(entry),
        letters=entry.glyphs,
        note=entry.note,
        refused=entry.refused,
        columns=dict(entry.fragment.columns),
    )


def cards_of(desk: Desk, ids: Iterable[str]) -> list[Card]:
    """The fragments of these ids; one that has left the collection since is shown by its id alone."""
    known = desk.holding().by_id
    return [
        card_of(known[id]) if id in known else Card(id=id, name=id, letters=0, note="", refused="removed", columns={})
        for id in ids
    ]


def line_of(verdict: Verdict) -> VerdictLine:
    return VerdictLine(**{name: getattr(verdict, name) for name in VerdictLine.model_fields})


def state_of(entry: Entry) -> str:
    return "refused" if entry.refused else "few" if "few letters" in entry.note else "described"


def page_of(items: Sequence[T], page: int, size: int) -> tuple[Sequence[T], int, int]:
    """The items of one page, its number brought within what there is, and how many pages there are."""
    pages = max(1, math.ceil(len(items) / size))
    page = min(max(1, page), pages)
    return items[(page - 1) * size : page * size], page, pages


def _has_all(entry: Entry, words: Sequence[str]) -> bool:
    text = _plain(" ".join((entry.fragment.id, *entry.fragment.columns.values())))
    return all(word in text for word in words)


def _plain(text: str) -> str:
    """Composed and decomposed letters, capitals and small ones are the same when one looks for a name."""
    return unicodedata.normalize("NFC", text).casefold()
