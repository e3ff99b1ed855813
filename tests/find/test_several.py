"""Search of several collections gives one list, equal to the merged collection's for methods without local scales."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from factories import aged, stored
from membra.cli import cli
from membra.compare.distance import chamfer
from membra.errors import MembraError
from membra.find.search import search
from membra.find.several import search_in
from membra.store.collection import Collection


@pytest.fixture
def parts(tmp_path: Path) -> list[Collection]:
    return [stored(tmp_path / "A", range(24)), stored(tmp_path / "B", range(24, 50))]


def test_by_chamfer_it_is_the_merged_collection(parts: list[Collection], tmp_path: Path) -> None:
    merged = stored(tmp_path / "M", range(50))
    for query in ("0003.jpg", "0040.jpg"):
        found = search_in(parts, query, top=15, method="bob-chamfer")
        expected = search(merged, query, top=15, method="bob-chamfer")
        assert [(h.rank, h.id, h.distance) for h in found.hits] == [(h.rank, h.id, h.distance) for h in expected.hits]
        assert {Path(hit.collection).name for hit in found.hits} == {"A", "B"}
        assert all((int(hit.id[:4]) < 24) == hit.collection.endswith("A") for hit in found.hits)


def test_local_scales_are_each_collections_own(parts: list[Collection]) -> None:
    found = search_in(parts, "0003.jpg", top=49).hits
    assert len(found) == 49
    own = parts[0].description("0003.jpg").bag
    scales: dict[str, float] = {}
    for part in parts:
        with part.reading() as state:
            names = {entry.number: entry.fragment.id for entry in part.entries()}
            kept = state.scales()
            scales |= dict(zip([names[number] for number in kept.numbers.tolist()], kept.scales[0], strict=True))
    ratios = []
    for hit in found:
        part = parts[hit.collection.endswith("B")]
        ratios.append(hit.distance * np.sqrt(scales[hit.id]) / chamfer(own, part.description(hit.id).bag))
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)  # the same scale of the query for all
    assert [hit.distance for hit in found] == sorted(hit.distance for hit in found)


def test_columns_of_either(parts: list[Collection]) -> None:
    found = search_in(parts, "0003.jpg", top=49, exclude_same="leaf").hits
    assert "0002.jpg" not in {hit.id for hit in found}
    assert len(found) == 48


def test_a_shelfmark_or_a_path_is_found_in_any_of_them(parts: list[Collection]) -> None:
    expected = search_in(parts, "0030.jpg", top=49).hits
    with parts[1].writing() as writer:
        writer.annotate({"0030.jpg": {"shelfmark": "T-S NS 100.1"}})
    with parts[0].writing() as writer:
        writer.annotate({"0002.jpg": {"shelfmark": "0040.jpg"}})  # an id of the other: ids come first
    for query in ("TS NS 100.1", parts[1].path.parent / "0030.jpg"):
        assert search_in(parts, query, top=49).hits == expected
    assert "0040.jpg" not in {hit.id for hit in search_in(parts, "0040.jpg", top=49).hits}


def test_what_cannot_be_asked_together(parts: list[Collection]) -> None:
    with pytest.raises(MembraError, match="cannot be searched with `bow-raw-l2`"):
        search_in(parts, "0003.jpg", method="bow-raw-l2")
    with pytest.raises(MembraError, match="neither a fragment"):
        search_in(parts, "nothing.jpg")
    with pytest.raises(MembraError, match="another recipe"):
        search_in([parts[0], aged(parts[1])], "0003.jpg")


def test_command(parts: list[Collection]) -> None:
    a, b = (str(part.path) for part in parts)
    run = CliRunner()
    one = run.invoke(cli, ["search", "--in", a, "--in", b, "0030.jpg", "--json", "--top", "5"])
    assert one.exit_code == 0, one.output
    hits = json.loads(one.stdout)["hits"]
    assert len(hits) == 5
    assert {hit["collection"] for hit in hits} <= {a, b}
    same = run.invoke(cli, ["search", a, "0030.jpg", "--in", b, "--json", "--top", "5"])
    assert json.loads(same.stdout)["hits"] == hits
    assert "collection" in run.invoke(cli, ["search", a, "0030.jpg", "--in", b]).output
    assert run.invoke(cli, ["search", a]).exit_code == 2
    assert run.invoke(cli, ["search", "--in", a]).exit_code == 2
    assert run.invoke(cli, ["search", a, "0030.jpg", "--in", b, "--together"]).exit_code == 2
    shutil.rmtree(b)
    gone = run.invoke(cli, ["search", a, "0003.jpg", "--in", b])
    assert isinstance(gone.exception, MembraError)


def test_the_same_collection_twice_is_rejected(parts: list[Collection], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(parts[0].path.parent)
    again = Collection.open(Path(parts[0].path.name))
    with pytest.raises(MembraError, match="is the same collection"):
        search_in([parts[0], parts[1], again], parts[0].entries()[0].fragment.id)
