"""Descriptions of some fragments as one immutable file: a shard. Its bytes are laid out in docs/formats.md."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from membra.describe.bag import Bag
from membra.describe.recipe import Description
from membra.errors import MembraError
from membra.files import write_whole

_LAYOUT = {  # name: (dtype, trailing shape), so that a foreign file is told from a shard
    "boxes": np.int32,
    "embeddings": np.float32,
    "members": np.int32,
    "prototypes": np.float32,
    "weights": np.float64,
    "errors": np.float64,
    "glyph_offsets": np.int64,
    "word_offsets": np.int64,
}


def write_shard(folder: Path, descriptions: Sequence[Description]) -> tuple[str, str]:
    """Write `descriptions` into `folder`; the file's name and its SHA-256.

    The name is made of the content's hash: the same descriptions are the same file, and none is overwritten.
    """
    content = save(
        {
            "boxes": np.concatenate([d.boxes for d in descriptions]),
            "embeddings": np.concatenate([d.embeddings for d in descriptions]),
            "members": np.concatenate([_members(d.bag) for d in descriptions]),
            "prototypes": np.concatenate([d.bag.prototypes for d in descriptions]),
            "weights": np.concatenate([d.bag.weights for d in descriptions]),
            "errors": np.array([d.bag.error for d in descriptions], dtype=np.float64),
            "glyph_offsets": _offsets([len(d.boxes) for d in descriptions]),
            "word_offsets": _offsets([len(d.bag) for d in descriptions]),
        }
    )
    digest = hashlib.sha256(content).hexdigest()
    name = f"{digest[:16]}.safetensors"
    write_whole(folder / name, content)
    return name, digest


def read_shard(path: Path, digest: str) -> list[Description]:
    """The descriptions of one shard, in the order in which they were written. Damage is an error, never a result."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MembraError(
            f"the shard {path.name} cannot be read ({error.strerror}); restore it or index again"
        ) from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise MembraError(f"the shard {path.name} is damaged (its checksum differs); restore it or index again")
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise MembraError(f"the shard {path.name} is no shard ({error}); index again") from None
    if {name: array.dtype for name, array in arrays.items()} != {k: np.dtype(v) for k, v in _LAYOUT.items()}:
        raise MembraError(f"the shard {path.name} has another layout; it was written by another version of membra")
    glyphs, words = arrays["glyph_offsets"], arrays["word_offsets"]
    found = []
    for place, quantisation in enumerate(arrays["errors"].tolist()):
        own, vocabulary = slice(glyphs[place], glyphs[place + 1]), slice(words[place], words[place + 1])
        bag = Bag(arrays["prototypes"][vocabulary], arrays["weights"][vocabulary], arrays["members"][own], quantisation)
        found.append(Description(arrays["boxes"][own], arrays["embeddings"][own], bag))
    return found


def _members(bag: Bag) -> NDArray[np.int32]:
    if bag.members is None:
        raise MembraError("a bag without members cannot be stored; make it with `make_bag`")
    return bag.members


def _offsets(counts: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
