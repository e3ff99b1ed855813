"""The command that takes results away: `membra export`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from membra.cli.options import COLLECTION, PATH, setting

if TYPE_CHECKING:
    from membra.store.collection import Collection


@click.command()
@COLLECTION
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    type=PATH,
    help="Its ending says how: .csv, .xlsx or .json; .html for a dossier.",
)
@click.option(
    "--what",
    type=click.Choice(["verdicts", "history", "joins", "candidates", "fragments", "iiif", "dossier"]),
    help="Which of the below. [default: verdicts; dossier where FILE ends in .html]",
)
@click.option("--pair", nargs=2, metavar="A B", help="iiif, dossier: two fragments.")
@click.option("--group", metavar="A", help="iiif: every fragment that verdicts connect with A.")
@setting("--top", "show.export:make_table.top", type=click.IntRange(1), help="candidates: how many for each.")
@click.option(
    "--address",
    metavar="URL",
    help="iiif: where the manifest will be published. [default: http://localhost:8080/FILE]",
)
def export(
    path: Path,
    out: Path,
    what: str | None,
    pair: tuple[str, str] | None,
    group: str | None,
    top: int,
    address: str | None,
) -> None:
    """Take results out of COLLECTION: tables, a IIIF manifest, or a dossier of one pair.

    \b
    verdicts    what holds for each pair            history     every entry, those taken back too
    joins       image,join for --joins              candidates  the nearest of every fragment
    fragments   all, with rights and reasons        iiif        a manifest with letters as annotations
    dossier     one HTML file with everything about one pair

    \b
    Example: membra export mine --out verdicts.xlsx
             membra export mine --out join.html --pair leaf-12.jpg leaf-40.jpg
    """
    from membra.files import check_place
    from membra.store.collection import Collection

    what = what or ("dossier" if out.suffix.lower() in (".html", ".htm") else "verdicts")
    if what in ("dossier", "iiif") and not (pair or (group and what == "iiif")):
        raise click.UsageError(f"--what {what} needs --pair A B{' or --group A' if what == 'iiif' else ''}")
    check_place(out)
    collection = Collection.open(path)
    if what == "dossier" and pair:
        from membra.show.dossier import write_dossier

        write_dossier(collection, *pair, out)
        click.echo(f"the dossier: {out} ({out.stat().st_size / 1e6:.1f} MB)", err=True)
    elif what == "iiif":
        from membra.show.iiif_export import confirmed_pairs, write_manifest

        pairs = [pair] if pair else confirmed_pairs(collection, str(group))
        made, beside = write_manifest(collection, pairs, out, address=address)
        images = f"; publish {beside.name} beside it" if beside else ""
        click.echo(f"the manifest of {len(made['items'])} fragments: {out}, for {made['id']}{images}", err=True)
    else:
        _write_table(collection, what, out, top)


def _write_table(collection: "Collection", what: str, out: Path, top: int) -> None:
    from membra.cli.console import bars
    from membra.show.export import contradictions, make_table, write_table

    if what == "candidates":
        with bars() as bar:
            table = make_table(collection, what, top=top, progress=bar("searching"))
    else:
        table = make_table(collection, what)
    write_table(table, out)
    for verdict in contradictions(collection) if what == "joins" else ():
        click.echo(f"note: {verdict.by} says {verdict.a} and {verdict.b} are no join, others connect them", err=True)
    if not table.rows and what in ("verdicts", "history", "joins"):
        click.echo("note: nothing was decided yet; `membra serve` and `membra decide` do", err=True)
    click.echo(f"{len(table.rows)} lines of {what}: {out}", err=True)
