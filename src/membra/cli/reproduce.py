"""The commands `reproduce` and `propose`: parse, call, print."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from membra.cli.options import COLLECTION, DEVICE, EXCLUDE_SAME, JSON, METHOD, PATH, recipe, setting
from membra.progress import Overview


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option(
    "--joins",
    metavar="CSV",
    type=PATH,
    help="Known joins: a CSV with the columns image,join. [default: a folder of SOURCE for each join]",
)
@click.option("--out", required=True, metavar="DIR", type=PATH, help="Folder to fill.")
@EXCLUDE_SAME
@click.option("--quick", is_flag=True, help="A first look within minutes: one seed, three epochs, no costly table.")
@setting(
    "--seeds",
    "reproduce.settings:ReproduceSettings.seeds",
    shown=True,
    type=click.IntRange(1, 20),
    help="Repetitions of what is random.",
)
@setting(
    "--epochs",
    "reproduce.settings:ReproduceSettings.epochs",
    shown=True,
    type=click.IntRange(1),
    help="Of every training, the paper's are 50.",
)
@recipe("reproduce.settings:ReproduceSettings.recipe.name", "How letters are found, and which fragments are left out.")
@click.option(
    "--encoder",
    metavar="FILE",
    type=PATH,
    help="Use these weights in all tables but the ablations (4, 5, 6).",
)
@DEVICE
def reproduce(
    source: str,
    joins: Path | None,
    out: Path,
    exclude_same: str | None,
    quick: bool,
    seeds: int | None,
    epochs: int | None,
    recipe_name: str,
    encoder: Path | None,
    device: str,
) -> None:
    """Make every table and figure of the paper on the labelled images of SOURCE (a folder or a CSV file).

    Killed and started again it goes on; a second run repeats nothing. Needs the extra: pip install 'membra[train]'.

    \b
    Example: membra reproduce pages/ --joins joins.csv --out evidence
    """
    from membra.describe.recipe import RECIPES
    from membra.reproduce.run import reproduce as run
    from membra.reproduce.settings import QUICK, ReproduceSettings

    settings = replace(QUICK if quick else ReproduceSettings(), recipe=RECIPES[recipe_name])
    settings = replace(settings, seeds=seeds or settings.seeds, epochs=epochs or settings.epochs)
    with _watched() as show:
        page = run(
            source,
            joins,
            out,
            settings=settings,
            exclude_same=exclude_same,
            encoder=encoder,
            device=device,
            show=show,
        )
    click.echo(f"claims, tables and figures: {page}")


@click.command()
@COLLECTION
@JSON
@click.option("--csv", "csv_file", metavar="FILE", type=PATH, help="Write a CSV for spreadsheets.")
@METHOD
@setting(
    "--nearness",
    "find.proposals:ProposalSettings.nearness",
    type=click.FloatRange(0, min_open=True),
    help="Smaller asks for closer pairs.",
)
@setting("--least", "find.proposals:ProposalSettings.least", type=click.IntRange(2), help="Fragments a proposal needs.")
@click.option("--exclude-same", metavar="COLUMN", help="No pairs of fragments that share a value, e.g. leaf, library.")
def propose(
    path: Path,
    as_json: bool,
    csv_file: Path | None,
    method: str,
    nearness: float,
    least: int,
    exclude_same: str | None,
) -> None:
    """Propose joins in COLLECTION: groups of fragments that are close to each other and to nothing else.

    Closest first. Nearness is the distance of a pair as a share of what is usual around the two: 1 is nothing special.
    Doubtful fragments, on which there may be no writing, take no part. It works from the neighbours of all fragments,
    which it finds first where `membra neighbours` has not.

    \b
    Example: membra propose mine --csv proposals.csv
    """
    from membra.cli.console import bars, called, late, names_of, print_listed, print_table
    from membra.files import atomic_write, check_place
    from membra.find.neighbours import shortlisted
    from membra.find.proposals import ProposalSettings, proposals_csv
    from membra.find.proposals import propose as find
    from membra.store.collection import Collection

    if csv_file:
        check_place(csv_file)
    collection = Collection.open(path)
    with bars() as bar:
        ids, proposals = find(
            collection,
            method=method,
            settings=ProposalSettings(nearness=nearness, least=least),
            exclude_same=exclude_same,
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
def _watched() -> Iterator[Overview]:
    """Two bars on stderr, the step's and the whole's, with the time left; one line a step where it is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        last, reported = "", -1.0

        def line(label: str, share: float, whole: float, left: float | None) -> None:
            nonlocal last, reported
            if label != last or whole >= reported + 0.05:  # long steps say more than once how far they are
                click.echo(f"{whole:4.0%}  {label}{_left(left)}", err=True)
                last, reported = label, whole

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        step, all_of_it = progress.add_task("", total=1.0), progress.add_task("the whole", total=1.0)

        def draw(label: str, share: float, whole: float, left: float | None) -> None:
            progress.update(step, description=label, completed=share)
            progress.update(all_of_it, description=f"the whole{_left(left)}", completed=whole)

        yield draw


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"
