"""The command by which a person says something of a fragment: `membra note`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from membra.cli.options import COLLECTION, JSON, setting

if TYPE_CHECKING:
    from membra.store.annotations import Annotation


@click.command()
@COLLECTION
@click.argument("fragment")
@setting("--text", "store.note:note.text", help="A note, in your own words.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Put a tag on it.")
@click.option("--untag", multiple=True, metavar="TAG", help="Take a tag off, whoever put it on.")
@click.option("--bookmark", is_flag=True, help="You want to find it again.")
@click.option("--no-bookmark", is_flag=True, help="No longer.")
@click.option("--set", "sets", multiple=True, metavar="COLUMN=VALUE", help="What its catalogue should say.")
@click.option("--undo", type=click.IntRange(1), metavar="NUMBER", help="Take an entry back.")
@click.option("--by", metavar="NAME", help="Who says so; it is kept with the entry.")
@JSON
def note(
    path: Path,
    fragment: str,
    text: str,
    tags: tuple[str, ...],
    untag: tuple[str, ...],
    bookmark: bool,
    no_bookmark: bool,
    sets: tuple[str, ...],
    undo: int | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Keep a note, tags, a bookmark or better metadata of FRAGMENT (id or shelfmark) of COLLECTION, with your name.

    Nothing is deleted: --undo takes an entry back. Without any option, everything that was said of it is listed. What
    you --set stands over what any table says, also when the collection is indexed again, until it is taken back.

    \b
    Example: membra note mine leaf-12.jpg --tag "to check" --text "the same ruling as leaf-40" --by Rivka
             membra note mine leaf-12.jpg --set library=Cambridge --by Rivka
             membra note mine leaf-12.jpg --undo 3 --by Rivka
    """
    from membra.cli.console import print_table, printable
    from membra.store.collection import Collection
    from membra.store.note import note as keep
    from membra.store.note import said_of

    collection = Collection.open(path)
    columns = {}
    for said in sets:
        name, equals, value = said.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--set {said}: give a column and what it says, e.g. --set library=Cambridge")
        columns[name] = value
    marked = True if bookmark else False if no_bookmark else None
    if text or tags or untag or columns or marked is not None or undo is not None:
        if by is None:
            raise click.UsageError("Missing option '--by'.")
        given = keep(
            collection,
            fragment,
            by=by,
            text=text,
            tags=tags,
            untag=untag,
            bookmark=marked,
            columns=columns,
            undo=undo,
        )
        if as_json:
            click.echo(json.dumps([asdict(one) for one in given], ensure_ascii=False))
        elif not given:
            click.echo(printable(f"{fragment}: it was so already"))
        else:
            for one in given:
                about = one.fragment if one.photograph == fragment else fragment
                click.echo(printable(f"{about}: kept as entry {one.number}: {_words(one)}"))
        return
    history = said_of(collection, fragment)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in history], ensure_ascii=False))
        return
    rows = [[str(one.number), _words(one), one.by, one.at, "taken back" if one.undone else ""] for one in history]
    print_table(f"{fragment}: {len(history)} entries", ["number", "entry", "by", "at", ""], rows)


def _words(one: "Annotation") -> str:
    if one.undoes is not None:
        return f"undo {one.undoes}"
    said = {"note": one.text, "tag": one.name, "column": f"{one.name}: {one.before or '-'} -> {one.text or '-'}"}
    return " ".join(filter(None, (one.kind, said.get(one.kind, ""))))
