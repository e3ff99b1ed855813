"""Opens ONNX models: on the CPU, without console output, with the names and shapes of inputs and outputs."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from membra.errors import Invalid, Unreadable, system_says

MAX_BYTES = 6_000_000  # of a network that ships with membra


@dataclass(frozen=True)
class Session:
    """An opened model: `run(None, {input: array})` returns its outputs."""

    run: Any
    names: list[str]  # of the inputs, then of the outputs
    shapes: list[list[Any]]  # in the same order; an axis is a number, or a string or None where it is not fixed
    inputs: int  # number of inputs among them


def open_session(onnx: bytes, threads: int) -> Session:
    """Open ONNX bytes; `threads` = 0 uses every core. Raises `Invalid` where ONNX Runtime cannot load them."""
    # Before the import: from 1.31, ONNX Runtime sends telemetry from every process that loads it, without asking.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        # Without its fallback, which prints to stdout and only retries the same provider.
        providers = ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(onnx, options, providers=providers, enable_fallback=0)
        inputs = session.get_inputs()
        values = [*inputs, *session.get_outputs()]
        names = [value.name for value in values]  # raises where a name is not valid text
        return Session(session.run, names, [list(value.shape) for value in values], len(inputs))
    except Exception as error:  # ONNX Runtime has no common base class for its errors
        reason = " ".join(str(error).split())[:120]
        raise Invalid("not an ONNX model that ONNX Runtime can read ({why})", why=reason) from None


def network_bytes(path: Path) -> bytes:
    """Read a network that ships with membra; raises `Unreadable`, or `Invalid` above MAX_BYTES."""
    try:
        if path.stat().st_size > MAX_BYTES:
            limit = f"{MAX_BYTES // 1_000_000} MB"
            raise Invalid(
                "{file} is larger than {limit}: not a network of membra; install membra again", file=path, limit=limit
            )
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(
            "the network {file} cannot be read ({why}); install membra again", file=path, why=system_says(error)
        ) from None
