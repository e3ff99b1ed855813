"""What many tests share: drawn fragments, an encoder that needs no training, and the shared data where it exists."""

from pathlib import Path

import numpy as np
import pytest

from membra import scribes
from membra.describe.encoder import Encoder
from membra.describe.graph import autoencoder_graph
from membra.describe.recipe import MEMBRA
from membra.find.collection import Collection
from membra.see.fragment import fragments

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real manuscripts and golden numbers beside the repository."""
    if not (SHARED / "golden").is_dir():
        pytest.skip("the shared data (real manuscripts, golden numbers) is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of 12 drawn fragments of 4 manuscripts, with images beside it."""
    folder = tmp_path_factory.mktemp("drawn")
    return scribes.collection(folder, manuscripts=4, fragments=12, letters=(40, 90), seed=5)


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


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return random_encoder()


@pytest.fixture(scope="session")
def collection(drawn: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The drawn fragments, described. Shared by all tests: search it, do not write to it."""
    made = Collection.create(tmp_path_factory.mktemp("made") / "collection", encoder=encoder, recipe=MEMBRA)
    made.add(fragments(drawn))
    return made
