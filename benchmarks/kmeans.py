"""Per-fragment k-means with ten restarts, against scikit-learn's on one thread (its fastest for this few points).

`python benchmarks/kmeans.py [COLLECTION]`: the fragments' own embeddings, and draws of 500 and 1,000 from all of them.
"""

from functools import partial

import numpy as np
from _timing import descriptions, report, timed
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from membra.describe.kmeans import kmeans

WORDS, RESTARTS, SEED = 20, 10, 42


def main() -> None:
    source, described = descriptions()
    own = [d.embeddings for d in described if len(d.embeddings) >= 60]
    every, rng = np.concatenate(own), np.random.default_rng(0)
    sets = own[:: max(1, len(own) // 30)]
    sets += [every[rng.choice(len(every), n, replace=n > len(every))] for n in (500, 500, 500, 1000, 1000)]
    times, inertia = [], []
    for embeddings in sets:
        words = min(WORDS, len(embeddings) // 3)
        theirs = partial(_theirs, embeddings, words)
        spent = timed(theirs, partial(kmeans, embeddings, words, RESTARTS, SEED), rounds=3)
        times.append([each.wall for each in spent])
        centres, members = kmeans(embeddings, words, RESTARTS, SEED)
        ours = float(((embeddings.astype(np.float64) - centres[members]) ** 2).sum())
        inertia.append((float(theirs().inertia_), ours))
    (slow, quick), (known, found) = np.sum(times, axis=0), np.mean(inertia, axis=0)
    report(
        "kmeans",
        ratio=slow / quick,
        source=source,
        sets=len(sets),
        points=[min(map(len, sets)), max(map(len, sets))],
        words=WORDS,
        ms=1e3 * quick / len(sets),
        scikit_learn_ms=1e3 * slow / len(sets),
        ratio_at_1000=float(np.sum(times[-2:], axis=0)[0] / np.sum(times[-2:], axis=0)[1]),
        inertia_to_scikit_learn=float(found / known),
    )


def _theirs(embeddings: NDArray[np.float32], words: int) -> KMeans:
    with threadpool_limits(limits=1):
        return KMeans(words, n_init=RESTARTS, random_state=SEED).fit(embeddings)


if __name__ == "__main__":
    main()
