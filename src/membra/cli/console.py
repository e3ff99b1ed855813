"""Terminal output: progress on stderr, tables on stdout."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from membra.progress import Bars, Progress, log

if TYPE_CHECKING:
    from membra.describe.recipe import Recipe
    from membra.find.codes import RecallEstimate
    from membra.store.collection import Added, Collection, Entry
    from membra.store.neighbour_lists import NeighbourLists


@contextmanager
def bars() -> Iterator[Bars]:
    """Yield transient progress bars with the time left, on stderr; without a terminal, one line per stage."""
    if not sys.stderr.isatty():

        def line(label: str) -> Progress:
            click.echo(f"{label} ...", err=True)
            return lambda done, total: None

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Display(*columns, console=console, transient=True) as progress:

        def bar(label: str) -> Progress:
            task = progress.add_task(label, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield bar


@contextmanager
def logged() -> Iterator[None]:
    """Write the library's log to stderr, one line per record, with the time."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(message)s", "%H:%M:%S"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def late(bar: Bars, label: str) -> Progress:
    """Return a progress callback whose bar appears with the first call."""
    begun: list[Progress] = []

    def show(done: int, total: int) -> None:
        if not begun:
            begun.append(bar(label))
        begun[0](done, total)

    return show


def printable(text: str) -> str:
    """Escape text for one terminal line: file names may contain newlines, colour codes and worse.

    >>> printable("a\\nb\\x1b[2J שלום")
    'a\\\\nb\\\\x1b[2J שלום'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in columns:
        words = name in ("a", "b", "fragment", "fragments", "image", "library", "method", "note", "seen", "shelfmark")
        table.add_column(name, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # Text, so that brackets in file names are not mark-up
    # A file or a pipe has no width to fit, so names are never cut there.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    with console.capture() as shown:
        console.print(table)
    click.echo(f"{printable(title)}\n{shown.get()}", nl=False)  # not by rich, which hides a closed pipe from `main`


def print_named(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table without the columns `shelfmark` and `library` if they are empty."""
    empty = {at for at, name in enumerate(columns) if name in ("shelfmark", "library") and not any(r[at] for r in rows)}
    kept = [at for at in range(len(columns)) if at not in empty]
    print_table(title, [columns[at] for at in kept], [[row[at] for at in kept] for row in rows])


def names_of(collection: "Collection", ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the shelfmark, with its side, and the library of fragments; empty if no catalogue has them."""
    from membra.store.naming import full_name

    found = {id: collection.entry(id) for id in ids}
    columns = {id: entry.fragment.columns if entry else {} for id, entry in found.items()}
    return {id: (full_name(own), own.get("library", "")) for id, own in columns.items()}


def called(entry: "Entry") -> str:
    """Return a fragment's name for readers, with its library."""
    from membra.show.holding import name_of

    library = entry.fragment.columns.get("library", "")
    return f"{name_of(entry)} ({library})" if library else name_of(entry)


def print_scores(scores: dict[str, Any]) -> None:
    shown = ("hit@1", "hit@5", "hit@10", "map@10", "map", "mrr", "macro_f1@1")
    rows = []
    for method, row in scores["methods"].items():
        low, high = row["ci95"]["hit@1"]
        rows.append([method, *(f"{row[name]:.3f}" for name in shown), f"{low:.2f}-{high:.2f}"])
    left = f", {len(scores['excluded'])} not described" if scores["excluded"] else ""
    title = f"{scores['queries']} queries among {scores['fragments']} fragments{left}"
    print_table(title, ["method", *shown, "95 % of hit@1"], rows)


def print_shortlist(measured: "RecallEstimate") -> None:
    click.echo(
        f"compared in full only after a first look at all; a shortlist of {measured.listed:,} was measured to hold "
        f"{measured.recall:.3f} of the true first {measured.top} ({measured.queries} queries)",
        err=True,
    )


def print_listed(lists: "NeighbourLists") -> None:
    click.echo(
        f"note: neighbours by a shortlist of {lists.listed:,}: they hold {lists.recall:.3f} of the true first "
        f"{lists.top}, measured on {lists.sample} fragments",
        err=True,
    )


def print_redescribed(collection: "Collection", before: "Recipe", refused: set[str], added: int) -> None:
    """Print the result of `index --redescribe`, given the former recipe and rejections, and the count of new ones."""
    if collection.recipe == before:
        click.echo(f"{collection.path}: described as this membra describes already")
        return
    entries = collection.entries()
    for entry in entries:
        if entry.refused and entry.fragment.id not in refused:
            click.echo(printable(f"refused: {entry.fragment.id}: {entry.refused}"), err=True)
    described, revision = sum(not entry.refused for entry in entries) - added, collection.recipe.revision
    click.echo(f"{collection.path}: {described} fragments described again, by revision {revision}")


def print_added(path: Path, added: "Added") -> None:
    for id, reason in added.refused:
        click.echo(printable(f"refused: {id}: {reason}"), err=True)
    of_them = [f"{added.few_letters} with few letters"] if added.few_letters else []
    of_them += [f"{added.doubtful} doubtful"] if added.doubtful else []
    marked = f" ({', '.join(of_them)})" if of_them else ""
    parts = [
        f"{added.described} described{marked}",
        f"{added.unchanged} known already{f', {added.updated} of them with new metadata' if added.updated else ''}",
        f"{len(added.refused)} refused",
    ]
    parts += [f"{added.blank} pieces without writing left out"] if added.blank else []
    click.echo(f"{path}: {', '.join(parts)}")
    if added.described and not added.unchanged and sys.stderr.isatty():
        click.echo(f"next: membra search {path} IMAGE, or in the browser: membra serve {path}", err=True)
