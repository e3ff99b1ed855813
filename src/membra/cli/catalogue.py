"""`membra catalogue`: join a catalogue table to a collection."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from membra.cli.console import printable
from membra.cli.options import COLLECTION, JSON, PATH

MAP = click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="THEIRS=OURS",
    help="A column of the table and its name in membra, e.g. Signatur=shelfmark. Repeatable; the rest is guessed.",
)


@click.command()
@COLLECTION
@click.argument("table", type=PATH)
@MAP
@click.option("--dry-run", is_flag=True, help="Only report the column mapping and the number of matching rows.")
@JSON
def catalogue(path: Path, table: Path, maps: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Join a catalogue to COLLECTION: shelfmark, library, script, size and other columns of TABLE.

    TABLE: CSV of any separator and encoding, XLSX or ODS. A row belongs to the fragments of its image or, without one,
    of its shelfmark, in any spelling. The meaning of columns is guessed, in several languages, shown, and kept for the
    next table. Rows that match nothing are reported, and the rest is applied.

    \b
    Example: membra catalogue mine genizah.xlsx
             membra catalogue mine genizah.xlsx --map Signatur=shelfmark --map Haus=library
    """
    from membra.store.catalogue import catalogue as join
    from membra.store.collection import Collection

    done = join(Collection.open(path), table, mapping=mapping_of(maps), dry=dry_run)
    if as_json:
        click.echo(json.dumps(asdict(done), ensure_ascii=False))
        return
    print_mapping(table, done.mapping)
    for name in done.examples:
        click.echo(printable(f"no fragment: {name}"), err=True)
    if done.unmatched > len(done.examples):
        click.echo(f"... and {done.unmatched - len(done.examples)} more rows", err=True)
    new = "nothing was written" if dry_run else f"{done.updated} with something new"
    click.echo(f"{path}: {done.rows} rows, {done.matched} fragments, {new}; {done.unmatched} rows match no fragment")


def mapping_of(maps: Sequence[str]) -> dict[str, str]:
    """Parse `THEIRS=OURS` options."""
    found = {}
    for one in maps:
        their, equals, our = one.rpartition("=")
        if not equals or not their.strip() or not our.strip():
            raise click.UsageError(f"--map {one}: give the table's name and membra's, e.g. --map Signatur=shelfmark")
        found[their.strip()] = our.strip()
    return found


def print_mapping(table: Path, mapping: Mapping[str, str]) -> None:
    """Print the column mapping, so that a wrong guess is noticed."""
    if mapping:
        said = ", ".join(f"{their} is {our}" for their, our in mapping.items() if their != our)
        click.echo(printable(f"{table.name}: {said}"), err=True)
