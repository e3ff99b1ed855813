"""`membra correct`: correct what membra sees on a fragment."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from membra.cli.console import printable
from membra.cli.options import COLLECTION, JSON, setting

if TYPE_CHECKING:
    from membra.store.collection import Collection
    from membra.store.correct import Corrected
    from membra.store.corrections import Correction


@click.command()
@COLLECTION
@click.argument("fragment")
@click.option("--turn", type=float, metavar="DEGREES", help="Clockwise rotation that makes the writing upright.")
@click.option(
    "--up",
    type=click.Choice(["top", "right", "bottom", "left"]),
    help="Where the top of the letters is; the exact angle is taken from the lines.",
)
@click.option("--crop", metavar="X,Y,W,H", help="The part to use: corner, width and height.")
@click.option(
    "--paint-out", multiple=True, metavar="X,Y,X,Y,...", help="A rectangle (two corners) or polygon without ink."
)
@click.option("--brush", multiple=True, metavar="WIDTH:X,Y,...", help="The same along a stroke of a brush.")
@click.option("--drop-letters", metavar="N,N,...", help="Numbers, from 0, of letters that are none.")
@click.option("--split", metavar="X,Y,X,Y,...", help="Cut it in two: by a line, or a polygon around one part.")
@click.option("--join", multiple=True, metavar="ID", help="Another piece of the photograph that is part of it.")
@click.option(
    "--pieces", type=click.Choice(["one", "auto"]), help="one: the photograph is one piece; auto: pieces as detected."
)
@click.option("--undo", type=click.IntRange(1), metavar="NUMBER", help="Undo a correction.")
@click.option("--list", "listed", is_flag=True, help="Only list the corrections, with author and time.")
@click.option("--by", metavar="NAME", help="Your name, stored with the correction.")
@setting("--note", "store.correct:correct.note", metavar="TEXT", help="The reason, as free text.")
@JSON
def correct(
    path: Path,
    fragment: str,
    turn: float | None,
    up: str | None,
    crop: str | None,
    paint_out: tuple[str, ...],
    brush: tuple[str, ...],
    drop_letters: str | None,
    split: str | None,
    join: tuple[str, ...],
    pieces: str | None,
    undo: int | None,
    listed: bool,
    by: str | None,
    note: str,
    as_json: bool,
) -> None:
    """Correct what is seen on FRAGMENT (id or shelfmark) of COLLECTION, and describe it again. Pixels are those of the
    photograph.

    Nothing is deleted: --undo undoes a correction, --list shows all of them. They stay in force when the collection
    is indexed, adapted or described again, as long as the photograph is the same. Without a correcting option, earlier
    corrections are applied, if they are not yet.

    \b
    Example: membra correct mine leaf-12.jpg --turn 90 --paint-out 0,310,800,420 --by Rivka
             membra correct mine leaf-12.jpg --undo 2 --by Rivka
    """
    from membra.errors import NotFound
    from membra.sources.fix import box_in, numbers_in, points_in, stroke_in
    from membra.store.collection import Collection
    from membra.store.correct import correct as change
    from membra.store.correct import history_of
    from membra.store.naming import find_id

    collection = Collection.open(path)
    if listed:
        history = history_of(collection, fragment)
        if not history and collection.entry(find_id(collection, fragment)) is None:
            raise NotFound(
                "{id} is not in {collection}; run `membra list` to see its fragments", id=fragment, collection=path.name
            )
        _show(history, f"{fragment}: {len(history)} corrections", as_json)
        return
    asked = (turn, up, crop, drop_letters, split, pieces, undo)
    if by is None and (paint_out or brush or join or any(one is not None for one in asked)):
        raise click.UsageError("Missing option '--by'.")
    done = change(
        collection,
        fragment,
        by=by or "",
        turn=turn,
        up=up,
        crop=box_in(crop) if crop else None,
        paint_out=[*map(points_in, paint_out), *map(stroke_in, brush)],
        drop_letters=numbers_in(drop_letters) if drop_letters else (),
        split=points_in(split) if split else (),
        join=join,
        pieces=pieces,
        undo=undo,
        note=note,
    )
    if as_json:
        said = {"corrections": [_line(entry) for entry in done.entries], "fragments": done.fragments}
        click.echo(json.dumps({**said, "described": done.described, "problem": done.problem}, ensure_ascii=False))
    else:
        _print(done, collection, fragment)
    if done.renumbered:
        first = " and ".join(done.renumbered[0])
        pairs = f"{len(done.renumbered)} pairs with a verdict (first: {first})"
        click.echo(printable(f"note: its pieces are numbered anew; check {pairs}"), err=True)
    if done.problem:
        click.echo(printable(f"note: not described again yet: {done.problem}"), err=True)


def _print(done: "Corrected", collection: "Collection", fragment: str) -> None:
    """Print the corrections that were stored or undone, and the letters found then."""
    from membra.store.corrections import Corrections

    before = {entry.number: entry for entry in Corrections.open(collection.path).history()}
    for entry in done.entries:
        taken = before.get(entry.undoes or 0)
        kept = (
            f"undone: correction {taken.number}, {taken.kind}"
            if taken
            else f"stored as correction {entry.number}: {entry.kind}"
        )
        click.echo(printable(f"{fragment}: {kept}"))
    if done.described:
        letters = {entry.fragment.id: entry for entry in collection.entries()}
        for id in done.fragments:
            own = letters[id]
            click.echo(printable(f"{id}: {own.refused or f'{own.glyphs} letters'}"))


def _show(history: "list[Correction]", title: str, as_json: bool) -> None:
    from membra.cli.console import print_table

    if as_json:
        click.echo(json.dumps([_line(entry) for entry in history], ensure_ascii=False))
        return
    rows = [
        [
            str(entry.number),
            entry.kind if entry.undoes is None else f"undo {entry.undoes}",
            "" if entry.value is None else json.dumps(entry.value)[:60],
            entry.by,
            entry.at,
            "undone" if entry.undone else entry.note,
        ]
        for entry in history
    ]
    print_table(title, ["number", "kind", "value", "by", "at", "note"], rows)


def _line(entry: "Correction") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(entry)
