"""One query of 20 words against 300,000 bags in float16 on a GPU through torch; nothing where there is no GPU."""

import numpy as np
from _timing import plain_chamfer, progress, random_bags, ratios, report, timed

from membra.compare import gpu
from membra.compare.kernels import chamfer_many, pack

COUNT, SAMPLE = 300_000, 2_000


def main() -> None:
    try:
        import torch
    except ImportError:
        return progress("gpu-one-query: left out, torch is not installed")
    if not torch.cuda.is_available():
        return progress("gpu-one-query: left out, there is no GPU")
    bags, query = random_bags(COUNT), random_bags(1, seed=1)
    packed = pack(bags, "float16")
    on_device = gpu.to_device(packed)
    found = gpu.chamfer_many(query, on_device)  # also the warming up
    known = chamfer_many(query, packed)
    loop, kernel, native = timed(
        lambda: [plain_chamfer(query[0], bag) for bag in bags[:SAMPLE]],
        lambda: gpu.chamfer_many(query, on_device),  # ends with the distances on the host
        lambda: chamfer_many(query, packed),
        rounds=15,
    )
    return report(
        "gpu-one-query",
        ratio=ratios(loop, kernel, COUNT / SAMPLE)["ratio"],
        bags=COUNT,
        words=20,
        ms=1e3 * kernel.wall,
        on_the_processor_ms=1e3 * native.wall,
        device=torch.cuda.get_device_name(),
        held_mb=torch.cuda.memory_allocated() / 1e6,
        largest_difference=float(np.abs(found - known).max()),
        top20_equal=bool((np.argsort(found[0])[:20] == np.argsort(known[0])[:20]).all()),
        plain_us_a_pair=1e6 * loop.wall / SAMPLE,
        plain_pairs_timed=SAMPLE,
    )


if __name__ == "__main__":
    main()
