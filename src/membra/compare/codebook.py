"""Bag of words: one codebook for the whole collection, a tf-idf histogram for each fragment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.pooling import compare_vectors
from membra.errors import NotEnough

KINDS = ("raw", "centroids")  # what is counted: every embedding once, or each prototype by its number of glyphs


@dataclass(frozen=True)
class CodebookSettings:
    """The global codebook."""

    words: int = 100  # codewords, K_g of the paper
    restarts: int = 10  # k-means runs, of which the one with the smallest inertia is kept
    seed: int = 42  # the authors' value


@dataclass(frozen=True)
class Vocabulary:
    """A codebook, the inverse document frequencies of its codewords in N fragments, and their histograms.

    codebook : (K_g, d); idf : (K_g,) with idf[r] = log((N + 1) / (|{I: tf_I[r] > 0}| + 1)) + 1
    histograms : (N, K_g), tf-idf
    """

    codebook: NDArray[np.float32]
    idf: NDArray[np.float64]
    histograms: NDArray[np.float64]

    def histogram(self, vectors: NDArray[np.float32], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the tf-idf (K_g,) of one fragment's `vectors` (n, d), each counted `counts` (n,) times."""
        return term_frequencies(vectors, counts, self.codebook) * self.idf


def fit_codebook(
    vectors: Sequence[NDArray[np.float32]], counts: Sequence[NDArray[np.float64]], settings: CodebookSettings
) -> NDArray[np.float32]:
    """Fit a k-means codebook (K_g, d) to all fragments' vectors, each weighted by its count."""
    from sklearn.cluster import KMeans

    pooled, weights = np.concatenate(list(vectors)), np.concatenate(list(counts))
    if len(np.unique(pooled, axis=0)) < settings.words:
        raise NotEnough(
            "a bag of {words} words needs at least as many different vectors, and this collection has "
            "{found}; add fragments, or use a bob- or pool- method",
            words=settings.words,
            found=len(np.unique(pooled, axis=0)),
        )
    found = KMeans(settings.words, n_init=settings.restarts, random_state=settings.seed)
    return np.asarray(found.fit(pooled, sample_weight=weights).cluster_centers_, dtype=np.float32)


def weigh_codebook(
    vectors: Sequence[NDArray[np.float32]],
    counts: Sequence[NDArray[np.float64]],
    codebook: NDArray[np.float32],
) -> Vocabulary:
    """Compute the smoothed inverse document frequency of each codeword over N fragments, and their histograms."""
    frequencies = np.array([term_frequencies(v, c, codebook) for v, c in zip(vectors, counts, strict=True)])
    documents = (frequencies > 0).sum(axis=0)
    idf = np.log((len(frequencies) + 1) / (documents + 1)) + 1
    return Vocabulary(codebook, idf, frequencies * idf)


def term_frequencies(
    vectors: NDArray[np.float32], counts: NDArray[np.float64], codebook: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the term frequencies (K_g,): tf[r] = (1/n) sum_a m_a 1(nn(mu_a) = c_r)."""
    from scipy.spatial.distance import cdist  # here, since most searches need nothing of SciPy

    nearest = cdist(vectors.astype(np.float64), codebook.astype(np.float64)).argmin(axis=1)
    return np.asarray(np.bincount(nearest, weights=counts, minlength=len(codebook)) / counts.sum())


def compare_histograms(queries: NDArray[np.float64], gallery: NDArray[np.float64], measure: str) -> NDArray[np.float64]:
    """Return distances (q, n) between tf-idf histograms (q, K_g) and (n, K_g).

    l2 : of the raw histograms, as in the authors' code
    cosine : 1 - h.g / (|h| |g|)
    chi2 : sum_r (h_r - g_r)^2 / (h_r + g_r) of histograms with sum 1
    hellinger : sqrt(1/2 sum_r (sqrt h_r - sqrt g_r)^2) of histograms with sum 1
    """
    if measure in ("l2", "cosine"):
        return compare_vectors(queries, gallery, measure)
    queries = queries / queries.sum(axis=1, keepdims=True)
    gallery = gallery / gallery.sum(axis=1, keepdims=True)
    if measure == "hellinger":
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(np.sqrt(queries), np.sqrt(gallery)) / np.sqrt(2))
    rows = []
    for query in queries:
        total = query + gallery
        rows.append(np.divide((query - gallery) ** 2, total, out=np.zeros_like(total), where=total > 0).sum(axis=1))
    return np.array(rows)
