"""Evidence for two fragments: the prototypes that match, and the boxes of their letters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.distance import costs
from membra.describe.bag import Bag, BagSettings, alone
from membra.describe.recipe import Description
from membra.errors import Invalid
from membra.find.agreement import Agreement
from membra.show.holding import Holding
from membra.show.upright import upright_sizes
from membra.store.collection import Collection
from membra.store.naming import find_id

# A letter is of a match's kind if it is within this distance of the midpoint of the two prototypes; unit-length
# embeddings, as the identity encoder gives them, differ by 0 to 2. On drawn joins 99.4 % of the letters found this way
# are the same letter of the alphabet, and they are 91 % of all such letters.
REACH = 0.6
MIN_KINDS = 3  # number of mutual matches from which the letter heights are taken from them, not from all letters


@dataclass(frozen=True)
class Match:
    """Two prototypes, one of each fragment, of which at least one is the other's nearest.

    Attributes
    ----------
    word_a, word_b : int
        Indices of the prototypes in the two bags.
    distance : float
        Distance between the prototypes.
    share : float
        Share of all letters of both fragments that are of this kind, 0 to 1.
    letters_a, letters_b : tuple of int
        Every letter of this kind, as indices into `Evidence.boxes_a` and `boxes_b`: the prototypes' own, most typical
        first, then others within reach of both prototypes.
    mutual : bool
        Whether each is the other's nearest.
    """

    word_a: int
    word_b: int
    distance: float
    share: float
    letters_a: tuple[int, ...]
    letters_b: tuple[int, ...]
    mutual: bool


@dataclass(frozen=True)
class Evidence:
    """Evidence that two fragments are of one manuscript.

    Attributes
    ----------
    a, b : str
        Ids of the fragments, or names of images.
    image_a, image_b : Path
        Their photographs.
    method : str
        The comparison method of `distance`.
    boxes_a, boxes_b : (n, 4) int32
        x, y, width, height of every letter in pixels of the photograph as displayed.
    height_a, height_b : float
        Letter height in the same pixels, by which both are brought to one size: that of the matching letters, so that
        a fragment of headings and one of small script are not shown equally high.
    angle_a, angle_b : float or None
        Degrees by which the writing is rotated counter-clockwise; None if unknown.
    doubtful_a, doubtful_b : bool
        Whether little reliable writing was found on it.
    outline_a, outline_b : (k, 2) int32
        x, y of the piece in a photograph of several; empty: all of the photograph.
    distance : float
        Distance by the collection's default method.
    rank : int
        The rank of b among a's candidates, from 1.
    matches : tuple of Match
        Best first: mutual ones first, both groups by distance.
    probability : float or None
        Probability that both are of one manuscript; None where a search gives none.
    agreement : Agreement or None
        Which kinds of letter of a agree with b; None if either is doubtful, or there are too few strangers.
    """

    a: str
    b: str
    image_a: Path
    image_b: Path
    method: str
    distance: float
    rank: int
    boxes_a: NDArray[np.int32]
    boxes_b: NDArray[np.int32]
    height_a: float
    height_b: float
    matches: tuple[Match, ...]
    angle_a: float | None = None
    angle_b: float | None = None
    doubtful_a: bool = False
    doubtful_b: bool = False
    outline_a: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    outline_b: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    probability: float | None = None
    agreement: Agreement | None = None

    @property
    def agreeing(self) -> frozenset[tuple[int, int]]:
        """The agreeing kinds of letter, each with its nearest on the other side: `word_a` and `word_b` of matches."""
        nearest: dict[int, Match] = {}
        for match in self.matches:  # every prototype of a has a match with its nearest
            known = nearest.setdefault(match.word_a, match)
            nearest[match.word_a] = min(known, match, key=lambda one: one.distance)
        kinds = self.agreement.kinds if self.agreement else ()
        return frozenset((kind, nearest[kind].word_b) for kind in kinds)


@dataclass(frozen=True)
class Subject:
    """A described image: its name, description and file, and the number of the piece."""

    name: str
    description: Description
    path: Path
    piece: int = 0  # 0: the photograph shows only one

    @property
    def outline(self) -> NDArray[np.int32]:
        """(k, 2) outline of the piece, by which the photograph is cropped; empty if it shows one piece."""
        return self.description.outline if self.piece else np.zeros((0, 2), np.int32)


def explain(collection: Collection, a: str, b: str) -> Evidence:
    """Explain why two fragments are near: the letters that match, and their boxes in both photographs.

    Parameters
    ----------
    collection : Collection
    a, b : str
        Ids or shelfmarks of two of its fragments.

    Returns
    -------
    Evidence

    Raises
    ------
    MembraError
        If a fragment is not in the collection or was not described, or both are the same.
    """
    return explain_in(Holding(collection), find_id(collection, a), find_id(collection, b))


def explain_in(holding: Holding, a: str, b: str) -> Evidence:
    """Return the evidence for two fragments of an open collection, see `explain`."""
    if a == b:
        raise Invalid("{id} is one fragment; give two to compare", id=a)
    first, second = _subject(holding, a), _subject(holding, b)
    distance, rank = holding.apart(a, b)
    agreement = holding.agreements(a, first.description, [b])[0]
    return evidence_of(first, second, holding, distance, rank, holding.probability(a, b), agreement)


def _subject(holding: Holding, id: str) -> Subject:
    description, fragment = holding.description(id), holding.entry(id).fragment
    return Subject(id, description, fragment.path, fragment.piece)


def evidence_of(
    first: Subject,
    second: Subject,
    holding: Holding,
    distance: float,
    rank: int,
    probability: float | None = None,
    agreement: Agreement | None = None,
) -> Evidence:
    """Return the evidence for two described images, with the recipe of `holding`."""
    one, other = first.description, second.description
    matches = match_words(one, other, holding.collection.recipe.bag)
    heights = matched_heights(one, other, matches)
    return Evidence(
        a=first.name,
        b=second.name,
        image_a=first.path,
        image_b=second.path,
        method=holding.collection.recipe.method,
        distance=distance,
        rank=rank,
        boxes_a=one.boxes,
        boxes_b=other.boxes,
        height_a=heights[0],
        height_b=heights[1],
        matches=matches,
        angle_a=one.angle,
        angle_b=other.angle,
        doubtful_a=one.doubtful,
        doubtful_b=other.doubtful,
        outline_a=first.outline,
        outline_b=second.outline,
        probability=probability,
        agreement=agreement,
    )


def match_words(a: Description, b: Description, settings: BagSettings | None = None) -> tuple[Match, ...]:
    """Return the matches of two fragments, best first; `settings` are those of their bags."""
    alone_a, alone_b = (_alone(description, settings or BagSettings()) for description in (a, b))
    # Embeddings that are not of unit length have no fixed scale; then only the prototypes' own letters are listed.
    scaled_a, scaled_b = (np.allclose((one**2).sum(axis=1), 1, atol=0.01) for one, _ in (alone_a, alone_b))
    distance = costs(a.bag, b.bag)
    forth = {(word, int(nearest)) for word, nearest in enumerate(distance.argmin(axis=1))}
    back = {(int(nearest), word) for word, nearest in enumerate(distance.argmin(axis=0))}
    own_a, own_b = letters_of(a), letters_of(b)
    total = max(1, len(a.boxes) + len(b.boxes))
    found = []
    for i, j in forth | back:
        letters_a, letters_b = own_a[i], own_b[j]
        middle = (alone_a[1][i] + alone_b[1][j]) / 2
        letters_a = _with_near(alone_a[0], letters_a, middle) if scaled_a else letters_a
        letters_b = _with_near(alone_b[0], letters_b, middle) if scaled_b else letters_b
        share = (len(letters_a) + len(letters_b)) / total
        mutual = (i, j) in forth and (i, j) in back
        found.append(Match(i, j, float(distance[i, j]), share, letters_a, letters_b, mutual))
    return tuple(sorted(found, key=lambda match: (not match.mutual, match.distance, match.word_a, match.word_b)))


def letters_of(description: Description) -> list[tuple[int, ...]]:
    """Return the letters of each prototype of a fragment as indices of the boxes, nearest to the prototype first."""
    bag = description.bag
    members = _members(bag, len(description.boxes))
    apart = np.linalg.norm(description.embeddings - bag.prototypes[members], axis=1)
    order = np.argsort(apart, kind="stable")
    return [tuple(order[members[order] == word].tolist()) for word in range(len(bag))]


def letter_height(description: Description) -> float:
    """Return the letter height in px of the photograph: measured, else the median of the boxes; 0 without letters."""
    if description.letter_height > 0:
        return description.letter_height
    heights = upright_sizes(description.boxes, description.angle)[:, 1]
    return float(np.median(heights)) if len(heights) else 0.0


def matched_heights(a: Description, b: Description, matches: Sequence[Match]) -> tuple[float, float]:
    """Return the letter height on both fragments, in px of each photograph, from the letters that match.

    The height of a, and that height times the weighted median over mutual matches of the ratio of the kind's median
    heights; the weight of a match is the number of letters of its rarer side. With fewer than `MIN_KINDS` such matches:
    each fragment's own letter height.
    """
    own = letter_height(a), letter_height(b)
    high_a, high_b = (upright_sizes(one.boxes, one.angle)[:, 1] for one in (a, b))
    ratios, weights = [], []
    for match in matches:
        if match.mutual:
            ratios.append(np.median(high_b[list(match.letters_b)]) / max(np.median(high_a[list(match.letters_a)]), 1.0))
            weights.append(min(len(match.letters_a), len(match.letters_b)))
    if len(ratios) < MIN_KINDS or not own[0]:
        return own
    order = np.argsort(ratios)
    reached = np.cumsum(np.array(weights)[order])
    return own[0], own[0] * float(np.array(ratios)[order][np.searchsorted(reached, reached[-1] / 2)])


def best_shown(matches: Sequence[Match], most: int) -> list[Match]:
    """Return the first `most` matches, without those whose typical letters earlier ones contain on both sides."""
    seen_a: set[int] = set()
    seen_b: set[int] = set()
    shown = []
    for match in matches:
        if match.letters_a[0] not in seen_a or match.letters_b[0] not in seen_b:
            shown.append(match)
        seen_a |= set(match.letters_a)
        seen_b |= set(match.letters_b)
    return shown[:most]


def _alone(description: Description, settings: BagSettings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return embeddings (n, d) and prototypes (K, d) of a fragment without the shift by its other letters (`alone`)."""
    embeddings = alone(description.embeddings, settings)
    shift = (description.embeddings - embeddings).mean(axis=0) if len(embeddings) else 0
    return embeddings, np.asarray(description.bag.prototypes - shift, dtype=np.float32)


def _with_near(embeddings: NDArray[np.float32], own: tuple[int, ...], middle: NDArray[np.float32]) -> tuple[int, ...]:
    """Return a prototype's letters, then the fragment's others within `REACH` of the match's midpoint (d,)."""
    distance = np.linalg.norm(embeddings - middle, axis=1)
    order = np.argsort(distance, kind="stable")
    return (*own, *(int(index) for index in order if distance[index] <= REACH and index not in own))


def _members(bag: Bag, letters: int) -> NDArray[np.int32]:
    if bag.members is None or len(bag.members) != letters:
        raise Invalid("this bag does not record the letters of its words; index the fragment again")
    return bag.members
