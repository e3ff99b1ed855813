"""The tool that makes the orientation network: scripts drawn from fonts, training, evaluation, release.

The fonts come with matplotlib: DejaVu has Latin, Greek, Cyrillic, Armenian, Georgian and Arabic letters.
"""

import shutil
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="training needs PyTorch, the extra [train]")

from tools import drawn_scripts, orientation

from membra.see.orientation import DIRECTIONS, SIDE, Orientation


@pytest.fixture(scope="module")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fonts")
    shutil.copy(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", folder)
    (folder / "broken.ttf").write_bytes(b"no font")
    return folder


def run(*words: object) -> str:
    said = CliRunner().invoke(orientation.main, [str(word) for word in words], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return said.stdout


def test_a_font_has_the_scripts_of_books_and_no_others(fonts: Path) -> None:
    found = {script.name: script for script in drawn_scripts.scripts(fonts)}
    assert {"LATIN small", "LATIN capitals", "GREEK small", "CYRILLIC small", "ARMENIAN small", "ARABIC"} <= set(found)
    assert not {"CANADIAN", "TIFINAGH", "BRAILLE", "LISU"} & set(found), (
        "carved or invented, or another's letters turned"
    )
    assert "é" not in found["LATIN small"].letters
    assert found["ARABIC"].signs, "vowels go with a letter"


def test_writing_is_as_high_as_was_asked_and_the_same_for_a_seed(fonts: Path) -> None:
    greek = next(script for script in drawn_scripts.scripts(fonts) if script.name == "GREEK capitals")
    first, again, other = [np.asarray(drawn_scripts.written(greek, 40.0, 2, 400, seed)) for seed in (1, 1, 2)]
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    rows = np.flatnonzero((first > 0.5).any(axis=1))
    lines = np.split(rows, np.flatnonzero(np.diff(rows) > 5) + 1)
    assert 30 < np.median([len(line) for line in lines]) < 60
    picture = drawn_scripts.page(greek, 40.0, 1)
    assert picture is not None
    assert picture.shape[1:] == (drawn_scripts.WIDTH, 3)


def test_windows_show_letters_and_what_is_none(fonts: Path) -> None:
    latin = next(script for script in drawn_scripts.scripts(fonts) if script.name == "LATIN small")
    for windows in (orientation.drawn_windows(latin, 3), orientation.nothing_windows(3)):
        assert windows.shape[1:] == (SIDE, SIDE)
        assert 0 < len(windows) <= orientation.MOST_DRAWN
        assert (windows > 127).any(axis=(1, 2)).all()


@pytest.mark.slow
def test_from_fonts_to_the_shipped_network(fonts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orientation, "PAGES", 1)
    monkeypatch.setattr(orientation, "BLANK", 4)
    greek = [script for script in drawn_scripts.scripts(fonts) if script.name.startswith("GREEK")]
    monkeypatch.setattr(orientation, "scripts_of", lambda folder: greek)
    drawn, weights = tmp_path / "scripts.npz", tmp_path / "weights.safetensors"
    assert "of 2 scripts" in run("draw", fonts, "--out", drawn, "--workers", 1)
    with np.load(drawn, allow_pickle=False) as archive:
        assert len(archive["windows"]) == len(archive["folds"]) > 10
        assert len(archive["blank"])
        fold = int(archive["folds"][0])
    run("train", drawn, drawn, "--out", weights, "--steps", 2, "--without", (fold + 1) % orientation.FOLDS)
    said = run("scripts", fonts, weights, "--folds", fold)
    assert "unknown scripts, clean: 2 photographs, at their turn" in said, "of a family that was left out"
    run("ship", weights, "--out", tmp_path / "orientation.onnx")
    votes = Orientation((tmp_path / "orientation.onnx").read_bytes(), threads=1).votes(
        np.zeros((1, SIDE, SIDE), np.uint8)
    )
    assert votes.shape == (1, DIRECTIONS)
