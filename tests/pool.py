"""A Dask cluster for the tests: a local scheduler and workers, each in its own process."""

import os
import subprocess
import sys
import time
from pathlib import Path


class Pool:
    """A scheduler and its workers, each in its own process, in `folder`, which is not that of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", "scheduler.json")
        end, file, text = time.monotonic() + 60, folder / "scheduler.json", ""
        while "tcp://" not in text:  # the file is empty at first
            assert time.monotonic() < end, "the scheduler did not start"
            time.sleep(0.1)
            text = file.read_text() if file.is_file() else ""
        self.address = text[text.index("tcp://") :].split('"')[0]

    def start(self, what: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{what}", *arguments, "--no-dashboard"]
        own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        quiet = subprocess.DEVNULL
        self.processes.append(subprocess.Popen(command, cwd=self.folder, env=own, stdout=quiet, stderr=quiet))
        return self.processes[-1]

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        # No nanny, so that a killed worker is not restarted.
        return self.start("dask_worker", self.address, "--nthreads", "1", "--no-nanny", **environment)

    def wait_for(self, workers: int) -> None:
        """Wait until this many workers have connected; they start slowly on a busy machine."""
        from distributed import Client

        with Client(self.address, timeout=60, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(workers, timeout=120)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
