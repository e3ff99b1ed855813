"""The further tables, on drawn fragments: each names what it compares, or why it cannot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, SAUVOLA
from membra.judge.evaluate import ask
from membra.reproduce import run, sweeps
from membra.reproduce.components import components
from membra.reproduce.degraded import DAMAGES, _rows, _runs, degraded
from membra.reproduce.elsewhere import _half_runs, _halves, elsewhere
from membra.reproduce.experiments import Known
from membra.reproduce.gallery import _among, gallery
from membra.reproduce.labels import known_of, labels_of
from membra.reproduce.limits import limits
from membra.reproduce.material import Material
from membra.reproduce.overlap import cut_runs, overlap
from membra.reproduce.peers import peers
from membra.reproduce.settings import ReproduceSettings
from membra.reproduce.steps import Steps
from membra.reproduce.work import Work
from membra.sources.fragment import fragments

pytest.importorskip("torch", reason="torch is in the extra [train]")
BRIEF = ReproduceSettings(recipe=MEMBRA, seeds=1, epochs=1, words=(4,), cut_letters=(10,), thorough=False)


@pytest.fixture(scope="module")
def material(drawn: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("further")
    return Material(fragments(drawn), BRIEF, Work(folder / "work"), Steps(), encoder=encoder)


@pytest.fixture(scope="module")
def known(material: Material, drawn: Path) -> Known:
    labels, _ = labels_of(drawn, None, material.fragments)
    return known_of(material, labels, "", "leaf")


@pytest.mark.slow
def test_peers_stand_on_the_same_queries(material: Material, known: Known) -> None:
    table = peers(material, known)
    rows = {row["name"]: row for row in table.rows}
    assert rows["sift-vlad"]["against"]["row"] == "BoB-Chamfer (the paper)"
    assert rows["sift-fisher"]["hit@1"] <= 1
    assert "--quick" in rows["membra-adapted"]["missing"]
    assert {"sift-vlad-graph", "sift-vlad-expanded", "sift-mean", "membra-ready"} <= rows.keys()
    kept = sorted(path.name for path in material.work.folder.glob("keypoints-*"))
    assert peers(material, known).to_json() == table.to_json()  # and nothing is computed again
    assert sorted(path.name for path in material.work.folder.glob("keypoints-*")) == kept


def test_whole_queries_under_chamfer_are_table_one(material: Material, known: Known) -> None:
    runs = cut_runs(material, known, None, "Chamfer")
    plain = known.runs([material.matrix(material.main, 42, "bob-chamfer")])
    assert [o.relevant.tolist() for o in runs[0]] == [o.relevant.tolist() for o in plain[0]]


def test_every_length_has_four_distances(material: Material, known: Known) -> None:
    rows = overlap(material, known).rows
    assert [(row["letters"], row["distance"]) for row in rows[:4]] == [
        ("whole", name) for name in ("Chamfer", "Hungarian", "OT", "partial OT")
    ]
    assert {row["letters"] for row in rows} == {"whole", "10"}
    assert all(row["against"]["row"] == f"{row['letters']}, Chamfer" for row in rows if row["distance"] != "Chamfer")


def test_a_smaller_gallery_holds_fewer_fragments_and_the_whole_is_table_one(material: Material, known: Known) -> None:
    table = gallery(material, known)
    by_size = {row["manuscripts"]: row for row in table.rows if row["name"] == "bob-chamfer"}
    assert list(by_size) == [2, 3, 4]
    assert by_size[2]["fragments"] < by_size[4]["fragments"] == len(known.indices)
    plain = known.runs([material.matrix(material.main, 42, "bob-chamfer")])[0]
    assert by_size[4]["hit@1"] == pytest.approx(np.mean([o.relevant[:1].any() for o in plain]))
    assert _among(known.question, np.zeros((12, 12)), set()) is None


def test_what_quick_leaves_out_says_so(material: Material, known: Known) -> None:
    for make in (components, sweeps.sweep, sweeps.encoders, elsewhere, limits, degraded):
        assert make(material, known).missing == "--quick skips it"
    lonely = replace(known, why_not="no mates")
    for make in run.FURTHER:
        assert make(material, lonely).missing == "no mates"


@pytest.mark.slow
def test_the_costly_tables(material: Material, known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CODEBOOKS", (10, 100))
    monkeypatch.setattr(sweeps, "SHORTLISTS", (3, 30))
    monkeypatch.setattr(material, "settings", replace(BRIEF, thorough=True))
    rows = components(material, known).rows
    assert [row["method"].split(", ")[1] for row in rows] == ["bags", "all components"] * 2
    assert rows[1]["ms"] > 0
    assert rows[1]["against"]["row"] == "OT, bags"
    swept = sweeps.sweep(material, known).rows
    assert [row["value"] for row in swept] == ["10", "100", "10", "100", "3", "30"]
    plain = sweeps.encoders(material, known).rows
    assert len(plain) == 8
    assert all("missing" not in row for row in [*swept, *plain])
    monkeypatch.setattr(material, "settings", replace(BRIEF, thorough=True, component_pairs=3))
    assert "would take too long" in components(material, known).missing


@pytest.mark.slow
def test_trained_on_other_manuscripts(material: Material, known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(material, "settings", replace(BRIEF, thorough=True))
    rows = elsewhere(material, known).rows
    assert [row["trained on"] for row in rows] == ["the given encoder", "others"] * 2
    assert rows[1]["against"]["row"] == "BoB-Chamfer, the given encoder"


@pytest.mark.slow
def test_limits_change_who_is_described(drawn: Path, encoder: Encoder, tmp_path: Path) -> None:
    recipe = replace(SAUVOLA, min_glyphs=20)
    settings = replace(BRIEF, recipe=recipe, thorough=True)
    material = Material(fragments(drawn), settings, Work(tmp_path / "work"), Steps(), encoder=encoder)
    labels, _ = labels_of(drawn, None, material.fragments)
    rows = limits(material, known_of(material, labels, "", "leaf")).rows
    assert [row["limit"].split()[0] for row in rows] == ["as", "at", "at", "at", "at", "50", "100", "400"]
    assert rows[0]["hit@1"] <= 1
    assert rows[-1]["described"] == 0
    assert rows[-1]["missing"]
    assert rows[5]["described"] <= rows[0]["described"]


def test_damage_does_what_it_says() -> None:
    page = np.full((200, 200, 3), 230, np.uint8)
    page[80:120, 40:160] = 20
    shown = {name: make(page, 40.0, np.random.default_rng(0)).astype(int) for name, make in DAMAGES.items()}
    assert np.array_equal(shown["none"], page)
    steps = {name: np.abs(np.diff(one[100, :, 0])).max() for name, one in shown.items()}
    assert steps["blur 0.1"] < 100 < steps["none"]
    assert shown["fading 1"][100, 100, 0] > shown["fading 0.6"][100, 100, 0] > 20
    assert shown["grain × 5"][:60].std() > 1.5 * shown["grain × 2"][:60].std() > 0
    assert shown["turn 10°"][82, 42, 0] == 230
    assert all(one.shape == page.shape for one in shown.values())


@pytest.mark.slow
def test_undamaged_queries_are_table_one(material: Material, known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(material, known, "none")
    again = _runs(known, rows["bob-chamfer"])[0]
    plain = known.runs([material.matrix(material.main, 42, "bob-chamfer")])[0]
    assert [o.relevant.tolist() for o in again] == [o.relevant.tolist() for o in plain]
    monkeypatch.setitem(DAMAGES, "all gone", lambda picture, height, draw: np.full_like(picture, 200))
    empty = _rows(material, known, "all gone")
    assert not any(outcome.relevant.any() for outcome in _runs(known, empty["bob-chamfer"])[0])


def test_halves_share_no_manuscript_and_hold_all() -> None:
    labels = {str(at): {"join": str(at // 2)} for at in range(12)}
    known = Known(list(range(12)), ask(list(labels), [], labels, None), "")
    first, second = _halves(known)
    assert sorted([*first, *second]) == list(range(12))
    assert not {known.question.joins[at] for at in first} & {known.question.joins[at] for at in second}
    mates = 1.0 - np.equal.outer(known.question.joins, known.question.joins)
    (asked,) = _half_runs(known, [first, second], [mates, mates])
    assert len(asked) == 12
    assert all(outcome.relevant[0] for outcome in asked)
