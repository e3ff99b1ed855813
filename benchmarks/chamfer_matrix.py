"""Matrix of Chamfer distances between 2,000 bags of 20 prototypes, each pair once, compared with the plain loop."""

import numpy as np
from _timing import plain_chamfer, random_bags, ratios, report, timed

from membra.compare.kernels import chamfer_matrix

COUNT, SAMPLE = 2_000, 2_000


def main() -> None:
    bags = random_bags(COUNT)
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, COUNT, (SAMPLE, 2)).tolist()
    loop, kernel = timed(
        lambda: [plain_chamfer(bags[a], bags[b]) for a, b in pairs], lambda: chamfer_matrix(bags), rounds=7
    )
    found = chamfer_matrix(bags)
    worst = max(abs(found[a, b] - plain_chamfer(bags[a], bags[b])) for a, b in pairs)
    report(
        "chamfer-matrix",
        **ratios(loop, kernel, COUNT * (COUNT - 1) / 2 / SAMPLE),
        bags=COUNT,
        words=20,
        seconds=kernel.wall,
        plain_us_a_pair=1e6 * loop.wall / SAMPLE,
        plain_pairs_timed=SAMPLE,
        largest_difference=float(worst),
    )


if __name__ == "__main__":
    main()
