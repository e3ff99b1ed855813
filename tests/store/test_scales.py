"""Stored local scales, after an update, equal those computed from scratch."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membra.compare.local_scaling import measure_local
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.store.rows import Rows
from membra.store.scales import Scales, read_scales, updated, write_scales
from membra.store.shard import Shard, Stored, open_shard, write_shard


def described(seed: int) -> Description:
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 9))
    embeddings = (draw.normal(size=6) + draw.normal(size=(count, 6))).astype(np.float32)
    return Description(np.zeros((count, 4), np.int32), embeddings, Bag(embeddings, np.ones(count), range(count)))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Shard]:
    """90 fragments in shards of 30; those with numbers 31 to 36 are copies of 1 to 6."""
    folder = tmp_path_factory.mktemp("shards")
    seeds = [*range(30), *range(6), *range(36, 90)]
    parts = [[described(seed) for seed in seeds[first : first + 30]] for first in (0, 30, 60)]
    return [open_shard(folder, write_shard(folder, [Stored.of(one) for one in part], [len(part)])) for part in parts]


def rows_with(shards: list[Shard], numbers: set[int]) -> Rows:
    """The rows of the three shards, of which only those with these numbers (1 to 90) have not been removed."""
    kept = np.array([number if number in numbers else 0 for number in range(1, 91)], dtype=np.int32)
    return Rows(shards, [kept[:30], kept[30:60], kept[60:]])


def references(numbers: set[int], most: int) -> np.ndarray:
    """A bottom-k sketch: the numbers with the smallest simulated hash of the image."""
    return np.array(sorted(sorted(numbers, key=lambda number: (number * 7919) % 9973)[:most]), dtype=np.int32)


def same(a: Scales, b: Scales) -> None:
    np.testing.assert_array_equal(a.numbers, b.numbers)
    np.testing.assert_allclose(a.scales, b.scales, rtol=1e-6)


numbers = st.sets(st.integers(1, 90), min_size=0, max_size=90)


@settings(max_examples=60, deadline=None)
@given(states=st.lists(numbers, min_size=2, max_size=5), most=st.sampled_from([3, 11, 25, 90]))
def test_updated_step_by_step_is_measured_afresh(shards: list[Shard], states: list[set[int]], most: int) -> None:
    kept = None
    for state in states:
        rows, chosen = rows_with(shards, state), references(state, most)
        kept = updated(kept, rows, chosen)
        same(kept, updated(None, rows, chosen))


def test_it_is_what_the_plain_matrix_gives(shards: list[Shard]) -> None:
    rows = rows_with(shards, set(range(1, 91)))
    chosen = references(set(range(1, 91)), 25)
    local = measure_local([rows.description(row) for row in range(90)], references=(chosen - 1).tolist())
    np.testing.assert_allclose(updated(None, rows, chosen).scales, local.scales, rtol=1e-5, atol=1e-7)


def test_adding_few_measures_few(shards: list[Shard], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten more fragments, none of them a reference: the others are not read again."""
    before, after = set(range(1, 81)), set(range(1, 91))
    chosen = np.arange(1, 21, dtype=np.int32)
    kept = updated(None, rows_with(shards, before), chosen)
    rows, get = rows_with(shards, after), Rows.bag
    read: list[int] = []

    def noted(self: Rows, row: int) -> Bag:
        read.append(row)
        return get(self, row)

    monkeypatch.setattr(Rows, "bag", noted)
    updated(kept, rows, chosen)
    assert set(read) == {*range(20), *range(80, 90)}


def test_stored_and_read_again(shards: list[Shard], tmp_path: Path) -> None:
    rows = rows_with(shards, set(range(1, 60)))
    scales = updated(None, rows, references(set(range(1, 60)), 25))
    record = write_scales(tmp_path, scales)
    found = read_scales(tmp_path, record)
    assert found is not None
    same(found, scales)
    np.testing.assert_array_equal(found.which, scales.which)
    content = bytearray((tmp_path / record.name).read_bytes())
    content[-9] ^= 4
    (tmp_path / record.name).write_bytes(content)
    assert read_scales(tmp_path, record) is None  # to be computed again
