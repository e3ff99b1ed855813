"""Progress of a long run: the current step, the whole, and the time left."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from membra.progress import Overview, Progress


class Steps:
    """Steps with weights, roughly their seconds on two cores. The rate is measured on the steps that are computed."""

    def __init__(self, show: Overview | None = None) -> None:
        self._show = show
        self._weights: dict[str, float] = {}
        self._done: set[str] = set()
        self._worked, self._spent = 0.0, 0.0

    def plan(self, weights: Mapping[str, float]) -> None:
        """Add upcoming steps with their weights."""
        self._weights |= weights

    @contextmanager
    def step(self, label: str) -> Iterator[Progress]:
        """Run a step; yields its progress callback."""
        weight = self._weights.setdefault(label, 1.0)
        started = time.monotonic()
        self._tell(label, 0.0, started)

        yield lambda done, of: self._tell(label, done / of if of else 1.0, started)

        took = time.monotonic() - started
        # A step read from the work folder does not measure this machine's speed.
        if took > 0.05 * weight:
            self._worked, self._spent = self._worked + weight, self._spent + took
        self._done.add(label)

    def _tell(self, label: str, share: float, started: float) -> None:
        if not self._show:
            return
        weight, total = self._weights[label], sum(self._weights.values())
        done = sum(self._weights[name] for name in self._done) + share * weight
        worked, spent = self._worked + share * weight, self._spent + time.monotonic() - started
        left = (total - done) * spent / worked if worked > 2 else None
        self._show(label, share, done / total if total else 0.0, left)
