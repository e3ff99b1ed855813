"""The default comparison: letters (Chamfer) and the whole hand (mean embedding) together, freed of hubs.

Three things are done to the plain distances, each without labels and each measured in docs/decisions.md:
- centring: what all fragments of the collection share is taken out, so that only what sets them apart counts;
- local scale: some fragments are near to everything; D[i, j] / sqrt(r_i r_j), with r the mean distance to the ten
  nearest, makes nearness mutual;
- fusion: Chamfer over prototypes and the cosine of the means fail on different fragments, so their sum is taken,
  each in units of its own spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import Packed, chamfer_many, pack
from membra.compare.pooling import compare_vectors, pool
from membra.describe.bag import Bag
from membra.describe.recipe import Description

NEIGHBOURS = 10  # nearest fragments that make up a fragment's local scale
SHARES = (1.0, 0.4)  # of Chamfer and of the cosine in the sum; letters say more, above all in small fragments


@dataclass(frozen=True)
class Local:
    """What a collection knows of itself: enough to compare any query with it.

    centre : (d,), the mean embedding of its fragments
    packed : their centred bags in the kernel's layout
    means : (n, d), their centred mean embeddings
    scales : (2, n), the local scale of each by Chamfer and by cosine
    spreads : (2,), the standard deviation of the scaled distances, by Chamfer and by cosine
    """

    centre: NDArray[np.float64]
    packed: Packed
    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    spreads: NDArray[np.float64]


def measure_local(gallery: Sequence[Description]) -> Local:
    """Compare every fragment of the gallery with every other, once."""
    means = np.array([pool(description.embeddings, "mean") for description in gallery])
    centre = means.mean(axis=0)
    bags = [centred(description.bag, centre) for description in gallery]
    packed, means = pack(bags), means - centre
    both = _plain(bags, means, packed, means)
    for matrix in both:
        np.fill_diagonal(matrix, np.inf)
    scales = np.array([local_scale(matrix) for matrix in both])
    spreads = []
    for matrix, scale in zip(both, scales, strict=True):
        scaled = matrix / np.sqrt(np.outer(scale, scale))
        apart = scaled[np.isfinite(scaled)]
        spreads.append(float(apart.std()) if len(apart) > 1 and apart.std() > 0 else 1.0)
    return Local(centre, packed, means, scales, np.array(spreads))


def fused_distances(
    queries: Sequence[Description], local: Local, *, same: Sequence[int | None], parts: Sequence[int] = (0, 1)
) -> NDArray[np.float64]:
    """Fused distances (q, n) of queries to the fragments that `local` was measured on.

    `same` gives the place of each query among them, or None. `parts` (0 Chamfer, 1 cosine) are summed.
    """
    bags = [centred(query.bag, local.centre) for query in queries]
    means = np.array([pool(query.embeddings, "mean") for query in queries]) - local.centre
    total = np.zeros((len(queries), len(local.means)))
    plain = _plain(bags, means, local.packed, local.means)
    for part in parts:
        matrix = plain[part]
        for row, own in enumerate(same):
            if own is not None:
                matrix[row, own] = np.inf
        known = np.array([local.scales[part, own] if own is not None else np.nan for own in same])
        scale = np.where(np.isnan(known), local_scale(matrix), known)
        share = SHARES[part] / local.spreads[part]
        total += share * matrix / np.sqrt(np.outer(scale, local.scales[part]))
    for row, own in enumerate(same):
        if own is not None:
            total[row, own] = 0.0
    return total


def centred(bag: Bag, centre: NDArray[np.float64]) -> Bag:
    """The bag as seen from `centre` (d,): each prototype's direction from there."""
    apart = bag.prototypes - centre
    length = np.linalg.norm(apart, axis=1, keepdims=True)
    return Bag(apart / np.maximum(length, 1e-9), bag.weights, bag.members, bag.error)


def local_scale(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean distance of each row (q, n) to its ten nearest; infinite entries are not there. 1 if none is."""
    nearest = np.sort(matrix, axis=1)[:, :NEIGHBOURS]
    there = np.isfinite(nearest)
    sums = np.where(there, nearest, 0.0).sum(axis=1)
    # Copies of one image stand at distance zero; a scale of zero would put them at infinity from everything.
    return np.where(there.any(axis=1), np.maximum(sums / np.maximum(there.sum(axis=1), 1), 1e-6), 1.0)


def _plain(
    bags: Sequence[Bag], means: NDArray[np.float64], packed: Packed, others: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Chamfer and cosine distances, both (q, n)."""
    lengths = np.linalg.norm(means, axis=1), np.linalg.norm(others, axis=1)
    units = [m / np.maximum(length, 1e-12)[:, None] for m, length in zip((means, others), lengths, strict=True)]
    cosine = compare_vectors(units[0], units[1], "l2") ** 2 / 2  # of unit vectors: 1 - cos, and 0.5 for a zero vector
    return [chamfer_many(bags, packed).astype(np.float64), cosine]
