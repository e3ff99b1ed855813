"""The inbox: the pairs most worth deciding on, one per screen; a key decides and goes on.

A verdict is stored before the next pair is shown; skipped and postponed pairs are kept in `sittings.py`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from membra.errors import MembraError, NotFound
from membra.find.inbox import InboxPair, InboxState, Order
from membra.find.mates import stored_scales
from membra.find.neighbours import current, neighbours, shortlisted
from membra.find.probability import Refinement
from membra.messages import Message
from membra.show.evidence import best_shown, match_words, matched_heights
from membra.show.holding import SMALL, Holding
from membra.show.web.candidates import learnt
from membra.show.web.desk import GOING_ON, Desk
from membra.show.web.models import Card, MatchLine, Sentence, Shown, VerdictLine, Voice
from membra.show.web.pages import cards_of, line_of, shown_of, voices_of
from membra.show.web.parameters import WITH_FORM_TOKEN, Id, Person, Said, Signature, Text
from membra.show.web.render import Render, link
from membra.show.web.sittings import LATER, SKIP, Pair, Sitting, Sittings
from membra.store.neighbour_lists import FOLDER, LISTS, read_lists
from membra.store.verdicts import UNDO, PairVerdicts, Verdict, by_pair, in_order, same_person, standing_in

MATCHES = 24  # matches below the photographs

Limit = Annotated[int, Query(ge=1, le=500, description="maximum number of pairs")]
Column = Annotated[str, Query(max_length=200, description="a column of the catalogue; empty for none")]
Done = Annotated[int, Query(ge=0, le=10_000_000, description="number of pairs decided in this sitting")]
Pile = Annotated[bool, Query(description="only postponed pairs")]


@dataclass(frozen=True)
class Place:
    """The state of the inbox from which a form was sent, to continue there."""

    across: Text = ""
    exclude_same: Text = ""
    done: Text = "0"


Here = Annotated[Place, Depends()]


class InboxLine(BaseModel):
    """One pair to decide on."""

    a: Card
    b: Card
    distance: float = Field(description="distance by the collection's method; smaller is closer")
    probability: float = Field(description="probability of a join, 0 to 1, from the distance and all verdicts so far")
    likelihood: float = Field(
        description="probability from this pair alone, 0 to 1, refined by the verdicts, as among the candidates"
    )
    value: float = Field(description="expected value of a decision, by which the pairs are ordered, largest first")
    why: str = Field(description="effect of a join: first mates, a group grows, two groups meet, implied")
    against: int = Field(description="number of verdicts no and same hand between the two groups")
    crosses: bool = Field(description="whether the two differ in the column `across`; such pairs come first")
    disputed: bool = Field(description="whether one person says join, another same hand or no")
    said: list[Voice] = Field(description="the newest verdict of each person; empty if the pair is not disputed")


class Evidence(BaseModel):
    """The photographs of a pair and their matching letters."""

    a: Shown
    b: Shown
    heights: tuple[float, float] = Field(description="height of the matching letters, px of each photograph")
    matches: list[MatchLine]


class InboxPage(BaseModel):
    """The undecided pairs most worth a look. `ready` is false while neighbours are computed."""

    ready: bool
    problem: Sentence = Field(description="why there are no pairs; empty if there are")
    note: Sentence = Field(description="remark on the neighbour lists, e.g. that they are outdated; may be empty")
    found: int = Field(description="number of undecided pairs")
    promising: int = Field(description="number of undecided pairs probable enough to be worth a look")
    aside: int = Field(description="number of pairs that this person postponed")
    across: str = Field(description="column of the request; pairs that differ in it come first")
    exclude_same: str = Field(description="column of the request; pairs with the same value in it are left out")
    columns: list[str] = Field(description="columns by which pairs can be filtered")
    pairs: list[InboxLine]
    evidence: Evidence | None = Field(description="evidence for the first pair; always null in the JSON")
    undo: VerdictLine | None = Field(
        description="this person's newest verdict, which the key Z undoes; null if there is none"
    )


class Inbox:
    """The open pairs of the current collection, and the sittings of all users."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.sittings = Sittings()
        self._ordered: tuple[object, Order] | None = None

    def begin(self) -> None:
        """Read the pairs of a large collection before the first request; those of a small one are read on request."""
        with suppress(MembraError, OSError):  # raised again on request
            if len(self.desk.holding().entries) > SMALL:
                self.state(patience=0)

    def state(self, patience: float = 0.6) -> tuple[InboxState | None, str, bool]:
        """Return the pairs (None while they are computed), a note on them, and whether they are current."""
        holding = self.desk.holding()
        stamp = None
        with suppress(OSError):
            stamp = (holding.collection.path / FOLDER / f"{LISTS}.json").stat().st_mtime_ns
        found, ready = self.desk.later("inbox", stamp, lambda: _read(holding), patience)
        if found is GOING_ON:
            return None, "", False
        state, note = found
        return state, note, ready

    def order(self, state: InboxState, across: str, exclude_same: str, history: Sequence[Verdict]) -> Order:
        """Return the order of the open pairs after all verdicts so far."""
        key = (state, len(history), across, exclude_same)
        kept = self._ordered
        if kept is None or kept[0] != key:
            pairs = by_pair(history)
            disputed = [ends for ends, pair in pairs.items() if pair.disputed]
            columns = {"across": across or None, "exclude_same": exclude_same or None}
            kept = (key, state.order(standing_in(pairs), disputed, **columns))
            self._ordered = kept
        return kept[1]

    def waits(self, by: str) -> bool:
        """Return whether there are promising pairs: then the inbox is the first page."""
        with suppress(MembraError, MemoryError):
            state, _, _ = self.state()
            history = self.desk.verdicts.history()
            answered = _answered_disputes(by_pair(history), by)
            return state is not None and self._promising(state, self.order(state, "", "", history), answered) > 0
        return False

    def _promising(self, state: InboxState, order: Order, answered: dict[Pair, None]) -> int:
        """Return how many open pairs are above the probability from which they are worth a look."""
        divided = state.named(order, order.disputed.nonzero()[0].tolist()) if answered else []
        count = int((order.probabilities >= state.settings.promising).sum())
        return count - sum((pair.a, pair.b) in answered for pair in divided)

    def page(
        self,
        by: str = "",
        *,
        limit: int = 1,
        across: str = "",
        exclude_same: str = "",
        pile: bool = False,
        pinned: Pair | None = None,
    ) -> InboxPage:
        """Return the data of the page and its JSON twin; `pinned` is shown first, whatever its rank."""
        desk, sitting = self.desk, self.sittings.of(by)
        try:
            state, note, ready = self.state()
        except (MembraError, MemoryError) as error:
            problem = (
                error.message if isinstance(error, MembraError) else Message("There is too little memory for this")
            )
            return _empty_page(ready=True, problem=problem, across=across, exclude_same=exclude_same)
        if state is None:
            return _empty_page(ready=False, across=across, exclude_same=exclude_same)
        history = desk.verdicts.history()
        said = by_pair(history)
        order, answered = self.order(state, across, exclude_same, history), _answered_disputes(said, by)
        promising = self._promising(state, order, answered)
        chosen = self._chosen(state, order, sitting, answered, limit, pile, pinned)
        known = desk.holding().by_id
        refinement = learnt(desk)
        lines = [_line(desk, pair, said, refinement) for pair in chosen if pair.a in known and pair.b in known]
        mine = [v for v in history if same_person(v.by, by) and not v.undone and v.says != UNDO]
        return InboxPage(
            ready=ready or bool(lines),
            problem="",
            note=note,
            found=len(order),
            promising=max(promising, len(lines[:1])),
            aside=len(sitting.later),
            across=across,
            exclude_same=exclude_same,
            columns=_columns(desk.holding()),
            pairs=lines,
            evidence=None,
            undo=line_of(desk, mine[-1]) if mine else None,
        )

    def _chosen(
        self,
        state: InboxState,
        order: Order,
        sitting: Sitting,
        answered: dict[Pair, None],
        limit: int,
        pile: bool,
        pinned: Pair | None,
    ) -> list[InboxPair]:
        """Return the first pairs of the order; skipped ones come last, postponed ones not at all."""
        if pile and pinned is None:
            return [found for pair in list(sitting.later) for found in _place(state, order, pair)][:limit]
        out = {**sitting.skipped, **sitting.later, **answered}
        found = list(_place(state, order, pinned)) if pinned else []
        for one in state.named(order, range(min(len(order), limit + len(out) + 1))):
            if (one.a, one.b) not in out and (one.a, one.b) != pinned:
                found.append(one)
        for pair in list(sitting.skipped) if len(found) < limit else ():
            found += [] if pair == pinned else _place(state, order, pair)
        return found[:limit]

    def evidence(self, line: InboxLine) -> Evidence:
        """Return the photographs of a pair and its evidence."""
        desk = self.desk
        first, second = desk.item(line.a.id), desk.item(line.b.id)
        one, other = desk.description(first), desk.description(second)
        matches = match_words(one, other, desk.holding().collection.recipe.bag)
        heights = matched_heights(one, other, matches)
        names = [name for name in MatchLine.model_fields if name not in ("number", "agrees")]
        return Evidence(
            a=shown_of(desk, first, one),
            b=shown_of(desk, second, other),
            heights=(round(heights[0], 2), round(heights[1], 2)),
            matches=[
                MatchLine(number=number, **{name: getattr(match, name) for name in names})
                for number, match in enumerate(best_shown(matches, MATCHES), start=1)
            ],
        )


def add_routes(app: FastAPI, inbox: Inbox, render: Render) -> None:
    """Add the page, its JSON twin, and its form."""
    desk = inbox.desk

    @app.get("/inbox", response_class=HTMLResponse)
    def inbox_page(
        request: Request,
        across: Column = "",
        exclude_same: Column = "",
        pile: Pile = False,
        done: Done = 0,
        a: Id = "",
        b: Id = "",
    ) -> Response:
        pinned = None
        if a and b:
            desk.item(a), desk.item(b)  # raises if one does not exist
            pinned = in_order(a, b)
        data = inbox.page(
            render.by(request), limit=2, across=across, exclude_same=exclude_same, pile=pile, pinned=pinned
        )
        problem = None
        if data.pairs:
            try:
                data.evidence = inbox.evidence(data.pairs[0])
            except MembraError as error:  # e.g. its photograph is gone: the pair can be skipped
                problem = error.message
        return render(request, "inbox.html", data, done=done, pile=pile, unseen=problem)

    @app.get("/api/inbox")
    def inbox_(person: Person, limit: Limit = 20, across: Column = "", exclude_same: Column = "") -> InboxPage:
        return inbox.page(person, limit=limit, across=across, exclude_same=exclude_same)

    @app.post("/inbox", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def answer(request: Request, said: Said, by: Signature, here: Here, pile: Text = "") -> Response:
        desk.item(said.a), desk.item(said.b)
        if said.says not in (SKIP, LATER):  # stored before the answer
            desk.verdicts.give(said.a, said.b, said.says, by=by, note=said.note)
        if by.strip() and not render.by(request).strip():
            inbox.sittings.sign(by)
        inbox.sittings.of(by).put(in_order(said.a, said.b), said.says)
        count = _count(here.done) + (said.says not in (SKIP, LATER))
        return _to_next(render, by, across=here.across, exclude_same=here.exclude_same, pile=pile and 1, done=count)

    @app.post("/inbox/undo", response_class=HTMLResponse, dependencies=[WITH_FORM_TOKEN])
    def undo(person: Person, here: Here, number: Text = "", by: Text = "") -> Response:
        if not _is_number(number):
            raise NotFound("There is nothing to undo")
        taken = desk.take_back(int(number), person, by)
        more = {"across": here.across, "exclude_same": here.exclude_same, "done": max(0, _count(here.done) - 1)}
        return _to_next(render, taken.by, a=taken.a, b=taken.b, **more)


def _to_next(render: Render, by: str, **where: Any) -> Response:
    """Redirect to the next pair."""
    response = RedirectResponse(link("/inbox", **where), 303)
    return render.remember(response, by) if by.strip() else response


def _count(text: str) -> int:
    return min(int(text), 9_999_999) if _is_number(text) else 0


def _is_number(text: str) -> bool:
    """Return whether it is a number of at most 18 digits; Python refuses to parse thousands of digits."""
    return text.isdecimal() and len(text) < 19


def _read(holding: Holding) -> tuple[InboxState, str]:
    """Return the pairs of the stored neighbours; in a small collection the neighbours are updated first."""
    assert holding.mapped  # once, also with concurrent searches
    collection = holding.collection
    lists, note = read_lists(collection.path), ""
    usable = lists is not None and lists.finished() and lists.method == collection.recipe.method
    if lists is not None and usable and current(collection, lists):
        return InboxState(lists, holding.entries, stored_scales(collection)), note
    if len(holding.entries) <= SMALL:
        return InboxState(neighbours(collection, keep=False).lists, holding.entries, stored_scales(collection)), note
    near = shortlisted(collection)
    if near is not None:
        share = int(100 * near.recall)
        note = Message(
            "Based on a shortlist, which contains {share} % of the true neighbours by measurement", share=share
        )
        return InboxState(near, holding.entries, stored_scales(collection)), note
    command = f"membra neighbours {collection.path.name}"
    if lists is None or not usable:
        raise NotFound(
            "The collection is too large to find its neighbours while a page loads; run `{command}` once",
            command=command,
        )
    note = Message("The collection has changed since its neighbours were found; run `{command}`", command=command)
    return InboxState(lists, holding.entries, stored_scales(collection)), note


def _place(state: InboxState, order: Order, pair: Pair) -> Sequence[InboxPair]:
    """Return one pair, whatever its rank; empty if it is not open."""
    ends = sorted(state.indices.get(id, -1) for id in pair)
    at = ((state.pairs.a[order.pairs] == ends[0]) & (state.pairs.b[order.pairs] == ends[1])).nonzero()[0]
    return state.named(order, at[:1].tolist())


def _answered_disputes(pairs: Mapping[Pair, PairVerdicts], by: str) -> dict[Pair, None]:
    """Return the disputed pairs that do not wait for this person's verdict, but for that of others."""
    return {ends: None for ends, pair in pairs.items() if pair.disputed and not pair.waits_for(by)}


def _line(desk: Desk, pair: InboxPair, said: Mapping[Pair, PairVerdicts], refinement: Refinement) -> InboxLine:
    names = ("distance", "probability", "value", "why", "against", "crosses", "disputed")
    values = {name: getattr(pair, name) for name in names}
    a, b = cards_of(desk, (pair.a, pair.b))
    likelihood = refinement.of(pair.own_probability)
    return InboxLine(a=a, b=b, likelihood=likelihood, said=voices_of(said.get((pair.a, pair.b))), **values)


def _columns(holding: Holding) -> list[str]:
    """Return catalogue columns that can filter pairs, without those that are unique per fragment."""
    seen: dict[str, None] = {}
    for entry in holding.entries[:500]:
        seen |= dict.fromkeys(name for name, value in entry.fragment.columns.items() if value)
    return [name for name in seen if name not in ("join", "letters", "side", "shelfmark", "image")][:20]


def _empty_page(*, ready: bool, across: str, exclude_same: str, problem: str = "") -> InboxPage:
    return InboxPage(
        ready=ready,
        problem=problem,
        note="",
        found=0,
        promising=0,
        aside=0,
        across=across,
        exclude_same=exclude_same,
        columns=[],
        pairs=[],
        evidence=None,
        undo=None,
    )
