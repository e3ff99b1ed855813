"""The agreement of letters on cards, on the comparison, in dossiers and in the shell, in English and Hebrew."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

import membra
from membra.cli import cli
from membra.describe.encoder import Encoder
from membra.find.agreement import AgreementSettings
from membra.show.web.app import create_app
from membra.sources.fragment import fragments
from membra.store.collection import Collection


@pytest.fixture(scope="module")
def known(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    made = Collection.create(tmp_path_factory.mktemp("agree") / "collection", encoder=Encoder.ready(threads=1))
    made.add(fragments(drawn))
    return made


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make twelve fragments enough for agreements, of which the ten nearest to a query may be its mates."""
    monkeypatch.setattr("membra.find.agreement.AgreementSettings", partial(AgreementSettings, least=1))


@pytest.fixture
def client(known: Collection, tmp_path: Path) -> TestClient:
    return TestClient(create_app(known.path, cache=tmp_path / "cache"), base_url="http://localhost")


def test_cards_have_it_in_words_and_show_the_best_letters(client: TestClient, known: Collection) -> None:
    query = known.entries()[0].fragment.id
    found = client.get("/api/candidates", params={"id": query}).json()["candidates"]
    hits = membra.search(known, query, top=20, agreement=True).hits
    assert [one["agreement"]["kinds"] for one in found] == [len(hit.agreement.kinds) for hit in hits if hit.agreement]
    assert found[0]["agreement"]["kinds"] > found[-1]["agreement"]["kinds"]
    first = hits[0].agreement
    assert first is not None
    members = known.description(query).bag.members
    assert members is not None
    letters = found[0]["agreement"]["letters"]
    assert members[letters].tolist() == list(first.kinds[:3])
    page = client.get("/candidates", params={"id": query}).text
    assert found[0]["agreement"]["said"][0] in page
    picture = re.search(r'<p class="agreement"><img src="([^"]+)"', page)
    assert picture
    answer = client.get(picture[1].replace("&amp;", "&"))
    assert answer.headers["content-type"] == "image/jpeg"
    hebrew = client.get("/candidates", params={"id": query, "lang": "he"}).text
    assert "סוגי האותיות תואמים" in hebrew
    assert "kinds of letter" not in hebrew


def test_the_comparison_marks_the_kinds_that_agree(client: TestClient, known: Collection) -> None:
    a, b = (entry.fragment.id for entry in known.entries()[:2])
    data = client.get("/api/compare", params={"a": a, "b": b}).json()
    evidence = membra.explain(known, a, b)
    assert evidence.agreement is not None
    assert data["agreement"]["kinds"] == len(evidence.agreement.kinds)
    marked = {(one["word_a"], one["word_b"]) for one in data["matches"] if one["agrees"]}
    shown = {(one["word_a"], one["word_b"]) for one in data["matches"]}
    assert marked == evidence.agreeing & shown
    text = client.get("/compare", params={"a": a, "b": b}).text
    assert text.count("✓ agrees") == len(marked)
    assert data["agreement"]["said"][1] in text


def test_a_kind_agrees_with_the_nearest_of_the_other_side(known: Collection) -> None:
    a, b = (entry.fragment.id for entry in known.entries()[:2])
    evidence = membra.explain(known, a, b)
    assert evidence.agreement is not None
    assert {kind for kind, _ in evidence.agreeing} == set(evidence.agreement.kinds)
    one, other = (known.description(id).bag.prototypes for id in (a, b))
    for kind, word in evidence.agreeing:
        assert word == int(np.linalg.norm(other - one[kind], axis=1).argmin())


def test_dossier_and_shell_say_the_same(known: Collection, tmp_path: Path) -> None:
    a, b = (entry.fragment.id for entry in known.entries()[:2])
    out = tmp_path / "why.html"
    said = CliRunner().invoke(cli, ["explain", str(known.path), a, b, "--out", str(out)], catch_exceptions=False).stdout
    last = said.strip().splitlines()[-1]
    data = json.loads(CliRunner().invoke(cli, ["explain", str(known.path), a, b, "--json"]).stdout)
    assert data["probability"] is not None
    assert last == "; ".join([f"probability of one manuscript {data['probability']:.2f}", *data["agreement"]["said"]])
    page = out.read_text(encoding="utf-8")
    assert data["agreement"]["said"][0] in page
    assert f"<dd>{data['probability']:.2f} " in page
    assert [one["agrees"] for one in data["matches"]].count(True) > 0
    found = CliRunner().invoke(cli, ["search", str(known.path), a, "--json"]).stdout
    hits = {hit["id"]: hit["agreement"] for hit in json.loads(found)["hits"]}
    assert len(hits[b]["kinds"]) == len(data["agreement"]["kinds"])


def test_nothing_is_said_among_few(known: Collection, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("membra.find.agreement.AgreementSettings", AgreementSettings)
    a, b = (entry.fragment.id for entry in known.entries()[:2])
    assert client.get("/api/compare", params={"a": a, "b": b}).json()["agreement"] is None
    assert "kinds of letter" not in client.get("/candidates", params={"id": a}).text
    done = CliRunner().invoke(cli, ["explain", str(known.path), a, b], catch_exceptions=False)
    assert "kinds of letter" not in done.stdout
