"""The paper's three distances between two bags, written as its formulas.

mu (K, d) and nu (L, d) are the prototypes of the two bags, pi (K,) and rho (L,) their masses. These functions are the
reference; faster implementations are tested against them.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.describe.bag import Bag
from membra.errors import Invalid, Unsupported

native: Any
try:
    native = import_module("membra.compare._exact")
except ImportError:  # installed without a compiler
    native = None


def check_dimensions(bags: Iterable[Bag], dimensions: int) -> None:
    """Raise `Invalid` unless all bags have this number of `dimensions`."""
    for bag in bags:
        if bag.prototypes.shape[1] != dimensions:
            raise Invalid(
                "bags of {dimensions} and {others} dimensions cannot be compared; describe both with the same encoder",
                dimensions=bag.prototypes.shape[1],
                others=dimensions,
            )


def costs(a: Bag, b: Bag) -> NDArray[np.float64]:
    """Return the cost matrix (K, L): C[i, j] = ||mu_i - nu_j||_2."""
    check_dimensions([a], b.prototypes.shape[1])
    if native is not None:  # the same numbers as SciPy, whose import takes longer than a search
        found = np.empty((len(a), len(b)))
        native.squares(a.prototypes, b.prototypes, a.prototypes.shape[1], found)
        return np.asarray(np.sqrt(found, out=found))
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(a.prototypes.astype(np.float64), b.prototypes.astype(np.float64)))


def chamfer(a: Bag, b: Bag) -> float:
    """Return the Chamfer distance, the mean distance of each prototype to its nearest in the other bag.

    d = 1/2 ( 1/K sum_i min_j ||mu_i - nu_j||  +  1/L sum_j min_i ||nu_j - mu_i|| );
    for K = L this is the paper's 1/(2K) (...). Symmetric, zero to itself; no triangle inequality.

    Parameters
    ----------
    a, b : Bag
        Of K and L prototypes of the same dimension.

    Returns
    -------
    float
        In the units of the embeddings.

    Examples
    --------
    >>> chamfer(Bag([[0.0], [1.0]], [0.5, 0.5]), Bag([[0.0]], [1.0]))
    0.25
    """
    distance = costs(a, b)
    return float((distance.min(axis=1).mean() + distance.min(axis=0).mean()) / 2)


def hungarian(a: Bag, b: Bag) -> float:
    """Return the distance of the best one-to-one assignment: d = 1/K min_sigma sum_i ||mu_i - nu_sigma(i)||.

    For K = L the Wasserstein-1 distance of uniform masses, a metric. For K != L every prototype of the smaller bag is
    assigned a different one of the larger, the rest of which stay unassigned; the mean is over the pairs.

    Parameters
    ----------
    a, b : Bag
        Of K and L prototypes of the same dimension.

    Returns
    -------
    float
        In the units of the embeddings.

    Examples
    --------
    >>> hungarian(Bag([[0.0], [1.0]], [0.5, 0.5]), Bag([[1.0], [3.0]], [0.5, 0.5]))
    1.5
    """
    from scipy.optimize import linear_sum_assignment

    distance = costs(a, b)
    rows, columns = linear_sum_assignment(distance)
    return float(distance[rows, columns].mean())


def transport(a: Bag, b: Bag) -> float:
    """Return the cost of the optimal transport of the masses: d = min_{T in Pi(pi, rho)} sum_ij T_ij ||mu_i - nu_j||.

    The Wasserstein-1 distance of the two weighted bags, solved exactly by POT.

    Parameters
    ----------
    a, b : Bag
        Of K and L prototypes of the same dimension.

    Returns
    -------
    float
        In the units of the embeddings.

    Examples
    --------
    >>> transport(Bag([[0.0], [1.0]], [0.75, 0.25]), Bag([[0.0]], [1.0]))
    0.25
    """
    distance = costs(a, b)
    # A weight of exactly zero gives POT's network simplex a point without mass, of which it warns.
    rows, columns = a.weights > 0, b.weights > 0
    return float(pot().emd2(a.weights[rows], b.weights[columns], np.ascontiguousarray(distance[np.ix_(rows, columns)])))


def pot() -> Any:
    """Import the package POT; raises `Unsupported`, with the command that installs it, where it is missing."""
    try:
        import ot
    except ImportError:
        raise Unsupported(
            "optimal transport needs the package POT, which is not installed; run `pip install POT`"
        ) from None
    return ot
