"""Typed data of proposals, survey, groups, table and map; `models.py` has that of the other pages."""

from typing import Literal

from pydantic import BaseModel, Field

from membra.show.web import fields
from membra.show.web.models import Candidate, Card, Edge, PairLine, Sentence, Shown, Side, VerdictLine, Voice
from membra.show.web.parameters import SIGNS


class ProposalLine(BaseModel):
    """A proposed join."""

    number: int = Field(description="position among all proposals, from 1")
    nearness: float = Field(description="mean nearness of its pairs; smaller is closer")
    fragments: list[Card]
    pairs: list[Edge] = Field(description="closest first")


class ProposalsPage(BaseModel):
    """Proposed joins, closest first. `ready` is false while they are computed."""

    ready: bool
    problem: Sentence = Field(description="why there are no proposals; empty if there are")
    show: Literal["open", "all"] = Field(description="open: only proposals with an undecided pair")
    found: int = Field(description=fields.FOUND)
    decided: int = Field(description="number of proposals of which every pair has a verdict in force")
    page: int = Field(description=fields.PAGE)
    pages: int = Field(description=fields.PAGES)
    proposals: list[ProposalLine]


class Surveyed(BaseModel):
    """One of the candidates of a survey."""

    candidate: Candidate
    shown: Shown | None
    problem: Sentence = Field(description="why its photograph cannot be shown; empty if it can")
    height: float = Field(description="height of the letters that match the query's, px of its photograph; 0: none")


class SurveyPage(BaseModel):
    """The query and up to eight candidates at once, at one letter height."""

    query: Shown
    filters: dict[str, str | list[str]] = Field(description=fields.FILTERS)
    screen: int = Field(description=fields.SCREEN)
    screens: int = Field(description=fields.SCREENS)
    candidates: list[Surveyed]


class GroupLeaf(BaseModel):
    """A leaf or piece of a group, with its photographs."""

    name: str
    sides: list[Card] = Field(description="several if the catalogue has them as sides of one leaf")


class GroupCandidate(BaseModel):
    """One fragment that may belong to a group."""

    rank: int = Field(description="rank among all fragments, from 1")
    distance: float = Field(description="distance from the letters of all members combined")
    card: Card
    nearest: str = Field(description="id of the member that it is nearest to; empty if it is not known")
    verdict: str = Field(description="verdict in force on it and a member, or `disputed`; empty if there is none")
    said: list[Voice] = Field([], description=fields.VOICES)
    side_of: str = Field("", description=fields.SIDE_OF)
    sides: list[Side] = Field([], description=fields.SIDES)


class GroupPage(BaseModel):
    """Fragments that belong together, and the fragments most similar to all of them."""

    title: str
    confirmed: bool = Field(description="whether join verdicts and the catalogue's leaves connect all of them")
    leaves: list[GroupLeaf]
    pairs: list[Edge] = Field(
        description="pairs that connect the group: joins by verdict, then the nearest; their nearness is 0"
    )
    verdicts: list[VerdictLine] = Field(description="the verdicts in force between two of them")
    disputed: list[PairLine] = Field(description="pairs of them on which people contradict each other")
    hide: list[str] = Field(description="filters of the request whose matches are left out")
    candidates: list[GroupCandidate] = Field(description="fragments outside the group, nearest first")


class Placed(BaseModel):
    """The position of a fragment on the table: its centre, x to the right and y down, in the table's unit."""

    x: float
    y: float
    turn: float = Field(description="rotation, degrees clockwise from upright")


class FitPiece(BaseModel):
    """A fragment on the table. Lengths are pixels of its upright view."""

    id: str
    name: str = Field(description=fields.NAME)
    width: int = Field(description="width of the view")
    height: int = Field(description="height of the view")
    outline: list[tuple[float, float]] = Field(description="x, y of the outline of the cut-out")
    middle: tuple[float, float] = Field(
        description="x, y of the point that `lies` refers to: the middle of the outline"
    )
    per_unit: float = Field(description="pixels per unit of the table")
    pitch: float = Field(description="distance between lines of text; 0 if unknown")
    ruled: float = Field(description="y of one line of text; 0 if unknown")
    disagrees: bool = Field(description="whether the catalogue's height and width contradict the photograph")
    lies: Placed


class FitPage(BaseModel):
    """Two fragments on one table."""

    unit: Literal["mm", "letters"] = Field(
        description="unit of the table; letters: letter heights, if the size of either is unknown"
    )
    a: FitPiece
    b: FitPiece
    box: tuple[float, float, float, float] = Field(description="x, y, width, height of the visible part of the table")
    number: int = Field(description="number of the stored placement; 0 if there is none and they lie side by side")
    by: str = Field(description=fields.AUTHOR)
    at: str = Field(description=fields.TIME)


class Place(BaseModel):
    """A placement of two fragments to store."""

    a: str
    b: str
    lies_a: Placed
    lies_b: Placed
    unit: Literal["mm", "letters"] = Field(description="unit of the table; letters: letter heights")
    by: str = Field("", description=SIGNS)


class Point(BaseModel):
    """One fragment on the map."""

    id: str
    name: str = Field(description=fields.NAME)
    doubtful: bool
    x: float = Field(description="0 to 1, to the right")
    y: float = Field(description="0 to 1")


class NamedGroup(BaseModel):
    """A group near a fragment: joined by verdicts or by the column `join`."""

    name: str
    ids: list[str] = Field(description="ids of its fragments, at most 60")
    rank: int = Field(description="rank of its nearest fragment among the candidates")


class MapPage(BaseModel):
    """The collection in the plane: similar fragments are near; /api/map/points returns all of them."""

    ready: bool
    problem: Sentence = Field(description="why there is no map; empty if there is")
    found: int = Field(description="number of fragments on the map")
    fine: bool = Field(
        description="whether the layout is final; false while it is computed, with an earlier or rough one"
    )
    points: list[Point] = Field(description="an even selection of the fragments, at most 1000")
    columns: list[str] = Field(description="columns by which the map can be coloured")
    at: Card | None = Field(description="the selected fragment; null if there is none")
    neighbours: list[Candidate] = Field(description="candidates for the selected fragment, nearest first")
    near: list[NamedGroup] = Field(description="groups of these candidates, nearest first, without its own")


class MapGroup(BaseModel):
    """A group on the map."""

    name: str
    members: list[int] = Field(description="indices of its fragments in `ids`")


class MapPoints(BaseModel):
    """Every fragment of the map, column by column."""

    fine: bool = Field(description="whether the layout is final")
    ids: list[str]
    names: list[str] = Field(description="shelfmarks; ids where the catalogue has none")
    x: list[float] = Field(description="0 to 1, to the right")
    y: list[float] = Field(description="0 to 1")
    doubtful: list[int] = Field(description="indices of the doubtful fragments in `ids`")
    groups: list[MapGroup] = Field(description="fragments joined by verdicts or by the column `join`, largest first")


class MapColumn(BaseModel):
    """A column's value for every fragment of the map, in the order of the points."""

    name: str
    labels: list[str] = Field(description="the most frequent values of a text column; empty for a column of numbers")
    values: list[float | None] = Field(description="numbers, or indices in `labels`; null for empty and other values")
    low: float = Field(description="lower end of the colour scale")
    high: float = Field(description="upper end of the colour scale")
