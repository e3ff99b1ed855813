"""The commands about all pairs of a collection: `neighbours`, `propose` and `inbox`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from membra.cli.console import bars, called, late, names_of, print_listed, print_table
from membra.cli.options import CLUSTER, COLLECTION, JSON, METHOD, PATH, setting

if TYPE_CHECKING:
    from membra.find.comparing import Comparing
    from membra.find.snapshot import Snapshot
    from membra.store.collection import Collection

DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Where to compare; auto: a GPU if there is one; cuda needs torch. [default: cpu]",
)


@click.command()
@COLLECTION
@setting(
    "--top", "find.neighbours:neighbours.top", type=click.IntRange(1, 1000), help="Number of neighbours per fragment."
)
@click.option("--workers", type=click.IntRange(1), help="Number of threads that compare. [default: one per core]")
@DEVICE
@click.option(
    "--shortlist",
    metavar="auto|N",
    help="Approximate: compare each with its N best of a first pass; auto: one in a hundred, at least 2,000.",
)
@CLUSTER
@JSON
def neighbours(
    path: Path,
    top: int,
    workers: int | None,
    device: str | None,
    shortlist: str | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Find the nearest neighbours of every fragment of COLLECTION, as in single searches, and store them.

    `membra propose` reads them. A killed run continues; run again after a change, it compares only what is new.

    For a hundred thousand fragments all pairs take hours; with --shortlist each is compared with few, and the share of
    the true neighbours that this finds is measured and printed. Inbox and proposals then use these.

    \b
    Example: membra neighbours mine
             membra neighbours mine --shortlist auto
    """
    from membra.find.neighbours import current
    from membra.find.neighbours import neighbours as find
    from membra.find.usual import usual_scores
    from membra.store.collection import Collection

    if shortlist and (cluster or device in ("auto", "cuda")):
        raise click.UsageError(
            "--shortlist runs on this machine's processor; leave out --device and --cluster, or --shortlist"
        )
    collection = Collection.open(path)
    with bars() as bar, _comparing(collection, device, cluster) as by:
        found = find(collection, top=top, threads=workers, shortlist=shortlist, by=by, progress=bar("comparing"))
        if found.compared == len(found.lists):
            usual_scores(collection, threads=workers, progress=bar("typical scores"))
    still = current(collection, found.lists)
    count, top = len(found.lists), found.lists.top
    if as_json:
        said = {"fragments": count, "top": top, "method": found.lists.method, "compared": found.compared}
        by_list = {"listed": found.lists.listed, "recall": found.lists.recall, "sample": found.lists.sample}
        click.echo(json.dumps({**said, "current": still, "exact": not shortlist, **(by_list if shortlist else {})}))
    else:
        if shortlist:
            print_listed(found.lists)
        click.echo(f"{path}: the {top} nearest of each of {count} fragments; {found.compared} newly compared")
    if not still:
        click.echo(
            "note: the collection has changed during the run; run the command again to update the neighbours", err=True
        )


@click.command()
@COLLECTION
@JSON
@click.option("--csv", "csv_file", metavar="FILE", type=PATH, help="Write a CSV for spreadsheets.")
@METHOD
@setting(
    "--nearness",
    "find.proposals:ProposalSettings.nearness",
    type=click.FloatRange(0, min_open=True),
    help="Maximum nearness of a pair; smaller means closer.",
)
@setting(
    "--least",
    "find.proposals:ProposalSettings.least",
    type=click.IntRange(2),
    help="Minimum number of fragments in a proposal.",
)
@click.option("--exclude-same", metavar="COLUMN", help="No pairs of fragments that share a value, e.g. leaf, library.")
@DEVICE
@CLUSTER
def propose(
    path: Path,
    as_json: bool,
    csv_file: Path | None,
    method: str,
    nearness: float,
    least: int,
    exclude_same: str | None,
    device: str | None,
    cluster: str | None,
) -> None:
    """Propose joins in COLLECTION: groups of fragments that are close to each other and to nothing else.

    Closest first. Nearness is the distance of a pair divided by the smaller typical (median) distance of the two: at 1
    the pair is no closer than others. Doubtful fragments, which may have no writing, are left out. Proposals are made
    from the neighbours of all fragments; if `membra neighbours` has not stored them, they are computed first: on this
    machine, on a GPU (--device) or on a cluster (--cluster).

    \b
    Example: membra propose mine --csv proposals.csv
    """
    from membra.compare.methods import named
    from membra.files import atomic_write, check_place
    from membra.find.neighbours import shortlisted
    from membra.find.proposals import ProposalSettings, proposals_csv
    from membra.find.proposals import propose as find
    from membra.find.snapshot import has_neighbours
    from membra.store.collection import Collection

    if csv_file:
        check_place(csv_file)
    collection = Collection.open(path)
    if (cluster or device in ("auto", "cuda")) and not has_neighbours(named(method, collection.recipe.method)):
        raise click.UsageError(
            f"distances by {method} are computed on this machine's processor; leave out --device and --cluster"
        )
    with bars() as bar, _comparing(collection, device, cluster) as by:
        ids, proposals = find(
            collection,
            method=method,
            settings=ProposalSettings(nearness=nearness, least=least),
            exclude_same=exclude_same,
            by=by,
            bar=lambda stage: late(bar, stage),
        )
    if near := shortlisted(collection):
        print_listed(near)
    entries = collection.entries()
    paths = {entry.fragment.id: str(entry.fragment.path) for entry in entries}
    names = {entry.fragment.id: called(entry) for entry in entries}
    doubtful = sum(entry.doubtful for entry in entries)
    if csv_file:
        marks = names_of(collection, ids)
        content = proposals_csv(proposals, ids, [paths[id] for id in ids], [marks[id] for id in ids])
        atomic_write(csv_file, content.encode())
        click.echo(f"{len(proposals)} proposals: {csv_file}", err=True)
    if as_json:
        found = [
            {
                "proposal": number,
                "nearness": proposal.nearness,
                "gain": proposal.gain,
                "why": proposal.why,
                "fragments": [
                    {"id": ids[index], "image": paths[ids[index]], "name": names[ids[index]]}
                    for index in proposal.members
                ],
                "pairs": [
                    {"a": ids[pair.a], "b": ids[pair.b], "distance": pair.distance, "nearness": pair.nearness}
                    for pair in proposal.pairs
                ],
            }
            for number, proposal in enumerate(proposals, start=1)
        ]
        click.echo(json.dumps({"fragments": len(ids), "doubtful": doubtful, "proposals": found}, ensure_ascii=False))
    elif not csv_file:
        rows = [
            [str(number), f"{proposal.nearness:.3f}", proposal.why, ", ".join(names[ids[i]] for i in proposal.members)]
            for number, proposal in enumerate(proposals, start=1)
        ]
        left = f", {doubtful} doubtful ones left out" if doubtful else ""
        title = f"{len(proposals)} proposed joins among {len(ids)} fragments{left}"
        print_table(title, ["proposal", "nearness", "why", "fragments"], rows)


@contextmanager
def _comparing(
    collection: "Collection", device: str | None, cluster: str | None
) -> Iterator[Callable[["Snapshot", int, int], "Comparing"]]:
    """Yield what compares fragments for `neighbours`: the kernels here, a GPU, or the workers of a cluster."""
    from membra.compare.gpu import gpu_here
    from membra.find.cluster_neighbours import comparing_on
    from membra.find.comparing import Comparer
    from membra.find.on_device import DeviceComparer
    from membra.store.cluster import connected

    if cluster and device in ("auto", "cuda"):
        raise click.UsageError("the workers of a cluster compare on their processors; leave --device out, or --cluster")
    if cluster:
        with connected(cluster) as client:
            yield comparing_on(client, collection)
    elif device == "cuda" or (device == "auto" and gpu_here()):
        yield partial(DeviceComparer, device="cuda")
    else:
        yield Comparer


@click.command()
@COLLECTION
@setting("--top", "find.inbox:inbox.top", type=click.IntRange(1), help="Number of pairs.")
@click.option("--exclude-same", metavar="COLUMN", help="No pairs that share a value of this column, e.g. leaf.")
@click.option("--across", metavar="COLUMN", help="Pairs whose values of this column differ first, e.g. library.")
@click.option("--csv", "csv_file", metavar="FILE", type=PATH, help="Write the pairs as CSV, for a spreadsheet.")
@JSON
def inbox(
    path: Path, top: int, exclude_same: str | None, across: str | None, csv_file: Path | None, as_json: bool
) -> None:
    """List the undecided pairs of COLLECTION that are most worth a look, in order.

    Ordered by the probability of a join times the information gained: a pair that joins two groups tells more than one
    that follows from earlier verdicts. Each verdict changes the order (`membra decide`, or the page Inbox of
    `membra serve`). Neighbours are updated first (`membra neighbours`).

    \b
    Example: membra inbox mine --across library --top 10
    """
    from dataclasses import asdict

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
