"""The exact top 10 by optimal transport over 3,000 real bags, against solving every pair.

`python benchmarks/transport_top10.py [COLLECTION]`: real bags, repeated with enough jitter that copies are no nearer to
each other than different fragments are: with nearer copies, even fewer pairs would be solved.
"""

import time

import numpy as np
import ot
from _timing import descriptions, jittered, progress, report
from scipy.spatial.distance import cdist

from membra.compare.kernels import pack
from membra.describe.bag import Bag
from membra.find.pruned import nearest

COUNT, QUERIES, JITTER = 3_000, 20, 1.0


def plain_transport(a: Bag, b: Bag) -> float:
    return float(ot.emd2(a.weights, b.weights, cdist(a.prototypes, b.prototypes)))


def main() -> None:
    source, described = descriptions()
    bags = jittered([description.bag for description in described], COUNT, JITTER)
    packed = pack(bags, "float16")
    rng = np.random.default_rng(0)
    nearest(bags[0], bags, packed, "transport", 10)
    plain = pruned = 0.0
    solved, equal = [], 0
    for index in rng.choice(COUNT, QUERIES, replace=False).tolist():
        among = np.arange(COUNT) != index
        start = time.perf_counter()
        row = np.array([plain_transport(bags[index], bag) for bag in bags])
        middle = time.perf_counter()
        found = nearest(bags[index], bags, packed, "transport", 10, among=among)
        pruned += time.perf_counter() - middle
        plain += middle - start
        row[index] = np.inf
        equal += np.argsort(row, kind="stable")[:10].tolist() == found.indices
        solved.append(found.solved)
        progress(f"{len(solved)} of {QUERIES}: {found.solved} solved")
    report(
        "transport-top10",
        ratio=plain / pruned,
        bags=COUNT,
        source=source,
        real=len(described),
        jitter=JITTER,
        ms=1e3 * pruned / QUERIES,
        plain_us_a_pair=1e6 * plain / QUERIES / COUNT,
        solved_mean=float(np.mean(solved)),
        solved_most=max(solved),
        solved_percent=100 * float(np.mean(solved)) / COUNT,
        top10_equal=f"{equal} of {QUERIES}",
    )


if __name__ == "__main__":
    main()
