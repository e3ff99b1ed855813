"""Shards return what was written, the kernels read them in place, and no damaged byte is used."""

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from factories import description
from membra.compare.kernels import chamfer_many, pack
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.errors import MembraError
from membra.store.shard import FIRST, SECOND, Stored, open_shard, write_shard
from membra.store.tensors import FileRecord, check_whole

FRAGMENTS = [description(seed) for seed in range(40)]


@pytest.fixture
def record(tmp_path: Path) -> FileRecord:
    return write_shard(tmp_path, [Stored.of(one) for one in FRAGMENTS], range(40))


def equal(a: Description, b: Description) -> None:
    for name in ("boxes", "embeddings"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("prototypes", "weights", "members", "error"):
        np.testing.assert_array_equal(getattr(a.bag, name), getattr(b.bag, name))


def test_what_was_written_comes_back(tmp_path: Path, record: FileRecord) -> None:
    shard = open_shard(tmp_path, record, whole=True)
    assert len(shard) == 40
    for index, expected in enumerate(FRAGMENTS):
        equal(shard.description(index), expected)
        np.testing.assert_allclose(shard.means[index], expected.embeddings.mean(axis=0), atol=1e-6)


def test_the_kernels_read_it_where_it_lies(tmp_path: Path, record: FileRecord) -> None:
    shard, expected = open_shard(tmp_path, record), pack([one.bag for one in FRAGMENTS], "float16")
    for name in ("tiles", "norms", "masses", "starts", "counts", "indices"):
        np.testing.assert_array_equal(getattr(shard.packed, name), getattr(expected, name))
    assert shard.packed.slack == expected.slack
    assert shard.packed.tiles.ctypes.data % 64 == 0
    assert all(array.flags.aligned and not array.flags.writeable for array in shard.arrays.values())
    query = [FRAGMENTS[3].bag]
    np.testing.assert_array_equal(chamfer_many(query, shard.packed), chamfer_many(query, expected))


def test_public_libraries_read_it(tmp_path: Path, record: FileRecord) -> None:
    with safe_open(tmp_path / record.name, "np") as file:
        assert set(file.keys()) == {*FIRST, *SECOND}
        np.testing.assert_array_equal(file.get_tensor("prototypes")[:2], FRAGMENTS[0].bag.prototypes[:2])
        assert file.metadata()["membra"] == "shard 3"


def test_letters_that_are_words_are_stored_once(tmp_path: Path) -> None:
    few, many = description(1, letters=6), description(2, letters=60)
    shard = open_shard(tmp_path, write_shard(tmp_path, [Stored.of(few), Stored.of(many)], [1, 2]))
    assert shard.arrays["embedding_offsets"].tolist() == [0, 0, 60]
    equal(shard.description(0), few)
    equal(shard.description(1), many)


def test_written_from_a_shard_it_is_the_same_again(tmp_path: Path, record: FileRecord) -> None:
    shard = open_shard(tmp_path, record)
    again = write_shard(tmp_path, [shard.stored(index) for index in range(40)], range(40))
    assert again == record
    assert write_shard(tmp_path, [shard.stored(index) for index in range(40)], range(40, 80)) != record


def test_numbers_that_float16_cannot_hold(tmp_path: Path) -> None:
    one = description(1, letters=4)
    bag = Bag(one.bag.prototypes * 1e6, one.bag.weights, range(4))
    large = Description(one.boxes, one.embeddings * 1e6, bag)
    shard = open_shard(tmp_path, write_shard(tmp_path, [Stored.of(large)], [1]))
    assert shard.packed.tiles.dtype == np.float32
    equal(shard.description(0), large)


def test_no_damaged_byte_is_used(tmp_path: Path, record: FileRecord) -> None:
    """Each flipped byte raises on opening, or on reading the fragment that has it; all others are unchanged."""
    path, draw = tmp_path / record.name, np.random.default_rng(0)
    content = path.read_bytes()
    reported_on_open = reported_later = 0
    for index in draw.integers(0, len(content), 200).tolist():
        changed = bytearray(content)
        changed[index] ^= 1 << int(draw.integers(0, 8))
        path.unlink()  # another file: the one before is still mapped
        path.write_bytes(changed)
        with pytest.raises(MembraError, match="damaged"):
            check_whole(tmp_path, record)
        try:
            shard = open_shard(tmp_path, record)
        except MembraError:
            reported_on_open += 1
            continue
        reported = 0
        for fragment, expected in enumerate(FRAGMENTS):
            try:
                equal(shard.description(fragment), expected)
            except MembraError:
                reported += 1
        assert reported == 1
        reported_later += 1
    assert reported_on_open > 20
    assert reported_later > 20


def test_a_cut_file_is_reported(tmp_path: Path, record: FileRecord) -> None:
    path, draw = tmp_path / record.name, np.random.default_rng(0)
    content = path.read_bytes()
    for size in [0, 1, 7, *draw.integers(8, len(content), 50).tolist()]:
        path.unlink()
        path.write_bytes(content[:size])
        with pytest.raises(MembraError, match=f"{size} bytes instead of"):
            open_shard(tmp_path, record)
    path.unlink()
    with pytest.raises(MembraError, match="is missing"):
        open_shard(tmp_path, record)
