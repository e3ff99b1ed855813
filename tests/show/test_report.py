"""The page of `evaluate --report`: its rankings are those that were scored."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from membra.compare import methods
from membra.compare.methods import distances
from membra.judge.evaluate import ask, candidates_among, evaluate
from membra.judge.joins import read_joins
from membra.show.report import write_report
from membra.store.collection import Collection


@pytest.fixture
def some(collection: Collection, tmp_path: Path) -> Path:
    """A joins file that names eight of the twelve fragments, in false joins of different leaves."""
    ids = [entry.fragment.id for entry in collection.entries()][:8]
    table = tmp_path / "some.csv"
    rows = [f"{id},{'xy'[at % 2]},{at // 3}" for at, id in enumerate(ids)]
    table.write_text("\n".join(["image,hand,join", *rows]))
    return table


def shown(page: Path) -> dict[str, list[str]]:
    """Return the candidates of each query on the page."""
    lines = page.read_text().split('<section class="line" aria-label="')[1:]
    return {line.split('"')[0]: re.findall('alt="candidate ([^"]+)"', line) for line in lines}


@pytest.mark.parametrize("gallery", ["labelled", "all"])
@pytest.mark.parametrize("method", ["pool-mean-cosine", "bow-raw-chi2", "two-stage", "default"])
def test_the_page_ranks_what_was_scored(
    collection: Collection, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, gallery: str
) -> None:
    monkeypatch.setattr(methods, "SHORTLIST", 3)
    options: dict[str, Any] = {"column": "hand", "exclude_same": "join"}
    scores = evaluate(collection, some, methods=[method, "bob-chamfer"], gallery=gallery, **options)
    page = write_report(tmp_path / "page", collection, some, scores, **options)
    name = "bob-local" if method == "default" else method
    assert f"Ranked by <code>{name}</code> among {'all' if gallery == 'all' else 'the'} described" in page.read_text()
    entries, found = collection.described()
    ids = [entry.fragment.id for entry in entries]
    known = read_joins(some, ids, column="hand")
    if gallery == "all":
        known |= {id: {"hand": id, "join": ""} for id in ids if id not in known}
    indices = [index for index, id in enumerate(ids) if id in known]
    may = candidates_among(ask([ids[index] for index in indices], [], known, "join", "hand"), indices, len(ids))
    matrix = distances(found, found, name, same=range(len(ids)), among=may)
    matrix[~may] = np.inf
    rankings = shown(page)
    assert set(rankings) == {ids[index] for index in range(8)}
    for query, candidates in rankings.items():
        line = matrix[ids.index(query)]
        nearest = [ids[index] for index in np.argsort(line, kind="stable") if np.isfinite(line[index])]
        assert candidates == nearest[:5]
    assert ("</b> unknown" in page.read_text()) == (gallery == "all")


def test_after_peers_alone_the_page_names_the_default_method(
    collection: Collection, some: Path, tmp_path: Path
) -> None:
    """No search ranks by a peer."""
    scores = evaluate(collection, some, column="hand", methods=["pool-mean-l2"])
    scores["methods"] = {"sift-vlad": scores["methods"]["pool-mean-l2"]}
    page = write_report(tmp_path / "page", collection, some, scores, column="hand")
    assert "Ranked by <code>bob-local</code>" in page.read_text()
