"""How many of the first pairs of the inbox are right, among 10,000 fragments that belong to nothing.

    python benchmarks/proposals.py [--distractors 10000] [--from COLLECTION] [--keep FOLDER]

The gallery: drawn fragments of 40 manuscripts of about three (`_drawn.py`; ten cameras took them), or of a labelled
collection; and made hands of one fragment each. `_synthetic.py` makes these of the fragments whose manuscript has no
other one, which are not in the gallery themselves: nobody's letters are in it twice. Nobody has decided anything.
`pairs` is the precision of the first 50, 100 and 500 pairs of the inbox with a drawn fragment in them, each with a 95 %
interval (Wilson), and `found`, how many of the true pairs that there are; by whether one camera took both, of the first
`by_camera_of`. A made fragment is right for nobody.
"""

import argparse
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from _drawn import drawn
from _synthetic import MATES, Real, SyntheticBags
from _timing import progress, report

from membra.describe.recipe import Description
from membra.find.inbox import InboxState
from membra.find.mates import stored_scales
from membra.find.neighbours import neighbours_of
from membra.sources.fragment import Fragment
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection

SHARD, FIRST = 1_000, (50, 100, 500)
MADE = "made-"  # how the ids of made fragments begin


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        collection = gallery(home, options.source, options.distractors)
        entries = [entry for entry in collection.entries() if not entry.refused]
        labelled = np.array([one.number for one in entries if not one.fragment.id.startswith(MADE)], np.int32)
        lists = neighbours_of(collection, labelled, progress=None)
        lists.which[~np.isin(lists.numbers, labelled)] = 0  # of the others nothing is asked
        truth = {entry.fragment.id: entry.fragment.columns["join"] for entry in entries}
        cameras = {entry.fragment.id: entry.fragment.columns.get("camera", "") for entry in entries}
        # What the catalogue says is for the judge alone.
        plain = [replace(one, fragment=replace(one.fragment, columns={})) for one in entries]
        state = InboxState(lists, plain, stored_scales(collection))
        order = state.order([])
        pairs = [(pair.a, pair.b) for pair in state.named(order, range(min(len(order), FIRST[-1])))]
        right = [truth[a] == truth[b] for a, b in pairs]
        seen = [cameras[a] == cameras[b] if cameras[a] and cameras[b] else None for a, b in pairs]
        joins = [truth[entry.fragment.id] for entry in entries]
        true = sum(joins.count(join) * (joins.count(join) - 1) // 2 for join in set(joins))
        early = slice(true)
        report(
            "proposals",
            fragments=len(entries),
            labelled=len(labelled),
            distractors=options.distractors,
            true_pairs=true,
            pairs={str(count): precision(right[:count]) for count in FIRST},
            found={str(count): sum(right[:count]) for count in FIRST},
            by_camera_of=true,
            same_camera=precision([one for one, same in zip(right[early], seen[early], strict=True) if same is True]),
            other_camera=precision([one for one, same in zip(right[early], seen[early], strict=True) if same is False]),
            wrong_with_made=sum(any(end.startswith(MADE) for end in pair) for pair in pairs[early]),
        )


def precision(right: list[bool]) -> dict[str, float | int]:
    """The share that is right, of how many, and a 95 % interval (Wilson)."""
    n = len(right)
    if not n:
        return {"of": 0}
    share, z = sum(right) / n, 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return {
        "share": round(share, 4),
        "of": n,
        "low": round(float(middle - half), 4),
        "high": round(float(middle + half), 4),
    }


def gallery(home: Path, source: Path | None, distractors: int) -> Collection:
    """The drawn fragments, and made hands of one fragment each."""
    path = home / f"gallery-{distractors}"
    if path.exists():
        return Collection.open(path)
    base = Collection.open(source) if source else drawn(home, manuscripts=40, mates=3, singles=160)
    shutil.copytree(base.path, path.with_suffix(".unfinished"))
    collection = Collection.open(path.with_suffix(".unfinished"))
    entries, descriptions = collection.described()
    names = [entry.fragment.columns["join"] for entry in entries]
    known = [(one.bag, name) for one, name in zip(descriptions, names, strict=True)]
    several = Real(*zip(*[pair for pair in known if names.count(pair[1]) > 1], strict=True))
    alone = Real(*zip(*[pair for pair in known if names.count(pair[1]) == 1], strict=True))
    synthetic = SyntheticBags(alone)
    synthetic.within = SyntheticBags(several).within  # photographs differ as those of one manuscript do
    collection.remove([entry.fragment.id for entry, name in zip(entries, names, strict=True) if names.count(name) == 1])
    numbers = [hand * MATES for hand in range(distractors)]
    with collection.writing() as writer:
        for first in range(0, len(numbers), SHARD):
            progress(f"{first} of {len(numbers)} made")
            some = numbers[first : first + SHARD]
            last = first + SHARD >= len(numbers)
            writer.store(write_batch(collection.path, list(outcomes(synthetic, some))), scale=last)
    collection.path.rename(path)
    return Collection.open(path)


def outcomes(synthetic: SyntheticBags, numbers: list[int]) -> Iterator[Outcome]:
    for number in numbers:
        bag, name = synthetic[number], f"{MADE}{number:07d}.jpg"
        bag.members = np.arange(len(bag), dtype=np.int32)
        described = Description(np.zeros((len(bag), 4), dtype=np.int32), bag.prototypes, bag)
        fragment = Fragment(name, Path("/") / name, {"join": f"made-{number // MATES}"})
        yield fragment, hashlib.sha256(name.encode()).hexdigest(), described


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--distractors", type=int, default=10_000)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
