"""The search through torch, on the processor: the same numbers as the plain formula."""

import subprocess
import sys

import numpy as np
import pytest

from membra.compare import gpu
from membra.compare.distance import chamfer
from membra.compare.kernels import pack
from membra.describe.bag import Bag
from membra.errors import MembraError

torch = pytest.importorskip("torch", reason="torch is in the extra [train]")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_equals_the_plain_formula(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_AT_ONCE", 200)  # several pieces a run
    rng = np.random.default_rng(0)
    bags = [Bag(rng.normal(size=(words, 20)), np.ones(words)) for words in rng.integers(1, 12, 150)]
    stored = [Bag(bag.prototypes.astype(dtype), bag.weights) for bag in bags]
    queries = [bags[3], Bag(rng.normal(size=(7, 20)), np.ones(7)), Bag(rng.normal(size=(1, 20)), [1])]
    found = gpu.chamfer_many(queries, gpu.to_device(pack(bags, dtype), "cpu"))
    expected = np.array([[chamfer(query, bag) for bag in stored] for query in queries])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(np.delete(found, 3, axis=1), np.delete(expected, 3, axis=1), rtol=1e-5)


def test_what_cannot_be_compared_is_said() -> None:
    on_device = gpu.to_device(pack([Bag([[1.0]], [1])]), "cpu")
    with pytest.raises(MembraError, match="same encoder"):
        gpu.chamfer_many([Bag([[1.0, 2.0]], [1])], on_device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(MembraError, match="no GPU"):
        gpu.to_device(pack([Bag([[1.0]], [1])]))


def test_without_torch_it_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from membra.compare import gpu; from membra.compare.kernels import pack; from membra.describe.bag import Bag\n"
        "gpu.to_device(pack([Bag([[1.0]], [1])]), 'cpu')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "membra[train]" in done.stderr
