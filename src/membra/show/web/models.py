"""Typed data of each page, from which both the templates and the JSON twins are made."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PlainSerializer, SkipValidation, field_validator

from membra.show.web import fields
from membra.show.web.parameters import SIGNS
from membra.show.web.translations import say

# A sentence of the library, possibly a `Message`: unchanged for the templates, English in JSON.
Sentence = Annotated[str, SkipValidation, PlainSerializer(lambda said: say(said, "en"), return_type=str)]


class Card(BaseModel):
    """One fragment in a list."""

    id: str = Field(description="the photograph's path below its source, with `#` and a number if it shows several")
    name: str = Field(description=fields.NAME)
    letters: int = Field(description="number of letters found")
    note: str = Field(
        description="warnings, separated by commas: `few letters`, `doubtful`, `turned` (lines run up or down)"
    )
    doubtful: bool = Field(description="whether little reliable writing was found: no proposals, no likelihood")
    legibility: float = Field(description=fields.LEGIBILITY)
    angle: float | None = Field(description=fields.ANGLE)
    letter_height: float = Field(description="letter height, px of the photograph; 0 if it was not measured")
    photograph: str = Field(description="id of the photograph that shows the fragment")
    piece: int = Field(description=fields.PIECE)
    refused: Sentence = Field(description="why the fragment could not be described; empty if it was")
    corrected: list[int] = Field(description="numbers of the corrections that its description includes")
    number: int = Field(description="number of the description; changes when the fragment is described again")
    tags: list[str] = Field(description="tags that people gave it")
    bookmarked: list[str] = Field(description="names of the people who bookmarked it")
    notes: int = Field(description="number of notes; /api/notes returns them")
    columns: dict[str, str] = Field(description=fields.COLUMNS)


class Coverage(BaseModel):
    """Results of indexing: each fragment is counted in exactly one of the first three."""

    described: int = Field(description="fragments that were described, without those with few letters")
    few_letters: int = Field(description="fragments that were described, with few letters")
    refused: int = Field(description="fragments that could not be described")
    doubtful: int = Field(description="doubtful ones among the described, with few letters or not")


class CollectionPage(BaseModel):
    """Fragments of the collection in shelfmark order."""

    collection: str = Field(description="name of the collection's folder")
    coverage: Coverage
    q: str = Field(description="search words of the request")
    show: Literal["all", "described", "few", "doubtful", "refused"]
    keep: list[str] = Field(description="filters of the request: tag:TAG, bookmarked, bookmarked:NAME; all must match")
    tags: dict[str, int] = Field(description="every tag of the collection, with its number of fragments")
    found: int = Field(description=fields.FOUND)
    page: int = Field(description=fields.PAGE)
    pages: int = Field(description=fields.PAGES)
    fragments: list[Card]


class Word(BaseModel):
    """One prototype of a fragment."""

    number: int = Field(description="index of the prototype")
    share: float = Field(description="share of the fragment's letters that belong to it, 0 to 1")
    letters: list[int] = Field(description="indices of its letters in `boxes`, most typical first")


class VerdictLine(BaseModel):
    """One entry of the verdict history."""

    number: int = Field(description=fields.NUMBER)
    a: str = Field(description="id of the first fragment; a < b")
    b: str = Field(description="id of the second fragment")
    name_a: str = Field(description=fields.NAME)
    name_b: str
    library_a: str = Field(description=fields.LIBRARY)
    library_b: str
    says: str = Field(description="join, same hand, unsure, no; or undo")
    by: str = Field(description=fields.AUTHOR)
    at: str = Field(description=fields.TIME)
    note: str = Field(description=fields.NOTE)
    undone: bool = Field(description=fields.UNDONE)
    undoes: int | None = Field(description=fields.UNDOES)


class Voice(BaseModel):
    """One person's newest verdict on a pair."""

    by: str
    says: str


class PairLine(BaseModel):
    """All people's verdicts on one pair."""

    a: str = Field(description="id of the first fragment; a < b")
    b: str = Field(description="id of the second fragment")
    name_a: str = Field(description=fields.NAME)
    name_b: str
    library_a: str = Field(description=fields.LIBRARY)
    library_b: str
    says: str = Field(description="verdict in force; `disputed` if one says join, another same hand or no")
    each: list[VerdictLine] = Field(description="the newest verdict of each person, oldest first")


class View(BaseModel):
    """The upright view of a photograph, or of one piece of it."""

    width: int = Field(description="px")
    height: int = Field(description="px")
    matrix: list[float] = Field(
        description="a, b, c, d, e, f of an SVG matrix, from pixels of the photograph to pixels of the view"
    )
    frames: list[tuple[float, float, float, float]] = Field(
        description="x, y, width, height of each letter in the view, aligned with the lines of text"
    )


class Shown(BaseModel):
    """One photograph with its letters."""

    id: str = Field(description="id of the fragment; empty for an uploaded image")
    upload: str = Field(description="key of the uploaded image; empty for a fragment")
    name: str = Field(description="shelfmark, id, or file name of an uploaded image")
    width: int = Field(description="width of the photograph as displayed, px")
    height: int = Field(description="height of the photograph as displayed, px")
    min_level: int = Field(description="zoom level at which the photograph fits into one tile")
    max_level: int = Field(description="zoom level of full size; each level doubles the size")
    letter_height: float = Field(description="letter height, px of the photograph as displayed; 0 if unknown")
    legibility: float = Field(description=fields.LEGIBILITY)
    doubtful: bool = Field(description="whether little reliable writing was found")
    angle: float | None = Field(description=fields.ANGLE)
    piece: int = Field(description=fields.PIECE)
    outline: list[tuple[int, int]] = Field(description="x, y of the piece's outline; empty for the whole photograph")
    boxes: list[tuple[int, int, int, int]] = Field(
        description="x, y, width, height of each letter, px of the photograph as displayed"
    )
    view: View
    columns: dict[str, str] = Field(description=fields.COLUMNS)


class PlatePiece(BaseModel):
    """One of the pieces of a photograph, and its outline."""

    card: Card
    outline: list[tuple[int, int]] = Field(description="x, y in pixels of the photograph as displayed")


class Plate(BaseModel):
    """A photograph of several pieces."""

    photograph: str = Field(description="id of the photograph")
    width: int = Field(description="px")
    height: int = Field(description="px")
    pieces: list[PlatePiece] = Field(description="all pieces in reading order, the fragment itself included")


class CorrectionLine(BaseModel):
    """One entry of a photograph's corrections."""

    number: int = Field(description=fields.NUMBER)
    photograph: str = Field(description="id of the photograph")
    fragment: str = Field(description="id of the fragment at the time of the correction")
    kind: str = Field(description="turn, up, crop, paint-out, drop-letters, split, join, pieces; or undo")
    value: Any = Field(description="in pixels of the photograph as displayed; docs/formats.md describes each kind")
    where: list[tuple[int, int]] = Field(description="x, y around the corrected piece; empty for the whole photograph")
    by: str = Field(description=fields.AUTHOR)
    at: str = Field(description=fields.TIME)
    note: str = Field(description=fields.NOTE)
    undone: bool = Field(description=fields.UNDONE)
    undoes: int | None = Field(description=fields.UNDOES)
    holds: bool = Field(
        description="whether the correction is in force: not undone, and made for the photograph's current bytes"
    )


class AnnotationLine(BaseModel):
    """One note, tag, bookmark or edit of a fragment, or its undo."""

    number: int = Field(description=fields.NUMBER)
    photograph: str = Field(description="id of the photograph")
    fragment: str = Field(
        description="id of the fragment at that time; the photograph's id if all its pieces are meant"
    )
    kind: str = Field(description="note, tag, bookmark, column (an edit of the metadata); or undo")
    name: str = Field(description="name of the tag or of the column; empty for other kinds")
    text: str = Field(description="the note, or the new value of the column; an empty value clears the column")
    before: str = Field(description="previous value of the column")
    by: str = Field(description=fields.AUTHOR)
    at: str = Field(description=fields.TIME)
    undoes: int | None = Field(description=fields.UNDOES)
    undone: bool = Field(description=fields.UNDONE)


class FragmentPage(BaseModel):
    """One fragment, its letters and its prototypes."""

    card: Card
    shown: Shown | None = Field(description="null if the image cannot be displayed; `problem` has the reason")
    problem: Sentence = Field(description="why the fragment could not be described or displayed; else empty")
    words: list[Word] = Field(description="its prototypes, those with the most letters first; empty if not described")
    plate: Plate | None = Field(description="all pieces of its photograph; null if it shows only one")
    verdicts: list[VerdictLine] = Field(description="the verdicts in force on pairs with this fragment")
    pairs: list[PairLine] = Field(description="each person's verdicts on pairs with it, disputed ones included")
    group: list[Card] = Field(description="fragments joined with it by verdicts, itself included; may be empty")
    leaf: list[Card] = Field(description="the sides of its leaf, itself included; empty if it has no other")
    corrections: list[CorrectionLine] = Field(description="all corrections of its photograph, newest first")
    said: list[AnnotationLine] = Field(description="its notes, tags, bookmarks and edits, newest first")
    tags: list[str] = Field(description="all tags of the collection, most frequent first")
    uncorrected: bool = Field(description="whether the corrections in force differ from `card.corrected`")
    previous: str | None = Field(description="id of the fragment before it in shelfmark order; null for the first")
    next: str | None = Field(description="id of the fragment after it in shelfmark order; null for the last")


class Side(BaseModel):
    """Another side of a candidate's leaf."""

    card: Card
    rank: int | None = Field(description="rank among all fragments; null if it is far down or filtered out")
    distance: float | None = Field(description="distance from the query; null like `rank`")
    verdict: str = Field(description=fields.VERDICT)
    said: list[Voice] = Field([], description=fields.VOICES)


class AgreementLine(BaseModel):
    """Agreement of the query's letters with a fragment, beside that with strangers: fragments not near the query."""

    kinds: int = Field(
        description="number of the query's kinds of letter that agree: nearer than with 95 % of the strangers"
    )
    of: int = Field(description="number of the query's kinds of letter")
    usual: int = Field(description="median number of kinds that agree with a stranger")
    nearer: float = Field(description="share of the strangers that are farther from the query, 0 to 1")
    strangers: int = Field(description="number of strangers that `nearer` is computed over")
    letters: list[int] = Field(
        description="indices in the query's boxes: a letter of each of the three best agreeing kinds"
    )
    said: list[Sentence] = Field(description="the same as English sentences")


class Candidate(BaseModel):
    """One fragment that may belong to the query."""

    rank: int = Field(description="rank among all fragments, from 1, before filters")
    distance: float = Field(description="distance from the query by the collection's method; smaller is closer")
    likelihood: float | None = Field(
        description="probability of a join, 0 to 1, refined by the verdicts; null if either fragment is doubtful, or "
        "the method has none"
    )
    agreement: AgreementLine | None = Field(description=fields.AGREEMENT)
    card: Card
    verdict: str = Field(description=fields.VERDICT)
    said: list[Voice] = Field(description=fields.VOICES)
    known: bool = Field(description="whether both are known to be of one manuscript: by catalogue, verdicts or leaf")
    identical: bool = Field(description="whether its photograph has the same bytes as the query's; a copy is no join")
    side_of: str = Field("", description=fields.SIDE_OF)
    sides: list[Side] = Field([], description=fields.SIDES)


class Calibration(BaseModel):
    """Numbers of pairs of this collection with known truth, by which the likelihoods were refined."""

    joins: int
    others: int


class CandidatesPage(BaseModel):
    """The candidates for a fragment or an uploaded image, one screen at a time."""

    query: Card | None = Field(description="null for an uploaded image")
    leaf: list[str] = Field(description="ids of the sides of its leaf, itself included; empty if it has no other")
    upload: str = Field(description="key of the uploaded image; empty for a fragment")
    name: str = Field(description="shelfmark, id, or file name of an uploaded image")
    doubtful: bool = Field(description="whether little reliable writing was found on the query")
    method: str = Field(description="name of the comparison method")
    calibration: Calibration | None = Field(description="null if no join of this collection is known yet")
    sorted: bool = Field(description="whether the order is another than by distance")
    unusual: float = Field(description="likelihood below which a candidate does not stand out from the others")
    learning: bool = Field(description=fields.LEARNING)
    hide: list[str] = Field(description="filters of the request whose matches are left out")
    keep: list[str] = Field(description="filters of the request that all candidates match")
    filters: dict[str, str | list[str]] = Field(description=fields.FILTERS)
    columns: list[str] = Field(description="columns in which the query has a value, for the filter same:COLUMN")
    choices: dict[str, list[str]] = Field(description="values of each column, for the filter is:COLUMN:VALUE")
    tags: list[str] = Field(description="all tags of the collection, for the filter tag:TAG")
    screen: int = Field(description=fields.SCREEN)
    screens: int = Field(description=fields.SCREENS)
    candidates: list[Candidate]


class MatchLine(BaseModel):
    """Two prototypes that match."""

    number: int = Field(description="position, from 1, best first")
    word_a: int = Field(description="index of the prototype of a")
    word_b: int = Field(description="index of the prototype of b")
    distance: float = Field(description="distance between the two prototypes")
    share: float = Field(description="share of all letters of both fragments that are of this kind, 0 to 1")
    mutual: bool = Field(description="whether each is the nearest of the other")
    agrees: bool = Field(
        False, description="whether word_a is a kind that agrees (`agreement`) and word_b its nearest; in /api/compare"
    )
    letters_a: list[int] = Field(description="indices of the letters of this kind in the boxes of a")
    letters_b: list[int] = Field(description="indices of the letters of this kind in the boxes of b")


class ComparePage(BaseModel):
    """Two fragments side by side, with the evidence."""

    a: Shown
    b: Shown
    heights: tuple[float, float] = Field(
        description="height of the matching letters in the photographs of a and b, px, to display both at one scale"
    )
    distance: float | None = Field(description="null if the search does not compare the two")
    rank: int | None = Field(description="rank of b among the candidates for a; null if far down in a large collection")
    likelihood: float | None = Field(description="probability of a join, 0 to 1, as among the candidates; may be null")
    agreement: AgreementLine | None = Field(description=fields.AGREEMENT)
    learning: bool = Field(description=fields.LEARNING)
    matches: list[MatchLine] = Field(description="best first, at most 24")
    identical: bool = Field(description="whether both photographs have the same bytes")
    standing: VerdictLine | None = Field(description="the verdict in force; null if there is none or it is disputed")
    pair: PairLine | None = Field(description="each person's verdict on the pair; null if there are none")
    history: list[VerdictLine] = Field(description="all entries on the pair, oldest first")
    previous: str | None = Field(description="id of the candidate before b; null if there is none")
    next: str | None = Field(description="id of the candidate after b; null if there is none")


class Edge(BaseModel):
    """A pair of fragments of a group or of a proposed join."""

    a: str = Field(description="id of the first fragment")
    b: str = Field(description="id of the second fragment")
    distance: float
    nearness: float = Field(description="distance divided by the typical distance; smaller is closer")
    verdict: str = Field(description=fields.VERDICT)
    said: list[Voice] = Field([], description=fields.VOICES)


class VerdictsPage(BaseModel):
    """All verdicts, newest first, and the groups that follow from them."""

    found: int = Field(description="number of entries on all pages")
    page: int = Field(description=fields.PAGE)
    pages: int = Field(description=fields.PAGES)
    history: list[VerdictLine] = Field(description="entries, undone ones and undos included")
    standing: dict[str, int] = Field(description="number of pairs for each kind of verdict in force")
    agreed: int = Field(description="number of these pairs on which two people or more agree")
    disputed: list[PairLine] = Field(description="pairs on which one says join, another same hand or no")
    groups: list[list[Card]] = Field(description="fragments connected by join verdicts")
    conflicts: list[VerdictLine] = Field(description="verdicts `no` in force between two fragments of one group")


class Given(BaseModel):
    """A verdict to give."""

    a: str = Field(description="id of one fragment")
    b: str = Field(description="id of the other fragment")
    says: Literal["join", "same-hand", "unsure", "no"] = Field(description="spelt as in `membra decide`")
    by: str = Field("", description=SIGNS)
    note: str = Field("", description=fields.NOTE)

    @field_validator("says", mode="before")
    @classmethod
    def _spelt(cls, says: object) -> object:
        """Accept `same hand`, the spelling of histories and exports."""
        return says.replace(" ", "-") if isinstance(says, str) else says


class Undo(BaseModel):
    """An entry to undo."""

    number: int = Field(description="number of the entry")
    by: str = Field("", description=SIGNS)


class Token(BaseModel):
    """The token that every POST sends in the header X-Membra-Token."""

    token: str


class Problem(BaseModel):
    """An error: its message, code, and the values in the message."""

    error: Sentence = Field(description="the message, in English")
    code: str = Field(description="kind of the error, e.g. `not-found` or `busy`; membra/errors.py lists them")
    values: dict[str, str | int | float] = Field(description="values in the message; files without their folders")
