"""Partial optimal transport, for two bags that share only some of their prototypes."""

import numpy as np

from membra.compare.distance import costs, pot
from membra.describe.bag import Bag

SHARE = 0.5  # of the mass that is transported; the rest stays at no cost


def partial_transport(a: Bag, b: Bag, share: float = SHARE) -> float:
    """Return d = 1/s min sum_ij T_ij ||mu_i - nu_j||, T >= 0, T 1 <= pi, T' 1 <= rho, sum T = s.

    Only the cheapest share s of the masses is transported (Caffarelli and McCann 2010), so that prototypes of one
    fragment without a counterpart in the other cost nothing. Solved exactly by POT with a point that takes the rest
    (Chapel and others 2020); s = 1 is `transport`.

    >>> partial_transport(Bag([[0.0], [9.0]], [0.5, 0.5]), Bag([[0.0], [5.0]], [0.5, 0.5]))
    0.0
    """
    distance = costs(a, b)
    # POT's network simplex, with a point on each side that takes the mass that is not transported.
    rest = 1 - share
    whole = np.zeros((len(a) + 1, len(b) + 1))
    whole[:-1, :-1] = distance
    whole[-1, -1] = 2 * distance.max() + 1  # so that no mass is transported from rest to rest
    sides = [np.append(bag.weights, rest) for bag in (a, b)]
    if rest <= 0:
        whole, sides = distance, [a.weights, b.weights]
    # A weight of exactly zero gives the network simplex a point without mass.
    rows, columns = sides[0] > 0, sides[1] > 0
    found = pot().emd2(sides[0][rows], sides[1][columns], np.ascontiguousarray(whole[np.ix_(rows, columns)]))
    return float(found) / share
