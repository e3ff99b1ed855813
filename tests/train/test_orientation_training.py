"""The orientation network: it learns, and its ONNX graph agrees with the module."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch, the extra [train]")

from membra.see.orientation import DIRECTIONS, SIDE, Orientation, standing  # noqa: E402
from membra.train.orientation_training import (  # noqa: E402
    OrientationNetwork,
    OrientationSettings,
    orientation_graph,
    train_orientation,
)


def flags(count: int) -> np.ndarray:
    """Return windows with a stroke from the centre upwards and a bar across its end, each slightly shifted."""
    draw, windows = np.random.default_rng(0), np.zeros((count, SIDE, SIDE), np.uint8)
    for window, shift in zip(windows, draw.integers(-3, 4, (count, 2)).tolist(), strict=True):
        window[8 + shift[0] : 28 + shift[0], 22 + shift[1] : 27 + shift[1]] = 255
        window[8 + shift[0] : 13 + shift[0], 14 + shift[1] : 35 + shift[1]] = 255
    return windows


def test_it_learns_which_way_is_up() -> None:
    weights = train_orientation([flags(64)], OrientationSettings(steps=120, batch=48))
    network = Orientation(orientation_graph(weights), threads=1)
    for quarter in range(4):
        turned = np.ascontiguousarray(np.rot90(flags(8), quarter, axes=(1, 2)))
        told, certain = standing(network.votes(turned), 0.0, 0.0)
        assert abs((told - 90 * quarter + 180) % 360 - 180) < 25, f"turned counter-clockwise by {90 * quarter}"
        assert certain > 0.5


def test_the_same_seed_gives_the_same_weights() -> None:
    settings = OrientationSettings(steps=2, batch=8)
    first, again = (train_orientation([flags(8)], settings) for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(
        first["told.weight"], train_orientation([flags(8)], OrientationSettings(steps=3))["told.weight"]
    )


def test_the_graph_says_what_the_module_says() -> None:
    torch.manual_seed(0)
    module = OrientationNetwork().eval()
    weights = {name: value.numpy() for name, value in module.state_dict().items() if value.ndim}
    windows = np.random.default_rng(1).integers(0, 256, (5, SIDE, SIDE)).astype(np.uint8)
    with torch.no_grad():
        expected = torch.log_softmax(module(torch.from_numpy(windows)[:, None].float() / 255), dim=1).numpy()
        turned = np.ascontiguousarray(windows[:, ::-1, ::-1])
        other = torch.log_softmax(module(torch.from_numpy(turned)[:, None].float() / 255), dim=1).numpy()
    told = Orientation(orientation_graph(weights), threads=1).votes(windows)
    assert np.allclose(told, (expected + np.roll(other, DIRECTIONS // 2, axis=1)) / 2, atol=5e-3), (
        "weights are kept in half precision"
    )
