"""Check the paper's bound on how far the transport distance of bags can deviate from that of all components.

|W1(P_I, P_J) - W1(bag I, bag J)| <= eps_I + eps_J, where P has every component with equal mass, and eps is the
mean distance of a component to its prototype.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from membra.compare.distance import transport
from membra.describe.bag import Bag
from membra.errors import Unavailable, Unsupported

TOLERANCE = 1e-6  # relative, for the float32 in which prototypes are kept
_MAX_STEPS = 50_000_000  # of the network simplex; pages of 1,000 components need some 100,000


@dataclass(frozen=True)
class BoundCheck:
    """The bound for one pair of fragments."""

    components: float  # W1 between all components
    bags: float  # W1 between the two bags
    allowed: float  # eps_I + eps_J

    @property
    def deviation(self) -> float:
        """|W1 of all components - W1 of the bags|."""
        return abs(self.components - self.bags)

    @property
    def used(self) -> float:
        """Ratio of the deviation to the bound: 1 is a tight bound, 0 a loose one."""
        return self.deviation / self.allowed if self.allowed > 0 else 0.0

    @property
    def violated(self) -> bool:
        return self.deviation > self.allowed + TOLERANCE * (1 + self.components)


def check_bound(components: float, a: Bag, b: Bag) -> BoundCheck:
    """Evaluate the bound for two bags with the distance `components` of all components (`transport_components`)."""
    return BoundCheck(components, transport(a, b), a.error + b.error)


def transport_components(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Compute W1 between all embeddings (n, d) and (m, d), each of mass 1/n and 1/m, exactly.

    It takes some 30 ms for 400 x 400.
    """
    try:
        import ot
    except ImportError:
        raise Unsupported(
            "optimal transport needs the package POT, which is not installed; run `pip install POT`"
        ) from None
    costs = cdist(a.astype(np.float64), b.astype(np.float64))
    masses = [np.full(size, 1 / size) for size in costs.shape]
    found: tuple[float, dict[str, Any]] = ot.emd2(*masses, costs, numItermax=_MAX_STEPS, log=True)
    if found[1].get("warning"):
        raise Unavailable(
            "POT did not finish a transport of {rows} x {columns} components: {why}",
            rows=len(a),
            columns=len(b),
            why=found[1]["warning"],
        )
    return float(found[0])
