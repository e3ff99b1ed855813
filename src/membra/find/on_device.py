"""Compare some fragments with all others on a GPU: the device bounds whole blocks and selects the candidate pairs.

Only the candidates are transferred back and bounded in float32 on the processor, as in `comparing.py`; so the lists are
the same.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from membra.compare.gpu import device_memory, torch_on
from membra.compare.gpu_blocks import blocks_below, to_blocks
from membra.compare.threads import in_threads
from membra.describe.bag import Bag
from membra.find.comparing import Candidates, Comparer, Entries, entries_of
from membra.find.listing import Floats, Indices
from membra.find.snapshot import Snapshot

if TYPE_CHECKING:
    from torch import Tensor

_CELLS = 2**26  # scores in the device's memory at a time: 256 MB
_ROUNDING = 1e-6  # relative; exceeds the rounding error of a score in float32


class DeviceComparer(Comparer):
    """`Comparing` on a torch device; the arguments are those of `Comparer`."""

    at_once = 8  # larger pieces, so that lists are updated less often

    def __init__(self, now: Snapshot, size: int, threads: int, device: str = "cuda") -> None:
        super().__init__(now, size, threads)
        self.device = device
        self.torch = torch_on(device)
        self.on_device = to_blocks(now.rows.packed, device)
        position = np.empty(len(now.rows), np.int64)
        position[self.on_device.rows] = np.arange(len(self.on_device.rows))
        self.at = position[now.at]  # row of each fragment on the device
        with device_memory(self.torch):
            self.columns_at = self._send(self.at)
            self.scale = self._send((self.roots * (1 - _ROUNDING)).astype(np.float32))

    def compare(self, some: Indices, columns: NDArray[np.bool_], last: Floats) -> Entries:
        """Like `Comparer.compare`, with bounds from the device."""
        bags = [self.now.rows.bag(int(row)) for row in self.now.at[some]]
        wanted = np.zeros(len(self.on_device.rows), bool)
        wanted[self.at[columns]] = True
        found: list[Candidates] = []
        step = max(1, _CELLS // max(1, len(columns)))
        with self.torch.inference_mode(), device_memory(self.torch):
            out, ends = self._send(~columns), self._send(np.nextafter(last.astype(np.float32), np.float32(np.inf)))
            for first in range(0, len(some), step):
                part = slice(first, first + step)
                scores = self._scores(some, first, bags[part], out, wanted)
                found += self._near(some[part], bags[part], scores, ends, last)
        return entries_of(some, found, last)

    def _scores(self, some: Indices, first: int, bags: list[Bag], out: "Tensor", wanted: NDArray[np.bool_]) -> "Tensor":
        """Return lower bounds of the scores (q, n) of the fragments in `some` from `first` on; infinite for those that
        are `out` (n,), and within `some` for all but the later ones."""
        torch, here = self.torch, some[first : first + len(bags)]
        scores: Tensor = blocks_below(bags, self.on_device, wanted)[:, self.columns_at]
        scores *= self.scale
        scores *= self._send(self.roots[here].astype(np.float32))[:, None]
        scores.masked_fill_(out, torch.inf)
        every = self._send(some)
        later = torch.arange(len(some), device=self.device) > torch.arange(
            first, first + len(bags), device=self.device
        ).unsqueeze(1)
        scores[:, every] = torch.where(later, scores[:, every], torch.inf)
        return scores

    def _near(self, some: Indices, bags: list[Bag], scores: "Tensor", ends: "Tensor", last: Floats) -> list[Candidates]:
        """Return the candidates of each of `some`, like `Comparer`, from scores (q, n) on the device."""
        torch = self.torch
        count = min(2 * self.size + 1, scores.shape[1])
        near, first = (one.cpu().numpy() for one in torch.topk(scores, count, dim=1, largest=False))
        theirs = (scores < ends).nonzero().cpu().numpy()
        cuts = np.searchsorted(theirs[:, 0], np.arange(len(some) + 1))
        found: list[Candidates] = [(some[:0], np.zeros(0), np.zeros(0), 0.0)] * len(some)

        def work(index: int) -> None:
            own = first[index][np.isfinite(near[index])]
            more = np.setdiff1d(theirs[cuts[index] : cuts[index + 1], 1], own, assume_unique=True)
            found[index] = self._closely(int(some[index]), bags[index], own, more, last)

        in_threads(work, range(len(some)), self.threads)
        for index, (others, *_, use) in enumerate(found):
            if np.isfinite(near[index, -1]) and use > near[index, -1]:  # not all below it were transferred
                rest = (scores[index] < np.nextafter(np.float32(use), np.float32(np.inf))).nonzero().cpu().numpy()[:, 0]
                more = np.setdiff1d(rest, first[index], assume_unique=True)
                both = np.union1d(more, np.setdiff1d(others, first[index], assume_unique=True))
                found[index] = self._closely(int(some[index]), bags[index], first[index], both, last)
        return found

    def _closely(self, own: int, bag: Bag, first: Indices, more: Indices, last: Floats) -> Candidates:
        """Bound the scores of `first` and `more` in float32; `first` determines the highest score that is of use."""
        every = np.concatenate([first, more])
        scale = self.roots[every] * (self.roots[own] * (1 - 1e-9))
        distances = self.now.rows.below(bag, self.now.at[every], threads=1).astype(np.float64)
        scores, use = distances * scale, float(last[own])
        if len(first) >= self.size:
            use = min(use, float(np.partition(scores[: len(first)], self.size - 1)[self.size - 1]))
        return every, distances, scores, use

    def _send(self, array: NDArray[np.generic]) -> "Tensor":
        sent: Tensor = self.torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return sent
