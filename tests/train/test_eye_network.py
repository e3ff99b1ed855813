"""The network of the eye: ONNX and torch agree, a short training helps, and excluded sources are not used."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from safetensors.numpy import save_file

from membra.see.eye import Eye, open_eye
from membra.train.eye_material import Item, read_material, write_material
from membra.train.eye_sheet import take_apart
from membra.train.eye_world import World

torch = pytest.importorskip("torch", reason="torch is in the extra [train]")

from membra.train import eye_training as training  # noqa: E402
from membra.train.eye_graph import eye_graph  # noqa: E402
from membra.train.eye_material import UNKNOWN  # noqa: E402
from membra.train.eye_network import EyeNetwork  # noqa: E402
from membra.train.eye_sheet import SIDE  # noqa: E402
from membra.train.eye_training import SOURCES, Bank, EyeSettings, draw_bank, train_eye  # noqa: E402

TOOL = Path(__file__).parents[2] / "tools" / "eye.py"
FEW = EyeSettings(steps=2, batch=4, side=64)

Weights = dict[str, NDArray[np.float32]]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Such small work is slower in several threads, and twenty times slower on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def network(seed: int = 0) -> EyeNetwork:
    """Return an untrained network with plausible batch norm statistics: means, and large and tiny variances."""
    torch.manual_seed(seed)
    made = EyeNetwork().eval()
    for layer in made.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            width = layer.num_features
            spread = 10 ** torch.empty(width).uniform_(-4, 0.5)
            layer.running_mean.copy_(0.3 * torch.randn(width))
            layer.running_var.copy_(spread)
            layer.weight.data = spread.sqrt() * torch.empty(width).uniform_(0.6, 1.4)
            layer.bias.data = 0.2 * torch.randn(width)
    made.maps.weight.data *= 6  # so that its probabilities are not all near 0.5
    return made


def weights_of(made: EyeNetwork) -> Weights:
    return {name: value.numpy() for name, value in made.state_dict().items()}


@pytest.mark.parametrize("shape", [(16, 16), (32, 80), (176, 144)])
def test_onnx_shows_what_torch_shows(shape: tuple[int, int]) -> None:
    made = network()
    photograph = np.random.default_rng(1).random((1, 3, *shape), dtype=np.float32)
    with torch.no_grad():
        logits, expected = made(torch.from_numpy(photograph))
    maps, fields = Eye(eye_graph(weights_of(made)), threads=1)._session.run(None, {"photograph": photograph})
    likely = torch.sigmoid(logits).numpy()
    assert likely.std() > 0.05, "not all alike"
    np.testing.assert_allclose(maps, likely, atol=1e-4)
    np.testing.assert_allclose(fields, expected.numpy(), atol=1e-4 * float(expected.abs().max()))


def test_other_weights_are_another_eye_the_same_are_the_same() -> None:
    first, again, other = (eye_graph(weights_of(network(seed))) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_tool_ships_weights_as_an_eye(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("eye_tool", TOOL)
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert all(set(left_out) <= set(SOURCES) for left_out in tool.FOLDS.values())
    weights = weights_of(network())
    save_file(weights, tmp_path / "all.safetensors")
    arguments = ["ship", str(tmp_path / "all.safetensors"), "--out", str(tmp_path / "eye.onnx")]
    result = CliRunner().invoke(tool.main, arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "eye.onnx").read_bytes() == eye_graph(weights)
    assert open_eye(tmp_path / "eye.onnx").look(np.zeros((20, 20, 3), np.uint8)).ink.shape == (20, 20)


@pytest.fixture(scope="module")
def material(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("material") / "material.npz"
    write_material(items, path)
    return path


@pytest.fixture(scope="module")
def bank(material: Path) -> Bank:
    return draw_bank(material, 40, workers=1, first=100)


def test_a_bank_holds_the_samples_of_the_world(bank: Bank, material: Path) -> None:
    world = World([take_apart(item) for item in read_material(material)])
    for row in range(0, 40, 3):
        sample = world.sample(100 + row)
        assert np.array_equal(bank.pictures[row], sample.picture)
        assert np.array_equal(bank.masks[row], [sample.ink, sample.surface])
        facts = [sample.angle, np.log2(sample.height / 24)]
        np.testing.assert_allclose(bank.facts[row], facts, rtol=1e-5)
        assert {name for name, there in zip(SOURCES, bank.sources[row], strict=True) if there} == sample.sources
    assert bank.facts.dtype == np.float32
    assert bank.sources.shape == (40, len(SOURCES))


def test_a_little_training_helps_and_makes_an_eye(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[list[float]] = []  # losses of each step: ink, surface, turn, height

    def noted(*seen: Any) -> Any:
        found = losses_of(*seen)
        left.append([float(part.detach()) for part in found])
        return found

    losses_of = training._losses
    monkeypatch.setattr(training, "_losses", noted)
    weights = train_eye(bank, EyeSettings(steps=36, batch=8, side=64), device="cpu")
    assert len(left) == 36
    first, last = np.mean(left[:6], axis=0), np.mean(left[-6:], axis=0)
    assert last[0] < 0.9 * first[0], "of ink"
    assert last.sum() < 0.8 * first.sum()
    assert all(np.isfinite(value).all() for value in weights.values())
    look = Eye(eye_graph(weights), threads=1).look(bank.pictures[0])
    assert look.ink.shape == bank.pictures.shape[1:3]


def test_the_same_seed_the_same_weights_another_seed_others(bank: Bank) -> None:
    first, again, other = (train_eye(bank, replace(FEW, seed=seed), device="cpu") for seed in (0, 0, 1))
    assert same(first, again)
    assert not same(first, other)


def same(one: Weights, other: Weights) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one) and one.keys() == other.keys()


def test_what_is_left_out_is_not_learnt(bank: Bank) -> None:
    barred = bank.sources[:, [SOURCES.index(name) for name in ("dibco", "plates")]].any(axis=1)
    assert 4 <= barred.sum() <= 30
    kept = ~barred
    rest = Bank(bank.pictures[kept], bank.masks[kept], bank.facts[kept], bank.sources[kept])
    without = train_eye(bank, FEW, without=("dibco", "plates"), device="cpu")
    assert same(without, train_eye(rest, FEW, device="cpu"))
    assert not same(without, train_eye(bank, FEW, device="cpu"))


def test_a_batch_is_turned_counter_clockwise_with_its_angle() -> None:
    """For a picture with a bright corner and full truth, the angle follows the corner."""
    picture, masks = np.zeros((8, SIDE, SIDE, 3), np.uint8), np.zeros((8, 2, *[SIDE] * 2))
    masks[:, 0, : SIDE // 2, SIDE // 2 :] = 255  # at the upper right: 45 degrees
    facts = np.full((8, 2), np.pi / 4, np.float32)
    whole = EyeSettings(batch=8, side=SIDE)
    pictures, drawn, known = (torch.from_numpy(part) for part in (picture, masks.astype(np.uint8), facts))
    _, ink, _, angle, _ = training._batch(pictures, drawn, known, whole, torch.Generator())
    for one, turn in zip(ink[:, 0].numpy(), angle.tolist(), strict=True):
        rows, columns = np.nonzero(one)
        half = (SIDE - 1) / 2
        found = np.arctan2(half - rows.mean(), columns.mean() - half)
        assert np.cos(found - turn) == pytest.approx(1.0, abs=1e-6)
    assert len(set(np.round(angle.numpy(), 3).tolist())) == 4


def test_what_is_not_known_is_not_learnt() -> None:
    torch.manual_seed(0)
    maps, fields = torch.randn(2, 2, 32, 32), torch.randn(2, 3, 2, 2)
    ink, surface = (255.0 * (torch.rand(2, 1, 32, 32) < 0.3) for _ in range(2))
    angle, height = torch.tensor([0.3, 1.0]), torch.tensor([0.1, -0.4])
    known = training._losses(maps, fields, ink, surface, angle, height)
    assert all(float(part) > 0.01 for part in known)
    nan, unknown = torch.full((2,), torch.nan), torch.full_like(ink, UNKNOWN)
    assert [float(part) for part in training._losses(maps, fields, ink, surface, nan, nan)[2:]] == [0.0, 0.0]
    assert float(training._losses(maps, fields, ink, unknown, angle, height)[1]) == 0.0
    half = ink.clone()
    half[..., :16] = UNKNOWN
    changed = maps.clone()
    changed[..., :16] += 3
    one, other = (training._losses(seen, fields, half, unknown, nan, nan)[0] for seen in (maps, changed))
    assert float(one) == pytest.approx(float(other))
