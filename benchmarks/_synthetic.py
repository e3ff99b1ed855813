"""Synthesize many bags from few real ones, which are not copies of each other but resemble real letters.

A synthetic hand mixes three real manuscripts in random shares. A fragment of it has six to ten in ten of the prototypes
of one real fragment of the first manuscript, each moved towards its nearest prototype in a fragment of the second and
of the third (so an aleph becomes an aleph between three hands), all shifted by an offset of the hand and an offset of
the photograph, plus a little noise for each prototype. The two offsets are drawn from the real spread of manuscripts
and of fragments within a manuscript, so that they point in realistic directions of the 128 dimensions.

Why this is fair: fragments of one hand come from different real fragments and photographs, so they differ as real ones
do. Hands share real letters, but no two have the same shares, partners and offset, so they differ about as real
manuscripts do. `likeness` measures both, and how often the nearest neighbour is a mate and how well the mean embedding
agrees with Chamfer, for real and for synthetic bags; the benchmark prints them side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from membra.compare.kernels import chamfer_matrix
from membra.describe.bag import Bag

MATES = 8  # fragments per hand
MIXED = 3  # manuscripts per hand
HAND, PHOTOGRAPH, WORD = 0.6, 0.7, 0.2  # offsets in units of the real spread, and length of a prototype's noise


@dataclass(frozen=True)
class Real:
    """Real bags, and the manuscript of each (any unique name)."""

    bags: Sequence[Bag]
    manuscripts: Sequence[str]


class SyntheticBags:
    """An infinite sequence of bags, each determined by its index; those of one hand are consecutive."""

    def __init__(self, real: Real, seed: int = 0) -> None:
        self.bags, self.seed = real.bags, seed
        names = sorted(set(real.manuscripts))
        self.of = [[index for index, own in enumerate(real.manuscripts) if own == name] for name in names]
        means = np.array([bag.weights @ bag.prototypes for bag in self.bags])
        centres = np.array([means[own].mean(axis=0) for own in self.of])
        self.between = (centres - centres.mean(axis=0)) / np.sqrt(len(centres))
        self.within = np.concatenate([means[own] - means[own].mean(axis=0) for own in self.of]) / np.sqrt(len(means))
        self.known: dict[tuple[int, int], np.ndarray] = {}

    def __getitem__(self, index: int) -> Bag:
        hand = np.random.default_rng((self.seed, 0, index // MATES))
        mixed = hand.choice(len(self.of), min(MIXED, len(self.of)), replace=False)
        shares = np.sort(hand.dirichlet(np.full(len(mixed), 2.0)))[::-1]
        shift = HAND * hand.standard_normal(len(self.between)) @ self.between
        pages = hand.permutation(self.of[mixed[0]])

        own = np.random.default_rng((self.seed, 1, index))
        first = int(pages[index % MATES % len(pages)])
        count = len(self.bags[first])
        kept = np.sort(own.permutation(count)[: max(1, int(count * own.uniform(0.6, 1)))])
        words = self.bags[first].prototypes[kept]
        lengths = np.linalg.norm(words, axis=1, keepdims=True)
        words = shares[0] * words
        for share, manuscript in zip(shares[1:], mixed[1:], strict=True):
            other = int(own.choice(self.of[manuscript]))
            words = words + share * self.bags[other].prototypes[self._partners(first, other)[kept]]
        words = words + shift + PHOTOGRAPH * own.standard_normal(len(self.within)) @ self.within
        words += own.standard_normal(words.shape) * (WORD / np.sqrt(words.shape[1]))
        words *= lengths / np.linalg.norm(words, axis=1, keepdims=True)
        return Bag(words, self.bags[first].weights[kept] * own.uniform(0.7, 1.3, len(kept)))

    def _partners(self, first: int, other: int) -> np.ndarray:
        """Return the index of the prototype of `other` nearest to each prototype of `first`."""
        if (first, other) not in self.known:
            products = self.bags[first].prototypes @ self.bags[other].prototypes.T
            half = (self.bags[other].prototypes ** 2).sum(axis=1) / 2
            self.known[first, other] = (products - half).argmax(axis=1).astype(np.uint8)
        return self.known[first, other]


def likeness(bags: Sequence[Bag], hands: Sequence[object]) -> dict[str, float]:
    """Return statistics of bags: median Chamfer distance of mates and of strangers, how often the nearest is a mate,
    and the rank correlation of Chamfer with the cosine of the means."""
    letters = chamfer_matrix(bags).astype(np.float64)
    means = np.array([bag.weights @ bag.prototypes for bag in bags])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    same = np.asarray(hands)[:, None] == np.asarray(hands)
    apart = ~np.eye(len(bags), dtype=bool)
    agree = [
        spearmanr(letters[row][apart[row]], (1 - means @ means[row])[apart[row]])[0] for row in range(0, len(bags), 5)
    ]
    np.fill_diagonal(letters, np.inf)
    mated = (same & apart).any(axis=1)
    return {
        "mates": float(np.median(letters[same & apart])),
        "strangers": float(np.median(letters[~same])),
        "nearest_is_mate": float(np.mean([same[row, letters[row].argmin()] for row in np.flatnonzero(mated)])),
        "means_agree": float(np.median(agree)),
    }
