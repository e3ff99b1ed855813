"""Local scaling of distances, which reduces hubs.

Hubs are fragments that are close to everything. The non-iterative contextual dissimilarity measure (H. Jegou et al.,
"Accurate image search using the contextual dissimilarity measure", PAMI 2010; D. Schnitzer et al., "Local and global
scaling reduce hubs in space", JMLR 2012) makes neighbourhoods mutual:

    d'(i, j) = d(i, j) / sqrt(r_i r_j)

with r_i the local scale of i: the mean distance to the three nearest of the reference fragments, which are all of a
small collection and a sample of a large one. `bob-local` scales the Chamfer distance of prototypes; `fused` adds the
pooled cosine (of the mean embeddings), scaled likewise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.kernels import Packed, chamfer_many, chamfer_matrix, pack
from membra.compare.pooling import pool
from membra.describe.bag import Bag
from membra.describe.recipe import Description

NEIGHBOURS = 3  # nearest references in a local scale: most fragments have only a few mates
REFERENCES = 2000  # maximum; in a collection of up to this size all fragments are references
SHARE = 0.02  # weight of the cosine in the sum: scaled cosines spread some fifteen times wider than scaled Chamfer
_AT_ONCE = 1024  # bags that are packed or measured together: bounds the memory
_NUMBERS = 2**25  # distances per block, 256 MB

Floats = NDArray[np.float64] | np.float64

CHAMFER, COSINE = 0, 1  # the two parts, and the rows of `scales`


@dataclass(frozen=True)
class Local:
    """The data of a collection that local scaling of any query needs.

    packed : its bags in the kernel's layout
    means : (n, d), its mean embeddings
    scales : (2, n), the local scale of each fragment by Chamfer and by cosine
    references : indices of the reference fragments
    """

    packed: Packed
    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    references: Sequence[int]


def measure_local(gallery: Sequence[Description], references: Sequence[int] | None = None) -> Local:
    """Measure the local scales of the gallery against `references`, indices into it; default all."""
    means = np.array([pool(description.embeddings, "mean") for description in gallery])
    bags = [description.bag for description in gallery]
    packed, chosen = pack(bags), list(range(len(gallery)) if references is None else references)
    if not chosen:  # all fragments are doubtful, or there are none
        return Local(packed, means, np.ones((2, len(gallery))), chosen)
    pooled = cosines(means, means[chosen])
    pooled[chosen, range(len(chosen))] = np.inf
    return Local(packed, means, np.array([chamfer_scales(bags, chosen), local_scale(pooled)]), chosen)


def chamfer_scales(bags: Sequence[Bag], references: Sequence[int]) -> NDArray[np.float64]:
    """Return the local scales (n,) of bags by Chamfer, against those at the indices `references`; 1 without any.

    Memory is bounded: bags are read some at a time, all at once only where all are references.
    """
    if not len(references):
        return np.ones(len(bags))
    if len(references) == len(bags):
        chamfers = chamfer_matrix(list(bags)).astype(np.float64)
        np.fill_diagonal(chamfers, np.inf)
        return local_scale(chamfers)
    packed, found = pack([bags[index] for index in references]), np.ones(len(bags))
    own = np.asarray(references)
    for first in range(0, len(bags), _AT_ONCE):
        some = bags[first : first + _AT_ONCE]
        chamfers = chamfer_many(some, packed).astype(np.float64)
        chamfers[np.arange(first, first + len(some))[:, None] == own] = np.inf
        found[first : first + len(some)] = local_scale(chamfers)
    return found


def scaled_blocks(
    bags: Sequence[Bag], scales: NDArray[np.float64], queries: Sequence[int], columns: Sequence[int]
) -> Iterator[tuple[Sequence[int], NDArray[np.float64]]]:
    """Yield blocks of `queries` with their locally scaled Chamfer distances (q, len(columns)), in bounded memory.

    queries, columns : indices of `bags` (n,), which are read some at a time; scales : (n,). The distance of a bag to
    itself is infinite.
    """
    rows = max(64, min(1024, _NUMBERS // max(len(columns), 1)))
    for first in range(0, len(queries), rows):
        some = list(queries[first : first + rows])
        queried = [bags[index] for index in some]
        found = np.empty((len(some), len(columns)))
        for start in range(0, len(columns), _AT_ONCE):
            others = list(columns[start : start + _AT_ONCE])
            chamfers = chamfer_many(queried, pack([bags[index] for index in others])).astype(np.float64)
            chamfers[np.array(some)[:, None] == np.array(others)] = np.inf
            found[:, start : start + len(others)] = scaled(chamfers, scales[some][:, None], scales[others], CHAMFER)
        yield some, found


def fused_distances(
    queries: Sequence[Description],
    local: Local,
    *,
    same: Sequence[int | None],
    parts: Sequence[int] = (CHAMFER, COSINE),
) -> NDArray[np.float64]:
    """Return fused distances (q, n) of queries to the fragments on which `local` was measured.

    `same` gives the index of each query among them, or None. `parts` are summed.
    """
    means = np.array([pool(query.embeddings, "mean") for query in queries])
    bags = [query.bag for query in queries]
    both = {CHAMFER: chamfer_many(bags, local.packed).astype(np.float64), COSINE: cosines(means, local.means)}
    total = np.zeros((len(queries), len(local.means)))
    for part in parts:
        for row, own in enumerate(same):
            if own is not None:
                both[part][row, own] = np.inf
        known = np.array([local.scales[part, own] if own is not None else np.nan for own in same])
        scale = np.where(np.isnan(known), local_scale(both[part][:, local.references]), known)
        total += scaled(both[part], scale[:, None], local.scales[part], part)
    for row, own in enumerate(same):
        if own is not None:
            total[row, own] = 0.0
    return total


def scaled(distance: Floats, own: Floats, other: Floats, part: int) -> NDArray[np.float64]:
    """Scale one part of the sum: a distance over the root of the product of both local scales, times its share.

    >>> float(scaled(np.float64(6.0), np.float64(4.0), np.float64(9.0), CHAMFER))
    1.0
    """
    return np.asarray((SHARE if part == COSINE else 1.0) * distance / np.sqrt(own * other))


def local_scale(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the three smallest entries of each row (q, n); infinite entries are ignored. 1 without any.

    >>> local_scale(np.array([[1.0, 3.0, np.inf], [np.inf, np.inf, np.inf]])).tolist()
    [2.0, 1.0]
    """
    nearest = np.sort(matrix, axis=1)[:, :NEIGHBOURS]
    there = np.isfinite(nearest)
    sums = np.where(there, nearest, 0.0).sum(axis=1)
    # Copies of one image have distance zero; a scale of zero would make all their distances infinite.
    return np.where(there.any(axis=1), np.maximum(sums / np.maximum(there.sum(axis=1), 1), 1e-6), 1.0)


def cosines(means: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """Return 1 - cosine of mean vectors (q, d) and (n, d): 0.5 where one of them is zero, 0 where both are.

    Computed in the precision of the vectors.
    """
    units = [m / np.maximum(np.linalg.norm(m, axis=1), 1e-12)[:, None] for m in (means, others)]
    squares = [(unit**2).sum(axis=1) for unit in units]
    return np.asarray(np.maximum((squares[0][:, None] + squares[1]) / 2 - units[0] @ units[1].T, 0))
