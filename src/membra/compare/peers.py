"""The field's own ways on the same ink: SIFT pooled into one vector a fragment, with or without a last step.

Each has a name that `membra evaluate --methods` takes. They are no lines of `methods.METHODS`: those compare what a
collection keeps, these need the ink of the photographs. Sources: `encodings.py`, `rerank.py` and docs/claims.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.encodings import EncodingSettings, Vectors, cosine_distances, fisher, mean_pool, vlad, whitened
from membra.compare.rerank import expanded, graph_reranked


@dataclass(frozen=True)
class Peer:
    """One of them: how keypoints become vectors, and what is done with these.

    `matrix` makes distances (n, n) of the vectors (n, D) of n fragments; `barred` (n, n) pairs may not answer each
    other, and so may not help to answer either.
    """

    name: str
    label: str
    encoding: str  # vlad, fisher or mean: `encode`
    matrix: Callable[[NDArray[np.float64], NDArray[np.bool_], EncodingSettings], NDArray[np.float64]]


def encode(encoding: str, descriptors: Sequence[Vectors], settings: EncodingSettings) -> NDArray[np.float64]:
    """Vectors (n, D) of n fragments' descriptors, not whitened. Codebook and mixture are fitted to all of them."""
    if encoding == "vlad":
        return vlad(descriptors, settings)
    return fisher(descriptors, settings) if encoding == "fisher" else mean_pool(descriptors)


def _plain(vectors: NDArray[np.float64], barred: NDArray[np.bool_], settings: EncodingSettings) -> NDArray[np.float64]:
    return cosine_distances(vectors)


def _whitened(
    vectors: NDArray[np.float64], barred: NDArray[np.bool_], settings: EncodingSettings
) -> NDArray[np.float64]:
    return cosine_distances(whitened(vectors, settings))


def _expanded(
    vectors: NDArray[np.float64], barred: NDArray[np.bool_], settings: EncodingSettings
) -> NDArray[np.float64]:
    return expanded(whitened(vectors, settings), barred)


def _reranked(
    vectors: NDArray[np.float64], barred: NDArray[np.bool_], settings: EncodingSettings
) -> NDArray[np.float64]:
    return graph_reranked(1 - cosine_distances(whitened(vectors, settings)), barred)


PEERS = (
    Peer("sift-mean", "mean RootSIFT", "mean", _plain),
    Peer("sift-vlad-plain", "SIFT-VLAD", "vlad", _plain),
    Peer("sift-vlad", "SIFT-VLAD, whitened", "vlad", _whitened),
    Peer("sift-fisher", "SIFT-Fisher, whitened", "fisher", _whitened),
    Peer("sift-vlad-expanded", "SIFT-VLAD, whitened, query expansion", "vlad", _expanded),
    Peer("sift-vlad-graph", "SIFT-VLAD, whitened, graph re-ranking", "vlad", _reranked),
)
