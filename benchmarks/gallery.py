"""How search, inbox and probability hold as a gallery grows by fragments that belong to nothing.

    python benchmarks/gallery.py [--sizes 100,300,1000,3000,10000] [--letters N] [--from COLLECTION] [--adapted]
                                 [--cameras 10]
    python benchmarks/gallery.py --plot FIGURE.png LINES.json ...      draws what runs have printed

Asked are drawn fragments of 40 manuscripts of three each (`_drawn.py`; the encoder has not seen the hands), or of every
second manuscript of a labelled collection, three of each at most, of different leaves. Ten cameras took the drawn ones,
mates never the same; with `--cameras 2` two of three mates share one. The others are distractors: `_synthetic.py` makes
hands of one fragment each of the fragments that are not asked (of drawn ones: of those whose manuscript has no other),
so that nobody's letters are in the gallery twice. The gallery grows by adding, as a library's does. Nobody has decided
anything. `--letters`: of every fragment, asked or not, only so many letters, one drawn by chance and those around it.
`--adapted`: after `membra adapt` of the fragments asked.

For each number of distractors, by the default score, the own leaf left out, intervals of 95 %:
`hit@1`, `recall@20` of the mates, over queries that have one (intervals by resampling manuscripts);
`pairs`, the precision of the first 50, 100, 500 pairs of the inbox with a labelled fragment in them, and of as many as
there are true ones, also by whether one camera took both (Wilson); a made fragment is right for nobody;
`ece`, the expected calibration error of the probabilities of the first ten candidates over ten bins (resampled
likewise), `said` and `true` their mean and the share that is right, and `bins`; `made`: what is said to 100 of the
made fragments when they are asked.
"""

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _among import MADE, add_made, material, precision
from _drawn import CAMERAS, drawn
from _synthetic import SyntheticBags
from _timing import progress, report
from numpy.typing import NDArray

from membra.compare.threads import processors
from membra.describe.bag import alone, in_company, make_bag
from membra.find.inbox import InboxState
from membra.find.mates import stored_scales
from membra.find.neighbours import neighbours_of
from membra.find.search import search_many
from membra.store.batch import Outcome, write_batch
from membra.store.collection import Collection, Entry
from membra.train.adapt import adapt

SIZES, FIRST, TOP, CANDIDATES, DRAWS = "100,300,1000,3000,10000", (50, 100, 500), 20, 10, 2000
MADE_ASKED = 100

Floats = NDArray[np.float64]


def main() -> None:
    options = arguments()
    if options.plot:
        plot(options.plot, [json.loads(line) for file in options.lines for line in file.read_text().splitlines()])
        return
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        asked, others = _asked_and_others(options.source, home, options.adapted, options.cameras)
        few = f"-{options.cameras}-cameras" if options.cameras != CAMERAS else ""
        name = f"{options.source.name if options.source else f'drawn{few}'}{'-adapted' if options.adapted else ''}"
        if options.letters:
            name += f"-{options.letters}"
            asked, others = (windows(one, options.letters, home / f"{one.path.name}-{name}") for one in (asked, others))
        synthetic, there, rows = SyntheticBags(material(others)), 0, []
        synthetic.within = SyntheticBags(material(asked)).within  # photographs differ as those of one manuscript do
        for size in sorted(int(one) for one in options.sizes.split(",")):
            gallery = _grown(home / f"gallery-{name}", asked, synthetic, there, size)
            there = size
            progress(f"{name}: asking among {size} distractors ...")
            rows.append({"distractors": size, **measured(gallery)})
            progress(json.dumps(rows[-1]))
        labels = [entry.fragment.columns["join"] for entry in asked.entries() if not entry.refused]
        report("gallery", asked_of=name, labelled=len(labels), manuscripts=len(set(labels)), galleries=rows)


def measured(gallery: Collection) -> dict[str, object]:
    """What is printed of one gallery."""
    entries = {entry.fragment.id: entry for entry in gallery.entries() if not entry.refused}
    labelled = [entry for id, entry in entries.items() if not id.startswith(MADE)]
    joins = {id: entry.fragment.columns["join"] for id, entry in entries.items()}
    leaves = {id: entry.fragment.columns.get("leaf") or id for id, entry in entries.items()}
    ids = [entry.fragment.id for entry in labelled]
    mates = {id: {other for other in ids if joins[other] == joins[id] and leaves[other] != leaves[id]} for id in ids}
    queries = [id for id in ids if mates[id]]
    hits, recall, chances, right, owners = [], [], [], [], []
    for query, ranking in zip(queries, search_many(gallery, queries, top=2 * TOP), strict=True):
        found = [hit for hit in ranking.hits if leaves[hit.id] != leaves[query]][:TOP]
        hits.append(bool(found) and found[0].id in mates[query])
        recall.append(len({hit.id for hit in found} & mates[query]) / min(len(mates[query]), TOP))
        for hit in found[:CANDIDATES]:
            if hit.probability is not None:
                chances.append(hit.probability)
                right.append(hit.id in mates[query])
                owners.append(joins[query])
    by, groups = np.array([joins[id] for id in queries]), np.array(owners)
    said, true = np.array(chances), np.array(right, np.float64)
    return {
        "queries": len(queries),
        "hit@1": mean(np.array(hits, np.float64), by),
        "recall@20": mean(np.array(recall), by),
        "ece": resampled(lambda some: calibration_error(said[some], true[some]), groups),
        "said": float(said.mean()),
        "true": float(true.mean()),
        "bins": bins(said, true),
        "made": _strangers(gallery, [id for id in entries if id.startswith(MADE)]),
        **first_pairs(gallery, labelled, joins, leaves),
    }


def _strangers(gallery: Collection, ids: Sequence[str]) -> dict[str, float]:
    """What is said to made fragments, which have no mates: on average, and how often over a half to the first."""
    some = [ids[index] for index in np.linspace(0, len(ids) - 1, min(len(ids), MADE_ASKED)).astype(int).tolist()]
    found = [[hit.probability or 0.0 for hit in one.hits] for one in search_many(gallery, some, top=CANDIDATES)]
    over = float(np.mean([one[0] > 0.5 for one in found]))
    return {"queries": len(some), "said": float(np.mean(np.concatenate(found))), "first_over_half": over}


def first_pairs(
    gallery: Collection, labelled: Sequence[Entry], joins: dict[str, str], leaves: dict[str, str]
) -> dict[str, object]:
    """The precision of the first pairs of the inbox with one of `labelled` in them."""
    entries = [entry for entry in gallery.entries() if not entry.refused]
    own = np.array([entry.number for entry in labelled], np.int32)
    cameras = {entry.fragment.id: entry.fragment.columns.get("camera", "") for entry in labelled}
    lists = neighbours_of(gallery, own, progress=None)
    lists.which[~np.isin(lists.numbers, own)] = 0  # of the others nothing is asked
    # What the catalogue says is for the judge alone.
    plain = [replace(one, fragment=replace(one.fragment, columns={})) for one in entries]
    state = InboxState(lists, plain, stored_scales(gallery))
    order = state.order([])
    pairs = [(one.a, one.b) for one in state.named(order, range(min(len(order), 3 * FIRST[-1])))]
    pairs = [(a, b) for a, b in pairs if leaves[a] != leaves[b]]
    ids = [entry.fragment.id for entry in labelled]
    true = sum(joins[a] == joins[b] and leaves[a] != leaves[b] for a in ids for b in ids if a < b)
    right = [joins[a] == joins[b] for a, b in pairs]
    same = [cameras[a] == cameras[b] if cameras.get(a) and cameras.get(b) else None for a, b in pairs]
    either = {
        name: {str(count): precision([one for one, how in zip(right[:count], same, strict=False) if how is kind])}
        for name, kind in (("same_camera", True), ("other_camera", False))
        for count in (true,)
    }
    return {
        "true_pairs": true,
        "pairs": {str(count): precision(right[:count]) for count in sorted({*FIRST, true})},
        "found": {str(count): sum(right[:count]) for count in sorted({*FIRST, true})},
        **either,
    }


def mean(values: Floats, groups: NDArray[np.str_]) -> dict[str, float]:
    """The mean of some values (n,), with its interval."""
    return resampled(lambda some: float(values[some].mean()), groups)


def resampled(of: Callable[[NDArray[np.int64]], float], groups: NDArray[np.str_]) -> dict[str, float]:
    """What `of` gives for all indices of `groups` (n,), and its 95 % interval by resampling whole groups."""
    names, which = np.unique(groups, return_inverse=True)
    own = [np.flatnonzero(which == index) for index in range(len(names))]
    draws = np.random.default_rng(0).integers(0, len(names), (DRAWS, len(names)))
    low, high = np.percentile([of(np.concatenate([own[one] for one in draw])) for draw in draws.tolist()], [2.5, 97.5])
    return {"is": of(np.arange(len(groups))), "low": float(low), "high": float(high)}


def calibration_error(said: Floats, true: Floats) -> float:
    """The expected calibration error over ten bins."""
    index = np.clip((said * 10).astype(int), 0, 9)
    gaps = np.bincount(index, said - true, minlength=10)
    return float(np.abs(gaps).sum() / max(len(said), 1))


def bins(said: Floats, true: Floats) -> list[list[float]]:
    """Of each bin that is not empty: the mean of what is said, the share that is right, and how many there are."""
    index = np.clip((said * 10).astype(int), 0, 9)
    found = [(said[index == one], true[index == one]) for one in np.unique(index)]
    return [[round(float(a.mean()), 4), round(float(b.mean()), 4), len(a)] for a, b in found]


def windows(collection: Collection, letters: int, path: Path) -> Collection:
    """The same fragments with so many letters each: one drawn by chance, and those nearest to it."""
    shutil.rmtree(path, ignore_errors=True)
    settings = collection.recipe.bag
    cut = Collection.create(path, encoder=collection.encoder(), recipe=collection.recipe)
    outcomes: list[Outcome] = []
    for number, (entry, one) in enumerate(zip(*collection.described(), strict=True)):
        middles = one.boxes[:, :2] + one.boxes[:, 2:] / 2
        centre = middles[np.random.default_rng(number).integers(len(middles))]
        some = np.sort(np.argsort(((middles - centre) ** 2).sum(axis=1), kind="stable")[:letters])
        embeddings = in_company(alone(one.embeddings, settings)[some], settings)
        window = replace(one, boxes=one.boxes[some], embeddings=embeddings, bag=make_bag(embeddings, settings))
        outcomes.append((entry.fragment, entry.sha256, window))
    with cut.writing() as writer:
        writer.store(write_batch(path, outcomes))
    return cut


def _grown(path: Path, asked: Collection, synthetic: SyntheticBags, there: int, size: int) -> Collection:
    """The gallery with `size` distractors; it had `there` before."""
    if not there:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(asked.path, path)
    gallery = Collection.open(path)
    add_made(gallery, synthetic, there, size)
    return gallery


def _asked_and_others(source: Path | None, home: Path, adapted: bool, cameras: int) -> tuple[Collection, Collection]:
    """The fragments that are asked, as a collection, and those of other manuscripts, to make distractors of."""
    base = Collection.open(source) if source else drawn(home, manuscripts=40, mates=3, singles=160, cameras=cameras)
    entries = [entry for entry in base.entries() if not entry.refused]
    own, others = _every_second(entries) if source else _with_mates(entries)
    asked, rest = (
        _part(base, home / f"{name}-{base.path.name}", ids) for name, ids in (("asked", own), ("rest", others))
    )
    if not adapted:
        return asked, rest
    fitted, anew = (home / f"{one.path.name}-adapted" for one in (asked, rest))
    if not fitted.exists():
        beside = _copy(asked.path, fitted.with_suffix(".unfinished"))
        progress("adapting ...")
        adapt(Collection.open(beside), device="cpu", workers=processors(), bar=lambda stage: _said)
        beside.rename(fitted)
    if not anew.exists():
        by = Collection.open(fitted)
        collection = Collection.create(anew.with_suffix(".unfinished"), encoder=by.encoder(), recipe=by.recipe)
        collection.add([entry.fragment for entry in rest.entries()], workers=processors(), progress=_said)
        collection.path.rename(anew)
    return Collection.open(fitted), Collection.open(anew)


def _with_mates(entries: Sequence[Entry]) -> tuple[set[str], set[str]]:
    """The ids of those whose manuscript has another one, and of the others."""
    joins = Counter(entry.fragment.columns["join"] for entry in entries)
    own = {entry.fragment.id for entry in entries if joins[entry.fragment.columns["join"]] > 1}
    return own, {entry.fragment.id for entry in entries} - own


def _every_second(entries: Sequence[Entry]) -> tuple[set[str], set[str]]:
    """Of every second manuscript the ids of three fragments, of different leaves; and those of the others."""
    joins = sorted({entry.fragment.columns["join"] for entry in entries})
    own: set[str] = set()
    for join in joins[::2]:
        leaves = {entry.fragment.columns.get("leaf") or entry.fragment.id: entry for entry in entries[::-1]
                  if entry.fragment.columns["join"] == join}  # fmt: skip
        own |= {leaves[leaf].fragment.id for leaf in sorted(leaves)[:3]}
    return own, {entry.fragment.id for entry in entries if entry.fragment.columns["join"] in joins[1::2]}


def _part(base: Collection, path: Path, ids: set[str]) -> Collection:
    """The collection of these fragments alone."""
    if not path.exists():
        beside = _copy(base.path, path.with_suffix(".unfinished"))
        Collection.open(beside).remove([entry.fragment.id for entry in base.entries() if entry.fragment.id not in ids])
        beside.rename(path)
    return Collection.open(path)


def _copy(path: Path, into: Path) -> Path:
    shutil.rmtree(into, ignore_errors=True)
    return Path(shutil.copytree(path, into))


def _said(done: int, of: int) -> None:
    if done % 20 == 0:
        progress(f"{done} of {of}")


def plot(out: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Hit@1, recall@20, and the precision of as many first pairs of the inbox as there are true ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, plots = pyplot.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    styles = [("o", "-", "black"), ("s", "--", "0.35"), ("^", ":", "0.55"), ("D", "-.", "0.7")]
    for line, (marker, dash, colour) in zip(lines, styles, strict=False):
        rows = line["galleries"]
        x = [row["distractors"] for row in rows]
        looks = {"color": colour, "marker": marker, "linestyle": dash, "label": line["asked_of"], "capsize": 2}
        for axes, name in zip(plots[:2], ("hit@1", "recall@20"), strict=True):
            y = [row[name]["is"] for row in rows]
            spread = [
                [row[name]["is"] - row[name]["low"] for row in rows],
                [row[name]["high"] - row[name]["is"] for row in rows],
            ]
            axes.errorbar(x, y, spread, **looks)
        found = [row["pairs"][str(row["true_pairs"])] for row in rows]
        spread = [[one["share"] - one["low"] for one in found], [one["high"] - one["share"] for one in found]]
        plots[2].errorbar(x, [one["share"] for one in found], spread, **looks)
    titles = ("Hit@1", "recall@20", "first pairs of the inbox that are right\n(as many as there are true ones)")
    for axes, title in zip(plots, titles, strict=True):
        axes.set(xscale="log", ylim=(0.6, 1.02), xlabel="distractors", title=title)
        axes.grid(color="0.9")
    plots[0].legend(frameon=False, loc="lower left")
    figure.savefig(out, dpi=100)
    progress(str(out))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--letters", type=int, default=0)
    parser.add_argument("--adapted", action="store_true")
    parser.add_argument("--cameras", type=int, default=CAMERAS)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("lines", nargs="*", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
