"""Local scaling: distances freed of hubs.

Some fragments are near to everything. The non-iterative contextual dissimilarity measure (H. Jegou et al., "Accurate
image search using the contextual dissimilarity measure", PAMI 2010; D. Schnitzer et al., "Local and global scaling
reduce hubs in space", JMLR 2012) makes nearness mutual:

    d'(i, j) = d(i, j) / sqrt(r_i r_j)

with r_i the local scale of i: the mean distance to the three nearest of the reference fragments, which are all of a
small collection and a sample of a large one. `bob-local` scales Chamfer over prototypes; `fused` adds the cosine of the
mean embeddings, scaled likewise.
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

NEIGHBOURS = 3  # nearest references that make up a local scale: most fragments have but a few mates
REFERENCES = 2000  # at most; a collection of up to so many fragments is measured against all of itself
SHARE = 0.02  # of the cosine in the sum: scaled cosines spread some fifteen times wider than scaled Chamfer distances
_AT_ONCE = 1024  # bags that are packed or measured together: bounds the memory
_NUMBERS = 2**25  # distances of one block, 256 MB

Floats = NDArray[np.float64] | np.float64

CHAMFER, COSINE = 0, 1  # the two parts, and the rows of `scales`


@dataclass(frozen=True)
class Local:
    """What a collection knows of itself: enough to compare any query with it.

    packed : its bags in the kernel's layout
    means : (n, d), its mean embeddings
    scales : (2, n), the local scale of each by Chamfer and by cosine
    references : indices of the reference fragments
    """

    packed: Packed
    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    references: Sequence[int]


def measure_local(gallery: Sequence[Description], references: Sequence[int] | None = None) -> Local:
    """Compare every fragment of the gallery with the references, which are indices into it: all unless given."""
    means = np.array([pool(description.embeddings, "mean") for description in gallery])
    bags = [description.bag for description in gallery]
    packed, chosen = pack(bags), list(range(len(gallery)) if references is None else references)
    if not chosen:  # all are doubtful, or there is none
        return Local(packed, means, np.ones((2, len(gallery))), chosen)
    pooled = cosines(means, means[chosen])
    pooled[chosen, range(len(chosen))] = np.inf
    return Local(packed, means, np.array([chamfer_scales(bags, chosen), local_scale(pooled)]), chosen)


def chamfer_scales(bags: Sequence[Bag], references: Sequence[int]) -> NDArray[np.float64]:
    """The local scale of each bag by Chamfer, (n,), against those at the indices `references`; 1 if there are none.

    Flat in memory: bags are read some at a time, all of them at once only where all are references.
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
    """Chamfer freed of hubs, of some bags with some, flat in memory: some of `queries` at a time, and their distances
    (q, len(columns)); infinite to itself.

    queries, columns : indices of `bags` (n,), which are read some at a time; scales : (n,)
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
    """Fused distances (q, n) of queries to the fragments that `local` was measured on.

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
    """One part of the sum: a plain distance over the local scales of both sides, times its share.

    >>> float(scaled(np.float64(6.0), np.float64(4.0), np.float64(9.0), CHAMFER))
    1.0
    """
    return np.asarray((SHARE if part == COSINE else 1.0) * distance / np.sqrt(own * other))


def local_scale(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean distance of each row (q, n) to its three nearest; infinite entries are not there. 1 if none is.

    >>> local_scale(np.array([[1.0, 3.0, np.inf], [np.inf, np.inf, np.inf]])).tolist()
    [2.0, 1.0]
    """
    nearest = np.sort(matrix, axis=1)[:, :NEIGHBOURS]
    there = np.isfinite(nearest)
    sums = np.where(there, nearest, 0.0).sum(axis=1)
    # Copies of one image stand at distance zero; a scale of zero would put them at infinity from everything.
    return np.where(there.any(axis=1), np.maximum(sums / np.maximum(there.sum(axis=1), 1), 1e-6), 1.0)


def cosines(means: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """1 - cos of the angle between mean vectors (q, d) and (n, d); half where one has no direction, 0 where neither.

    In the precision in which they are given.
    """
    units = [m / np.maximum(np.linalg.norm(m, axis=1), 1e-12)[:, None] for m in (means, others)]
    squares = [(unit**2).sum(axis=1) for unit in units]
    return np.asarray(np.maximum((squares[0][:, None] + squares[1]) / 2 - units[0] @ units[1].T, 0))
