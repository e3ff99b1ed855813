"""Very many bags made from few real ones, so that they are neither copies of each other nor strangers to letters.

A hand that never was: three real manuscripts, mixed in random shares. A fragment of it: the words of one real fragment
of the first manuscript, six to ten in ten of them, each drawn towards its nearest word in a fragment of the second and
of the third (so an aleph becomes an aleph between three hands), all shifted by what is the hand's own and by what is
the photograph's own, plus a little noise for each word. The two shifts are drawn from the real spread of manuscripts
and of fragments within a manuscript, so that they go where real ones go, and not anywhere in 128 dimensions.

Why it is fair. Fragments of one hand come from different real fragments and photographs: they differ as real ones do.
Hands share real letters, but no two share shares, partners and shift: they differ about as real manuscripts do.
`likeness` measures both, with what a nearest neighbour says of them and how far the mean embedding agrees with
Chamfer, for real and for made ones; the benchmark prints them side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from membra.compare.kernels import chamfer_matrix
from membra.describe.bag import Bag

MATES = 8  # fragments of a hand
MIXED = 3  # manuscripts in a hand
HAND, PHOTOGRAPH, WORD = 0.6, 0.7, 0.2  # shifts in units of the real spread, and the length of a word's noise


@dataclass(frozen=True)
class Real:
    """Real bags, and of each the manuscript (any name that tells them apart)."""

    bags: Sequence[Bag]
    manuscripts: Sequence[str]


class SyntheticBags:
    """Bags without end; `made[i]` is always the same one, and those of one hand follow each other."""

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
        """The word of `other` nearest to each word of `first`."""
        if (first, other) not in self.known:
            products = self.bags[first].prototypes @ self.bags[other].prototypes.T
            half = (self.bags[other].prototypes ** 2).sum(axis=1) / 2
            self.known[first, other] = (products - half).argmax(axis=1).astype(np.uint8)
        return self.known[first, other]


def likeness(bags: Sequence[Bag], hands: Sequence[object]) -> dict[str, float]:
    """What such bags are like: median Chamfer distance of mates and of strangers, how often the nearest is a mate, and
    the rank correlation of Chamfer with the cosine of the means."""
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
