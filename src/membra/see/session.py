"""ONNX models, opened in one way: on the CPU, quiet, and with what they say of themselves."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from membra.errors import Invalid, Unreadable, system_says

MAX_BYTES = 6_000_000  # of a network that comes with membra


@dataclass(frozen=True)
class Session:
    """A model that can run: `run(None, {input: array})` gives its outputs."""

    run: Any
    names: list[str]  # of the inputs, then of the outputs
    shapes: list[list[Any]]  # of the same; an axis is a number, or a text or nothing where it is not fixed
    inputs: int  # how many of them are inputs


def open_session(onnx: bytes, threads: int) -> Session:
    """From ONNX bytes; `threads` = 0 takes every core."""
    # Before the import: from 1.31 on, ONNX Runtime tells its maker of every process that loads it. Nobody asked us.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        # Without its fallback, which prints to where results go and only tries the same again.
        providers = ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(onnx, options, providers=providers, enable_fallback=0)
        inputs = session.get_inputs()
        values = [*inputs, *session.get_outputs()]
        names = [value.name for value in values]  # may be no text
        return Session(session.run, names, [list(value.shape) for value in values], len(inputs))
    except Exception as error:  # ONNX Runtime has no common base class for its errors
        said = " ".join(str(error).split())[:120]
        raise Invalid("not an ONNX model that ONNX Runtime can read ({why})", why=said) from None


def network_bytes(path: Path) -> bytes:
    """The bytes of a network that comes with membra; refused where they cannot be read, or are too many."""
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
