"""`membra reproduce`: every table and figure of the paper."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from membra.cli.options import DEVICE, EXCLUDE_SAME, PATH, recipe, setting
from membra.progress import Overview


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option(
    "--joins",
    metavar="CSV",
    type=PATH,
    help="Known joins: a CSV with the columns image,join. [default: one folder of SOURCE per join]",
)
@click.option("--out", required=True, metavar="DIR", type=PATH, help="Folder to fill.")
@EXCLUDE_SAME
@click.option("--quick", is_flag=True, help="Results within minutes: one seed, three epochs, no costly table.")
@setting(
    "--seeds",
    "reproduce.settings:ReproduceSettings.seeds",
    shown=True,
    type=click.IntRange(1, 20),
    help="Number of random repetitions.",
)
@setting(
    "--epochs",
    "reproduce.settings:ReproduceSettings.epochs",
    shown=True,
    type=click.IntRange(1),
    help="Epochs of every training; the paper has 50.",
)
@recipe("reproduce.settings:ReproduceSettings.recipe.name", "Recipe by which letters are found and fragments left out.")
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

    A killed run continues when started again; a second run computes nothing again. Needs pip install 'membra[train]'.

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


@contextmanager
def _watched() -> Iterator[Overview]:
    """Yield a display on stderr: bars of step and run with the time left; without a terminal, one line per step."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        last, reported = "", -1.0

        def line(label: str, share: float, whole: float, left: float | None) -> None:
            nonlocal last, reported
            if label != last or whole >= reported + 0.05:  # long steps print several lines
                click.echo(f"{whole:4.0%}  {label}{_left(left)}", err=True)
                last, reported = label, whole

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        step, all_of_it = progress.add_task("", total=1.0), progress.add_task("total", total=1.0)

        def draw(label: str, share: float, whole: float, left: float | None) -> None:
            progress.update(step, description=label, completed=share)
            progress.update(all_of_it, description=f"total{_left(left)}", completed=whole)

        yield draw


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"
