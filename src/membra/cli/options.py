"""Arguments and options that several commands share, and options that read their defaults.

A default stands once, beside the algorithm: in a settings dataclass, or in a function's signature. Those modules are
slow to import, so a default is read only when needed, and `membra --help` needs none.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)
SEED = click.IntRange(0)
RECIPES = ("membra", "paper", "sauvola")  # their names; a test compares them


class Setting(click.Option):
    """An option whose default is that of `of`, e.g. `find.search:search.top`: of a function's parameter, a dataclass's
    field, or a constant. With `shown` the default is only shown in the help, and the command gets None, because the
    actual default depends on other options."""

    def __init__(self, *names: Any, of: str, shown: bool = False, **rest: Any) -> None:
        super().__init__(*names, **rest)
        self.of, self.shown = of, shown

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        return None if self.shown else default_of(self.of)

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        if (default := default_of(self.of)) != "":
            extra["default"] = str(default)
        return extra


def default_of(of: str) -> Any:
    """Return the value that `of` names (see `Setting`); a tuple of names is joined with commas."""
    module, path = of.split(":")
    value = reduce(_inside, path.split("."), import_module(f"membra.{module}"))
    return ",".join(value) if isinstance(value, tuple) else value


def setting(name: str, of: str, **rest: Any) -> Callable[[Any], Any]:
    """Return an option that reads its default."""
    return click.option(name, cls=Setting, of=of, **rest)


def recipe(of: str, help: str) -> Callable[[Any], Any]:
    return click.option("--recipe", "recipe_name", cls=Setting, of=of, type=click.Choice(RECIPES), help=help)


def _inside(value: Any, name: str) -> Any:
    if inspect.isfunction(value):
        return inspect.signature(value).parameters[name].default
    if isinstance(value, type) and is_dataclass(value):
        field = next((field for field in fields(value) if field.name == name), None)
        if field is not None and field.default is not MISSING:
            return field.default
    return getattr(value, name)


SOURCES = click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
COLLECTION = click.argument("path", metavar="COLLECTION", type=PATH)
JOINS = click.option(
    "--joins",
    required=True,
    metavar="CSV",
    type=PATH,
    help="Known joins: a CSV with the columns image,join.",
)
EXCLUDE_SAME = click.option(
    "--exclude-same", metavar="COLUMN", help="Leave out candidates that share the query's value, e.g. leaf."
)
METHOD = setting(
    "--method",
    "find.search:search.method",
    help="e.g. bob-chamfer, bob-transport, two-stage, bow-raw-chi2, pool-mean-cosine; default: that of the recipe.",
)
CLUSTER = click.option(
    "--cluster", metavar="ADDRESS", help="A Dask scheduler whose workers do the work, e.g. tcp://host:8786."
)
WORKERS = click.option(
    "--workers", type=click.IntRange(1), help="Number of processes that read images. [default: one per core]"
)
DEVICE = setting(
    "--device",
    "train.training_settings:DEVICE",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Where to train; auto: a GPU if there is one.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
