"""Some fragments compared with all on a GPU: the device bounds whole blocks and says which pairs may be of use.

Only those come back, and are looked at closely on the processor, as `comparing.py` does; so lists are the same.
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

_CELLS = 2**26  # scores that the device holds at once: 256 MB
_ROUNDING = 1e-6  # more than a score's few operations in float32 can round


class DeviceComparer(Comparer):
    """`Comparing` on a torch device; `Comparer` says what the arguments are."""

    at_once = 8  # lists are entered into as seldom as that

    def __init__(self, now: Snapshot, size: int, threads: int, device: str = "cuda") -> None:
        super().__init__(now, size, threads)
        self.device = device
        self.torch = torch_on(device)
        self.on_device = to_blocks(now.rows.packed, device)
        position = np.empty(len(now.rows), np.int64)
        position[self.on_device.rows] = np.arange(len(self.on_device.rows))
        self.at = position[now.at]  # of each fragment, where the device has it
        with device_memory(self.torch):
            self.columns_at = self._send(self.at)
            self.scale = self._send((self.roots * (1 - _ROUNDING)).astype(np.float32))

    def compare(self, some: Indices, columns: NDArray[np.bool_], last: Floats) -> Entries:
        """As by the kernels."""
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
        """Lower bounds of the scores (q, n) of those of `some` from `first` on; infinite for those that are `out` (n,),
        and of `some` themselves for all but the later ones."""
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
        """Of each of `some` what `Comparer` finds for it, from scores (q, n) that lie on the device."""
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
            if np.isfinite(near[index, -1]) and use > near[index, -1]:  # there may be more below than came back
                rest = (scores[index] < np.nextafter(np.float32(use), np.float32(np.inf))).nonzero().cpu().numpy()[:, 0]
                more = np.setdiff1d(rest, first[index], assume_unique=True)
                both = np.union1d(more, np.setdiff1d(others, first[index], assume_unique=True))
                found[index] = self._closely(int(some[index]), bags[index], first[index], both, last)
        return found

    def _closely(self, own: int, bag: Bag, first: Indices, more: Indices, last: Floats) -> Candidates:
        """A close look at the `first`, by which it is known up to which score there is a use for any, and at `more`."""
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
