"""Arguments and options that several commands share, each worded once."""

from pathlib import Path

import click

SOURCES = click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
COLLECTION = click.argument("path", metavar="COLLECTION", type=click.Path(path_type=Path))
JOINS = click.option(
    "--joins",
    required=True,
    metavar="CSV",
    type=click.Path(path_type=Path),
    help="Known joins: a CSV with the columns image,join.",
)
EXCLUDE_SAME = click.option(
    "--exclude-same", metavar="COLUMN", help="Leave out candidates that share the query's value, e.g. leaf."
)
METHOD = click.option(
    "--method",
    default="default",
    show_default=True,
    help="e.g. bob-chamfer, bob-transport, two-stage, bow-raw-chi2, pool-mean-cosine; default: the recipe's own.",
)
CLUSTER = click.option(
    "--cluster", metavar="ADDRESS", help="A Dask scheduler whose workers do it, e.g. tcp://host:8786."
)
WORKERS = click.option(
    "--workers", type=click.IntRange(1), help="Processes that look at images side by side. [default: one a core]"
)
DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to train; auto: the GPU where there is one.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
