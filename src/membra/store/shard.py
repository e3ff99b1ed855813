"""Shards: descriptions of fragments in one immutable, memory-mapped file. docs/formats.md specifies the format.

The first part has what a search reads for every fragment, in the kernels' layout; the second has what is read for few
fragments: prototypes in full precision, embeddings, boxes. Both are verified by checksum before use.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.bounds import FloatRows, Int8Rows, no_int8, with_int8
from membra.compare.kernels import Int8Bags, Packed, pack
from membra.compare.pooling import pool
from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.errors import Invalid
from membra.messages import Message
from membra.store.tensors import FileRecord, damaged, map_tensors, write_tensors

# Tensors in file order, by alignment: first those at multiples of 64, then of 8, then of 4 bytes.
INT8 = ("coarse", "coarse_norms", "coarse_steps", "coarse_offs", "coarse_rows")
FIRST = (
    *("norms", "masses", "counts", "places", *INT8[:-1], "tiles"),
    *("starts", "weights", "errors", "glyph_offsets", "word_offsets", "embedding_offsets"),
    *("means", "word_checks", "glyph_checks", "coarse_rows"),
)
SECOND = ("prototypes", "embeddings", "boxes", "members")
_KIND = "shard 3"
_OLD = "shard 2"  # has no int8 prototypes
_LARGEST_HALF = 60_000.0  # if a bag has larger values, the tiles are float32 instead of float16


@dataclass(frozen=True)
class Shard:
    """An open shard: memory-mapped arrays, read from the file on access.

    Everything that its methods return has been verified; `arrays` of the second part have not.
    """

    name: str
    arrays: dict[str, NDArray[Any]]
    slack: float  # the largest distance that rounding for the tiles moved a prototype

    def __len__(self) -> int:
        return len(self.arrays["errors"])

    @cached_property
    def packed(self) -> Packed:
        """The bags in the kernels' layout."""
        names = ("tiles", "norms", "masses", "starts", "counts")
        int8 = None
        if not self.old and len(self.arrays["coarse"]) == len(self.arrays["norms"]):
            int8 = Int8Bags(*(self.arrays[name] for name in INT8))
        return Packed(
            **{name: self.arrays[name] for name in names},
            indices=self.arrays["places"],
            slack=self.slack,
            int8=int8,
        )

    @property
    def old(self) -> bool:
        """Whether it lacks int8 prototypes, being of the older format: searches are slower, with the same results."""
        return "coarse" not in self.arrays

    @property
    def means(self) -> NDArray[np.float32]:
        """The mean embedding of each fragment, (m, d)."""
        return self.arrays["means"]

    def bag(self, row: int) -> Bag:
        """Return the bag of one fragment, in full precision, without its members."""
        own = self._rows("word_offsets", row)
        self._check_words(row)
        return Bag(self.arrays["prototypes"][own], self.arrays["weights"][own])

    def float_rows(self, rows: NDArray[np.int64]) -> FloatRows:
        """Return the input of `listed_below` for these fragments."""
        for row in rows[~self._checked[rows]].tolist():
            self._check_words(row)
        return self.arrays["prototypes"], self.arrays["word_offsets"], rows

    def stored(self, row: int) -> "Stored":
        """Return the stored form of one fragment; its arrays stay in the file."""
        own, own_embeddings = (self._rows(f"{name}_offsets", row) for name in ("glyph", "embedding"))
        boxes, members = self.arrays["boxes"][own], self.arrays["members"][own]
        embeddings = self.arrays["embeddings"][own_embeddings]
        self._compare("glyph_checks", row, embeddings, boxes, members)
        bag = self.bag(row)
        error = float(self.arrays["errors"][row])
        return Stored(boxes, embeddings, Bag(bag.prototypes, bag.weights, members, error), self.means[row])

    def description(self, row: int) -> Description:
        """Return the description of one fragment without its note, which is in the manifest."""
        found = self.stored(row)
        embeddings = found.embeddings
        if not len(embeddings):  # each glyph is a prototype of its own, and stored only as that
            embeddings = found.bag.prototypes[members_of(found.bag)]
        return Description(found.boxes, embeddings, found.bag)

    def _rows(self, offsets: str, row: int) -> slice:
        first, last = self.arrays[offsets][row : row + 2].tolist()
        return slice(first, last)

    def int8_rows(self, rows: NDArray[np.int64]) -> Int8Rows | None:
        """Return the input of `listed_int8` for these fragments; None if the shard has no int8 prototypes."""
        int8 = self.packed.int8
        return None if int8 is None else (int8.rows, self.arrays["word_offsets"], *self._grain, rows)

    @cached_property
    def _grain(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The quantization steps and largest rounding errors of the int8 prototypes, each (m,), by row."""
        steps, offs = (np.empty(len(self), dtype=np.float32) for _ in range(2))
        lanes = self.arrays["places"] >= 0
        for found, name in ((steps, "coarse_steps"), (offs, "coarse_offs")):
            found[self.arrays["places"][lanes]] = self.arrays[name][lanes]
        return steps, offs

    @cached_property
    def _checked(self) -> NDArray[np.bool_]:
        """(m,), whether the prototypes of each row have been verified; done once per open file."""
        return np.zeros(len(self), dtype=bool)

    def _check_words(self, row: int) -> None:
        if not self._checked[row]:
            self._compare("word_checks", row, self.arrays["prototypes"][self._rows("word_offsets", row)])
            self._checked[row] = True

    def _compare(self, checks: str, row: int, *rows: NDArray[Any]) -> None:
        if _crc(*rows) != int(self.arrays[checks][row]):
            raise damaged(self.name)


@dataclass(frozen=True)
class Stored:
    """One fragment in the form in which a shard stores it."""

    boxes: NDArray[np.int32]
    embeddings: NDArray[np.float32]  # (n, d), or (0, d) if each glyph is a prototype, which then equals its embedding
    bag: Bag
    mean: NDArray[np.float32]  # (d,), of all embeddings

    @classmethod
    def of(cls, description: Description) -> "Stored":
        """Convert a description to its stored form."""
        bag, embeddings = description.bag, description.embeddings
        prototypes = bag.prototypes[members_of(bag)]
        same = prototypes.shape == embeddings.shape and np.array_equal(prototypes, embeddings)
        mean = pool(embeddings, "mean").astype(np.float32)
        return cls(description.boxes, embeddings[:0] if same else embeddings, bag, mean)


def write_shard(folder: Path, fragments: Sequence[Stored], owners: Sequence[object]) -> FileRecord:
    """Write `fragments` (one at least) into `folder` as a shard that the manifest does not name yet.

    `owners` (their ids or numbers) make the file's name differ from that of equal descriptions of other fragments.
    """
    arrays, slack = _arrays(fragments)
    digest = hashlib.sha256("\0".join(map(str, owners)).encode()).hexdigest()
    return write_tensors(folder, arrays, len(FIRST), {"membra": _KIND, "slack": repr(slack), "owners": digest})


def open_shard(folder: Path, record: FileRecord, *, whole: bool = False) -> Shard:
    """Map a shard and verify its first part, or the `whole` file. Damage raises an error, never a wrong result."""
    arrays, meta = map_tensors(folder, record, whole=whole)
    first = {_KIND: FIRST, _OLD: tuple(name for name in FIRST if name not in INT8)}.get(meta.get("membra", ""), ())
    if tuple(arrays) != first + SECOND:
        raise damaged(record.name, Message("it is not a shard of this version"))
    try:
        slack, fits = float(meta["slack"]), _fits(arrays)
    except (KeyError, ValueError, TypeError, IndexError):
        fits = False
    if not fits:
        raise damaged(record.name, Message("its tensors do not match each other"))
    return Shard(record.name, arrays, slack)


def _fits(arrays: dict[str, NDArray[Any]]) -> bool:
    """Return whether the shapes in a header are consistent: a checksum detects accidents, not files written wrongly."""
    rows, (count, wide) = len(arrays["errors"]), arrays["prototypes"].shape
    tiles, dimension, lanes = arrays["tiles"].shape
    shapes = {
        "norms": (tiles, lanes),
        "masses": (tiles, lanes),
        "counts": (len(arrays["starts"]) - 1, lanes),
        "places": (len(arrays["starts"]) - 1, lanes),
        "weights": (count,),
        "means": (rows, wide),
        "word_checks": (rows,),
        "glyph_checks": (rows,),
        "boxes": (len(arrays["members"]), 4),
        "embeddings": (len(arrays["embeddings"]), wide),
    }
    ends = {"word_offsets": "prototypes", "glyph_offsets": "boxes", "embedding_offsets": "embeddings"}
    return (
        lanes == 16
        and dimension == wide
        and all(arrays[name].shape == shape for name, shape in shapes.items())
        and all(arrays[name].shape == (rows + 1,) and arrays[name][-1] == len(arrays[of]) for name, of in ends.items())
        and arrays["starts"].ndim == arrays["members"].ndim == arrays["errors"].ndim == 1
        and int(arrays["starts"][-1]) == tiles
        and all(arrays[name].dtype == np.int64 for name in (*ends, "starts", "places"))
    )


def _arrays(fragments: Sequence[Stored]) -> tuple[dict[str, list[NDArray[Any]]], float]:
    """Return every tensor as a list of pieces, which may be mapped from other shards, and the slack."""
    bags = [fragment.bag for fragment in fragments]
    largest = max(float(np.abs(bag.prototypes).max()) for bag in bags)
    packed = with_int8(pack(bags, "float16" if largest < _LARGEST_HALF else "float32"), bags)
    int8 = packed.int8 or no_int8(packed)
    arrays: dict[str, list[NDArray[Any]]] = {
        "norms": [packed.norms],
        "masses": [packed.masses],
        "counts": [packed.counts],
        "places": [packed.indices],
        "coarse": [int8.tiles],
        "coarse_norms": [int8.norms],
        "coarse_steps": [int8.steps],
        "coarse_offs": [int8.offs],
        "tiles": [packed.tiles],
        "starts": [packed.starts],
        "weights": [bag.weights for bag in bags],
        "errors": [np.array([bag.error for bag in bags], dtype=np.float64)],
        "glyph_offsets": [_offsets([len(fragment.boxes) for fragment in fragments])],
        "word_offsets": [_offsets([len(bag) for bag in bags])],
        "embedding_offsets": [_offsets([len(fragment.embeddings) for fragment in fragments])],
        "means": [np.array([fragment.mean for fragment in fragments], dtype=np.float32)],
        "word_checks": [np.array([_crc(bag.prototypes) for bag in bags], dtype=np.uint32)],
        "glyph_checks": [
            np.array([_crc(f.embeddings, f.boxes, members_of(f.bag)) for f in fragments], dtype=np.uint32)
        ],
        "coarse_rows": [int8.rows],
        "prototypes": [bag.prototypes for bag in bags],
        "embeddings": [fragment.embeddings for fragment in fragments],
        "boxes": [fragment.boxes for fragment in fragments],
        "members": [members_of(bag) for bag in bags],
    }
    return arrays, packed.slack


def members_of(bag: Bag) -> NDArray[np.int32]:
    """Return the index of the prototype of each glyph."""
    if bag.members is None:
        raise Invalid("a bag without members cannot be stored; make it with `make_bag`")
    return bag.members


def _offsets(counts: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _crc(*rows: NDArray[Any]) -> int:
    found = 0
    for array in rows:
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    return found
