"""`membra search`: rank the fragments of a collection for a query."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from membra.cli.console import bars, late, names_of, print_named, print_shortlist, printable
from membra.cli.options import CLUSTER, EXCLUDE_SAME, JSON, METHOD, PATH, setting

if TYPE_CHECKING:
    from membra.find.ranking import Ranking


@click.command()
@click.argument("words", metavar="COLLECTION QUERY...", nargs=-1, required=True)
@click.option(
    "--in", "others", metavar="COLLECTION", multiple=True, type=PATH, help="Search this collection too; repeatable."
)
@setting("--top", "find.search:search.top", type=click.IntRange(1), help="Number of candidates.")
@METHOD
@EXCLUDE_SAME
@setting(
    "--shortlist",
    "find.search:search.shortlist",
    metavar="auto|off|N",
    help="How many to compare in full after a first pass; auto: all, up to half a million fragments.",
)
@click.option("--together", is_flag=True, help="Treat all QUERY as one manuscript: search with their letters combined.")
@CLUSTER
@JSON
def search(
    words: tuple[str, ...],
    others: tuple[Path, ...],
    top: int,
    method: str,
    exclude_same: str | None,
    shortlist: str,
    together: bool,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Rank the fragments of COLLECTION for QUERY: a fragment's id (see `membra list`), or any image file.

    Nearest first, each with the probability that it is of the same manuscript. Distances can be compared only within
    one collection and method. Of a photograph with several pieces the most legible one is the query; #2 after its name
    selects the second. Recto and verso, or all leaves of a known group, find more together than each alone. With --in,
    several collections of one recipe are searched and give one list.

    \b
    Example: membra search mine leaf-12.jpg --top 10
             membra search mine 12r.jpg 12v.jpg --together
             membra search --in ours --in theirs leaf-12.jpg
    """
    from functools import partial

    from membra.find.search import search as find
    from membra.find.search import search_together
    from membra.store.collection import Collection

    paths, queries = list(others), words
    if not others or (len(words) > 1 and (Path(words[0]) / "manifest.sqlite").is_file()):
        paths, queries = [Path(words[0]), *paths], words[1:]
    _check(paths, queries, shortlist.isdecimal(), together, cluster)
    collection, query = Collection.open(paths[0]), queries[0]
    if len(paths) > 1:
        from membra.find.several import search_in

        collections = [collection, *(Collection.open(path) for path in paths[1:])]
        ranking = search_in(collections, query, top=top, method=method, exclude_same=exclude_same)
    elif cluster:
        from membra.find.cluster_search import search_on
        from membra.store.cluster import connected

        with connected(cluster) as client:
            ranking = search_on(client, collection, query, top=top, method=method, exclude_same=exclude_same)
    else:
        with bars() as bar:
            ask = partial(search_together, collection, queries) if together else partial(find, collection, query)
            ranking = ask(
                top=top,
                method=method,
                exclude_same=exclude_same,
                shortlist=shortlist,
                agreement=as_json,
                progress=late(bar, "preparing the shortlist"),
            )
    if ranking.shortlist is not None:
        print_shortlist(ranking.shortlist)
    if ranking.piece and not query.endswith(f"#{ranking.piece}"):
        click.echo(
            printable(f"{query} shows several pieces; the search used the most legible, #{ranking.piece}"), err=True
        )
    homes = {hit.collection: Collection.open(hit.collection) for hit in ranking.hits if hit.collection}
    names = [names_of(homes.get(hit.collection, collection), [hit.id])[hit.id] for hit in ranking.hits]
    if as_json:
        said = asdict(ranking)
        for hit, (shelfmark, library) in zip(said["hits"], names, strict=True):
            hit |= {"shelfmark": shelfmark, "library": library}
        click.echo(json.dumps(said, ensure_ascii=False))
    else:
        _print(ranking, names, several=len(paths) > 1)


def _check(paths: list[Path], queries: tuple[str, ...], shortened: bool, together: bool, cluster: str | None) -> None:
    """Raise `click.UsageError` for options that exclude each other."""
    if not queries:
        raise click.UsageError("Missing argument 'QUERY...'.")
    if len(paths) > 1 and (cluster or together or shortened):
        raise click.UsageError(
            "to search several collections, give one query, without --cluster, --together or a number as --shortlist"
        )
    if cluster and shortened:
        raise click.UsageError("a search on a cluster has no shortlist; leave out --shortlist or --cluster")
    if len(queries) > 1 and not together:
        raise click.UsageError(
            "several queries need --together, which treats them as one manuscript; otherwise give one query"
        )
    if cluster and together:
        raise click.UsageError("--together and --cluster cannot be combined; leave out one of them")


def _print(ranking: "Ranking", names: list[tuple[str, str]], *, several: bool) -> None:
    """Print the candidates as a table, and the rank below which none is unusual; `several`: with their collections."""
    from membra.find.probability import UNUSUAL

    origins = [[hit.collection] if several else [] for hit in ranking.hits]
    likely = any(hit.probability is not None for hit in ranking.hits)
    chances = ["" if hit.probability is None else f"{hit.probability:.2f}" for hit in ranking.hits]
    rows = [
        [str(hit.rank), *name, hit.id, *origin, f"{hit.distance:.4f}", *([chance] if likely else [])]
        for hit, name, origin, chance in zip(ranking.hits, names, origins, chances, strict=True)
    ]
    columns = ["rank", "shelfmark", "library", "fragment", *(["collection"] if several else []), "distance"]
    print_named(f"{ranking.query}  ({ranking.method})", [*columns, *(["probability"] if likely else [])], rows)
    unusual = [hit.rank for hit in ranking.hits if hit.probability is not None and hit.probability >= UNUSUAL]
    if likely:
        last = max([0, *unusual])
        where = f"below candidate {last}, nothing unusual" if last else "nothing unusual among these candidates"
        click.echo(f"{where} (probability of the same manuscript under {UNUSUAL:g})")
