"""`membra people`: who may sign in a workbench."""

from pathlib import Path

import click

from membra.cli.options import PATH, setting


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--add", multiple=True, metavar="NAME", help="Make a link for NAME; an earlier link of the same NAME stops working."
)
@click.option("--remove", multiple=True, metavar="NAME", help="Revoke the access of NAME. Signed entries stay.")
@setting("--url", "show.web.serve:URL", metavar="URL", help="URL of the server, for the links.")
def people(file: Path, add: tuple[str, ...], remove: tuple[str, ...], url: str) -> None:
    """Keep FILE, the list of who may sign in `membra serve COLLECTION --people FILE`, and make links for them.

    A link is shown once, when it is made: give it to its owner, who opens it in a browser and stays signed in there.
    The file has no keys, only digests of them. Without --add and --remove it lists the names.

    \b
    Example: membra people people.csv --add Rivka --add "David Levi"
    """
    from membra.cli.console import printable
    from membra.store.people import people as keep

    for name, key in keep(file, add=add, remove=remove).items():
        if key:
            click.echo(printable(f"{name}: {url.rstrip('/')}/enter?key={key}"))
        elif not add:
            click.echo(printable(name))
