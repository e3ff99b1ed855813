"""The commands that maintain a collection: `list`, `remove`, `merge`, `verify` and `compact`."""

import json
from pathlib import Path

import click

from membra.cli.console import bars, print_named, printable
from membra.cli.options import COLLECTION, JSON, PATH
from membra.errors import Damaged


@click.command("list")
@COLLECTION
@click.option("--refused", is_flag=True, help="Only images that could not be described.")
@JSON
def list_(path: Path, refused: bool, as_json: bool) -> None:
    """List the fragments of COLLECTION with their tags, or with the reason if one could not be described.

    JSON also has notes, bookmarks and verdicts, with their authors.

    \b
    Example: membra list mine --refused
    """
    from membra.store.annotations import NO_MARKS, marks_in
    from membra.store.collection import Collection
    from membra.store.naming import full_name
    from membra.store.verdicts import Verdicts

    everything = Collection.open(path).entries()
    entries = [e for e in everything if e.refused or not refused]
    marks = marks_in(path, everything)
    if as_json:
        pairs = Verdicts.open(path).pairs()
        said: dict[str, list[dict[str, object]]] = {}
        for ends, pair in pairs.items():
            people = [{name: getattr(one, name) for name in ("by", "says", "at", "note")} for one in pair.each]
            for id, other in (ends, ends[::-1]):
                said.setdefault(id, []).append({"with": other, "says": pair.says, "people": people})
        rows = [
            {
                "photograph": e.fragment.photograph,
                **e.fragment.columns,  # before the others: a column named `id` must not replace ours
                "id": e.fragment.id,
                "image": str(e.fragment.path),
                "letters": e.glyphs,
                "note": e.note,
                "refused": e.refused,
                "piece": e.fragment.piece,
                **e.measured,
                "corrected": [int(number) for number in e.corrected.split(",") if number],
                "tags": list(marks.get(e.fragment.id, NO_MARKS).tags),
                "bookmarked": list(marks.get(e.fragment.id, NO_MARKS).bookmarked),
                "notes": [
                    {name: getattr(one, name) for name in ("number", "text", "by", "at")}
                    for one in marks.get(e.fragment.id, NO_MARKS).notes
                ],
                "verdicts": said.get(e.fragment.id, []),
            }
            for e in entries
        ]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    print_named(
        f"{path}: {len(entries)} fragments",
        ["shelfmark", "library", "fragment", "letters", "note"],
        [
            [
                full_name(e.fragment.columns),
                e.fragment.columns.get("library", ""),
                *(
                    e.fragment.id,
                    str(e.glyphs),
                    ", ".join(
                        filter(
                            None,
                            (
                                *((e.refused,) if e.refused else (e.note, e.corrected and "corrected")),
                                *(f"#{tag}" for tag in marks.get(e.fragment.id, NO_MARKS).tags),
                            ),
                        )
                    ),
                ),
            ]
            for e in entries
        ],
    )


@click.command()
@COLLECTION
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def remove(path: Path, ids: tuple[str, ...]) -> None:
    """Remove fragments from COLLECTION; the images themselves stay. Removes all of them, or none if one is unknown.

    The ID of a photograph with several pieces removes all of them; that of a piece (plate-7.jpg#2) only that one.

    \b
    Example: membra remove mine leaf-12.jpg
    """
    from membra.store.collection import Collection

    gone = Collection.open(path).remove(ids)
    click.echo(f"{path}: {gone} removed")


@click.command()
@COLLECTION
@click.argument("others", metavar="OTHER...", nargs=-1, required=True, type=PATH)
def merge(path: Path, others: tuple[Path, ...]) -> None:
    """Copy the fragments of OTHER collections, described by the same recipe and encoder, into COLLECTION.

    Nothing is described again, and the other collections and their verdicts stay unchanged. After a kill, the same
    command continues. Libraries can index separately and merge their collections.

    \b
    Example: membra merge all ours theirs
    """
    from membra.store.collection import Collection
    from membra.store.merge import merge as bring_together

    into, sources = Collection.open(path), [Collection.open(other) for other in others]
    for source in sources:
        with bars() as bar:
            done = bring_together(into, source, progress=bar(f"copying {source.path.name}"))
        for id, reason in done.refused:
            click.echo(printable(f"refused: {id}: {reason}"), err=True)
        refused = f", {len(done.refused)} photographs refused" if done.refused else ""
        click.echo(f"{source.path}: {done.added} fragments added to {path}, {done.known} known already{refused}")


@click.command()
@COLLECTION
def verify(path: Path) -> None:
    """Check every byte of COLLECTION, and report errors and what to do. Exit status 1 if there are any.

    \b
    Example: membra verify mine
    """
    from membra.store.collection import Collection
    from membra.store.verify import verify as check

    Collection.check_format(path)
    with bars() as bar:
        found = check(path, progress=bar("checking"))
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    for said in found.wrong[1:]:
        click.echo(f"wrong: {said}", err=True)
    if found.wrong:
        raise Damaged(
            "{collection} has errors ({count}); the first: {first}",
            collection=path,
            count=len(found.wrong),
            first=found.wrong[0],
        )
    click.echo(f"{path}: {found.fragments} fragments in {found.shards} shards, all sound")


@click.command()
@COLLECTION
def compact(path: Path) -> None:
    """Free the space of removed fragments, merge small shards, and delete the remains of killed runs.

    \b
    Example: membra compact mine
    """
    from membra.store.collection import Collection

    before, after = Collection.open(path).compact()
    click.echo(f"{path}: {before} shards before, {after} now")
