"""The command `inbox`: parses, calls, prints."""

import json
from pathlib import Path

import click

from membra.cli.options import COLLECTION, JSON, PATH, setting


@click.command()
@COLLECTION
@setting("--top", "find.inbox:inbox.top", type=click.IntRange(1), help="How many pairs.")
@click.option("--exclude-same", metavar="COLUMN", help="No pairs that share a value of this column, e.g. leaf.")
@click.option("--across", metavar="COLUMN", help="Pairs whose values of this column differ first, e.g. library.")
@click.option("--csv", "csv_file", metavar="FILE", type=PATH, help="Write the pairs as CSV, for a spreadsheet.")
@JSON
def inbox(
    path: Path, top: int, exclude_same: str | None, across: str | None, csv_file: Path | None, as_json: bool
) -> None:
    """The undecided pairs of COLLECTION that are most worth a look, in order.

    By the probability of a join, and by what would be known then: a pair that joins two groups tells more than one that
    follows from what was decided. Each verdict changes what comes next (`membra decide`, or the page Inbox of
    `membra serve`). Neighbours are brought up to date first (`membra neighbours`).

    \b
    Example: membra inbox mine --across library --top 10
    """
    from dataclasses import asdict

    from membra.cli.console import bars, called, late, names_of, print_listed, print_table
    from membra.files import atomic_write, check_place
    from membra.find.inbox import inbox as find
    from membra.find.inbox import inbox_csv
    from membra.find.neighbours import shortlisted
    from membra.store.collection import Collection

    if csv_file:
        check_place(csv_file)
    collection = Collection.open(path)
    with bars() as bar:
        pairs = find(collection, top=top, exclude_same=exclude_same, across=across, progress=late(bar, "comparing"))
    if near := shortlisted(collection):
        print_listed(near)
    entries = {entry.fragment.id: entry for entry in collection.entries()}
    names = names_of(collection, [id for pair in pairs for id in (pair.a, pair.b)])
    if csv_file:
        images = {id: str(entry.fragment.path) for id, entry in entries.items()}
        atomic_write(csv_file, inbox_csv(pairs, images, names).encode())
        click.echo(f"{len(pairs)} pairs: {csv_file}", err=True)
    if as_json:
        found = [
            {
                "rank": rank,
                **asdict(pair),
                "image_a": str(entries[pair.a].fragment.path),
                "image_b": str(entries[pair.b].fragment.path),
                "shelfmark_a": names[pair.a][0],
                "shelfmark_b": names[pair.b][0],
                "library_a": names[pair.a][1],
                "library_b": names[pair.b][1],
            }
            for rank, pair in enumerate(pairs, start=1)
        ]
        click.echo(json.dumps({"pairs": found}, ensure_ascii=False))
    elif not csv_file:
        rows = [
            [
                str(rank),
                f"{pair.probability:.2f}",
                f"{pair.distance:.3f}",
                called(entries[pair.a]),
                called(entries[pair.b]),
                "disputed" if pair.disputed else pair.why,
            ]
            for rank, pair in enumerate(pairs, start=1)
        ]
        print_table(f"{len(pairs)} pairs to decide on", ["rank", "probability", "distance", "a", "b", "why"], rows)
