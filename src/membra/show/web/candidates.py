"""Data of the candidates and comparison pages: rankings with filters, likelihoods, matching letters."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from membra.describe.recipe import Description
from membra.errors import Invalid, MembraError
from membra.find.agreement import Agreement
from membra.find.probability import UNUSUAL, Refinement, refine
from membra.find.search import Hit
from membra.show.evidence import Subject, best_shown, evidence_of, letters_of
from membra.show.facts import ordered
from membra.show.holding import NEAR, SMALL, Holding, name_of, natural
from membra.show.web.desk import GOING_ON, Desk, Item
from membra.show.web.filters import DECIDED, DISTANCE, KNOWN, UNSORTED, Filters, choices_of
from membra.show.web.models import AgreementLine, Calibration, Candidate, CandidatesPage, ComparePage, MatchLine
from membra.show.web.pages import card_of, line_of, page_of, pair_line, says_of, shown_of, voices_of
from membra.show.web.sides import leads_of, sides_of
from membra.show.wording import agreement_words
from membra.store.annotations import NO_MARKS
from membra.store.collection import Entry
from membra.store.verdicts import PairVerdicts, Verdict, groups_of, in_order, standing_in

A_SCREEN, SCREENS = 20, 3
MATCHES = 24  # matches in the comparison
BEST = 3  # best agreeing kinds of letter, one letter of each on a card
EVERYTHING = Filters()
_LEARNT = "likelihood"  # name of the background task that learns it
_SAMPLE = 40  # labelled fragments used as queries; more change the likelihood little


def candidates_page(
    desk: Desk, item: Item, filters: Filters = EVERYTHING, screen: int = 1, size: int = A_SCREEN
) -> CandidatesPage:
    """Return a page of candidates: up to three screens of twenty, or of another `size`, sorted by distance by default
    and filtered by `filters`."""
    query = desk.description(item)  # raises with the reason if it was rejected
    holding = desk.holding()
    pairs = desk.verdicts.pairs()
    standing = standing_in(pairs)
    likelihood, learning = likelihood_of(desk)
    left, _ = ranked(desk, holding, item, filters, standing, A_SCREEN * SCREENS)
    hits = _sorted(holding, left, filters.sort)
    shown, screen, screens = page_of(hits, screen, size)
    leads = leads_of(holding.leaves, hits)

    def said_of(id: str) -> PairVerdicts | None:
        return pairs.get(in_order(item.id, id)) if item.id else None

    mates, marks = _mates(holding, item, standing), desk.marks()
    agree = holding.agreements(_query(item), query, [hit.id for hit in shown])
    found = [
        Candidate(
            rank=hit.rank,
            distance=hit.distance,
            likelihood=_likely(likelihood, hit.probability),
            agreement=agreement_line(agreement, query),
            card=card_of(holding.by_id[hit.id], marks),
            verdict=says_of(said_of(hit.id)),
            said=voices_of(said_of(hit.id)),
            known=hit.id in mates,
            identical=is_identical(item, holding.by_id[hit.id]),
            side_of=leads[hit.id] if leads[hit.id] != hit.id else "",
            sides=sides_of(desk, hit.id, hits, said_of, {item.id}) if leads[hit.id] == hit.id else [],
        )
        for hit, agreement in zip(shown, agree, strict=True)
    ]
    return CandidatesPage(
        query=card_of(item.entry, marks) if item.entry else None,
        leaf=list(holding.leaves.get(item.id, ())),
        upload=item.upload,
        name=item.name,
        doubtful=query.doubtful,
        method=holding.collection.recipe.method,
        calibration=Calibration(joins=likelihood.joins, others=likelihood.others) if likelihood.joins else None,
        sorted=filters.sort not in ("", DISTANCE),
        unusual=UNUSUAL,
        learning=learning,
        hide=list(filters.hide),
        keep=list(filters.keep),
        filters=filters.parameters,
        columns=columns_of(item),
        choices=holding.kept(("choices",), lambda: choices_of(holding.entries)),
        tags=list(desk.tags()),
        screen=screen,
        screens=screens,
        candidates=found,
    )


def compare_page(desk: Desk, first: Item, second: Item, filters: Filters = EVERYTHING) -> ComparePage:
    """Return two items side by side: boxes, matches best first, verdicts, the previous and the next candidate."""
    if first == second:
        raise Invalid("A fragment cannot be compared with itself; choose another one")
    if not second.id:
        raise Invalid("The second fragment of a comparison must be in the collection")
    holding = desk.holding()
    one, other = desk.description(first), desk.description(second)
    pairs = desk.verdicts.pairs()
    hits, own = ranked(desk, holding, first, filters, standing_in(pairs), A_SCREEN * SCREENS, second.id)
    if own:  # the same values as on its card
        distance, rank, probability = own.distance, own.rank, own.probability
    else:
        distance, rank = holding.apart(_query(first), second.id)
        probability = holding.probability(_query(first), second.id)
    subjects = Subject(first.name, one, first.path, first.piece), Subject(second.name, other, second.path, second.piece)
    agreement = holding.agreements(_query(first), one, [second.id])[0]
    evidence = evidence_of(*subjects, holding, distance, rank, agreement=agreement)
    agreeing = evidence.agreeing
    history = desk.verdicts.history(first.id, second.id) if first.id else []
    pair = pairs.get(in_order(first.id, second.id)) if first.id else None
    likelihood, learning = likelihood_of(desk)
    order = _walked(holding, hits, own, second.id, filters.sort)
    index = order.index(second.id)
    return ComparePage(
        a=shown_of(desk, first, one),
        b=shown_of(desk, second, other),
        heights=(round(evidence.height_a, 2), round(evidence.height_b, 2)),
        distance=distance if math.isfinite(distance) else None,
        rank=rank or None,
        likelihood=_likely(likelihood, probability),
        agreement=agreement_line(agreement, one),
        learning=learning,
        matches=[
            MatchLine(
                number=number,
                word_a=match.word_a,
                word_b=match.word_b,
                distance=match.distance,
                share=match.share,
                mutual=match.mutual,
                agrees=(match.word_a, match.word_b) in agreeing,
                letters_a=list(match.letters_a),
                letters_b=list(match.letters_b),
            )
            for number, match in enumerate(best_shown(evidence.matches, MATCHES), start=1)
        ],
        identical=is_identical(first, holding.entry(second.id)),
        standing=line_of(desk, pair.holds) if pair and pair.holds else None,
        pair=pair_line(desk, pair) if pair else None,
        history=[line_of(desk, verdict) for verdict in history],
        previous=order[index - 1] if index > 0 else None,
        next=order[index + 1] if index + 1 < len(order) else None,
    )


def agreement_line(agreement: Agreement | None, query: Description) -> AgreementLine | None:
    """Return the agreement of the query's letters, with a typical letter of each of the best agreeing kinds."""
    if agreement is None:
        return None
    letters = letters_of(query) if agreement.kinds else []
    return AgreementLine(
        kinds=len(agreement.kinds),
        of=agreement.of,
        usual=agreement.usual,
        nearer=agreement.nearer,
        strangers=agreement.strangers,
        letters=[letters[kind][0] for kind in agreement.kinds[:BEST]],
        said=list(agreement_words(agreement)),
    )


def warm(desk: Desk) -> None:
    """Do the slow parts of a first request in advance: read the list, map the shards, search once, learn."""
    with suppress(MembraError, OSError):  # raised again by the first request
        holding = desk.holding()
        first = next((entry.fragment.id for entry in holding.entries if not entry.refused), None)
        if first is not None and holding.indices:
            holding.ranking(first, min(NEAR, len(holding.entries)))
        desk.when_quiet()
        likelihood_of(desk)


def ranked(
    desk: Desk,
    holding: Holding,
    item: Item,
    filters: Filters,
    standing: Sequence[Verdict],
    most: int,
    id: str = "",
) -> tuple[list[Hit], Hit | None]:
    """Return the nearest `most` hits that pass `filters`, with their ranks among all, and the hit of `id`, whether it
    passes or not; None if the search for the others did not reach it. All are in `holding`, the state with which the
    page was begun, whatever was added since."""
    barred = _mates(holding, item, standing) if KNOWN in filters.hide else set()
    if DECIDED in filters.hide and item.id:
        barred |= {v.b if v.a == item.id else v.a for v in standing if item.id in (v.a, v.b)}
    own = item.entry.fragment.columns if item.entry else {}
    everything, marks = len(holding.entries), desk.marks()
    for top in (min(NEAR, everything), everything):
        left, one = [], None
        for hit in holding.ranking(_query(item), top).hits:
            if hit.id not in holding.by_id:
                continue
            one = hit if hit.id == id else one
            columns = holding.by_id[hit.id].fragment.columns
            if hit.id not in barred and filters.passes(columns, own, marks.get(hit.id, NO_MARKS)):
                left.append(hit)
        if len(left) >= most:
            break
    return left[:most], one


def _walked(holding: Holding, hits: list[Hit], own: Hit | None, id: str, by: str) -> list[str]:
    """Return the candidates that Back and Next go through: the cards of the page of candidates, one per leaf, and `id`.

    If `id` has no card (filtered out, a further side of its leaf, or too far), it is where `own`, its hit, would be
    sorted; without a hit it is after the last.
    """
    leads = leads_of(holding.leaves, hits)
    others = [hit for hit in hits if hit.id != id and leads[hit.id] == hit.id]
    walked = sorted([*others, *([own] if own else [])], key=lambda hit: hit.rank)
    order = [hit.id for hit in _sorted(holding, walked, by)]
    return order if own else [*order, id]


def columns_of(item: Item) -> list[str]:
    """Return the columns by which candidates can be filtered: those that the query has a value in."""
    own = item.entry.fragment.columns if item.entry else {}
    return [name for name, value in ordered(own) if name not in UNSORTED][:12]


def is_identical(item: Item, entry: Entry) -> bool:
    """Return whether a fragment is the same photograph byte for byte: a copy is no join."""
    same = bool(item.sha256) and item.sha256 == entry.sha256 and item.piece == entry.fragment.piece
    return same and item.id != entry.fragment.id


def _sorted(holding: Holding, hits: list[Hit], by: str) -> list[Hit]:
    """Sort hits by a column or by name, empty values last. The sort is stable: equal ones stay by distance."""
    if by in ("", DISTANCE):
        return hits

    def key(hit: Hit) -> tuple[bool, object]:
        entry = holding.by_id[hit.id]
        said = name_of(entry) if by == "name" else entry.fragment.columns.get(by, "")
        return not said, natural(said)

    return sorted(hits, key=key)


def likelihood_of(desk: Desk, patience: float = 0.3) -> tuple[Refinement, bool]:
    """Return the refinement of probabilities by known joins and verdicts, and whether it is being computed.

    While it is computed again, after a verdict or an addition, the former one is returned.
    """
    holding = desk.holding()
    known = len(desk.verdicts.history())
    if len(holding.entries) > SMALL:
        patience = 0.0  # it takes too long to wait for
    found, done = desk.later(
        _LEARNT, known, lambda: _learn(holding, desk.verdicts.standing(), desk.when_quiet), patience
    )
    return (Refinement() if found is GOING_ON else found), not done


def learnt(desk: Desk) -> Refinement:
    """Return the latest refinement without waiting. In a large collection this starts no computation, since a series
    of verdicts would otherwise start it again each time."""
    if len(desk.holding().entries) <= SMALL:
        likelihood_of(desk, patience=0.0)
    found = desk.latest(_LEARNT)
    return Refinement() if found is GOING_ON else found


def _likely(refinement: Refinement, probability: float | None) -> float | None:
    """Return the refined likelihood of a join; None without a probability, as for doubtful fragments."""
    return None if probability is None else refinement.of(probability)


def _learn(holding: Holding, standing: Sequence[Verdict], pause: Callable[[], None]) -> Refinement:
    """Fit the refinement to pairs with known truth: verdicts, and fragments with a column `join`, not of one leaf.

    Doubtful fragments, which have no probability, are not used.

    In a large collection it pauses before each search, so that requests are served first.
    """
    chances: list[float] = []
    joined: list[bool] = []
    for verdict in standing:
        if verdict.says != "unsure" and all(id in holding.by_id for id in (verdict.a, verdict.b)):
            chance = holding.probability(verdict.a, verdict.b)
            if chance is not None:
                chances.append(chance)
                joined.append(verdict.says == "join")
    labelled = {
        entry.fragment.id: entry.fragment.columns
        for entry in holding.entries
        if entry.fragment.columns.get("join") and not entry.refused and not entry.doubtful
    }
    sample = list(labelled)[:: max(1, -(-len(labelled) // _SAMPLE))]
    for id in sample:
        if len(holding.entries) > SMALL:
            pause()
        own = labelled[id]
        # Only first candidates: users look at these, and the probability was fitted on them.
        sure = [hit for hit in holding.ranking(id, min(NEAR, len(holding.entries))).hits if hit.probability is not None]
        for hit in sure[:A_SCREEN]:
            columns = labelled.get(hit.id, {})
            apart = not (own.get("leaf") and own.get("leaf") == columns.get("leaf"))
            if columns and apart and hit.probability is not None:
                chances.append(hit.probability)
                joined.append(columns["join"] == own["join"])
    return refine(chances, joined)


def _mates(holding: Holding, item: Item, standing: Sequence[Verdict]) -> set[str]:
    """Return the fragments known to be of the item's manuscript: by column `join`, verdicts, or as its leaf's sides."""
    if not item.entry:
        return set()
    found = {id for group in groups_of(standing) if item.id in group for id in group}
    found.update(holding.leaves.get(item.id, ()))
    join = item.entry.fragment.columns.get("join")
    if join:
        found |= {entry.fragment.id for entry in holding.entries if entry.fragment.columns.get("join") == join}
    return found - {item.id}


def _query(item: Item) -> str | Path:
    return item.id or item.path
