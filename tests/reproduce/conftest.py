"""An encoder's file, with which no training is needed."""

from pathlib import Path

import pytest

from membra.describe.encoder import Encoder


@pytest.fixture
def given(encoder: Encoder, tmp_path: Path) -> Path:
    path = tmp_path / "given.onnx"
    path.write_bytes(encoder.onnx)
    return path
