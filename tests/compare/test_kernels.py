"""Tests of the kernels against the plain formula: every kernel that runs on this machine, every edge-case shape."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from membra.compare import kernels
from membra.compare.distance import chamfer, costs
from membra.compare.kernels import (
    LANES,
    available,
    bfloat16_kernels,
    chamfer_many,
    chamfer_matrix,
    nearest_sums,
    pack,
)
from membra.describe.bag import Bag
from membra.errors import MembraError

KERNELS = available()


def draw(rng: np.random.Generator, words: int, d: int, spread: float = 1.0) -> Bag:
    weights = rng.uniform(0, 1, words)
    weights[rng.uniform(size=words) < 0.2] = 0  # prototypes without mass
    weights[0] += 1
    return Bag(rng.normal(0, spread, (words, d)), weights)


def plain(queries: list[Bag], bags: list[Bag]) -> NDArray[np.float64]:
    return np.array([[chamfer(query, bag) for bag in bags] for query in queries])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 7, 16, 100, 128])
def test_equals_the_plain_formula(kernel: str, d: int) -> None:
    rng = np.random.default_rng(d)
    bags = [draw(rng, int(words), d) for words in rng.integers(1, 33, 53)]  # 53 is no multiple of 16
    queries = [draw(rng, words, d) for words in (1, 2, 5, 7, 13, 20, 24, 25, 31, 32, 33, 49, 70)]
    found = chamfer_many(queries, pack(bags), kernel=kernel)
    assert found.shape == (13, 53)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, plain(queries, bags), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("count", [1, 15, 16, 17, 32, 200])
def test_any_number_of_bags(kernel: str, count: int) -> None:
    rng = np.random.default_rng(count)
    bags = [draw(rng, 3, 9) for _ in range(count)]
    found = chamfer_many([bags[-1]], pack(bags), kernel=kernel)
    np.testing.assert_allclose(found, plain([bags[-1]], bags), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_float16_is_the_plain_formula_of_the_rounded_words(kernel: str) -> None:
    rng = np.random.default_rng(1)
    bags = [draw(rng, int(words), 24) for words in rng.integers(1, 33, 40)]
    bags.append(Bag(np.full((2, 24), 3e-6), [1, 1]))  # subnormal in float16
    rounded = [Bag(bag.prototypes.astype(np.float16), bag.weights) for bag in bags]
    query = draw(rng, 20, 24)
    packed = pack(bags, "float16")
    found = chamfer_many([query], packed, kernel=kernel)
    np.testing.assert_allclose(found, plain([query], rounded), rtol=2e-5)
    off = np.abs(found - plain([query], bags)).max()
    assert 0 < off <= packed.slack + 1e-5


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e3])
def test_a_copy_is_at_distance_zero_and_near_copies_keep_their_digits(kernel: str, spread: float) -> None:
    rng = np.random.default_rng(2)
    bag = draw(rng, 20, 128, spread)
    near = [Bag(bag.prototypes + rng.normal(0, spread * step, (20, 128)), bag.weights) for step in (1e-2, 1e-3, 1e-5)]
    bags = [bag, *near, *(draw(rng, 20, 128, spread) for _ in range(20))]
    found = chamfer_many([bag], pack(bags), kernel=kernel)[0]
    assert found[0] == 0
    np.testing.assert_allclose(found, plain([bag], bags)[0], rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_words_may_repeat(kernel: str) -> None:
    bags = [Bag([[1.0, 2.0]] * 5, np.ones(5)), Bag([[1.0, 2.0]], [1]), Bag([[0.0, 0.0]] * 3, np.ones(3))]
    found = chamfer_many(bags, pack(bags), kernel=kernel)
    np.testing.assert_allclose(found, plain(bags, bags), rtol=1e-6)
    assert found[0, 1] == 0
    assert found[2, 2] == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_sided_sums_by_mass(kernel: str) -> None:
    rng = np.random.default_rng(3)
    bags = [draw(rng, int(words), 10) for words in rng.integers(1, 9, 35)]
    query = draw(rng, 6, 10)
    forward, backward = nearest_sums([query], pack(bags), masses=True, kernel=kernel)
    for index, bag in enumerate(bags):
        distance = costs(query, bag)
        np.testing.assert_allclose(forward[0, index], query.weights @ distance.min(axis=1), rtol=2e-5)
        np.testing.assert_allclose(backward[0, index], bag.weights @ distance.min(axis=0), rtol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_below_is_below(kernel: str, dtype: str) -> None:
    """Never above the sums of the unrounded prototypes, even where these nearly coincide, and not far below."""
    rng = np.random.default_rng(4)
    query = Bag(rng.normal(3, 1, (20, 128)), rng.uniform(0, 1, 20))
    steps = 10.0 ** rng.uniform(-6, 0.5, 64)
    bags = [Bag(query.prototypes + rng.normal(0, step, (20, 128)), rng.uniform(0, 1, 20)) for step in steps]
    packed = pack(bags, dtype)
    forward, backward = nearest_sums([query], packed, masses=True, below=True, kernel=kernel)
    distances = [costs(query, bag) for bag in bags]
    there = np.array([query.weights @ distance.min(axis=1) for distance in distances])
    back = np.array([bag.weights @ distance.min(axis=0) for bag, distance in zip(bags, distances, strict=True)])
    assert (forward[0] <= there).all()
    assert (backward[0] <= back).all()
    assert (there - forward[0] <= 2 * packed.slack + 3e-3 * there).all()


@pytest.mark.parametrize("d", [1, 2, 7, 128])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bfloat16_is_below_too_and_near(d: int, dtype: str) -> None:
    rng = np.random.default_rng(d)
    bags = [draw(rng, int(words), d) for words in rng.integers(1, 33, 53)]
    packed = pack(bags, dtype)
    for words in (1, 7, 20, 24, 25, 33):
        query = draw(rng, words, d)
        forward, backward = nearest_sums([query], packed, below=True, bfloat16=True)
        fine = nearest_sums([query], packed, below=True)
        distances = [costs(query, bag) for bag in bags]
        assert (forward[0] <= [distance.min(axis=1).mean() for distance in distances]).all()
        assert (backward[0] <= [distance.min(axis=0).mean() for distance in distances]).all()
        if d == 128:  # few prototypes are so close to each other that their distance is lost
            np.testing.assert_allclose(forward, fine[0], rtol=0.02)
            np.testing.assert_allclose(backward, fine[1], rtol=0.02)
            assert (forward < fine[0]).all() == bool(bfloat16_kernels())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_kernels_agree_on_anything(count: int, most: int, words: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bags = [draw(rng, int(k), d) for k in rng.integers(1, most + 1, count)]
    query = draw(rng, words, d)
    expected = plain([query], bags)
    for kernel in KERNELS:
        np.testing.assert_allclose(chamfer_many([query], pack(bags), kernel=kernel), expected, rtol=5e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_matrix_equals_the_plain_one(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_QUERIES_AT_ONCE", 32)  # several blocks
    rng = np.random.default_rng(5)
    bags = [draw(rng, int(words), 12) for words in rng.integers(1, 9, 101)]
    bags[70] = bags[3]
    found = chamfer_matrix(bags, kernel=kernel)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0)
    assert found[70, 3] == 0
    np.testing.assert_allclose(found, plain(bags, bags), rtol=2e-5, atol=1e-6)


def test_matrix_in_float16_is_symmetric() -> None:
    rng = np.random.default_rng(6)
    bags = [draw(rng, 4, 12) for _ in range(40)]
    found = chamfer_matrix(bags, "float16")
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0)
    np.testing.assert_allclose(found, plain(bags, bags), atol=5e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_number_of_threads_and_of_queries_changes_no_bit(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    bags = [draw(rng, int(words), 16) for words in rng.integers(1, 20, 700)]
    packed = pack(bags)
    one = chamfer_many(bags[:5], packed, threads=1, kernel=kernel)
    for threads in (2, 3, 100):
        np.testing.assert_array_equal(chamfer_many(bags[:5], packed, threads=threads, kernel=kernel), one)
    monkeypatch.setattr(kernels, "_QUERIES_AT_ONCE", 2)
    np.testing.assert_array_equal(chamfer_many(bags[:5], packed, kernel=kernel), one)


def test_the_layout_is_the_documented_one() -> None:
    rng = np.random.default_rng(8)
    bags = [draw(rng, int(words), 5) for words in rng.integers(1, 9, 37)]
    packed = pack(bags)
    assert len(packed) == 37
    assert packed.tiles.ctypes.data % 64 == 0
    seen = set()
    for group in range(len(packed.counts)):
        tiles = slice(packed.starts[group], packed.starts[group + 1])
        assert packed.counts[group].max() == packed.starts[group + 1] - packed.starts[group]
        for lane in range(LANES):
            index, count = packed.indices[group, lane], packed.counts[group, lane]
            if index < 0:
                assert count == 0
                assert np.isinf(packed.norms[tiles, lane]).all()
                continue
            seen.add(int(index))
            assert count == len(bags[index])
            np.testing.assert_array_equal(packed.tiles[tiles, :, lane][:count], bags[index].prototypes)
            np.testing.assert_array_equal(packed.tiles[tiles, :, lane][count:], 0)
            np.testing.assert_allclose(packed.masses[tiles, lane][:count], bags[index].weights, rtol=1e-6)
            np.testing.assert_array_equal(packed.masses[tiles, lane][count:], 0)
            assert np.isfinite(packed.norms[tiles, lane]).tolist() == [
                slot < count for slot in range(tiles.stop - tiles.start)
            ]
    assert seen == set(range(37))


def test_memory_mapped_arrays_give_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    bags = [draw(rng, 4, 6) for _ in range(20)]
    packed = pack(bags, "float16")
    arrays = {}
    for field in fields(packed):
        if field.name in ("slack", "int8"):
            continue
        np.save(tmp_path / f"{field.name}.npy", getattr(packed, field.name))
        arrays[field.name] = np.load(tmp_path / f"{field.name}.npy", mmap_mode="r")
    mapped = kernels.Packed(**arrays, slack=packed.slack)
    np.testing.assert_array_equal(chamfer_many(bags, mapped), chamfer_many(bags, packed))


def test_no_queries_give_no_rows() -> None:
    assert chamfer_many([], pack([Bag([[1.0]], [1])])).shape == (0, 1)


def test_what_cannot_be_packed_or_compared_is_said() -> None:
    one, two = Bag([[1.0]], [1]), Bag([[1.0, 2.0]], [1])
    with pytest.raises(MembraError, match=r"\[1, 2\] dimensions"):
        pack([one, two])
    with pytest.raises(MembraError, match="no bags"):
        pack([])
    with pytest.raises(MembraError, match="float64"):
        pack([one], "float64")
    with pytest.raises(MembraError, match="float16 cannot"):
        pack([Bag([[1e6]], [1])], "float16")
    with pytest.raises(MembraError, match="float32 cannot"):
        pack([Bag([[1e25]], [1])])
    with pytest.raises(MembraError, match="same encoder"):
        chamfer_many([two], pack([one]))
    with pytest.raises(MembraError, match="unknown kernel `fast`"):
        chamfer_many([one], pack([one]), kernel="fast")


@pytest.mark.skipif(KERNELS == ["numpy"], reason="installed without a compiler")
def test_the_native_kernel_refuses_arrays_that_do_not_fit() -> None:
    packed = pack([Bag([[1.0, 2.0]], [1])])
    short = np.zeros(3, dtype=np.float32)
    with pytest.raises(ValueError, match="do not fit"):
        kernels.native.sums(
            "base", False, 2, 1.0, packed.tiles, packed.norms, None, packed.starts, packed.counts,
            np.zeros(2, np.float32), np.ones(1, np.float32), np.array([0, 1]), short, short.copy(), 0, 1,
        )  # fmt: skip


def test_without_the_native_kernel_the_portable_one_is_used() -> None:
    program = (
        "import sys; sys.modules['membra.compare._chamfer'] = None\n"
        "from membra.compare import kernels; from membra.describe.bag import Bag\n"
        "bag = Bag([[0.0], [1.0]], [1, 1]); other = Bag([[0.0]], [1])\n"
        "print(*kernels.available(), kernels.chamfer_many([bag], kernels.pack([other]))[0, 0])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["numpy", "0.25"]


def test_the_kernel_in_use_can_be_asked_for() -> None:
    done = subprocess.run([sys.executable, "-m", "membra.compare.kernels"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == KERNELS
