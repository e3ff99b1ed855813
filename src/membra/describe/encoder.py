"""Encodes patches as embeddings by ONNX Runtime; torch is needed only for training."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.describe.foreign_onnx import check_graph
from membra.describe.graph import graph_of
from membra.errors import Invalid, MembraError, system_says
from membra.see.glyphs import PATCH
from membra.see.session import open_session

MAX_BYTES = 256_000_000  # no encoder of 64 x 64 patches is larger; a larger file is something else
MAX_DIMENSIONS = 4096
READY = Path(__file__).with_name("ready.onnx")  # the encoder that ships with membra
# The digests of all encoders that ever shipped, the current one last. A collection described with one of them gets the
# current one when it is described again; an encoder that was fitted to it, or given by the user, stays.
SHIPPED = (
    "2be81db3ec6ebe826e3ea0cf24b7013e286839c5f080e7ab3251db814d7f9325",
    "8b869de8ec8835b827c5a4662b397a061364167b9f52aacd542db7d43b9068f2",
    "98aca9d2fe31510219d86ff7cbefd8c12fb0a0384067fda26115892ca8d1adee",
    "812675367539a86cc35015ef21db69bb18aecadb9b6cd64f92c8a03a5eff1fc1",
    "b19580da0bfb853511154df22569c19fed32c23d7c5a99879d34fde61120f47f",
)
_BATCH = 128  # patches per call, each encoded in two versions: larger batches gain nothing on a CPU and cost memory


class Encoder:
    """A trained network that turns (n, 64, 64) patches into (n, d) embeddings.

    `digest` is the SHA-256 of its ONNX bytes: two collections are comparable only if it is the same.
    """

    def __init__(self, onnx: bytes, *, threads: int = 0) -> None:
        """Open ONNX bytes; `threads` = 0 uses every core."""
        self._session = open_session(onnx, threads)
        names, shapes = self._session.names[: self._session.inputs], self._session.shapes
        if names != ["patches"] or len(shapes) < 2 or shapes[0][1:] != [1, PATCH, PATCH] or len(shapes[1]) != 2:
            raise Invalid(
                "this model is not an encoder: it does not turn patches of 1 x {side} x {side} into vectors", side=PATCH
            )
        self.onnx = onnx
        if not isinstance(shapes[1][1], int):
            raise Invalid("this model is not an encoder: it does not declare how many dimensions its vectors have")
        self.dimension = shapes[1][1]
        if not 1 <= self.dimension <= MAX_DIMENSIONS:
            raise Invalid(
                "an encoder of {dimensions} dimensions is beyond the limit of {limit}",
                dimensions=self.dimension,
                limit=MAX_DIMENSIONS,
            )
        self.digest = hashlib.sha256(onnx).hexdigest()

    @classmethod
    def open(cls, path: str | Path, *, threads: int = 0) -> "Encoder":
        """Open a `.onnx` or `.safetensors` file, recognised by content."""
        path = Path(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                raise Invalid(
                    "{file} is larger than {megabytes} MB: not an encoder of membra",
                    file=path,
                    megabytes=MAX_BYTES // 1_000_000,
                )
            content = path.read_bytes()
        except OSError as error:
            raise Invalid(
                "the encoder {file} cannot be read ({why}); check the path", file=path, why=system_says(error)
            ) from None
        if content[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
            raise Invalid("{file} is a pickle, which can run programs; give a .onnx or .safetensors file", file=path)
        try:
            # A safetensors file opens with the length of its JSON header, then the header itself.
            graph = _graph_of(content) if content[8:9] == b"{" else content
            if graph != READY.read_bytes():  # the shipped encoder needs no check, which takes a third of a second
                check_graph(graph)
            return cls(graph, threads=threads)
        except MembraError as error:
            raise Invalid("{file}: {why}", file=path, why=error) from None

    @classmethod
    def ready(cls, *, threads: int = 0) -> "Encoder":
        """Open the encoder that ships with membra; docs/encoder.md describes its training and its scores."""
        return cls.open(READY, threads=threads)

    def encode(self, patches: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return embeddings (n, d) of patches (n, 64, 64) with ink 255; (0, d) for none."""
        if len(patches) == 0:
            return np.zeros((0, self.dimension), dtype=np.float32)
        try:
            parts = [
                self._session.run(None, {"patches": patches[start : start + _BATCH, None].astype(np.float32) / 255})[0]
                for start in range(0, len(patches), _BATCH)
            ]
        except Exception as error:  # of ONNX Runtime: the model opens, but does not run on its declared input
            reason = " ".join(str(error).split())[:120]
            raise Invalid("the encoder fails on patches ({why}); use another encoder", why=reason) from None
        return np.asarray(np.concatenate(parts), dtype=np.float32)


def _graph_of(content: bytes) -> bytes:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        weights = load(content)
    except (SafetensorError, ValueError, KeyError, MemoryError) as error:  # the others: shapes, unknown types
        raise Invalid("a damaged safetensors file ({why})", why=str(error)[:120]) from None
    return graph_of(weights)
