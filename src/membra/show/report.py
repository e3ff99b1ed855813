"""A folder with a page of a collection's scores and rankings, for any browser."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from membra.compare.methods import METHODS, named
from membra.files import atomic_write
from membra.find.search import Ranking, search_many
from membra.judge.evaluate import ask, with_photographs
from membra.judge.joins import read_joins
from membra.show.holding import Holding
from membra.show.picture import Cell, draw_rankings, thumbnail
from membra.show.strips import encoded
from membra.show.template import page_template
from membra.store.collection import Collection, Entry

METRICS = ("hit@1", "hit@5", "hit@10", "map@10", "map", "mrr", "macro_f1@1")
_LINES, _CANDIDATES = 12, 5  # queries on the page, candidates per query
_PICTURED = 5  # queries in the picture
_SIDE = 320  # px, of the small images


@dataclass(frozen=True)
class Line:
    """One query of the page with its candidates."""

    query: str
    image: str
    join: str
    hits: list[dict[str, Any]]


def write_report(
    folder: Path,
    collection: Collection,
    joins: Path,
    scores: dict[str, Any],
    *,
    column: str = "join",
    exclude_same: str | None = None,
    title: str = "membra",
) -> Path:
    """Write `index.html`, `picture.png`, `scores.json` and small images into `folder`; return the page's path.

    Queries are sampled evenly from the whole collection, not by their scores, and ranked by `_method` among the
    candidates that were scored.
    """
    (folder / "images").mkdir(parents=True, exist_ok=True)
    entries = {entry.fragment.id: entry for entry in collection.entries()}
    known = with_photographs(read_joins(joins, list(entries), column=column), list(entries.values()))
    rankings = _rankings(collection, entries, known, scores, column, exclude_same)
    small = {id: f"images/{index:04d}.jpg" for index, id in enumerate(sorted(_shown(rankings)))}
    holding = Holding(collection)
    pictures = {
        id: thumbnail(entries[id].fragment.path, _SIDE, entries[id].angle, holding.piece_outline(id)) for id in small
    }
    for id, name in small.items():
        atomic_write(folder / name, encoded(pictures[id], quality=88))
    lines = [
        Line(
            ranking.query,
            small[ranking.query],
            known[ranking.query][column],
            [
                _card(hit, ranking, known, small, column) | {"doubtful": entries[hit.id].doubtful}
                for hit in ranking.hits
            ],
        )
        for ranking in rankings
    ]
    picture = draw_rankings(
        [_pictured(line, pictures) for line in lines[:: max(1, len(lines) // _PICTURED)][:_PICTURED]]
    )
    atomic_write(folder / "picture.png", encoded(picture, "PNG"))
    atomic_write(folder / "scores.json", json.dumps(scores, indent=2).encode())
    page, method = page_template("report.html"), named(_method(scores), collection.recipe.method).name
    recipe = collection.recipe.name
    html = page.render(title=title, scores=scores, metrics=METRICS, lines=lines, recipe=recipe, method=method)
    atomic_write(folder / "index.html", html.encode())
    return folder / "index.html"


def _rankings(
    collection: Collection,
    entries: dict[str, Entry],
    known: dict[str, dict[str, str]],
    scores: dict[str, Any],
    column: str,
    exclude_same: str | None,
) -> list[Ranking]:
    """Rank evenly sampled queries among the candidates that they had in the scores."""
    described = {id: entry.number for id, entry in entries.items() if not entry.refused}
    gallery = {id: number for id, number in described.items() if scores["gallery"] == "all" or id in known}
    question = ask([id for id in described if id in known], [], known, exclude_same, column)
    queries, method = question.queries(), _method(scores)
    rankings = []
    for index in queries[:: max(1, len(queries) // _LINES)][:_LINES]:
        barred = {id for id, out in zip(question.ids, question.barred_for(index), strict=True) if out}
        may = [number for id, number in gallery.items() if id not in barred]
        rankings += search_many(
            collection, [question.ids[index]], top=_CANDIDATES, method=method, shortlist="off", numbers=may
        )
    return rankings


def _method(scores: dict[str, Any]) -> str:
    """Return the first scored method that `search` offers, which the peers are not; `default` if there is none."""
    offered = {"default", *(method.name for method in METHODS)}
    return next((name for name in scores["methods"] if name in offered), "default")


def _shown(rankings: Sequence[Ranking]) -> set[str]:
    return {ranking.query for ranking in rankings} | {hit.id for ranking in rankings for hit in ranking.hits}


def _card(
    hit: Any, ranking: Ranking, known: dict[str, dict[str, str]], small: dict[str, str], column: str
) -> dict[str, Any]:
    join = known.get(hit.id, {}).get(column, "")
    return {
        "rank": hit.rank,
        "id": hit.id,
        "image": small[hit.id],
        "distance": hit.distance,
        "join": join or "unknown",
        "right": join == known[ranking.query][column],
    }


def _pictured(line: Line, pictures: dict[str, Image.Image]) -> tuple[Image.Image, str, list[Cell]]:
    cells = [
        (pictures[hit["id"]], f"{hit['rank']}.  {hit['join']}  {hit['distance']:.2f}", bool(hit["right"]))
        for hit in line.hits
    ]
    return pictures[line.query], f"query: {line.join}", cells
