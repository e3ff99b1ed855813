"""Two fragments on one table: true scale, line pitch, tight cut-out, and a stored placement, also in the dossier."""

import json
import math
import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from membra import scribes
from membra.describe.encoder import Encoder
from membra.errors import Incompatible, MembraError
from membra.show.dossier import write_dossier
from membra.show.fit import cut_out, draw_fit, lay, line_pitch
from membra.show.holding import Holding
from membra.show.web.app import create_app
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph
from membra.store.collection import Collection
from membra.store.placements import FILE, Lies, Placements

A, B = "a.png", "b.png"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """One drawn fragment photographed twice, once at half the scale; the catalogue has the sizes of both."""
    folder = tmp_path_factory.mktemp("measured")
    drawn = scribes.fragment(scribes.hand(3), scribes.camera(3), letters=70, seed=3)
    image = drawn.image
    half = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    for name, picture in ((A, image), (B, half)):
        cv2.imwrite(str(folder / name), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    ys, xs = np.nonzero(drawn.surface)
    size = {"height_mm": f"{np.ptp(ys) / 5:.1f}", "width_mm": f"{np.ptp(xs) / 5:.1f}".replace(".", ",")}
    collection = Collection.create(folder / "collection", encoder=Encoder.ready(threads=1))
    collection.add([Fragment(name, folder / name, size) for name in (A, B)])
    return collection


def test_sizes_bring_both_to_one_scale(measured: Collection) -> None:
    table = lay(Holding(measured), A, B)
    assert table.unit == "mm"
    assert table.a.per_unit == pytest.approx(5, rel=0.06)
    assert table.a.per_unit / table.b.per_unit == pytest.approx(2, rel=0.05)
    assert table.a.size == pytest.approx(table.b.size, rel=0.06)
    assert not table.a.disagrees
    assert table.a.pitch / table.a.per_unit == pytest.approx(table.b.pitch / table.b.per_unit, rel=0.03)
    by_letters = lay(Holding(measured), A, B, "letters")
    assert by_letters.a.size == pytest.approx(by_letters.b.size, rel=0.1)


def test_a_pitch_is_told_by_lines_and_not_without() -> None:
    draw = np.random.default_rng(0)
    rows = [row for row in range(9) if row != 4]  # one line is missing
    frames = [(x, 12 + 61.3 * row + draw.normal(0, 2), 20, 30) for row in rows for x in range(0, 400, 40)]
    pitch, first = line_pitch(np.array(frames), 30.0)
    assert pitch == pytest.approx(61.3, rel=0.01)
    assert (first - 27) % pitch == pytest.approx(0, abs=3) or (first - 27) % pitch == pytest.approx(pitch, abs=3)
    assert line_pitch(np.array(frames[:20]), 30.0) == (0, 0)
    assert line_pitch(np.zeros((0, 4)), 30.0) == (0, 0)


def test_the_cut_follows_the_edge(measured: Collection) -> None:
    drawn = scribes.fragment(scribes.hand(3), scribes.camera(3), letters=70, seed=3)
    outline = Holding(measured).description(A).outline

    def overlap(edge: NDArray[np.generic]) -> float:
        filled = np.zeros(drawn.surface.shape, np.uint8)
        cv2.fillPoly(filled, [np.rint(np.asarray(edge, float)).astype(np.int32)], 1)
        truth = drawn.surface > 0
        return float((truth & (filled > 0)).sum() / (truth | (filled > 0)).sum())

    tight = cut_out(drawn.image, outline)
    assert overlap(tight) > max(0.9, overlap(outline) + 0.03)
    flat = np.full_like(drawn.image, 128)  # no visible edge: unchanged
    assert overlap(cut_out(flat, outline)) == pytest.approx(overlap(outline), abs=0.03)


def test_the_picture_shows_them_as_they_were_laid(measured: Collection, tmp_path: Path) -> None:
    """Placed on each other with the same rotation they coincide, thanks to the catalogue's sizes."""
    path = Path(shutil.copytree(measured.path, tmp_path / "c"))
    kept = Placements.open(path)
    holding = Holding(Collection.open(path))
    pictures = []
    for far in (0.0, 400.0):
        kept.place(B, A, Lies(far, 3, 30), Lies(0, 3, 30), unit="mm", by="Rivka")
        placement = kept.of(A, B)
        assert placement is not None
        assert (placement.a, placement.lies_a.x) == (A, 0)  # in the order of ids, not of the call
        picture = draw_fit(holding, placement, 800, ruling=False)
        assert picture is not None
        pictures.append(picture)
    assert pictures[0].width / pictures[0].height < 1.7 < pictures[1].width / pictures[1].height
    page = write_dossier(Collection.open(path), A, B, tmp_path / "d.html").read_text(encoding="utf-8")
    assert "On one table" in page
    assert "at true scale" in page
    before = write_dossier(measured, A, B, tmp_path / "e.html").read_text(encoding="utf-8")
    assert "On one table" not in before
    kept.undo(2, by="Rivka")
    again = kept.of(A, B)
    assert again is not None
    assert again.lies_b.x == 0
    for number in (2, 99, -1, 2**70):
        with pytest.raises(MembraError):
            kept.undo(number, by="Rivka")


def test_a_placement_in_mm_is_not_drawn_once_the_sizes_are_gone(
    measured: Collection, cache: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(measured.path, tmp_path / "c"))
    kept = Placements.open(path)
    kept.place(A, B, Lies(0, 0), Lies(40, 0), unit="mm", by="Rivka")
    collection = Collection.open(path)
    collection.add([Fragment(B, Holding(collection).entry(B).fragment.path, {"height_mm": "", "width_mm": ""})])
    placement, holding = kept.of(A, B), Holding(collection)
    assert placement is not None
    assert lay(holding, A, B, placement.unit).unit == "letters"
    assert draw_fit(holding, placement, 800) is None
    page = write_dossier(collection, A, B, tmp_path / "d.html").read_text(encoding="utf-8")
    assert "On one table" not in page
    assert "at true scale" not in page
    with TestClient(create_app(path, cache=cache), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/image/fit", params={"a": A, "b": B}).status_code == 404
    kept.place(A, B, Lies(0, 0), Lies(9, 0), unit="letters", by="Rivka")
    assert "with letters of one height" in write_dossier(collection, A, B, tmp_path / "e.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("lies", "unit", "by"),
    [
        (Lies(math.nan, 0), "mm", "R"),
        (Lies(math.inf, 0), "mm", "R"),
        (Lies(0, 1e9), "mm", "R"),
        (Lies(0, 0), "miles", "R"),
        (Lies(0, 0), "mm", "  "),
        (Lies(0, 0), "mm", "R" * 300),
    ],
)
def test_what_is_no_placement_is_refused(tmp_path: Path, lies: Lies, unit: str, by: str) -> None:
    kept = Placements.open(tmp_path)
    with pytest.raises(MembraError):
        kept.place("a", "b", lies, Lies(0, 0), unit=unit, by=by)
    assert not (tmp_path / FILE).exists()
    assert kept.of("a", "b") is None


def test_an_undo_needs_a_name_and_a_file_needs_a_collection(tmp_path: Path) -> None:
    kept = Placements.open(tmp_path)
    laid = kept.place("a", "b", Lies(0, 0), Lies(1, 1), unit="letters", by="x")
    with pytest.raises(MembraError, match="needs the name"):
        kept.undo(laid.number, by=" ")
    assert kept.of("a", "b") == laid
    with pytest.raises(MembraError, match="not a collection"):
        Placements.open(tmp_path / "nowhere")


def test_a_newer_file_is_not_misread(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(Incompatible):
        Placements.open(tmp_path).of("a", "b")


def test_the_page_keeps_what_it_is_sent(writer: TestClient) -> None:
    pair = {"a": "images/0001.jpg", "b": "images/0002.jpg"}
    page = writer.get("/api/fit", params=pair).json()
    assert page["unit"] == "letters"
    assert page["number"] == 0
    assert writer.get("/image/fit", params=pair).status_code == 404
    lies = {"x": 1.5, "y": -2, "turn": 45}
    sent = {**pair, "lies_a": lies, "lies_b": {"x": 9, "y": 0, "turn": 0}, "unit": "letters", "by": "רבקה"}
    assert writer.post("/api/fit", json=sent, headers={"x-membra-token": "wrong"}).status_code == 403
    now = writer.post("/api/fit", json=sent).json()
    assert now["a"]["lies"] == lies
    assert now["by"] == "רבקה"
    other = writer.get("/api/fit", params={"a": pair["b"], "b": pair["a"]}).json()
    assert other["b"]["lies"] == lies
    assert writer.get("/image/fit", params=pair).headers["content-type"] == "image/jpeg"
    dossier = writer.get("/export/dossier", params=pair).text
    assert re.search(r"As <bdi>רבקה</bdi> laid them", dossier)
    for wrong in ({"a": "images/0001.jpg", "b": "images/0001.jpg"}, {"a": "nothing", "b": "images/0001.jpg"}):
        assert writer.get("/fit", params=wrong).status_code in (404, 422)
    assert writer.post("/api/fit", content=json.dumps({**sent, "unit": "miles"})).status_code == 422


def test_boxes_and_cut_are_of_the_same_view(measured: Collection) -> None:
    piece = lay(Holding(measured), A, B).a
    height, width = read_photograph(Holding(measured).entry(A).fragment.path).shape[:2]
    assert piece.outline.min() > -0.05 * max(height, width)
    assert 0 <= piece.ruled <= piece.view.height
