"""From candidates to verdicts: `membra explain` (why two are near), `decide`, and `serve` (the workbench for both)."""

import json
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from membra.cli.options import COLLECTION, JSON, PATH, setting

if TYPE_CHECKING:
    from membra.show.evidence import Evidence, Match


@click.command()
@COLLECTION
@click.argument("a")
@click.argument("b")
@click.option("--out", metavar="FILE", type=PATH, help="Also write a picture (.png) or the dossier (.html).")
@setting("--top", "show.exhibit:SHOWN", type=click.IntRange(1), help="Number of matches to print.")
@JSON
def explain(path: Path, a: str, b: str, out: Path | None, top: int, as_json: bool) -> None:
    """Show why the fragments A and B of COLLECTION (ids or shelfmarks) are near: the letters that match, best first.

    Each line is one kind of letter: the distance between the two fragments' forms, the share of their letters of this
    kind, the number of letters, and one of them in each photograph as x,y,width,height in pixels; and whether it
    agrees: it is nearer than in nineteen of twenty pairs of strangers.

    \b
    Example: membra explain mine leaf-12.jpg leaf-40.jpg --out why.html
    """
    from membra.cli.console import called, print_table, printable
    from membra.show.dossier import write_evidence
    from membra.show.evidence import best_shown
    from membra.show.evidence import explain as compared
    from membra.show.holding import Holding
    from membra.show.wording import agreement_words
    from membra.store.collection import Collection

    collection = Collection.open(path)
    evidence = compared(collection, a, b)
    entries = [collection.entry(id) for id in (evidence.a, evidence.b)]
    one, other = (called(entry) for entry in entries if entry)
    if out:
        write_evidence(evidence, Holding(collection), out)
        click.echo(f"the evidence: {out}", err=True)
    for name, doubtful in ((one, evidence.doubtful_a), (other, evidence.doubtful_b)):
        if doubtful:
            click.echo(printable(f"note: {name} is doubtful: little reliable writing was found on it"), err=True)
    agreeing, shown = evidence.agreeing, best_shown(evidence.matches, top)
    said: list[str] = [*agreement_words(evidence.agreement)] if evidence.agreement else []
    if as_json:
        click.echo(json.dumps(_explained(evidence, shown, said), ensure_ascii=False))
        return
    rows = [
        [
            str(number),
            f"{match.distance:.3f}",
            f"{match.share:.1%}",
            str(len(match.letters_a)),
            str(len(match.letters_b)),
            _where(evidence.boxes_a[match.letters_a[0]].tolist()),
            _where(evidence.boxes_b[match.letters_b[0]].tolist()),
            "yes" if (match.word_a, match.word_b) in agreeing else "",
        ]
        for number, match in enumerate(shown, start=1)
    ]
    rank = f", candidate {evidence.rank}" if evidence.rank else ""
    print_table(
        f"{one} and {other}: distance {evidence.distance:.4f} ({evidence.method}){rank}",
        ["kind", "distance", "share", "letters in A", "in B", "place in A", "in B", "agrees"],
        rows,
    )
    if evidence.probability is not None:
        said = [f"probability of one manuscript {evidence.probability:.2f}", *said]
    if said:
        click.echo("; ".join(said))


@click.command()
@COLLECTION
@click.argument("a")
@click.argument("b")
@click.argument("says", metavar="SAYS", type=click.Choice(["join", "same-hand", "unsure", "no", "undo"]))
@click.option("--by", required=True, metavar="NAME", help="Your name, stored with the verdict.")
@setting("--note", "store.verdicts:Verdicts.give.note", metavar="TEXT", help="The reason, as free text.")
def decide(path: Path, a: str, b: str, says: str, by: str, note: str) -> None:
    """Decide on the fragments A and B of COLLECTION, as on the workbench. SAYS: join, same-hand, unsure, no or undo.

    Nothing is deleted: the last verdict on a pair is in force, the history keeps all, and undo restores the one before.

    \b
    Example: membra decide mine leaf-12.jpg leaf-40.jpg join --by Rivka --note "the same lamed"
    """
    from membra.store.collection import Collection
    from membra.store.decide import decide as give
    from membra.store.verdicts import Verdicts

    given = give(Collection.open(path), a, b, says.replace("-", " "), by=by, note=note)
    if given.undoes is None:
        click.echo(f"kept as verdict {given.number}: {a} and {b}: {given.says}")
    else:
        undone = next(v for v in Verdicts.open(path).history(given.a, given.b) if v.number == given.undoes)
        click.echo(f"undone: verdict {undone.number} on {a} and {b}: {undone.says}")


@click.command()
@COLLECTION
@setting(
    "--host",
    "show.web.serve:serve.host",
    help="Address to listen on. For other machines, the printed URL has a key that visitors need.",
)
@setting(
    "--port", "show.web.serve:serve.port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one."
)
@click.option("--open", "opens", is_flag=True, help="Also open it in the browser of this machine.")
@setting(
    "--base-url",
    "show.web.serve:serve.base_url",
    metavar="URL",
    help="Public URL, e.g. https://example.org/membra/: for exported manifests.",
)
@click.option(
    "--people",
    metavar="FILE",
    type=PATH,
    help="Who may sign in, each by a personal link (`membra people`); their entries carry their names.",
)
def serve(path: Path, host: str, port: int, opens: bool, base_url: str, people: Path | None) -> None:
    """Serve the workbench of COLLECTION, for the browser: candidates, evidence, verdicts.

    Prints the URL to open; --open opens it. Needs pip install 'membra[web]'.

    \b
    Example: membra serve mine --open
             membra serve mine --host 0.0.0.0 --people people.csv
    """
    from membra.cli.console import printable
    from membra.show.web.serve import serve as run

    def say(url: str) -> None:
        click.echo(f"the workbench of {path}: {url}  (Ctrl-C ends it)")
        # The port is bound already, so a browser that is faster than the server waits.
        if opens and not webbrowser.open(url):
            click.echo("note: there is no browser to open here; open the address yourself", err=True)

    def give(name: str, link: str) -> None:
        click.echo(printable(f"{name}: {link}"))

    run(path, host=host, port=port, say=say, base_url=base_url, people=people, give=give)


def _explained(evidence: "Evidence", shown: "Sequence[Match]", said: "Sequence[str]") -> dict[str, Any]:
    """Return the printed evidence as JSON data."""
    agreement = evidence.agreement
    return {
        "a": evidence.a,
        "b": evidence.b,
        "method": evidence.method,
        "distance": evidence.distance,
        "rank": evidence.rank,
        "probability": evidence.probability,
        "agreement": {**asdict(agreement), "said": list(said)} if agreement else None,
        "matches": [{**asdict(match), "agrees": (match.word_a, match.word_b) in evidence.agreeing} for match in shown],
        "boxes_a": evidence.boxes_a.tolist(),
        "boxes_b": evidence.boxes_b.tolist(),
    }


def _where(box: list[int]) -> str:
    """Format a letter's box like a IIIF region: x,y,width,height."""
    return ",".join(str(value) for value in box)
