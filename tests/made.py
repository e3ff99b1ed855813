"""Things that tests make for themselves."""

import numpy as np

from membra.describe.encoder import Encoder
from membra.describe.graph import autoencoder_graph


def random_encoder(dimension: int = 16, seed: int = 0) -> Encoder:
    """An untrained encoder of the paper's shape: random projections keep letters apart well enough for tests."""
    draw = np.random.default_rng(seed)
    shapes = {0: (16, 1, 3, 3), 2: (32, 16, 3, 3), 4: (64, 32, 3, 3), 7: (dimension, 4096)}
    weights = {}
    for place, shape in shapes.items():
        fan_in = int(np.prod(shape[1:]))
        weights[f"encoder_net.{place}.weight"] = draw.normal(0, fan_in**-0.5, shape).astype(np.float32)
        weights[f"encoder_net.{place}.bias"] = np.zeros(shape[0], dtype=np.float32)
    return Encoder(autoencoder_graph(weights), threads=1)
