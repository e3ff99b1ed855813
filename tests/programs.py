"""Other programs, run to their end."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def ran(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, timeout: float
) -> subprocess.CompletedProcess[str]:
    """`command` in `folder`, with nothing to read from stdin; its output is kept, and its status is not looked at."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
