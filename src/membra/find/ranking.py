"""What a search brings: the candidates of one query, nearest first."""

from dataclasses import dataclass

from membra.find.agreement import Agreement
from membra.find.codes import RecallEstimate
from membra.store.manifest import Entry


@dataclass(frozen=True)
class Hit:
    """One candidate.

    Attributes
    ----------
    rank : int
        From 1, the nearest.
    id, image : str
        Of the fragment, and the path of its photograph.
    distance : float
        Comparable within one collection and method.
    photograph : str
        The id of the photograph that it is on.
    piece : int
        Its number there; 0 where the photograph shows one.
    angle : float or None
        Degrees counter-clockwise by which its writing is turned; None: it cannot be told.
    letter_height : float
        px in the photograph; 0: not measured.
    legibility : float
        0 to 1: how much trustworthy writing was found.
    note : str
        Any of `few letters`, `doubtful`, `turned`, with commas between.
    collection : str
        The folder of its collection, where several were asked.
    probability : float or None
        That it is of the query's manuscript, 0 to 1 (`find/probability.py`); None by other methods than the default
        one, where either may be no writing, and where several collections or a cluster were asked.
    agreement : Agreement or None
        How many kinds of letter of the query agree with it (`find/agreement.py`); None unless asked for, where the
        probability is None, and among too few fragments.
    """

    rank: int
    id: str
    image: str
    distance: float
    photograph: str = ""
    piece: int = 0
    angle: float | None = None
    letter_height: float = 0.0
    legibility: float = 1.0
    note: str = ""
    collection: str = ""
    probability: float | None = None
    agreement: Agreement | None = None

    @classmethod
    def of(
        cls,
        rank: int,
        entry: Entry,
        distance: float,
        probability: float | None = None,
        agreement: Agreement | None = None,
    ) -> "Hit":
        own = entry.fragment
        seen = (own.photograph, own.piece, entry.angle, entry.letter_height, entry.legibility, entry.note)
        said = {"probability": probability, "agreement": agreement}
        return cls(rank, own.id, str(own.path), distance, *seen, **said)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ranking:
    """The candidates for one query.

    Attributes
    ----------
    query, method : str
        What was asked with, and by which method.
    hits : list of Hit
        Nearest first.
    solved : int or None
        Pairs compared by the plain formula, where the others could be ruled out by bounds.
    shortlist : RecallEstimate or None
        What such a shortlist was measured to hold, where the search took one.
    piece : int
        Of the query's photograph that was asked with; 0 where it shows one.
    """

    query: str
    method: str
    hits: list[Hit]
    solved: int | None = None
    shortlist: RecallEstimate | None = None
    piece: int = 0
