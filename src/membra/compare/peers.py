"""Methods of the literature on the same ink: SIFT encoded as one vector per fragment, with or without re-ranking.

`membra evaluate --methods` accepts their names. They are not in `methods.METHODS`: those methods compare data that a
collection stores, these need the ink of the photographs. Sources: `encodings.py`, `rerank.py` and docs/claims.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.encodings import EncodingSettings, Vectors, cosine_distances, fisher, mean_pool, vlad, whitened
from membra.compare.rerank import expanded, graph_reranked


@dataclass(frozen=True)
class Peer:
    """One such method: the encoding of keypoints as vectors, and the distances of these.

    `matrix` computes distances (n, n) of the vectors (n, D) of n fragments; `barred` (n, n) pairs may not be candidates
    of each other, and are not used as neighbours either.
    """

    name: str
    label: str
    encoding: str  # vlad, fisher or mean: `encode`
    matrix: Callable[[NDArray[np.float64], NDArray[np.bool_], EncodingSettings], NDArray[np.float64]]


def encode(encoding: str, descriptors: Sequence[Vectors], settings: EncodingSettings) -> NDArray[np.float64]:
    """Encode n fragments' descriptors as vectors (n, D), not whitened. Codebook and mixture are fitted to all n."""
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
