"""The table of claims: each rests on a table, is yes, no or undecided, and never surer than the queries allow."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from membra.judge.evaluate import ask
from membra.judge.latex import escape, to_latex
from membra.judge.tables import Column, Table
from membra.reproduce import claims as page
from membra.reproduce.experiments import Known
from membra.reproduce.measured_claims import measured
from membra.reproduce.settings import ReproduceSettings
from membra.show.reproduction import Summary, _widest, bar, subscripts, write_page

MANUSCRIPTS, EACH = 14, 4


def world(good: dict[str, float], manuscripts: int = MANUSCRIPTS) -> tuple[Any, Known]:
    """Return fragments whose mates are `good[method]` nearer than strangers, with noisy distances."""
    ids = [str(at) for at in range(manuscripts * EACH)]
    labels = {id: {"join": str(int(id) // EACH)} for id in ids}
    known = Known(list(range(len(ids))), ask(ids, [], labels, None), "")
    mates = np.equal.outer([row["join"] for row in labels.values()], [row["join"] for row in labels.values()])

    def matrix(name: str, seed: int) -> np.ndarray:
        noise = np.random.default_rng([seed, *name.encode()]).random(mates.shape)
        return noise + noise.T + (1 - mates * good.get(name, 0.5)) - np.eye(len(ids))

    settings = ReproduceSettings(words=(8, 20), cut_letters=())
    material = SimpleNamespace(
        main="main",
        settings=settings,
        seeds=lambda variant: [1, 2],
        matrix=lambda variant, seed, method, words=None: matrix(method, seed),
        baseline=lambda seed, method: matrix(method, seed),
        excluded=list,
    )
    return material, known


def test_what_is_better_beyond_chance_is_yes_and_what_is_not_is_no() -> None:
    material, known = world({"bob-chamfer": 1.5, "bob-transport": 0.8, "bob-hungarian": 0.8, "pool-max-l2": 0.0})
    rows = {row["claim"]: row for row in page.claims(material, known, {}).rows}
    assert rows["Chamfer finds mates better than OT"]["verdict"] == "yes"
    assert rows["Bags of bags beat every baseline"]["verdict"] == "yes"
    assert rows["Chamfer finds mates better than OT"]["manuscripts"] == MANUSCRIPTS
    other, known = world({"bob-chamfer": 0.2, "bob-transport": 1.5})
    rows = {row["claim"]: row for row in page.claims(other, known, {}).rows}
    assert rows["Chamfer finds mates better than OT"]["verdict"] == "no"
    assert rows["Chamfer finds mates better than OT"]["sure"].startswith("a lead of 0.02 mAP is ruled out, p ")
    assert rows["OT finds mates better than Hungarian"]["verdict"] == "yes"
    assert rows["Bags of bags beat every baseline"]["verdict"] == "no"


def test_every_claim_is_there_and_points_to_its_table() -> None:
    material, known = world({})
    table = page.claims(material, known, {})
    assert len(table.rows) == 17
    assert {row["where"] for row in table.rows} == {*(f"table {n}" for n in range(1, 9)), "table 13"}
    assert json.loads(table.to_json())["rows"][0]["p_for"] <= 1
    assert "p_against" in table.to_csv().splitlines()[0]


@pytest.mark.parametrize(("manuscripts", "verdict"), [(5, "undecided"), (MANUSCRIPTS, "yes")])
def test_separation_is_decided_by_manuscripts_like_the_rest(manuscripts: int, verdict: str) -> None:
    """However sure each pair is: five manuscripts give no p below 1/32."""
    material, known = world({"bob-hungarian": 1.5, "bow-raw-cosine": 0.1}, manuscripts)
    row = page.claims(material, known, {}).rows[12]
    assert row["claim"].startswith("BoB-Hungarian separates")
    assert row["verdict"] == verdict
    assert row["seeds_agree"]
    assert row["auc_ci95"][0] < row["auc_difference"] < row["auc_ci95"][1]
    assert "paper +0.003" in row["tested"]  # 0.902 against 0.899


def test_the_papers_difference_is_that_of_the_two_that_are_shown() -> None:
    material, known = world({"bow-raw-l2": 0.81, "bob-hungarian": 0.8})
    rows = {row["claim"]: row for row in page.claims(material, known, {}).rows}
    assert "BoB-Chamfer − BoW-RawPatches-L2" in rows["Bags of bags beat every baseline"]["tested"]
    assert rows["Bags of bags beat every baseline"]["paper"]["hit@1"] == pytest.approx(0.784 - 0.659)
    words = next(row for claim, row in rows.items() if claim.startswith("K = 20 suffices"))
    assert words["tested"] == "K = 20 − K = 8 (Hungarian)"
    assert words["paper"]["hit@1"] == pytest.approx(0.705 - 0.648)
    raw = rows["Codebooks of raw patches beat codebooks of centroids"]
    assert raw["paper"]["hit@1"] == pytest.approx(0.171)


def test_without_mates_all_is_undecided_with_the_reason() -> None:
    material, known = world({})
    lonely = Known(known.indices, known.question, "no mate to be found")
    rows = page.claims(material, lonely, {}).rows
    assert {row["verdict"] for row in rows} == {"undecided"}
    assert "no mate to be found" in rows[0]["tested"]


def test_the_bound_and_the_times_are_read_off_their_tables() -> None:
    column = [Column("x", "x")]
    bound = [
        {
            "words": k,
            "violations": 0,
            "pairs": 10,
            "allowed": 9.0 / k,
            "used": 0.1,
            "used_most": 0.3,
            "deviation": 1 / k,
        }
        for k in (8, 20)
    ]
    times = [
        {"name": "two-stage", "method": "two", "ms": 3.0, "ms_grown": 6.0, "grows": "partly"},
        {"name": "x", "method": "BoB-OT (on the fly)", "build_paper": 7.5},
    ]
    tables = {
        "proposition": Table(8, "proposition", "", column, bound),
        "runtime": Table(7, "runtime", "", column, times),
    }
    assert [row["verdict"] for row in measured(tables)] == ["yes", "yes", "no", "no"]
    times.append({"name": "y", "method": "BoB-Chamfer (on the fly)", "build_paper": 2.0})
    assert measured(tables)[2]["verdict"] == "undecided"  # it depends on the distance
    bound[1]["violations"] = 1
    assert measured(tables)[0]["verdict"] == "no"


@pytest.mark.parametrize(
    ("plain", "latex"), [("a_b & 5 %", r"a\_b \& 5 \%"), ("BoW-χ² → x", r"BoW-$\chi^2$ $\rightarrow$ x")]
)
def test_latex_prints_what_was_written(plain: str, latex: str) -> None:
    assert escape(plain) == latex


def test_a_table_as_latex() -> None:
    columns = [Column("method", "method"), Column("hit@1", "Hit@1")]
    rows: list[dict[str, Any]] = [
        {"method": "A", "hit@1": 0.5, "ci95": {"hit@1": [0.4, 0.6]}},
        {"method": "B", "missing": "no"},
    ]
    text = to_latex(Table(1, "retrieval", "Retrieval", columns, rows))
    assert r"\begin{tabular}{lr}" in text
    assert r"A & 0.500 {\scriptsize [0.40, 0.60]} \\" in text
    assert r"B & -- \\" in text
    assert to_latex(Table(1, "x", "X", columns, missing="why\nnot")) == "% X: not made: why not\n"


@pytest.mark.slow
def test_the_page_begins_with_the_claims(drawn: Path, given: Path, tmp_path: Path) -> None:
    from test_reproduce import labelled, small

    joins = labelled(drawn, tmp_path / "joins.csv", lambda index, join: str(index))
    html = small(drawn, joins, tmp_path / "out", encoder=given).read_text()
    assert html.index("which claims hold on this collection") < html.index("Table 1.")
    for name in ("claims.csv", "claims.tex", "claims.json", "table-01-retrieval.tex"):
        assert (tmp_path / "out" / "tables" / name).read_text()
        assert f'href="tables/{name}"' in html


def test_bars_stand_on_one_scale() -> None:
    rows: list[dict[str, Any]] = [
        {"map": 0.05, "ci95": {"map": [0.0, 0.1]}},
        {"map": -0.02, "ci95": {"map": [-0.03, 0.01]}},
    ]
    widest = _widest([*rows, {"verdict": "yes"}])
    assert widest == pytest.approx(0.105)
    one, other = (bar(row, widest) for row in rows)
    assert one is not None
    assert other is not None
    assert [one.low, one.mean, one.high] == pytest.approx([50, 73.81, 97.62])
    assert other.low < other.mean < 50 < other.high < one.mean
    assert one.margin == other.margin == pytest.approx(9.52)
    assert bar({"verdict": "yes"}, widest) is None
    assert _widest([]) == 0.06


def test_the_page_says_which_way_the_undecided_lean(tmp_path: Path) -> None:
    material, known = world({"bob-chamfer": 0.82, "bob-transport": 0.8, "pool-max-l2": 0.82})
    table = page.claims(material, known, {})
    leaning = [row for row in table.rows if row["verdict"] == "undecided" and row.get("leans") == "to the paper"]
    assert leaning
    assert {row["leans"] for row in table.rows if "leans" in row} == {"to the paper", "away from it"}
    summary = Summary(50, 50, [], 50, MANUSCRIPTS, 2, 1, "paper", "trained here", "")
    write_page(tmp_path / "index.html", [table], [], summary)
    html = (tmp_path / "index.html").read_text()
    assert f"In {len(leaning)} of the undecided the mean difference supports the paper." in html
    assert html.count('<svg class="bar"') == sum("map" in row for row in table.rows)


def test_letters_below_are_set_below_and_nothing_else_becomes_markup() -> None:
    assert str(subscripts("ε_I + ε_J, K_g <b>a_b")) == "ε<sub>I</sub> + ε<sub>J</sub>, K<sub>g</sub> &lt;b&gt;a_b"
    assert escape("mean ε_I + ε_J, K_g") == r"mean $\varepsilon_I$ + $\varepsilon_J$, $K_g$"


def test_a_heading_of_words_stands_above_its_words(tmp_path: Path) -> None:
    columns = [Column("method", "method"), Column("distance", "distance"), Column("hit@1", "Hit@1")]
    against = {
        "row": "A",
        "within_noise": True,
        **{key: {"difference": -0.04, "p_holm": 1.0} for key in ("hit@1", "map")},
    }
    rows: list[dict[str, Any]] = [{"method": "B", "distance": "OT", "hit@1": 0.5, "against": against}]
    summary = Summary(5, 5, [], 5, 2, 1, 1, "paper", "trained here", "")
    write_page(tmp_path / "index.html", [Table(3, "words", "K", columns, rows)], [], summary)
    html = (tmp_path / "index.html").read_text()
    assert '<th scope="col" class="words">distance</th><th scope="col">Hit@1</th>' in html
    assert "against A: Hit@1 −0.040, mAP −0.040; p = 1.000: within noise" in html
