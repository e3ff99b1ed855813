"""`membra see`: show what membra sees on photographs, without a collection."""

import json
from pathlib import Path

import click

from membra.cli.console import bars, late, print_table, printable
from membra.cli.options import PATH, recipe
from membra.errors import Invalid, Refused
from membra.messages import Message
from membra.progress import Progress


@click.command()
@click.argument("sources", metavar="IMAGE...", nargs=-1, required=True)
@click.option("--out", metavar="DIR", type=PATH, help="Write a picture and a JSON file per image into DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per image; always without --out.")
@recipe("describe.recipe:MEMBRA.name", "The recipe to use.")
def see(sources: tuple[str, ...], out: Path | None, as_json: bool, recipe_name: str) -> None:
    """Show what membra sees on photographs: writing surface, ink, lines, letters, and which way is up.

    IMAGE: image files, folders, or CSV files with a column `image`. Each gets a picture with these drawn over it.

    \b
    One image:            membra see leaf-12.jpg --out seen
    For a program:        membra see leaf-12.jpg --json
    Example: membra see photographs/ --out seen

    \b
    The JSON of an image: pixels of the photograph as displayed; degrees counter-clockwise, null if unknown.
      {"image", "angle", "letter_height", "legibility", "note", "letters": [[x, y, width, height], ...],
       "pieces": [{"piece", "outline", "angle", "letter_height", "legibility", "note", "letters", "lines"}], "blank"}
    """
    from membra.describe.recipe import RECIPES
    from membra.show.overlay import in_words
    from membra.show.seen import file_names, images_of, see_photograph, unseen, write_seen

    images = images_of(sources)
    if out is not None and out.exists() and not out.is_dir():
        raise Invalid("{out} is a file; give a folder to write into", out=out)
    rows: list[list[str]] = []
    failed: list[Message] = []
    with bars() as bar:
        progress: Progress = late(bar, "looking") if len(images) > 3 else lambda done, total: None
        for done, (image, name) in enumerate(zip(images, file_names(images), strict=True), start=1):
            try:
                seen = see_photograph(image, RECIPES[recipe_name])
                if out is not None:
                    write_seen(seen, out, name)
                summary = seen.summary()
                rows += [[image.id, in_words(piece)] for piece in seen.written]
            except Refused as reason:
                failed.append(reason.message)
                summary = unseen(image.path, str(reason))
            if as_json or out is None:
                click.echo(json.dumps(summary, ensure_ascii=False).encode("utf-8", "replace"))
            progress(done, len(images))
    if len(failed) == len(images):
        if len(failed) == 1:
            raise Refused(failed[0])
        raise Refused("none of {count} images can be read: {first}", count=len(failed), first=failed[0])
    for said in failed:
        click.echo(printable(said), err=True)
    if out is not None and not as_json:
        print_table(f"{len(images) - len(failed)} of {len(images)} images, drawn in {out}", ["image", "note"], rows)
