"""Photographs described per second with the encoder on a GPU, compared with the same encoder on the processor.

    python benchmarks/gpu_describe.py [CSV or FOLDER]

Cutting letters and making bags stay on the processor's cores (one process each); only the network runs on the GPU.
`ratio` is for the encoder alone: letters per second on the GPU over letters per second on all cores.
"""

import json
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from _photographs import photographs

from membra.describe.bag import make_bag
from membra.describe.graph import weights_of
from membra.describe.recipe import MEMBRA, pick
from membra.sources.fragment import Fragment
from membra.train.networks import Identity

READY = Path(__file__).parents[1] / "src" / "membra" / "describe" / "ready.onnx"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, found = photographs(Path(folder))
        measure(source, [fragment.path for fragment in found])


def measure(source: str, images: list[Path]) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = Identity()
    weights = {name: torch.from_numpy(np.array(value)) for name, value in weights_of(READY.read_bytes()).items()}
    network.load_state_dict(weights, strict=False)  # an ONNX file lacks num_batches_tracked of batch norms
    network.eval()
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        pool.map(cut, images[: os.cpu_count()], chunksize=1)  # start every process
        on_device = network.to(device)
        encode(on_device, np.zeros((1024, 64, 64), np.uint8), device)
        begun = time.perf_counter()
        bags, letters, encoding = [], 0, 0.0
        for patches in pool.imap(cut, images):
            one = time.perf_counter()
            embeddings = encode(on_device, patches, device)
            encoding += time.perf_counter() - one
            letters += len(patches)
            bags.append(pool.apply_async(make_bag, (embeddings, MEMBRA.bag)))
        for bag in bags:
            bag.get()
        whole = time.perf_counter() - begun
    some = np.random.default_rng(0).integers(0, 256, (16384, 64, 64), dtype=np.uint8)
    rates = {kind: rate(network.to(kind), some, kind) for kind in {device, "cpu"}}
    print(
        json.dumps(
            {
                "name": "gpu-describe",
                "ratio": round(rates[device] / rates["cpu"], 1),
                "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
                "cores": os.cpu_count(),
                "source": source,
                "photographs": len(images),
                "letters": letters,
                "photographs_a_second": round(len(images) / whole, 1),
                "share_of_time_encoding": round(encoding / whole, 3),
                "letters_a_second_device": round(rates[device]),
                "letters_a_second_cores": round(rates["cpu"]),
            }
        )
    )


def cut(path: Path) -> np.ndarray:
    """Return the letter patches (n, 64, 64) of one photograph."""
    import cv2

    cv2.setNumThreads(1)
    return pick(Fragment(path.name, path), MEMBRA)[1].glyphs.patches


@torch.no_grad()
def encode(network: Identity, patches: np.ndarray, device: str) -> np.ndarray:
    """Return the embeddings (n, d) of letter patches (n, 64, 64)."""
    return network.look_twice(torch.from_numpy(patches).to(device).unsqueeze(1).float() / 255).cpu().numpy()


def rate(network: Identity, patches: np.ndarray, device: str) -> float:
    """Measure letters per second, in batches of 1024."""
    encode(network, patches[:1024], device)
    begun = time.perf_counter()
    for first in range(0, len(patches), 1024):
        encode(network, patches[first : first + 1024], device)
    return len(patches) / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
