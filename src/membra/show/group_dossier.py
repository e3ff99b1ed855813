"""The dossier of a group: one HTML file with its fragments, verdicts and matching letters."""

from dataclasses import dataclass

from membra.show.citation import bibtex, csl_json
from membra.show.dossier import details_of, laid_picture, small_page
from membra.show.evidence import Evidence, explain_in
from membra.show.exhibit import Kind, kinds_of, photographs_of
from membra.show.group import Group, leaf_name, pairs_of, title_of
from membra.show.holding import Holding, name_of
from membra.show.picture import thumbnail
from membra.show.strips import data_uri
from membra.store.verdicts import PairVerdicts, Verdict, in_order

KINDS, LETTERS = 5, 6  # matches per pair, and letters of each side per match
LAID = 700  # px, longer side of the picture of a pair on one table
# Longest side of a photograph and JPEG quality, tried in this order until the file is small enough.
_STEPS = ((900, 80), (640, 72), (420, 65), (260, 55), (180, 45))


@dataclass(frozen=True)
class Member:
    """The page's data of one fragment."""

    id: str
    name: str
    image: str  # as a data URI; empty if it cannot be shown
    details: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Tie:
    """One of the pairs that connect the group."""

    evidence: Evidence
    names: tuple[str, str]
    verdict: Verdict | None  # in force
    said: PairVerdicts | None
    kinds: list[Kind]
    strips: list[tuple[str, str]]
    laid: str  # both on one table, as a data URI; empty without a placement


def group_dossier(holding: Holding, group: Group) -> bytes:
    """Render the page, with the largest pictures that keep it within `MAX_BYTES`."""
    said = {(pair.a, pair.b): pair for pair in group.pairs}
    ties = [_tie(holding, a, b, said.get(in_order(a, b))) for a, b in pairs_of(holding, group)]

    def shown(side: int, quality: int) -> dict[str, object]:
        return {
            "title": title_of(holding, group),
            "group": group,
            "leaves": [
                (leaf_name([holding.entry(id) for id in leaf]), [_member(holding, id, side, quality) for id in leaf])
                for leaf in group.leaves
            ],
            "ties": ties,
            "names": {id: name_of(holding.entry(id)) for id in group.ids},
            "bibtex": bibtex(holding, group).decode(),
            "csl": csl_json(holding, group).decode(),
        }

    return small_page("group.html", holding, _STEPS, shown)


def _member(holding: Holding, id: str, side: int, quality: int) -> Member:
    entry = holding.entry(id)
    image = ""
    if not entry.refused:
        image = data_uri(thumbnail(entry.fragment.path, side, entry.angle, holding.piece_outline(id)), quality)
    return Member(id, name_of(entry), image, details_of(entry))


def _tie(holding: Holding, a: str, b: str, said: PairVerdicts | None) -> Tie:
    evidence = explain_in(holding, a, b)
    kinds = kinds_of(evidence, photographs_of(evidence), KINDS, LETTERS)
    strips = [(data_uri(kind.strips[0], 70), data_uri(kind.strips[1], 70)) for kind in kinds]
    laid = laid_picture(holding, a, b, LAID)
    names = name_of(holding.entry(a)), name_of(holding.entry(b))
    holds = said.holds if said else None
    return Tie(evidence, names, holds, said, kinds, strips, laid[0] if laid else "")
