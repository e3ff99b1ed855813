"""The commands that show: `membra explain` (why two fragments are near) and `membra serve` (the workbench)."""

from pathlib import Path

import click

from membra.cli_options import COLLECTION


@click.command()
@COLLECTION
@click.argument("a")
@click.argument("b")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write a picture (.png) or a page (.html) as well."
)
@click.option("--top", default=12, show_default=True, type=click.IntRange(1), help="How many matches to print.")
def explain(path: Path, a: str, b: str, out: Path | None, top: int) -> None:
    """Show why the fragments A and B of COLLECTION are near: the letters that match, best first.

    \b
    Example: membra explain mine leaf-12.jpg leaf-40.jpg --out why.html
    """
    from membra.console import print_table
    from membra.find.collection import Collection
    from membra.show.evidence import best_shown
    from membra.show.evidence import explain as find
    from membra.show.exhibit import write_exhibit

    evidence = find(Collection.open(path), a, b)
    if out:
        write_exhibit(evidence, out)
        click.echo(f"the evidence: {out}", err=True)
    rows = [
        [
            str(number),
            f"{match.distance:.3f}",
            f"{match.share:.1%}",
            str(len(match.letters_a)),
            str(len(match.letters_b)),
            _where(evidence.boxes_a[match.letters_a[0]].tolist()),
            _where(evidence.boxes_b[match.letters_b[0]].tolist()),
        ]
        for number, match in enumerate(best_shown(evidence.matches, top), start=1)
    ]
    print_table(
        f"{a} and {b}: distance {evidence.distance:.4f} ({evidence.method}), candidate {evidence.rank}",
        ["kind", "distance", "share", "letters in A", "in B", "e.g. in A at", "in B at"],
        rows,
    )


def _where(box: list[int]) -> str:
    """A letter's place in the photograph, as IIIF writes a region: x,y,width,height."""
    return ",".join(str(value) for value in box)


@click.command()
@COLLECTION
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. Beyond this machine, the printed address has a key that visitors need.",
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
def serve(path: Path, host: str, port: int) -> None:
    """Open the workbench of COLLECTION in the browser: candidates, evidence, verdicts. Needs pip install 'membra[web]'.

    \b
    Example: membra serve mine
    """
    from membra.show.web.serve import serve as run

    run(path, host, port, lambda address: click.echo(f"the workbench of {path}: {address}  (Ctrl-C ends it)"))
