"""One query of 20 prototypes against 100,000 bags by Chamfer, in float32 and in float16.

`ratio` is for the exact top 20, as found by `search`; `distances_ratio` for all distances, without pruning.
`--check` compares the top 20 of 20 queries with the plain loop over all bags (minutes); without it, over 2,000.
"""

import sys
from functools import partial

import numpy as np
from _timing import plain_chamfer, progress, random_bags, ratios, report, timed

from membra.compare.bounds import int8_supported, with_int8
from membra.compare.kernels import bfloat16_kernels, chamfer_many, pack
from membra.find.pruned import nearest

COUNT, SAMPLE = 100_000, 2_000


def main() -> None:
    bags, queries = random_bags(COUNT), random_bags(20, seed=1)
    among = np.arange(COUNT) < (COUNT if "--check" in sys.argv else SAMPLE)
    progress("ranking plainly ...")
    plain = []
    for query in queries:
        row = np.array([plain_chamfer(query, bag) for bag, included in zip(bags, among, strict=True) if included])
        plain.append(np.argsort(row, kind="stable")[:20].tolist())
    for dtype in ("float32", "float16"):
        progress(f"packing in {dtype} ...")
        packed = with_int8(pack(bags, dtype), bags)
        loop, search, kernel = timed(
            lambda: [plain_chamfer(queries[0], bag) for bag in bags[:SAMPLE]],
            partial(nearest, queries[0], bags, packed, "chamfer", 20),
            partial(chamfer_many, queries[:1], packed),
            rounds=15,
        )
        top = [nearest(query, bags, packed, "chamfer", 20, among=among).indices for query in queries]
        all_distances = ratios(loop, kernel, COUNT / SAMPLE)
        report(
            f"chamfer-one-query-fp{dtype[-2:]}",
            **ratios(loop, search, COUNT / SAMPLE),
            distances_ratio=all_distances["ratio"],
            distances_ratio_were_it_idle=all_distances["ratio_were_it_idle"],
            bags=COUNT,
            words=20,
            ms=1e3 * search.wall,
            distances_ms=1e3 * kernel.wall,
            solved=nearest(queries[0], bags, packed, "chamfer", 20).solved,
            coarse="bytes" if int8_supported() else bfloat16_kernels(),
            gflops=COUNT * 20 * 20 * 128 * 2 / kernel.wall / 1e9,
            gb_s=packed.tiles.nbytes / kernel.wall / 1e9,
            plain_us_a_pair=1e6 * loop.wall / SAMPLE,
            plain_pairs_timed=SAMPLE,
            top20_equal=f"{sum(a == b for a, b in zip(top, plain, strict=True))} of {len(queries)}",
            top20_among=int(among.sum()),
        )
        del packed


if __name__ == "__main__":
    main()
