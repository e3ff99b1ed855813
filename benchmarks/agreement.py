"""Measure agreement in kinds of letter for mates, for the nearest stranger, and for random strangers.

    python benchmarks/agreement.py [--from COLLECTION] [--keep FOLDER]

Queries are the fragments that have a mate, of a drawn collection (`_drawn.py`) or of one with a column `join`;
candidates are their mates, the nearest fragment of another manuscript, and five others drawn at random. The 10 %, 50 %
and 90 % quantiles over pairs are reported: `agree`, the share of the query's kinds of letter that agree, and `nearer`.
`ms` is the processor time of a query with these candidates.
"""

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
from _drawn import drawn
from _timing import report

from membra.find.agreement import Agreement, agreements
from membra.find.search import search
from membra.store.collection import Collection

ANY = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        source = options.source
        collection = Collection.open(source) if source else drawn(home, manuscripts=40, mates=3, singles=160)
        entries = {entry.fragment.id: entry for entry in collection.entries() if not entry.refused}
        joins = {id: entry.fragment.columns["join"] for id, entry in entries.items()}
        draw, spent = np.random.default_rng(0), 0.0
        found: dict[str, list[Agreement]] = {"mates": [], "nearest_stranger": [], "strangers": []}
        queries = [id for id in entries if list(joins.values()).count(joins[id]) > 1 and not entries[id].doubtful]
        with collection.reading() as state:
            for id in queries:
                others = [other for other in entries if joins[other] != joins[id]]
                near = [hit.id for hit in search(collection, id, top=len(entries)).hits if joins[hit.id] != joins[id]]
                some = {
                    "mates": [other for other in entries if joins[other] == joins[id] and other != id],
                    "nearest_stranger": near[:1],
                    "strangers": [others[index] for index in draw.choice(len(others), ANY)],
                }
                bag = state.rows.bag(int(state.rows.rows_of([entries[id].number])[0]))
                before = time.process_time()
                asked = [entries[other] for group in some.values() for other in group]
                said = iter(agreements(state, bag, asked, number=entries[id].number))
                spent += time.process_time() - before
                for kind, group in some.items():
                    found[kind] += [one for one in islice(said, len(group)) if one]
        report(
            "agreement",
            fragments=len(entries),
            queries=len(queries),
            ms=1e3 * spent / len(queries),
            **{kind: _spread(some) for kind, some in found.items()},
        )


def _spread(some: list[Agreement]) -> dict[str, object]:
    shares, nearer = [len(one.kinds) / one.of for one in some], [one.nearer for one in some]
    quantiles = {name: np.quantile(values, [0.1, 0.5, 0.9]).round(3).tolist() for name, values in
                 (("agree", shares), ("nearer", nearer))}  # fmt: skip
    return {"pairs": len(some), **quantiles}


if __name__ == "__main__":
    main()
