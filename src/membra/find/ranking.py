"""The result of a search: the candidates of one query, nearest first."""

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
        Rank from 1, the nearest.
    id, image : str
        Id of the fragment, and path of its photograph.
    distance : float
        Comparable within one collection and method.
    photograph : str
        The id of the photograph that it is on.
    piece : int
        Its number on the photograph; 0 if the photograph is one fragment.
    angle : float or None
        Rotation of its writing in degrees counter-clockwise; None if it is undetermined.
    letter_height : float
        px in the photograph; 0: not measured.
    legibility : float
        0 to 1: how much reliable writing was found.
    note : str
        Any of `few letters`, `doubtful`, `turned`, separated by commas.
    collection : str
        The folder of its collection, if several were searched.
    probability : float or None
        Probability that it is of the query's manuscript, 0 to 1 (`find/probability.py`); None by other methods than the
        default, if either fragment is doubtful, and if several collections or a cluster were searched.
    agreement : Agreement or None
        The query's kinds of letter that agree with it (`find/agreement.py`); None unless requested, if the probability
        is None, and among too few fragments.
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
        scores = {"probability": probability, "agreement": agreement}
        return cls(rank, own.id, str(own.path), distance, *seen, **scores)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ranking:
    """The candidates for one query.

    Attributes
    ----------
    query, method : str
        The query, and the name of the method.
    hits : list of Hit
        Nearest first.
    solved : int or None
        Number of pairs compared by the plain formula; bounds excluded the others. None for methods without bounds.
    shortlist : RecallEstimate or None
        The measured recall of such a shortlist, if the search used one.
    piece : int
        Number of the piece of the query's photograph that was used; 0 if the photograph is one fragment.
    """

    query: str
    method: str
    hits: list[Hit]
    solved: int | None = None
    shortlist: RecallEstimate | None = None
    piece: int = 0
