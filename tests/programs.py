"""Run other programs to their end."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def ran(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `command` in `folder` with empty stdin; its output is captured and its status is not checked."""
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
