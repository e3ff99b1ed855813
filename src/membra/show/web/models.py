"""Typed data of each page, from which both the templates and the JSON twins are made."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PlainSerializer, SkipValidation, field_validator

from membra.show.web.parameters import SIGNS
from membra.show.web.translations import say

# A sentence of the library, possibly a `Message`: unchanged for the templates, English in JSON.
Sentence = Annotated[str, SkipValidation, PlainSerializer(lambda said: say(said, "en"), return_type=str)]


class Card(BaseModel):
    """One fragment in a list."""

    id: str
    name: str = Field(description="shelfmark where a CSV gave one, else the id")
    letters: int
    note: str = Field(description="any of `few letters` and `doubtful`, with commas between, or nothing")
    doubtful: bool = Field(
        description="little reliable writing was found, so it is left out of proposals and likelihoods"
    )
    legibility: float = Field(description="0 to 1: how much reliable writing was found")
    angle: float | None = Field(
        description="degrees counter-clockwise by which the writing is turned; null where it cannot be told"
    )
    letter_height: float = Field(description="px of the photograph; 0 where it was not measured")
    photograph: str = Field(description="the id of the photograph that it is on")
    piece: int = Field(description="its number among the pieces of the photograph; 0 where that shows one")
    refused: Sentence = Field(description="why it could not be described; empty where it was")
    corrected: list[int] = Field(description="numbers of the corrections that it was described with")
    number: int = Field(description="another one whenever it is described anew")
    tags: list[str] = Field(description="that people put on it")
    bookmarked: list[str] = Field(description="by whom")
    notes: int = Field(description="how many there are; /api/notes has them")
    columns: dict[str, str]


class Coverage(BaseModel):
    """The outcome of indexing: every image counts in exactly one of the first three."""

    described: int
    few_letters: int
    refused: int
    doubtful: int = Field(description="of those described, with few letters or not")


class CollectionPage(BaseModel):
    """Fragments of the collection in shelfmark order."""

    collection: str
    coverage: Coverage
    q: str
    show: Literal["all", "described", "few", "doubtful", "refused"]
    keep: list[str] = Field(description="what alone is listed: tag:TAG, bookmarked, bookmarked:NAME")
    tags: dict[str, int] = Field(description="every tag, and on how many fragments it is")
    found: int
    page: int
    pages: int
    fragments: list[Card]


class Word(BaseModel):
    """One prototype of a fragment."""

    number: int
    share: float = Field(description="of the fragment's letters, 0 to 1")
    letters: list[int] = Field(description="indices of the boxes, most typical first")


class VerdictLine(BaseModel):
    """One entry of the verdict history."""

    number: int
    a: str
    b: str
    name_a: str = Field(description="shelfmark where a catalogue gave one, else the id")
    name_b: str
    library_a: str = Field(description="empty where no catalogue says it")
    library_b: str
    says: str
    by: str
    at: str
    note: str
    undone: bool
    undoes: int | None


class Voice(BaseModel):
    """One person's newest verdict on a pair."""

    by: str
    says: str


class PairLine(BaseModel):
    """All people's verdicts on one pair."""

    a: str
    b: str
    name_a: str = Field(description="shelfmark where a catalogue gave one, else the id")
    name_b: str
    library_a: str = Field(description="empty where no catalogue says it")
    library_b: str
    says: str = Field(description="what holds; `disputed` where one says join, and another same hand or no")
    each: list[VerdictLine] = Field(description="the newest verdict of each person, oldest first")


class View(BaseModel):
    """The upright view of a photograph, or of one piece of it."""

    width: int
    height: int
    matrix: list[float] = Field(
        description="a, b, c, d, e, f as in SVG, from pixels of the photograph to those of the view"
    )
    frames: list[tuple[float, float, float, float]] = Field(description="the boxes in the view, along the lines")


class Shown(BaseModel):
    """One photograph with its letters."""

    id: str
    upload: str
    name: str
    width: int
    height: int
    min_level: int = Field(description="of the tiles")
    max_level: int
    letter_height: float = Field(description="px of the photograph as displayed")
    legibility: float
    doubtful: bool
    angle: float | None = Field(
        description="degrees counter-clockwise by which the writing is turned; null where it cannot be told"
    )
    piece: int = Field(description="its number among the pieces of the photograph; 0 where that shows one")
    outline: list[tuple[int, int]] = Field(description="x, y around the piece; empty: all of the photograph")
    boxes: list[tuple[int, int, int, int]] = Field(description="x, y, width, height in the photograph as displayed")
    view: View
    columns: dict[str, str] = Field(description="what the catalogue says of it")


class PlatePiece(BaseModel):
    """One of the pieces of a photograph, and its outline."""

    card: Card
    outline: list[tuple[int, int]]


class Plate(BaseModel):
    """A photograph of several pieces."""

    photograph: str
    width: int
    height: int
    pieces: list[PlatePiece] = Field(description="in reading order, the fragment itself included")


class CorrectionLine(BaseModel):
    """One entry of a photograph's corrections."""

    number: int
    photograph: str
    fragment: str = Field(description="the id when it was corrected")
    kind: str = Field(description="turn, up, crop, paint-out, drop-letters, split, join, pieces; or undo")
    value: Any = Field(description="in pixels of the photograph as displayed; docs/formats.md has it for each kind")
    where: list[tuple[int, int]] = Field(description="outline of the piece that is meant; empty: all of the photograph")
    by: str
    at: str
    note: str
    undone: bool
    undoes: int | None
    holds: bool = Field(description="whether it was not taken back, and is of the photograph as it is")


class AnnotationLine(BaseModel):
    """One note, tag, bookmark or edit of a fragment, or its undo."""

    number: int
    photograph: str
    fragment: str = Field(description="the id when this was said; that of the photograph for all pieces on it")
    kind: str = Field(description="note, tag, bookmark, column (what the catalogue should say); or undo")
    name: str = Field(description="of the tag or the column")
    text: str = Field(description="the note, or what the column is to say")
    before: str = Field(description="what the column said")
    by: str
    at: str
    undoes: int | None
    undone: bool


class FragmentPage(BaseModel):
    """One fragment, its letters and its prototypes."""

    card: Card
    shown: Shown | None = Field(description="null where the image cannot be shown; `problem` says why")
    problem: Sentence
    words: list[Word]
    plate: Plate | None = Field(description="the pieces that lie beside it; null where the photograph shows one")
    verdicts: list[VerdictLine] = Field(description="those that hold")
    pairs: list[PairLine] = Field(description="what people say of it and others, disputed pairs too")
    group: list[Card] = Field(description="the confirmed join that it belongs to, itself included")
    leaf: list[Card] = Field(description="the sides of its leaf, itself included; empty where it has no other")
    corrections: list[CorrectionLine] = Field(description="of its photograph, newest first")
    said: list[AnnotationLine] = Field(description="everything that was said of it, newest first")
    tags: list[str] = Field(description="that there are in this collection")
    uncorrected: bool = Field(description="whether it was corrected and not described again yet")
    previous: str | None
    next: str | None


class Side(BaseModel):
    """Another side of a candidate's leaf."""

    card: Card
    rank: int | None = Field(description="among all fragments; null where it is far down, or filtered out")
    distance: float | None
    verdict: str = Field(description="what holds for it, or `disputed`; empty where nothing was said")
    said: list[Voice] = Field([], description="by whom: the newest verdict of each person")


class AgreementLine(BaseModel):
    """The agreement of the query's letters with a fragment."""

    kinds: int = Field(
        description="how many of the query's kinds of letter agree: nearer than with nineteen strangers in twenty"
    )
    of: int = Field(description="how many kinds the query has")
    usual: int = Field(description="how many agree with the middle one of the strangers")
    nearer: float = Field(description="share of the strangers that the fragment is nearer than, 0 to 1")
    strangers: int = Field(description="how many those are")
    letters: list[int] = Field(description="boxes of the query: a letter of each of the kinds that agree best")
    said: list[Sentence] = Field(description="the same in words")


class Candidate(BaseModel):
    """One fragment that may belong to the query."""

    rank: int = Field(description="among all, before filters")
    distance: float
    likelihood: float | None = Field(
        description="of a join, 0 to 1, as verdicts have refined it; null where one is doubtful, or by another method"
    )
    agreement: AgreementLine | None = Field(
        description="null where one is doubtful, by another method, or among too few fragments"
    )
    card: Card
    verdict: str = Field(description="what holds for this pair, or `disputed`; empty where nothing was said")
    said: list[Voice] = Field(description="by whom: the newest verdict of each person")
    known: bool = Field(description="whether both are known to be of one manuscript")
    identical: bool = Field(description="whether it is the same photograph as the query, byte for byte: no join")
    side_of: str = Field(
        "", description="the nearest side of its leaf, on whose card the page shows it; empty where it has its own"
    )
    sides: list[Side] = Field([], description="the other sides of its leaf, where it is the nearest of them")


class Calibration(BaseModel):
    """The number of known pairs of this collection that refined the likelihoods."""

    joins: int
    others: int


class CandidatesPage(BaseModel):
    """The candidates for a fragment or a dropped image, a screen at a time."""

    query: Card | None
    leaf: list[str] = Field(description="ids of the sides of its leaf, its own included; empty where it has no other")
    upload: str
    name: str
    doubtful: bool = Field(description="of the query")
    method: str
    calibration: Calibration | None = Field(description="null: nothing is known of this collection yet")
    sorted: bool = Field(description="whether by something else than nearness")
    unusual: float = Field(description="likelihood below which a candidate is nothing unusual")
    learning: bool = Field(description="whether the likelihoods are being worked out; ask again")
    hide: list[str] = Field(description="what is left out")
    keep: list[str] = Field(description="what alone is kept")
    filters: dict[str, str | list[str]] = Field(description="all filters, as parameters of the request")
    columns: list[str] = Field(description="columns in which the query says something, for `same:COLUMN`")
    choices: dict[str, list[str]] = Field(
        description="columns to filter by, each with its values, for `is:COLUMN:VALUE`"
    )
    tags: list[str] = Field(description="that there are in this collection, for `tag:TAG`")
    screen: int
    screens: int
    candidates: list[Candidate]


class MatchLine(BaseModel):
    """Two prototypes that match."""

    number: int
    word_a: int
    word_b: int
    distance: float
    share: float
    mutual: bool
    agrees: bool = Field(False, description="whether word a agrees with its nearest, word b; on the comparison alone")
    letters_a: list[int] = Field(description="indices of the boxes of a")
    letters_b: list[int]


class ComparePage(BaseModel):
    """Two fragments side by side, with the evidence."""

    a: Shown
    b: Shown
    heights: tuple[float, float] = Field(
        description="px of a letter in the photographs of a and b, by the letters that match: so they are of one height"
    )
    distance: float | None = Field(description="null where the search does not compare the two")
    rank: int | None = Field(
        description="of b among the candidates for a; null where it is far down in a large collection"
    )
    likelihood: float | None
    agreement: AgreementLine | None = Field(
        description="null where one is doubtful, by another method, or among too few fragments"
    )
    learning: bool
    matches: list[MatchLine]
    identical: bool = Field(description="whether both are the same photograph, byte for byte")
    standing: VerdictLine | None = Field(description="what holds; null where nothing was said, or it is disputed")
    pair: PairLine | None = Field(description="what each person says; null where nothing was said")
    history: list[VerdictLine]
    previous: str | None = Field(description="the candidate before b")
    next: str | None = Field(description="the candidate after b")


class Edge(BaseModel):
    a: str
    b: str
    distance: float
    nearness: float
    verdict: str = Field(description="what holds, or `disputed`; empty where nothing was said")
    said: list[Voice] = Field([], description="by whom: the newest verdict of each person")


class VerdictsPage(BaseModel):
    """All verdicts, newest first, and the groups that follow from them."""

    found: int
    page: int
    pages: int
    history: list[VerdictLine]
    standing: dict[str, int] = Field(description="how many pairs of each kind hold")
    agreed: int = Field(description="of these, those of which two people or more say so")
    disputed: list[PairLine] = Field(description="pairs that one calls a join, and another same hand or no")
    groups: list[list[Card]] = Field(description="confirmed joins")
    conflicts: list[VerdictLine] = Field(description="pairs of one group of which somebody said no")


class Given(BaseModel):
    """A verdict to give."""

    a: str
    b: str
    says: Literal["join", "same-hand", "unsure", "no"] = Field(description="as `membra decide` spells it")
    by: str = Field("", description=SIGNS)
    note: str = ""

    @field_validator("says", mode="before")
    @classmethod
    def _spelt(cls, says: object) -> object:
        """Accept `same hand`, the spelling of histories and exports."""
        return says.replace(" ", "-") if isinstance(says, str) else says


class Undo(BaseModel):
    """An entry to take back."""

    number: int
    by: str = Field("", description=SIGNS)


class Token(BaseModel):
    """To be sent as the header X-Membra-Token with every POST."""

    token: str


class Problem(BaseModel):
    """An error: its message, code, and the values in the message."""

    error: Sentence
    code: str = Field(description="the kind, of which membra/errors.py has the list: `not-found`, `busy`, ...")
    values: dict[str, str | int | float] = Field(description="what the sentence names; files without their folders")
