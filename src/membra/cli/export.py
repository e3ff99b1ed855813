"""`membra export`: write results to files."""

from pathlib import Path
from urllib.parse import quote

import click

from membra.cli.options import COLLECTION, PATH, setting


@click.command()
@COLLECTION
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    type=PATH,
    help="The suffix sets the format: .csv, .xlsx or .json; .html for a dossier, .bib for BibTeX.",
)
@click.option(
    "--what",
    type=click.Choice(
        [
            *("verdicts", "history", "joins", "candidates", "fragments", "corrections", "notes"),
            *("iiif", "dossier", "bibtex", "csl"),
        ]
    ),
    help="What to write. [default: verdicts; dossier where FILE ends in .html, bibtex in .bib]",
)
@click.option("--pair", nargs=2, metavar="A B", help="iiif, dossier, bibtex, csl: two fragments.")
@click.option(
    "--group",
    metavar="A",
    multiple=True,
    help="The same: all fragments that verdicts and leaves connect with A; given several times, only these and the "
    "other sides of their leaves.",
)
@setting("--top", "show.export:make_table.top", type=click.IntRange(1), help="candidates: number per fragment.")
@click.option(
    "--address",
    "url",
    metavar="URL",
    help="iiif: where the manifest will be published. [default: http://localhost:8080/FILE]",
)
@click.option(
    "--base-url", metavar="URL", help="iiif: the URL of the folder where FILE will be published, instead of --address."
)
def export(
    path: Path,
    out: Path,
    what: str | None,
    pair: tuple[str, str] | None,
    group: tuple[str, ...],
    top: int,
    url: str | None,
    base_url: str | None,
) -> None:
    """Export results of COLLECTION: tables, or a manifest, dossier or bibliography entry of some fragments.

    \b
    verdicts    the verdict in force for each pair  history     every entry, also those undone
    joins       image,join for --joins              candidates  the nearest of every fragment
    fragments   all, with rights and reasons        iiif        a manifest with letters as annotations
    dossier     one HTML file about a pair, a group  bibtex, csl  a group as a bibliography entry
    corrections what was corrected, by whom         notes       notes, tags, bookmarks, edits

    \b
    Example: membra export mine --out verdicts.xlsx
             membra export mine --out join.html --pair leaf-12.jpg leaf-40.jpg
             membra export mine --out book.bib --group leaf-12.jpg
    """
    from membra.cli.console import bars, late, printable
    from membra.files import check_place
    from membra.show.export import OF_FRAGMENTS, default_kind
    from membra.show.export import export as write
    from membra.store.collection import Collection

    what = what or default_kind(out)
    if what in OF_FRAGMENTS and not (pair or group):
        raise click.UsageError(f"--what {what} needs --pair A B or --group A")
    if what not in OF_FRAGMENTS and (pair or group):
        raise click.UsageError(f"--pair and --group are for --what {', '.join(OF_FRAGMENTS)}; {what} has every pair")
    if pair and group:
        raise click.UsageError("--pair and --group were both given; give one of them")
    if base_url:
        url = f"{base_url.rstrip('/')}/{quote(out.name)}"
    check_place(out)  # before a large collection is opened
    with bars() as bar:
        progress = late(bar, "searching")
        done = write(Collection.open(path), out, what, pair=pair, group=group, top=top, url=url, progress=progress)
    for verdict in done.contradictions:
        click.echo(f"note: {verdict.by} says {verdict.a} and {verdict.b} are no join, others connect them", err=True)
    for a, b in done.disputed:
        click.echo(printable(f"note: {a} and {b} are disputed, and left out"), err=True)
    if not done.count and what in ("verdicts", "history", "joins"):
        click.echo("note: nothing was decided yet; `membra serve` and `membra decide` do", err=True)
    if what == "dossier":
        said = f"the dossier: {out} ({out.stat().st_size / 1e6:.1f} MB)"
    elif what == "iiif":
        images = f"; publish {done.images.name} beside it" if done.images else ""
        said = f"the manifest of {done.count} fragments: {out}, for {done.url}{images}"
    elif what in ("bibtex", "csl"):
        said = f"the entry of {done.count} fragments: {out}"
    else:
        said = f"{done.count} lines of {what}: {out}"
    click.echo(said, err=True)
