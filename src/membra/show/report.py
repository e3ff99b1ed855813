"""A folder with a page of a collection's scores and rankings, for any browser."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from membra.files import atomic_write
from membra.find.search import Ranking, search
from membra.judge.evaluate import ask, with_photographs
from membra.judge.joins import read_joins
from membra.show.holding import Holding
from membra.show.picture import Cell, draw_rankings, thumbnail
from membra.show.strips import encoded
from membra.show.template import page_template
from membra.store.collection import Collection

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

    Queries are sampled evenly from the whole collection, not by their scores.
    """
    (folder / "images").mkdir(parents=True, exist_ok=True)
    entries = {entry.fragment.id: entry for entry in collection.entries()}
    known = with_photographs(read_joins(joins, list(entries), column=column), list(entries.values()))
    rankings = _rankings(collection, known, exclude_same)
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
            known[ranking.query]["join"],
            [_card(hit, ranking, known, small) | {"doubtful": entries[hit.id].doubtful} for hit in ranking.hits],
        )
        for ranking in rankings
    ]
    picture = draw_rankings(
        [_pictured(line, pictures) for line in lines[:: max(1, len(lines) // _PICTURED)][:_PICTURED]]
    )
    atomic_write(folder / "picture.png", encoded(picture, "PNG"))
    atomic_write(folder / "scores.json", json.dumps(scores, indent=2).encode())
    page = page_template("report.html")
    html = page.render(title=title, scores=scores, metrics=METRICS, lines=lines, recipe=collection.recipe.name)
    atomic_write(folder / "index.html", html.encode())
    return folder / "index.html"


def _rankings(collection: Collection, known: dict[str, dict[str, str]], exclude_same: str | None) -> list[Ranking]:
    """Rank evenly sampled queries; candidates are excluded by the joins file, as in the scores."""
    entries, _ = collection.described()
    question = ask([entry.fragment.id for entry in entries if entry.fragment.id in known], [], known, exclude_same)
    queries = question.queries()
    rankings = []
    for index in queries[:: max(1, len(queries) // _LINES)][:_LINES]:
        whole = search(collection, question.ids[index], top=len(entries))
        barred = {id for id, out in zip(question.ids, question.barred_for(index), strict=True) if out}
        may = [hit for hit in whole.hits if hit.id not in barred][:_CANDIDATES]
        hits = [replace(hit, rank=rank) for rank, hit in enumerate(may, start=1)]
        rankings.append(replace(whole, hits=hits))
    return rankings


def _shown(rankings: Sequence[Ranking]) -> set[str]:
    return {ranking.query for ranking in rankings} | {hit.id for ranking in rankings for hit in ranking.hits}


def _card(hit: Any, ranking: Ranking, known: dict[str, dict[str, str]], small: dict[str, str]) -> dict[str, Any]:
    join = known.get(hit.id, {}).get("join", "")
    return {
        "rank": hit.rank,
        "id": hit.id,
        "image": small[hit.id],
        "distance": hit.distance,
        "join": join or "unknown",
        "right": join == known[ranking.query]["join"],
    }


def _pictured(line: Line, pictures: dict[str, Image.Image]) -> tuple[Image.Image, str, list[Cell]]:
    cells = [
        (pictures[hit["id"]], f"{hit['rank']}.  {hit['join']}  {hit['distance']:.2f}", bool(hit["right"]))
        for hit in line.hits
    ]
    return pictures[line.query], f"query: {line.join}", cells
