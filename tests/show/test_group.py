"""Leaves and groups: their members, combined queries, and export as dossier, manifest and bibliography entry."""

import html
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

import membra
from membra.cli import cli
from membra.errors import MembraError
from membra.show.citation import bibtex, csl_json
from membra.show.group import group_of, pairs_of, title_of
from membra.show.holding import Holding
from membra.show.web import together
from membra.sources.fragment import Fragment
from membra.store.collection import Collection, Entry
from membra.store.leaf import leaves_of
from membra.store.verdicts import Verdicts

ONE, OTHER, THIRD = "images/0001.jpg", "images/0002.jpg", "images/0003.jpg"


def entry(id: str, piece: int = 0, **columns: str) -> Entry:
    return Entry(Fragment(id, Path(id), columns, piece=piece), "", "", 1)


def test_a_leaf_is_what_the_catalogue_calls_one() -> None:
    found = leaves_of(
        [
            entry("a", shelfmark="T-S 1", side="recto"),
            entry("b", shelfmark="T-S 1", side="verso"),
            entry("c", shelfmark="T-S 2", leaf="7"),
            entry("d", shelfmark="T-S 2", leaf="7"),
            entry("e", shelfmark="T-S 3", leaf="7"),  # leaf 7 of another book
            entry("f", shelfmark="T-S 4", side="recto"),  # a shelfmark of many unnumbered leaves
            entry("g", shelfmark="T-S 4", side="verso"),
            entry("h", shelfmark="T-S 4", side="recto"),
            entry("p#1", 1, shelfmark="T-S 5", leaf="1"),  # pieces of one photograph
            entry("p#2", 2, shelfmark="T-S 5", leaf="1"),
            entry("i", shelfmark="T-S 6"),
            entry("j", shelfmark="T-S 6"),
            entry("k"),
        ]
    )
    assert found == {"a": ("a", "b"), "b": ("a", "b"), "c": ("c", "d"), "d": ("c", "d")}


def test_a_group_is_what_verdicts_connect_or_what_is_named(decided: Collection) -> None:
    ids = [entry.fragment.id for entry in decided.entries()]
    holding, pairs = Holding(decided), Verdicts.open(decided.path).pairs()
    joined = group_of(holding, pairs, [ids[2]])
    assert set(joined.ids) == set(ids[:3])
    assert joined.confirmed
    assert {frozenset(pair) for pair in pairs_of(holding, joined)} == {
        frozenset(ends) for ends, pair in pairs.items() if pair.says == "join"
    }
    named = group_of(holding, pairs, ids[2:5])
    assert not named.confirmed
    assert len(pairs_of(holding, named)) == 2
    for wrong in ([], ["nothing"], [ids[5]], ["", ids[0]]):
        with pytest.raises(MembraError):
            group_of(holding, pairs, wrong)


def test_its_entry_is_read_by_bibtex_and_citation_programs(decided: Collection) -> None:
    holding, ids = Holding(decided), [entry.fragment.id for entry in decided.entries()]
    group = group_of(holding, Verdicts.open(decided.path).pairs(), [ids[0]])
    (item,) = json.loads(csl_json(holding, group))
    assert item["type"] == "manuscript"
    assert "ש. לוי" in item["note"]
    assert "T-S 8C1.3" in item["archive_location"]
    assert item["title"] == " ".join(title_of(holding, group).split())
    text = bibtex(holding, group).decode()
    assert re.fullmatch(r"@misc\{[a-z0-9-]+,\n(  \w+ = \{.*\},?\n)+\}\n", text)
    assert text.count("{") == text.count("}")
    bare = re.sub(r"\\textbackslash\{\}|\\[&%$#_{}]", "", text)
    assert not re.search(r"[&%$#_\\]", bare), "whatever names hold, TeX reads it as text"


@pytest.mark.parametrize(
    ("what", "ending"), [("dossier", "html"), ("iiif", "json"), ("bibtex", "bib"), ("csl", "json")]
)
def test_a_group_goes_out_by_the_command_too(decided: Collection, tmp_path: Path, what: str, ending: str) -> None:
    ids = [entry.fragment.id for entry in decided.entries()]
    out = tmp_path / f"group.{ending}"
    done = CliRunner().invoke(
        cli, ["export", str(decided.path), "--what", what, "--group", ids[2], "--out", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    said = out.read_text(encoding="utf-8")
    assert "T-S 8C1.3" in said
    if what == "dossier":
        assert not re.search(r"<script|<link|<iframe|@import|url\(|\son\w+=", said)
        assert set(re.findall(r'src="([^:"]*:)', said)) == {"data:"}
        assert said.count("<figure>") == 3
        assert "&lt;script&gt;alert(2)&lt;/script&gt;" in said
        assert out.stat().st_size < 3_000_000
    assert membra.export(decided, out, what, group=ids[1:4]).count == 3
    with pytest.raises(MembraError, match="must end in"):
        membra.export(decided, tmp_path / "group.csv", what, group=ids[2])


def test_more_like_a_group_asks_with_all_of_it(client: TestClient, shelf: Path) -> None:
    page = client.get("/api/group", params={"id": [ONE, OTHER]}).json()
    assert [card["id"] for leaf in page["leaves"] for card in leaf["sides"]] == [ONE, OTHER]
    assert not page["confirmed"]
    found = [one["card"]["id"] for one in page["candidates"]]
    assert not {ONE, OTHER} & set(found)
    asked = membra.search_together(Collection.open(shelf), [ONE, OTHER], top=5)
    assert [hit.id for hit in asked.hits] == found[:5]
    assert {one["nearest"] for one in page["candidates"]} <= {ONE, OTHER}
    for what in ("dossier", "manifest", "bibtex", "csl"):
        answer = client.get(f"/export/group/{what}", params={"id": [ONE, OTHER]})
        assert answer.status_code == 200, what
        assert "attachment" in answer.headers["content-disposition"]
    assert client.get("/api/group", params={"id": ONE}).status_code == 404
    assert client.get("/api/group").status_code == 422
    assert client.get("/group", params={"id": [ONE, "nothing"]}).status_code == 404


def test_nearest_is_the_nearest_of_all_members_or_left_out(
    client: TestClient, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = Holding(Collection.open(shelf))
    ids = [entry.fragment.id for entry in holding.entries if not entry.refused]
    assert len(ids) > 9
    known = {}
    for near in (1, 3, 120):
        monkeypatch.setattr(together, "NEAR", near)
        for left in ids:
            members = [id for id in ids if id != left]
            page = client.get("/api/group", params={"id": members}).json()
            (candidate,) = (one for one in page["candidates"] if one["card"]["id"] == left)
            nearest = min(members, key=lambda id: holding.apart(id, left)[0])
            assert candidate["nearest"] in ("", nearest)
            known[near, left] = candidate["nearest"] != ""
    assert all(known[120, id] for id in ids)
    unknown = next(id for id in ids if not known[1, id])
    monkeypatch.setattr(together, "NEAR", 1)
    page = client.get("/group", params={"id": [id for id in ids if id != unknown]}).text.split('id="more"')[1]
    assert "nearest to" not in page
    assert re.search(r'href="/compare\?a=[^&"]+&amp;b=', page)


def test_the_last_of_many_members_can_be_the_nearest(writer: TestClient, own_shelf: Path) -> None:
    collection = Collection.open(own_shelf)
    holding = Holding(collection)
    ids = [entry.fragment.id for entry in holding.entries if not entry.refused]
    nearest = holding.ranking(ONE, 1).hits[0].id
    collection.add([Fragment(nearest, holding.entry(nearest).fragment.path, {"shelfmark": "Z 9"})])
    members = [id for id in ids if id != ONE]
    page = writer.get("/api/group", params={"id": members}).json()
    assert [card["id"] for leaf in page["leaves"] for card in leaf["sides"]].index(nearest) == len(members) - 1 > 8
    (candidate,) = (one for one in page["candidates"] if one["card"]["id"] == ONE)
    truth = Holding(Collection.open(own_shelf))
    assert candidate["nearest"] == min(members, key=lambda id: truth.apart(id, ONE)[0]) == nearest


@pytest.mark.parametrize("gone", [ONE, OTHER, THIRD])
def test_the_link_of_a_group_leads_to_what_is_left_of_it(writer: TestClient, own_shelf: Path, gone: str) -> None:
    for a, b in ((ONE, OTHER), (OTHER, THIRD)):
        writer.post("/api/verdicts", json={"a": a, "b": b, "says": "join", "by": "Rivka"}).raise_for_status()
    assert shown_by(writer) == [[ONE, OTHER, THIRD]]
    Collection.open(own_shelf).remove([gone])
    assert shown_by(writer) == [[id for id in (ONE, OTHER, THIRD) if id != gone]]
    Collection.open(own_shelf).remove([OTHER if gone == ONE else ONE])
    assert shown_by(writer) == []


def shown_by(client: TestClient) -> list[list[str]]:
    """Return the members of each group that the page of verdicts links to."""
    links = re.findall(r'href="(/group\?[^"]+)"', client.get("/verdicts").text)
    pages = [client.get("/api" + html.unescape(link)) for link in links]
    assert all(page.status_code == 200 for page in pages)
    return [[card["id"] for leaf in page.json()["leaves"] for card in leaf["sides"]] for page in pages]


def test_sides_of_a_leaf_are_one_thing(writer: TestClient, own_shelf: Path) -> None:
    """Known as mates, shown together, searched together; and a join of one side is a join of the other."""
    collection = Collection.open(own_shelf)
    known = {entry.fragment.id: entry.fragment for entry in collection.entries()}
    for id, side in ((ONE, "recto"), (OTHER, "verso")):
        columns = {"shelfmark": "ENA 77", "side": side}
        collection.remove([id])
        collection.add([Fragment(id, known[id].path, columns)])
    page = writer.get("/api/fragment", params={"id": ONE}).json()
    assert [card["id"] for card in page["leaf"]] == [ONE, OTHER]
    candidates = writer.get("/api/candidates", params={"id": ONE}).json()
    assert candidates["leaf"] == [ONE, OTHER]
    assert next(one["known"] for one in candidates["candidates"] if one["card"]["id"] == OTHER)
    group = writer.get("/api/group", params={"id": ONE}).json()
    assert group["title"] == "ENA 77 recto/verso"
    assert group["confirmed"]
    given = {"a": OTHER, "b": THIRD, "says": "join", "by": "Rivka"}
    assert writer.post("/api/verdicts", json=given).status_code == 200
    group = writer.get("/api/group", params={"id": ONE}).json()
    assert {card["id"] for leaf in group["leaves"] for card in leaf["sides"]} == {ONE, OTHER, THIRD}
    assert "Candidates for the whole leaf" in writer.get("/fragment", params={"id": ONE}).text
