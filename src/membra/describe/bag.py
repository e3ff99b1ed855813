"""A fragment's own small vocabulary: its embeddings clustered into prototypes with masses."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from membra.describe.kmeans import kmeans
from membra.errors import Invalid, NotEnough


@dataclass(frozen=True)
class BagSettings:
    """How many visual words a fragment gets, and how k-means looks for them."""

    words: int = 20  # K of the paper; where `letters_per_word` is set, the most
    letters_per_word: int = 0  # 0: always `words`; else one word for so many glyphs
    min_words: int = 4  # lower end where K goes by the number of glyphs
    clusters: Literal["scikit-learn", "membra"] = "scikit-learn"  # whose k-means: the authors', or our quicker one
    full_length: bool = False  # words as long as their letters; a mean of many is shorter, and near to everything
    company: float = 0.0  # share of the fragment's mean embedding that is added to each of its embeddings
    restarts: int = 10  # k-means runs, of which the tightest is kept
    seed: int = 42  # of k-means; the authors' value


class Bag:
    """The bag of one fragment: B(I) = {(mu_a, pi_a)}.

    Attributes
    ----------
    prototypes : (K, d) float32
        The centre mu_a of each cluster.
    weights : (K,) float64
        Its share pi_a of the fragment's glyphs; sums to 1.
    members : (n,) int32 or None
        The cluster a(i) of each glyph; None where it is not known.
    error : float
        eps_I, the mean distance of an embedding to its prototype (the paper's proposition).
    """

    __slots__ = ("error", "members", "prototypes", "weights")

    def __init__(
        self, prototypes: ArrayLike, weights: ArrayLike, members: ArrayLike | None = None, error: float = 0.0
    ) -> None:
        self.prototypes = np.ascontiguousarray(prototypes, dtype=np.float32)
        masses = np.asarray(weights, dtype=np.float64)
        self.members = None if members is None else np.asarray(members, dtype=np.int32)
        self.error = float(error)
        if self.prototypes.ndim != 2 or len(self.prototypes) == 0:
            raise Invalid(
                "a bag needs prototypes of shape (K, d) with K >= 1, not {shape}", shape=str(self.prototypes.shape)
            )
        if masses.shape != (len(self.prototypes),) or (masses < 0).any() or not masses.sum() > 0:
            raise Invalid(
                "a bag of {count} prototypes needs as many weights, none negative", count=len(self.prototypes)
            )
        self.weights: NDArray[np.float64] = masses / masses.sum()

    def __len__(self) -> int:
        return len(self.prototypes)

    def __repr__(self) -> str:
        return f"Bag(K={len(self)}, d={self.prototypes.shape[1]}, error={self.error:.3f})"


def make_bag(embeddings: NDArray[np.float32], settings: BagSettings) -> Bag:
    """Cluster `embeddings` (n, d), n >= 1, into a bag by k-means.

    With fewer distinct embeddings than words, each becomes a word of its own.
    """
    if len(embeddings) == 0:
        raise NotEnough("a fragment without glyphs has no bag")
    distinct, which = np.unique(embeddings, axis=0, return_inverse=True)
    count = prototype_count(len(embeddings), settings)
    if len(distinct) <= count:
        members = which.reshape(-1)
        return Bag(distinct, np.bincount(members), members, 0.0)
    if settings.clusters == "membra":
        centres, own = kmeans(embeddings, count, settings.restarts, settings.seed)
        if settings.full_length:
            centres = _lengthened(centres, embeddings, own)
        return Bag(centres, np.bincount(own), own, quantisation_error(embeddings, centres, own))
    from sklearn.cluster import KMeans  # here, because it takes a second to load
    from threadpoolctl import threadpool_limits

    # One thread: k-means of a few hundred points loses more by sharing them than it gains, and sums stay the same.
    with threadpool_limits(limits=1):
        found = KMeans(count, n_init=settings.restarts, random_state=settings.seed).fit(embeddings)
    members = found.labels_
    counts = np.bincount(members, minlength=count)
    return Bag(found.cluster_centers_, counts, members, quantisation_error(embeddings, found.cluster_centers_, members))


def in_company(embeddings: NDArray[np.float32], settings: BagSettings) -> NDArray[np.float32]:
    """Embeddings (n, d), each with a share of the mean of all added: a letter counts more in the company it is in.

    Chamfer then compares single letters and, in each of them, the hands as a whole; where the letters of a fragment
    have little in common, their mean is short and says little. docs/decisions/letters-in-company.md has the figures.

    >>> in_company(np.array([[0.0, 2.0], [2.0, 0.0]], np.float32), BagSettings(company=0.5)).tolist()
    [[0.5, 2.5], [2.5, 0.5]]
    """
    if not settings.company or not len(embeddings):
        return embeddings
    return np.asarray(embeddings + settings.company * embeddings.mean(axis=0, dtype=np.float64), dtype=np.float32)


def alone(embeddings: NDArray[np.float32], settings: BagSettings) -> NDArray[np.float32]:
    """What `in_company` was given, to rounding: embeddings (n, d) as each letter has them by itself.

    >>> alone(np.array([[0.5, 2.5], [2.5, 0.5]], np.float32), BagSettings(company=0.5)).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    if not settings.company or not len(embeddings):
        return embeddings
    share = settings.company / (1 + settings.company)
    return np.asarray(embeddings - share * embeddings.mean(axis=0, dtype=np.float64), dtype=np.float32)


def prototype_count(glyphs: int, settings: BagSettings) -> int:
    """K for a fragment with so many glyphs."""
    if settings.letters_per_word == 0:
        return settings.words
    return int(np.clip(glyphs // settings.letters_per_word, settings.min_words, settings.words))


def _lengthened(
    centres: NDArray[np.float32], embeddings: NDArray[np.float32], members: NDArray[np.int32]
) -> NDArray[np.float32]:
    """The centres (K, d), each as long as its members are on average."""
    lengths = np.bincount(members, np.linalg.norm(embeddings, axis=1)) / np.bincount(members)
    now = np.linalg.norm(centres, axis=1)
    return np.asarray(centres * (lengths / np.maximum(now, 1e-12))[:, None], dtype=np.float32)


def quantisation_error(
    embeddings: NDArray[np.float32], prototypes: NDArray[np.float32], members: NDArray[np.int32]
) -> float:
    """eps_I = (1/n) sum_i ||z_i - mu_a(i)||: how far the bag stands from the embeddings (n, d) themselves."""
    return float(np.linalg.norm(embeddings.astype(np.float64) - prototypes[members], axis=1).mean())
