"""`membra note`: notes, tags, bookmarks and metadata of a fragment."""

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
@setting("--text", "store.note:note.text", help="A note, as free text.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Add a tag.")
@click.option("--untag", multiple=True, metavar="TAG", help="Remove a tag, whoever added it.")
@click.option("--bookmark", is_flag=True, help="Bookmark it for yourself.")
@click.option("--no-bookmark", is_flag=True, help="Remove your bookmark.")
@click.option("--set", "sets", multiple=True, metavar="COLUMN=VALUE", help="Correct a value of its metadata.")
@click.option("--undo", type=click.IntRange(1), metavar="NUMBER", help="Number of an entry to undo.")
@click.option("--by", metavar="NAME", help="Your name, stored with the entry.")
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
    """Add a note, tags, a bookmark or better metadata to FRAGMENT (id or shelfmark) of COLLECTION, with your name.

    Nothing is deleted: --undo undoes an entry. Without any option, all entries about it are listed. A value that
    you --set overrides every table, also when the collection is indexed again, until it is undone.

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
            raise click.UsageError(f"--set {said}: give a column and its value, e.g. --set library=Cambridge")
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
            click.echo(printable(f"{fragment}: nothing to change"))
        else:
            for one in given:
                about = one.fragment if one.photograph == fragment else fragment
                click.echo(printable(f"{about}: stored as entry {one.number}: {_words(one)}"))
        return
    history = said_of(collection, fragment)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in history], ensure_ascii=False))
        return
    rows = [[str(one.number), _words(one), one.by, one.at, "undone" if one.undone else ""] for one in history]
    print_table(f"{fragment}: {len(history)} entries", ["number", "entry", "by", "at", ""], rows)


def _words(one: "Annotation") -> str:
    if one.undoes is not None:
        return f"undo {one.undoes}"
    said = {"note": one.text, "tag": one.name, "column": f"{one.name}: {one.before or '-'} -> {one.text or '-'}"}
    return " ".join(filter(None, (one.kind, said.get(one.kind, ""))))
