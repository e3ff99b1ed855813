"""Typed data of proposals, survey, groups, table and map; `models.py` has that of the other pages."""

from typing import Literal

from pydantic import BaseModel, Field

from membra.show.web.models import Candidate, Card, Edge, PairLine, Sentence, Shown, Side, VerdictLine, Voice
from membra.show.web.parameters import SIGNS


class ProposalLine(BaseModel):
    """A proposed join."""

    number: int
    nearness: float
    fragments: list[Card]
    pairs: list[Edge]


class ProposalsPage(BaseModel):
    """Proposed joins, closest first. `ready` is false while they are computed."""

    ready: bool
    problem: Sentence
    show: Literal["open", "all"] = Field(description="open: groups with a pair that nobody has decided")
    found: int
    decided: int = Field(description="groups of which every pair is decided")
    page: int
    pages: int
    proposals: list[ProposalLine]


class Surveyed(BaseModel):
    """One of the candidates of a survey."""

    candidate: Candidate
    shown: Shown
    height: float = Field(description="px of a letter in its photograph, by the letters that match those of the query")


class SurveyPage(BaseModel):
    """The query and up to eight candidates at once, at one letter height."""

    query: Shown
    filters: dict[str, str | list[str]] = Field(description="as parameters of the request")
    screen: int
    screens: int
    candidates: list[Surveyed]


class GroupLeaf(BaseModel):
    """A leaf or piece of a group, with its photographs."""

    name: str
    sides: list[Card] = Field(description="more than one where the catalogue calls them sides of one leaf")


class GroupCandidate(BaseModel):
    """One fragment that may belong to a group."""

    rank: int
    distance: float = Field(description="from the letters of all members together")
    card: Card
    nearest: str = Field(description="the id of the member that it is nearest to")
    verdict: str = Field(description="what holds between it and a member, or `disputed`; empty: nothing was said")
    said: list[Voice] = Field([], description="by whom: the newest verdict of each person")
    side_of: str = Field(
        "", description="the nearest side of its leaf, on whose card the page shows it; empty where it has its own"
    )
    sides: list[Side] = Field([], description="the other sides of its leaf, where it is the nearest of them")


class GroupPage(BaseModel):
    """Fragments that belong together, and the fragments most similar to all of them."""

    title: str
    confirmed: bool = Field(description="whether verdicts, and leaves of the catalogue, connect all of them")
    leaves: list[GroupLeaf]
    pairs: list[Edge] = Field(description="that hold it together: joins by verdict, then the nearest; nearness is 0")
    verdicts: list[VerdictLine] = Field(description="that hold between two of them")
    disputed: list[PairLine] = Field(description="of which people contradict each other")
    hide: list[str]
    candidates: list[GroupCandidate]


class Placed(BaseModel):
    """The position of a fragment on the table: its centre, x to the right and y down, in the table's unit."""

    x: float
    y: float
    turn: float = Field(description="degrees clockwise beyond upright")


class FitPiece(BaseModel):
    """A fragment on the table. Lengths are pixels of its upright view."""

    id: str
    name: str
    width: int
    height: int
    outline: list[tuple[float, float]] = Field(description="x, y around what is cut out")
    middle: tuple[float, float] = Field(description="what is laid on a point of the table")
    per_unit: float = Field(description="pixels for a unit of the table")
    pitch: float = Field(description="from line to line; 0 where it cannot be told")
    ruled: float = Field(description="y of one line")
    disagrees: bool = Field(description="the catalogue's height and width do not go with the photograph")
    lies: Placed


class FitPage(BaseModel):
    """Two fragments on one table."""

    unit: Literal["mm", "letters"] = Field(description="letters: heights of a letter, where a size is not known")
    a: FitPiece
    b: FitPiece
    box: tuple[float, float, float, float] = Field(description="x, y, width, height of what is shown of the table")
    number: int = Field(description="of the placement that is kept; 0: nobody has laid them yet")
    by: str
    at: str


class Place(BaseModel):
    """A placement of two fragments to store."""

    a: str
    b: str
    lies_a: Placed
    lies_b: Placed
    unit: Literal["mm", "letters"]
    by: str = Field("", description=SIGNS)


class Point(BaseModel):
    id: str
    name: str
    doubtful: bool
    x: float = Field(description="0 to 1")
    y: float


class NamedGroup(BaseModel):
    """A group near a fragment: joined by verdicts, or of one known join."""

    name: str
    ids: list[str] = Field(description="of its fragments, at most sixty")
    rank: int = Field(description="of its nearest fragment among the candidates")


class MapPage(BaseModel):
    """The collection in the plane: similar fragments are near; `/api/map/points` has all of them."""

    ready: bool
    problem: Sentence
    found: int = Field(description="how many fragments the map has")
    fine: bool = Field(description="false while neighbours are being brought together; what there is serves meanwhile")
    points: list[Point] = Field(description="an even selection, at most a thousand")
    columns: list[str] = Field(description="by which the map can be coloured")
    at: Card | None = Field(description="where one stands")
    neighbours: list[Candidate] = Field(description="where one can go from there, nearest first")
    near: list[NamedGroup] = Field(description="groups that its neighbours belong to, nearest first")


class MapGroup(BaseModel):
    name: str
    members: list[int] = Field(description="indices of points")


class MapPoints(BaseModel):
    """Every fragment of the map, column by column."""

    fine: bool
    ids: list[str]
    names: list[str]
    x: list[float] = Field(description="0 to 1")
    y: list[float]
    doubtful: list[int] = Field(description="indices of points")
    groups: list[MapGroup] = Field(description="joined by verdicts, or of one known join")


class MapColumn(BaseModel):
    """A column's value for every fragment of the map, in the order of the points."""

    name: str
    labels: list[str] = Field(description="of names: the most frequent; empty: the column holds numbers")
    values: list[float | None] = Field(description="numbers, or indices of labels; null: empty, or another name")
    low: float
    high: float
