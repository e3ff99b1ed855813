"""The command line: parses, calls the rooms, prints. Computes nothing.

Heavy modules are imported inside the commands, so that `membra --help` starts fast.
"""

import json
import os
import select
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from membra import __version__
from membra.cli.catalogue import MAP, catalogue, mapping_of, print_mapping
from membra.cli.console import (
    bars,
    logged,
    print_added,
    print_redescribed,
    print_scores,
)
from membra.cli.correct import correct
from membra.cli.export import export
from membra.cli.keep import compact, list_, merge, remove, verify
from membra.cli.note import note
from membra.cli.options import (
    CLUSTER,
    COLLECTION,
    EXCLUDE_SAME,
    JOINS,
    PATH,
    RECIPES,
    SEED,
    WORKERS,
    setting,
)
from membra.cli.pairs import inbox, neighbours, propose
from membra.cli.people import people
from membra.cli.reproduce import reproduce
from membra.cli.search import search
from membra.cli.see import see
from membra.cli.show import decide, explain, serve
from membra.cli.train import adapt, train
from membra.errors import MembraError

if TYPE_CHECKING:
    from membra.describe.recipe import Pieces

# Commands that run for minutes or hours: they get low priority, below interactive ones (a search, a page).
_LONG = ("index", "adapt", "merge", "neighbours", "train", "reproduce")


def main() -> None:
    """Run the command line. Exit status 0: done; 1: `error: what, why, what next`; 2: wrong usage."""
    try:
        if next((word for word in sys.argv[1:] if not word.startswith("-")), "") in _LONG and hasattr(os, "nice"):
            os.nice(10)
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped; what was finished is kept, and the same command goes on from there", 130)
    except MembraError as error:
        _fail(str(error), 1)
    except SystemExit as end:
        # click exits with 1 when it cannot print; if the reader of a pipe (head, less) has closed it, that is no error.
        sys.exit(0 if end.code == 1 and _pipe_is_closed() else end.code)
    except MemoryError:
        _fail("there is too little memory for this; what was finished is kept: end what else runs, or ask for less", 1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _fail(f"{error.strerror or error}{where}; make room or check the path, then run the command again", 1)


def _pipe_is_closed() -> bool:
    """Return whether standard output is a pipe whose reader has closed it."""
    pipe = select.poll()
    pipe.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0))


def _program() -> str:
    """Return the command that starts this program: after `make demo` it is not on the PATH."""
    return "membra" if shutil.which("membra") else sys.argv[0]


def _fail(message: str, status: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


_RENAMED = {"most-side": "max-side"}  # former option names, which scripts still use
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "token_normalize_func": lambda name: _RENAMED.get(name, name),
}


class _Group(click.Group):
    """Lists its commands with their full first sentence, which click would truncate to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(1000)) for name, one in found if not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=_Group, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="membra")
@click.option("-v", "--verbose", is_flag=True, help="Log to stderr what is opened, fetched, stored and fitted.")
def cli(verbose: bool) -> None:
    """membra finds the scattered fragments of one manuscript.

    \b
    Try it:            membra demo
    Your own images:   membra index photographs/ --into mine
                       membra adapt mine
                       membra search mine leaf-12.jpg
    """
    if verbose:
        click.get_current_context().with_resource(logged())


@cli.command()
@setting("--out", "demo:OUT", type=PATH, help="Folder to fill.")
@setting("--seed", "demo:run_demo.seed", type=SEED, help="Seed of the drawing; another seed draws other scribes.")
def demo(out: Path, seed: int) -> None:
    """Draw synthetic fragments, index and evaluate them, and write a report page.

    \b
    Example: membra demo --out demo
    """
    from membra.demo import run_demo

    with bars() as bar:
        scores, page = run_demo(out, seed=seed, bar=bar)
    print_scores(scores)
    click.echo(
        f"\nThe page with queries and candidates: {page}\nThe same as one picture: {page.with_name('picture.png')}"
        f"\nTo look through it and decide, in the browser: {_program()} serve {out / 'collection'}"
    )


@cli.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1)
@click.option("--into", required=True, metavar="COLLECTION", type=PATH, help="Folder of the collection.")
@click.option(
    "--recipe",
    "recipe_name",
    type=click.Choice(RECIPES),
    help="Recipe by which fragments are described. [default: membra, or the collection's own]",
)
@click.option(
    "--encoder",
    metavar="FILE",
    type=PATH,
    help="A .onnx or .safetensors file from `membra train`. [default: the one that comes with membra]",
)
@click.option(
    "--pieces",
    type=click.Choice(["auto", "one"]),
    help="A fragment is each piece in a photograph (auto), or all of it (one). [default: auto, or the collection's]",
)
@click.option(
    "--redescribe",
    is_flag=True,
    help="First describe COLLECTION again with this version of membra; SOURCE may be omitted.",
)
@WORKERS
@click.option(
    "--images",
    metavar="FOLDER",
    type=PATH,
    help="Folder for IIIF images and pages of PDFs. [default: COLLECTION.images]",
)
@setting(
    "--max-side",
    "sources.download:Download.max_side",
    type=click.IntRange(200, 10_000),
    help="IIIF: longer side of the images to request, in pixels.",
)
@click.option("--allow-private", is_flag=True, help="IIIF: also fetch from this machine and its local network.")
@MAP
@CLUSTER
def index(
    sources: tuple[str, ...],
    into: Path,
    recipe_name: str | None,
    encoder: Path | None,
    pieces: "Pieces | None",
    redescribe: bool,
    workers: int | None,
    cluster: str | None,
    images: Path | None,
    max_side: int,
    allow_private: bool,
    maps: tuple[str, ...],
) -> None:
    """Describe the fragments of SOURCE into a collection.

    SOURCE: folders (images, and pages of PDFs), tables (CSV, XLSX, ODS) that name images, or IIIF manifests and
    collections (URLs or .json files). Run it again to add new or changed images; known ones are neither fetched nor
    described again. A collection described by an older revision must be described again first (--redescribe): that can
    take hours, resumes after a kill, and the collection stays usable meanwhile.

    \b
    Example: membra index photographs/ --into mine
             membra index --redescribe --into mine
    """
    from membra.compare.threads import processors
    from membra.describe import recipe as recipes
    from membra.describe.encoder import Encoder
    from membra.sources.fragment import fragments_of, is_iiif
    from membra.store import index as filling
    from membra.store.catalogue import mapping_for
    from membra.store.collection import Collection

    if not sources and not redescribe:
        raise click.UsageError("Missing argument 'SOURCE...'.")
    recipe = recipes.RECIPES[recipe_name] if recipe_name else None
    opened = Encoder.open(encoder) if encoder else None
    before = Collection.open(into) if redescribe else None
    refused = {entry.fragment.id for entry in before.entries() if entry.refused} if before else set()
    download = None
    with bars() as bar:
        if any(is_iiif(source) for source in sources):
            from membra.sources.download import Download

            folder = images or into.with_name(f"{into.name}.images")
            download = Download(folder, allow_private, max_side, progress=bar("fetching"))
        kept = Collection.open(into) if (into / "manifest.sqlite").is_file() else None
        meant: dict[str, str] = {}

        def columns(table: Path) -> dict[str, str]:
            own = mapping_for(kept, table, mapping_of(maps))
            print_mapping(table, own)
            meant.update(own)
            return own

        pages = images or into.with_name(f"{into.name}.images")
        found = fragments_of(sources, download, mapping=columns, pages=pages)
        collection, added = filling.index(
            found,
            into,
            recipe=recipe,
            encoder=opened,
            pieces=pieces,
            redescribe=redescribe,
            workers=workers or processors(),
            cluster=cluster,
            progress=bar("describing"),
        )
    if meant:
        with collection.writing() as writer:
            writer.annotate({}, meant)
    if download:
        added.refused.extend(download.lost)
    if before:
        print_redescribed(collection, before.recipe, refused, added.described)
    if sources:
        print_added(collection.path, added)


@cli.command()
@COLLECTION
@JOINS
@setting("--column", "judge.evaluate:evaluate.column", help="The column of that CSV that names the join.")
@EXCLUDE_SAME
@setting("--methods", "judge.evaluate:evaluate.methods", help="`all`, or names separated by commas.")
@setting(
    "--protocol",
    "judge.evaluate:evaluate.protocol",
    type=click.Choice(["all", "paper"]),
    help="all: fragments that could not be described count as misses; paper: they are left out.",
)
@setting(
    "--gallery",
    "judge.evaluate:evaluate.gallery",
    type=click.Choice(["labelled", "all"]),
    help="all: fragments that JOINS does not name are candidates too, and always wrong.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the scores as JSON; - for standard output.")
@click.option("--report", metavar="DIR", type=PATH, help="Write a page with scores and rankings.")
def evaluate(
    path: Path,
    joins: Path,
    column: str,
    exclude_same: str | None,
    methods: str,
    protocol: str,
    gallery: str,
    json_file: str | None,
    report: Path | None,
) -> None:
    """Score the rankings of COLLECTION against known joins. Every fragment with a mate is one query.

    \b
    Example: membra evaluate mine --joins joins.csv --exclude-same leaf --methods all
    """
    from membra.files import atomic_write, check_place
    from membra.judge.evaluate import evaluate as judge
    from membra.store.collection import Collection

    collection = Collection.open(path)
    if json_file not in (None, "-"):
        check_place(Path(str(json_file)))
    with bars() as bar:
        scores = judge(
            collection,
            joins,
            column=column,
            exclude_same=exclude_same,
            methods=[name.strip() for name in methods.split(",")],
            protocol=protocol,
            gallery=gallery,
            progress=bar("comparing"),
        )
    if json_file == "-":
        click.echo(json.dumps(scores, indent=2, ensure_ascii=False))
    else:
        if json_file:
            atomic_write(Path(json_file), json.dumps(scores, indent=2, ensure_ascii=False).encode())
        print_scores(scores)
    if report:
        from membra.show.report import write_report

        title = f"membra: {path.name}"
        page = write_report(report, collection, joins, scores, column=column, exclude_same=exclude_same, title=title)
        click.echo(f"the page: {page}", err=True)


_KEEPING = (catalogue, compact, list_, merge, neighbours, people, remove, verify)
for command in (
    adapt,
    correct,
    decide,
    explain,
    export,
    inbox,
    note,
    propose,
    reproduce,
    search,
    see,
    serve,
    train,
    *_KEEPING,
):
    cli.add_command(command)
