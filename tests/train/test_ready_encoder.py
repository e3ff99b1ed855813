"""The tool that trains and measures the shipped encoder: from photographs to the table of the folds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from membra import scribes

pytest.importorskip("torch", reason="training needs PyTorch, the extra [train]")

from tools import encoder_letters, ready_encoder

from membra.train import identity

SMALL = replace(identity.READY, channels=(8, 16, 32, 64), dimension=16, min_letters=600, batch=64, min_classes=2)


def run(*words: object) -> str:
    said = CliRunner().invoke(ready_encoder.main, [str(word) for word in words], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return said.stdout


@pytest.mark.slow
def test_from_photographs_to_the_table_of_the_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_letters, "FRAGMENTS", ("hebrew",))
    monkeypatch.setattr(encoder_letters, "PAGES", ("hebrew-pages",))
    monkeypatch.setattr(encoder_letters, "FOLDS", tmp_path / "folds.csv")
    monkeypatch.setattr(identity, "READY", SMALL)
    for name, manuscripts in (("hebrew", 4), ("hebrew-pages", 1)):
        data = tmp_path / "data" / name
        scribes.collection(data, manuscripts=manuscripts, fragments=2 * manuscripts, letters=(44, 52), cameras=2)
    encoder_letters.FOLDS.write_text("join,fold\nm000,0\nm001,1\nm002,0\nm003,1\n")

    letters, weights = tmp_path / "letters.npz", tmp_path / "weights"
    run("gather", tmp_path / "data", "--out", letters)
    known = encoder_letters.read(letters)
    assert {name: int((known.kind == name).sum()) for name in np.unique(known.kind).tolist()} == {
        "16": 8,
        "30": 8,
        "page": 2,
        "whole": 8,
        "worn": 10,
        "worn again": 10,
    }
    counts = np.bincount(known.owner, minlength=len(known.kind))
    assert 12 <= np.median(counts[known.kind == "16"]) <= 22
    assert known.trained[np.isin(known.kind, ("whole", "page"))].all()
    assert not known.trained[np.isin(known.kind, ("16", "30"))].any()

    said = run("train", letters, "--out", weights, "--folds", "0,1").splitlines()
    for fold, line in enumerate(said):  # an encoder was not trained on the manuscripts that it is tested on
        own = known.trained & (known.fold != fold)
        assert line == f"{fold}: trained on {own[known.owner].sum()} letters of 2 manuscripts"

    rows = [line.split(" | ") for line in run("score", letters, weights, "--folds", 2).splitlines()[2:]]
    assert {(row[0].strip("| "), row[1], int(row[2])) for row in rows if row[1] == "all"} == {
        (name, "all", 8) for name in ("hebrew", "16 letters", "30 letters", "worn")
    }
    for row in rows:
        for cell in row[3:]:
            hit, average = (float(value.strip("| ")) for value in cell.split(" / "))
            assert 0 <= hit <= 1
            assert 0 < average <= 1
