"""The bag of a fragment, its own small vocabulary: embeddings clustered into weighted prototypes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from membra.describe.kmeans import kmeans
from membra.errors import Invalid, NotEnough


@dataclass(frozen=True)
class BagSettings:
    """The number of prototypes of a fragment, and the k-means that finds them."""

    words: int = 20  # K of the paper; the maximum where `letters_per_word` is set
    letters_per_word: int = 0  # glyphs per prototype; 0: always `words` prototypes
    min_words: int = 4  # minimum of K where it depends on the number of glyphs
    clusters: Literal["scikit-learn", "membra"] = "scikit-learn"  # k-means: the authors', or the faster one of membra
    full_length: bool = False  # scale prototypes to their glyphs' mean norm; a mean is shorter, and close to everything
    company: float = 0.0  # share of the fragment's mean embedding that is added to each of its embeddings
    restarts: int = 10  # k-means runs, of which the one with the smallest inertia is kept
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
        The cluster a(i) of each glyph; None where it is unknown.
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
                "a bag of {count} prototypes needs {count} weights, none of them negative", count=len(self.prototypes)
            )
        self.weights: NDArray[np.float64] = masses / masses.sum()

    def __len__(self) -> int:
        return len(self.prototypes)

    def __repr__(self) -> str:
        return f"Bag(K={len(self)}, d={self.prototypes.shape[1]}, error={self.error:.3f})"


def make_bag(embeddings: NDArray[np.float32], settings: BagSettings) -> Bag:
    """Cluster `embeddings` (n, d), n >= 1, into a bag by k-means.

    With no more distinct embeddings than prototypes, each distinct one is a prototype.
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

    # One thread: for a few hundred points the overhead of threads exceeds their gain, and sums stay reproducible.
    with threadpool_limits(limits=1):
        found = KMeans(count, n_init=settings.restarts, random_state=settings.seed).fit(embeddings)
    members = found.labels_
    counts = np.bincount(members, minlength=count)
    return Bag(found.cluster_centers_, counts, members, quantisation_error(embeddings, found.cluster_centers_, members))


def in_company(embeddings: NDArray[np.float32], settings: BagSettings) -> NDArray[np.float32]:
    """Add a share (`company`) of the mean of all embeddings (n, d) to each of them.

    Chamfer distances then compare single glyphs and, in each of them, the fragment as a whole. Where the glyphs of a
    fragment have little in common, the norm of their mean is small and its effect too.
    docs/decisions/letters-in-company.md has the figures.

    >>> in_company(np.array([[0.0, 2.0], [2.0, 0.0]], np.float32), BagSettings(company=0.5)).tolist()
    [[0.5, 2.5], [2.5, 0.5]]
    """
    if not settings.company or not len(embeddings):
        return embeddings
    return np.asarray(embeddings + settings.company * embeddings.mean(axis=0, dtype=np.float64), dtype=np.float32)


def alone(embeddings: NDArray[np.float32], settings: BagSettings) -> NDArray[np.float32]:
    """Reverse `in_company`, up to rounding: return the encoder's embeddings (n, d).

    >>> alone(np.array([[0.5, 2.5], [2.5, 0.5]], np.float32), BagSettings(company=0.5)).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    if not settings.company or not len(embeddings):
        return embeddings
    share = settings.company / (1 + settings.company)
    return np.asarray(embeddings - share * embeddings.mean(axis=0, dtype=np.float64), dtype=np.float32)


def prototype_count(glyphs: int, settings: BagSettings) -> int:
    """Return K, the number of prototypes, for a fragment with this number of glyphs."""
    if settings.letters_per_word == 0:
        return settings.words
    return int(np.clip(glyphs // settings.letters_per_word, settings.min_words, settings.words))


def _lengthened(
    centres: NDArray[np.float32], embeddings: NDArray[np.float32], members: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Scale each centre (K, d) to the mean norm of its members."""
    lengths = np.bincount(members, np.linalg.norm(embeddings, axis=1)) / np.bincount(members)
    norms = np.linalg.norm(centres, axis=1)
    return np.asarray(centres * (lengths / np.maximum(norms, 1e-12))[:, None], dtype=np.float32)


def quantisation_error(
    embeddings: NDArray[np.float32], prototypes: NDArray[np.float32], members: NDArray[np.int32]
) -> float:
    """Return eps_I = (1/n) sum_i ||z_i - mu_a(i)||, the mean distance of the embeddings (n, d) to their prototypes."""
    return float(np.linalg.norm(embeddings.astype(np.float64) - prototypes[members], axis=1).mean())
