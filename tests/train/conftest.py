"""Training material for the eye in tests: four drawn pages, two marked as damaged and one as a plate."""

from dataclasses import replace

import numpy as np
import pytest

from membra.train.eye_material import UNKNOWN, Item, drawn


@pytest.fixture(scope="session")
def items() -> list[Item]:
    """A page, a damaged page, a piece whose surface is not known, and one with neither mask."""
    page, damaged, piece, plate = drawn(4)
    unknown = np.full_like(page.ink, UNKNOWN)
    return [
        page,
        replace(damaged, source="dibco"),
        replace(piece, source="dss", surface=unknown, upright=False),
        replace(plate, source="plates", ink=unknown, surface=unknown, upright=False),
    ]
