"""Fixtures shared by many tests: drawn fragments and an encoder that needs no training."""

from pathlib import Path

import pytest
from hypothesis import settings

from factories import random_encoder
from membra import scribes
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA
from membra.sources.fragment import fragments
from membra.store.collection import Collection

# No time limit for examples, since the machine may be busy.
settings.register_profile("membra", deadline=None)
settings.load_profile("membra")

# Larger ones, for pages, exports and faults; rotated ones; and real manuscripts, if they are beside the checkout.
pytest_plugins = ("shelves", "plates", "shared_data")


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of 12 drawn fragments of 4 manuscripts, with images beside it."""
    folder = tmp_path_factory.mktemp("drawn")
    return scribes.collection(folder, manuscripts=4, fragments=12, letters=(40, 90), seed=5)


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return random_encoder()


@pytest.fixture(scope="session")
def collection(drawn: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The drawn fragments, described. Shared by all tests: read-only."""
    collection = Collection.create(tmp_path_factory.mktemp("made") / "collection", encoder=encoder, recipe=MEMBRA)
    collection.add(fragments(drawn))
    return collection
