"""Tests of encoders: read from ONNX or safetensors by content, equal to torch; other files are rejected."""

import io
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from factories import random_encoder
from membra.describe.encoder import Encoder
from membra.errors import MembraError

PATCHES = np.random.default_rng(1).integers(0, 256, (7, 64, 64), dtype=np.uint8)


def test_onnx_and_safetensors_give_what_torch_gives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is in the extra [train]")
    from membra.describe.graph import autoencoder_graph
    from membra.train.networks import Autoencoder

    torch.manual_seed(0)
    network = Autoencoder(24).eval()
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    save_file(weights, tmp_path / "e.safetensors")
    (tmp_path / "e.onnx").write_bytes(autoencoder_graph(weights))
    with torch.no_grad():
        expected, _ = network(torch.from_numpy(PATCHES[:, None].astype(np.float32) / 255))
    for name in ("e.onnx", "e.safetensors"):
        encoder = Encoder.open(tmp_path / name)
        assert encoder.dimension == 24
        np.testing.assert_allclose(encoder.encode(PATCHES), expected.numpy(), atol=1e-5)
    assert Encoder.open(tmp_path / "e.onnx").digest == Encoder.open(tmp_path / "e.safetensors").digest


def test_the_autoencoder_has_the_papers_size() -> None:
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    from membra.train.networks import Autoencoder

    assert sum(p.numel() for p in Autoencoder(128).parameters()) == 1_099_329  # the paper: about 1.1 M


def test_batches_do_not_change_embeddings(encoder: Encoder) -> None:
    many = np.random.default_rng(2).integers(0, 256, (600, 64, 64), dtype=np.uint8)
    one_by_one = np.concatenate([encoder.encode(many[i : i + 1]) for i in (0, 255, 256, 599)])
    np.testing.assert_allclose(encoder.encode(many)[[0, 255, 256, 599]], one_by_one, atol=1e-5)


def test_no_patches_no_embeddings(encoder: Encoder) -> None:
    assert encoder.encode(PATCHES[:0]).shape == (0, encoder.dimension)


def test_torch_archives_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is in the extra [train]")
    buffer = io.BytesIO()
    torch.save({"encoder_net.0.weight": torch.zeros(1)}, buffer)
    (tmp_path / "weights.onnx").write_bytes(buffer.getvalue())
    with pytest.raises(MembraError, match="pickle"):
        Encoder.open(tmp_path / "weights.onnx")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("not a model")
    (tmp_path / "cut.onnx").write_bytes(random_encoder().onnx[:5000])
    header = b'{"encoder_net.0.weight":{"dtype":"F32","shape":[999999999],"data_offsets":[0,4]}}'
    (tmp_path / "absurd.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    save_file({"something": np.zeros(3, np.float32)}, tmp_path / "other.safetensors")
    for name in ("text.onnx", "cut.onnx", "absurd.safetensors", "other.safetensors", "missing.onnx"):
        with pytest.raises(MembraError) as error:
            Encoder.open(tmp_path / name)
        assert name in str(error.value)


def test_a_model_of_another_shape_is_no_encoder(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "other",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    with pytest.raises(MembraError, match="not an encoder"):
        Encoder(model.SerializeToString())
