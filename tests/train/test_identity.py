"""The identity encoder: it learns hands, its ONNX graph agrees, and augmentation changes letters like cameras do."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from membra import scribes
from membra.describe.encoder import Encoder
from membra.describe.graph import identity_graph, weights_of
from membra.errors import MembraError
from membra.see.glyphs import GlyphSettings, cut_glyphs
from membra.see.ink import Ink, otsu

torch = pytest.importorskip("torch", reason="torch is in the extra [train]")

from membra.train.augment import AugmentSettings, augment  # noqa: E402
from membra.train.identity import (  # noqa: E402
    IdentitySettings,
    _capture_cuda_graph,
    _Data,
    _embed,
    _shared_targets,
    _split,
    train_identity,
    warm_up,
)
from membra.train.networks import Identity  # noqa: E402

CHANNELS = (8, 16, 32, 64)
SMALL = IdentitySettings(dimension=16, channels=CHANNELS, min_letters=640, epochs=1, batch=64, held_out=0.2)
HANDS = 4
GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


@pytest.fixture(scope="module")
def letters() -> tuple[np.ndarray, np.ndarray]:
    """Letters of four hands, (n, 64, 64), and the index of each one's hand."""
    found, owners = [], []
    for hand in range(HANDS):
        for line in range(4):
            sheet = scribes.word(scribes.hand(10 + hand), "אבגדהוזחטיכלמנסעפצקרשת", seed=line)
            patches = cut_glyphs(Ink(otsu(sheet), 1.0, 40.0), GlyphSettings(min_area=120)).patches
            found.append(patches)
            owners.append(np.full(len(patches), hand))
    return np.concatenate(found), np.concatenate(owners)


def recognised(encoder: Encoder, patches: np.ndarray, owners: np.ndarray) -> float:
    """Return how often letters are nearest to the mean of their own hand; means are of the other half."""
    embeddings = encoder.encode(patches)
    half = np.arange(len(owners)) % 2 == 0
    means = np.array([embeddings[half & (owners == hand)].mean(axis=0) for hand in range(HANDS)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return float(((embeddings[~half] @ means.T).argmax(axis=1) == owners[~half]).mean())


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_it_learns_hands_from_letters(letters: tuple[np.ndarray, np.ndarray], device: str) -> None:
    patches, owners = letters
    warm_up(torch.device(device), SMALL)
    blank = Identity(16, CHANNELS).eval()
    before = Encoder(identity_graph({k: v.numpy() for k, v in blank.state_dict().items()}))
    weights = train_identity(patches, owners, replace(SMALL, min_letters=6000, held_out=0.0), device=device)
    after = Encoder(identity_graph(weights))
    assert recognised(after, patches, owners) > recognised(before, patches, owners) + 0.1


@pytest.mark.parametrize("device", [GPU])
def test_a_graph_has_the_same_gradients(letters: tuple[np.ndarray, np.ndarray], device: str) -> None:
    some = torch.from_numpy(letters[0][:64, None] / 255).float().to(device)
    plain: Any = Identity(16, CHANNELS)
    plain = plain.to(device, memory_format=torch.channels_last).train()  # missing in torch's stubs
    graphed = deepcopy(plain)
    _capture_cuda_graph(graphed, some)
    aim = torch.randn(64, 16, device=device)
    for network in (plain, graphed):
        (_embed(network, some.flip(0)) * aim).sum().backward()
    for one, other in zip(plain.parameters(), graphed.parameters(), strict=True):
        np.testing.assert_allclose(other.grad.cpu(), one.grad.cpu(), rtol=0.05, atol=0.02 * float(one.grad.abs().max()))


def test_the_onnx_file_is_the_network_and_can_be_trained_on(
    letters: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    patches, owners = letters
    weights = train_identity(patches, owners, SMALL)
    network = Identity(16, CHANNELS)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    with torch.no_grad():
        expected = network.eval().look_twice(torch.from_numpy(patches[:9, None] / 255).float()).numpy()
    onnx = identity_graph(weights)
    (tmp_path / "mine.onnx").write_bytes(onnx)  # opened like an untrusted file, which is checked first
    np.testing.assert_allclose(Encoder.open(tmp_path / "mine.onnx").encode(patches[:9]), expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(weights["centre"]) > 0.01, "letters are seen from the middle of the hands"
    again = train_identity(patches, owners, replace(SMALL, min_letters=64), start=weights_of(onnx))
    assert set(again) == set(weights)
    with pytest.raises(MembraError, match="not the weights of an identity encoder"):
        train_identity(patches, owners, SMALL, start={"encoder_net.0.weight": weights["stem.0.weight"]})


def test_the_same_seed_gives_the_same_weights(letters: tuple[np.ndarray, np.ndarray]) -> None:
    short = replace(SMALL, min_letters=256)
    first, second = (train_identity(*letters, short) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    other = train_identity(*letters, replace(short, seed=5))
    assert not np.array_equal(first["out.weight"], other["out.weight"])


def test_it_stops_when_held_out_letters_get_harder(letters: tuple[np.ndarray, np.ndarray]) -> None:
    """Random labels: nothing learnt generalises to held-out letters."""
    patches, owners = letters
    shuffled = np.random.default_rng(0).permutation(owners)
    seen: list[int] = []
    settings = replace(SMALL, min_letters=20_000, shared=0.0, rate=4e-3, augment=AugmentSettings(hole=0, camera=0))
    train_identity(patches[:80], shuffled[:80], settings, progress=lambda done, most: seen.append(done))
    assert seen[-1] < 19_000


def test_held_out_letters_are_not_trained_on() -> None:
    classes = np.repeat([0, 1, 2], [50, 50, 6])
    seen, unseen = _split(classes, IdentitySettings(held_out=0.2))
    assert len(unseen) == 20
    assert not set(seen) & set(unseen)
    assert not (classes[unseen] == 2).any()  # too few to hold one out


def test_targets_are_shared_with_mutual_neighbours_only(letters: tuple[np.ndarray, np.ndarray]) -> None:
    patches, owners = letters
    owner = torch.from_numpy(owners)
    data = _Data(torch.from_numpy(patches), owner, torch.arange(len(owners)), torch.arange(0))
    targets = _shared_targets(Identity(16, CHANNELS), data, replace(SMALL, shared=0.3, neighbours=1))
    np.testing.assert_allclose(targets.sum(dim=1).numpy(), 1, atol=1e-6)
    off = (targets - torch.diag(targets.diag())) > 0
    assert torch.equal(off, off.T)
    assert off.any()


def test_letters_change_but_stay_letters() -> None:
    patches = torch.zeros(32, 1, 64, 64)
    patches[:, :, 16:48, 24:40] = 1
    draw = torch.Generator().manual_seed(0)
    changed = augment(patches, AugmentSettings(), draw)
    assert changed.shape == patches.shape
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    assert not torch.equal(changed[0], changed[1])
    ink = changed.flatten(1).sum(dim=1) / patches[0].sum()
    assert 0.3 < float(ink.min()) < float(ink.max()) < 2.5
    still = AugmentSettings(turn=0, shear=0, scale=0, shift=0, thinner=0, thicker=0, hole=0, camera=0)
    torch.testing.assert_close(augment(patches, still, draw), patches)
