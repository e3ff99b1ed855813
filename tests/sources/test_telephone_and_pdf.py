"""Tests of telephone photographs, pages of PDFs and unread formats: each is read, or rejected with a line."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from membra import scribes
from membra.sources.fragment import fragments
from membra.sources.photograph import read_photograph

PICTURE = scribes.fragment(scribes.hand(1), scribes.camera(1), letters=30, seed=1).image


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "photographs"
    found.mkdir()
    image = Image.fromarray(PICTURE)
    image.save(found / "leaf.heic", quality=95)
    image.save(found / "leaves.pdf", save_all=True, append_images=[image.rotate(90, expand=True)], resolution=300)
    image.save(found / "old.gif")
    image.save(found / "plain.jpg")
    (found / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (found / "notes.txt").write_text("no picture")
    return found


def test_a_telephones_photograph_is_read(folder: Path) -> None:
    read = read_photograph(folder / "leaf.heic")
    assert read.shape == PICTURE.shape
    assert np.abs(read.astype(int) - PICTURE.astype(int)).mean() < 6


def test_every_picture_of_a_folder_is_read_or_named(folder: Path, tmp_path: Path) -> None:
    found = {one.id: one for one in fragments(folder, pages=tmp_path / "pages")}
    assert set(found) == {
        "broken.pdf", "leaf.heic", "leaves.pdf/001.jpg", "leaves.pdf/002.jpg", "old.gif", "plain.jpg"
    }  # fmt: skip
    assert {id for id, one in found.items() if one.refused} == {"broken.pdf", "old.gif"}
    assert "not a readable PDF" in found["broken.pdf"].refused
    assert "not supported" in found["old.gif"].refused
    first, second = (read_photograph(found[f"leaves.pdf/00{n}.jpg"].path) for n in (1, 2))
    assert np.abs(np.subtract(first.shape, PICTURE.shape)).max() <= 1  # a page's size is in points
    assert np.abs(np.subtract(second.shape[:2], PICTURE.shape[1::-1])).max() <= 1
    height, width = PICTURE.shape[:2]
    assert np.abs(first[:height, :width].astype(int) - PICTURE.astype(int)).mean() < 8
    # Rendered once.
    found["plain.jpg"].path.unlink()
    before = found["leaves.pdf/001.jpg"].path.stat().st_mtime_ns
    assert {one.id for one in fragments(folder, pages=tmp_path / "pages")} == set(found) - {"plain.jpg"}
    assert found["leaves.pdf/001.jpg"].path.stat().st_mtime_ns == before


def test_without_a_place_for_pages_a_pdf_is_named(folder: Path) -> None:
    found = {one.id: one for one in fragments(folder)}
    assert "reads PDF files" in found["leaves.pdf"].refused


def test_a_pdf_of_a_page_without_end_is_drawn_within_the_limit(folder: Path, tmp_path: Path) -> None:
    head = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    huge = head + b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 14400 14400]>>endobj\ntrailer<</Root 1 0 R>>\n"
    (folder / "huge.pdf").write_bytes(huge)
    (found,) = (one for one in fragments(folder, pages=tmp_path / "pages") if one.id.startswith("huge"))
    assert not found.refused
    with Image.open(found.path) as image:
        assert image.size[0] * image.size[1] <= 61_000_000
